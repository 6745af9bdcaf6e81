//! The verbs of the command line, and one-line errors for wrong usage.
//!
//! The flags of a verb are in its file in `cmd`, shared flags in [`crate::args`].

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
/// Serves and mounts disk images, compares itself with the kernel on your files and devices, and
/// finds the best read-ahead setting for the kernel. See `foreread help VERB` for one verb.
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

/// All verbs; each has a file in `cmd`.
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

    /// Internal: slow device for demo and bench
    #[command(name = slow_server::VERB, hide = true)]
    ServeSlowDevice(slow_server::SlowServerArgs),

    /// Print one line of figures about an NBD server, for measuring scripts
    #[command(name = nbd_load::VERB, hide = true)]
    NbdLoad(nbd_load::NbdLoadArgs),

    /// Internal: holds kernel settings for bench and restores them
    #[command(name = HOLD, hide = true)]
    HoldSettings,

    /// Show the decisions of a read-ahead policy or scheduler for a given access pattern
    ///
    /// Runs the policies as plain functions; reads no file and touches no device.
    #[command(subcommand, arg_required_else_help = false, after_long_help = CODES_AND_UNITS)]
    Explain(explain::ExplainCommand),

    Man(man::ManArgs),

    Completions(man::CompletionsArgs),
}

/// Returns clap's error as one line.
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
    // Hidden verbs are no valid suggestion.
    for hidden in Cli::command().get_subcommands().filter(|verb| verb.is_hide_set()) {
        what = what.replace(&format!("{}, ", hidden.get_name()), "");
    }
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let args = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    format!("{what}; see '{} --help'", named_verb(args))
}

/// Returns the subcommand to recommend help for, as far as the arguments name one.
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
