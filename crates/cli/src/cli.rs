//! What can be asked on the command line, and how wrong questions are answered.
//!
//! In:    arguments.
//! Out:   [`Cli`]; or one line that says what is wrong and where to look.
//! Never: an answer.
//!
//! The flags of a verb are in the verb's own file, those of several verbs in [`crate::args`].

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::args::help::CODES_AND_UNITS;
use crate::cmd::{
    bench, cat, demo, doctor, explain, ls, man, mount, record, replay, seeds, serve, set, sim,
    stat, stats, trace, tune,
};
use crate::measure::{nbd_load, slow_server};
use crate::settings_holder::HOLD;

/// User-space page cache, read-ahead and I/O scheduler for direct I/O
///
/// Serves and mounts images through its own cache, compares itself with the kernel on a file or
/// device of yours, and tunes the kernel's own read-ahead. `foreread help VERB` explains a verb.
#[derive(Debug, Parser)]
#[command(
    name = "foreread",
    version,
    arg_required_else_help = false,
    max_term_width = 100,
    after_long_help = CODES_AND_UNITS,
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// One verb, one file in `cmd`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(demo::DemoArgs),

    Bench(bench::BenchArgs),

    Serve(serve::ServeArgs),

    Stats(stats::StatsArgs),

    Set(set::SetArgs),

    Mount(mount::MountArgs),

    Ls(ls::LsArgs),

    Cat(cat::CatArgs),

    Stat(stat::StatArgs),

    Doctor(doctor::DoctorArgs),

    Tune(tune::TuneArgs),

    Sim(sim::SimArgs),

    Record(record::RecordArgs),

    Replay(replay::ReplayArgs),

    Trace(trace::TraceArgs),

    Seeds(seeds::SeedsArgs),

    /// A part of demo and bench that needs a process of its own
    #[command(name = slow_server::VERB, hide = true)]
    ServeSlowDevice(slow_server::SlowServerArgs),

    /// One line of figures about an NBD server, for scripts that measure
    #[command(name = nbd_load::VERB, hide = true)]
    NbdLoad(nbd_load::NbdLoadArgs),

    /// A part of bench that needs a process of its own
    #[command(name = HOLD, hide = true)]
    HoldSettings,

    /// Feed a policy a pattern and see each decision it takes
    ///
    /// Nothing is read and no device is touched: the policies are functions, and this calls them.
    #[command(subcommand, arg_required_else_help = false, after_long_help = CODES_AND_UNITS)]
    Explain(explain::ExplainCommand),

    Man(man::ManArgs),

    Completions(man::CompletionsArgs),
}

/// Clap's error, which is a paragraph, as one line.
pub(crate) fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_about_the_error =
        |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .take_while(is_about_the_error)
        .filter(|line| !line.is_empty())
        .map(|line| match line.strip_prefix("tip: ") {
            Some(tip) => format!("(tip: {tip})"),
            None => line.to_owned(),
        })
        .collect();
    let mut what = lines.join(" ");
    // What no help shows is no help here.
    for hidden in Cli::command().get_subcommands().filter(|verb| verb.is_hide_set()) {
        what = what.replace(&format!("{}, ", hidden.get_name()), "");
    }
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    format!("{what}; see '{} --help'", named_verb(args))
}

/// The command whose help is of use: as far as the arguments name one.
fn named_verb(args: impl Iterator<Item = String>) -> String {
    let mut command = &Cli::command();
    let mut name = command.get_name().to_owned();
    for arg in args.skip(1) {
        let Some(verb) = command.find_subcommand(&arg) else {
            break;
        };
        name = format!("{name} {arg}");
        command = verb;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_the_verb_that_was_named_is_recommended() {
        let named = |line: &str| named_verb(line.split(' ').map(str::to_owned));
        assert_eq!(named("foreread"), "foreread");
        assert_eq!(named("foreread explain"), "foreread explain");
        assert_eq!(named("foreread explain itable --table 3"), "foreread explain itable");
        assert_eq!(named("foreread explian itable"), "foreread");
    }
}
