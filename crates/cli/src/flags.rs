//! What can be asked on the command line, and how wrong questions are answered.
//!
//! In:    arguments.
//! Out:   [`Cli`]; or one line that says what is wrong and where to look.
//! Never: an answer.
//!
//! The flags of a verb stand in the verb's own file; what all verbs share stands here.

use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory as _, Parser, Subcommand};
use foreread::EngineBuilder;
use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::cmd::{
    bench, cat, demo, doctor, explain, ls, man, mount, seeds, serve, set, sim, stat, stats, tune,
};
use crate::measure::{self, nbd_load, slow_server};

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

/// What `--max-window` is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MaxWindow {
    /// As each device was seen to want it.
    Auto,
    /// No larger than this.
    Size(ByteCount),
}

impl MaxWindow {
    /// The kernel's window for the device of a path, and no less than the default: the kernel or an
    /// administrator chose it for that device.
    pub(crate) fn of_kernel(target: &Path) -> Self {
        let known = measure::kernel_window(target);
        Self::Size(known.map_or(DEFAULT_WINDOW, |known| known.max(DEFAULT_WINDOW)))
    }

    /// An engine that has it.
    pub(crate) fn give(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Auto => builder.learn_max_window(),
            Self::Size(window) => builder.max_window(window.0),
        }
    }
}

/// Reads a size, or `auto`.
pub(crate) fn max_window(text: &str) -> Result<MaxWindow, String> {
    if text == "auto" {
        return Ok(MaxWindow::Auto);
    }
    sizes::parse(text).map(MaxWindow::Size).map_err(|why| format!("{why}; or auto"))
}

/// One verb, one file in `cmd`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(demo::Args),

    Bench(bench::Args),

    Serve(serve::Args),

    Stats(stats::Args),

    Set(set::Args),

    Mount(mount::Args),

    Ls(ls::Args),

    Cat(cat::Args),

    Stat(stat::Args),

    Doctor(doctor::Args),

    Tune(tune::Args),

    Sim(sim::Args),

    Seeds(seeds::Args),

    /// A part of demo and bench that needs a process of its own
    #[command(name = slow_server::VERB, hide = true)]
    ServeSlowDevice(slow_server::Args),

    /// One line of figures about an NBD server, for scripts that measure
    #[command(name = nbd_load::VERB, hide = true)]
    NbdLoad(nbd_load::Args),

    /// A part of bench that needs a process of its own
    #[command(name = measure::HOLD, hide = true)]
    HoldSettings,

    /// Feed a policy a pattern and see each decision it takes
    ///
    /// Nothing is read and no device is touched: the policies are functions, and this calls them.
    #[command(subcommand, arg_required_else_help = false, after_long_help = CODES_AND_UNITS)]
    Explain(explain::What),

    Man(man::Man),

    Completions(man::Completions),
}

/// The end of each verb's long help.
pub(crate) const CODES_AND_UNITS: &str = "\
Units:
  A size is a number of bytes (4096), or of KiB, MiB, GiB or TiB with K, M, G or T after it (64M),
  or of 512-byte sectors with an s (1870001s). A page has 4096 bytes unless you say otherwise.

Exit codes:
  0  fine
  1  the check failed
  2  wrong use or bad input: stdout stays empty; or stdout cannot be written
     (one line on stderr says what)";

/// The names of all policies, each with its line of help.
pub(crate) fn policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(Policy::ALL.map(value)).map(|name| {
        // Clap has let through only the names of `Policy::ALL`.
        Policy::from_name(&name).expect("the name of a policy")
    })
}

fn about(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "no read-ahead: each miss reads what is left of its read",
        Policy::Linux2_6_28 => "by the reader's own state alone; interleaved streams are random",
        Policy::Linux2_6_31 => "streams also found by the pages they left in the cache",
        Policy::Linux6 => "Linux 6.16 and later without large folios: the same, more careful",
        Policy::Thrash2009 => "never more ahead than was seen to survive behind",
        Policy::Thrash2010 => "windows as large as what survives behind; careful after a loss",
        Policy::Fixed => "windows of the largest size, each asked for when the last is entered",
        Policy::Distance => "asks further ahead each time its reader waited; no sharing",
        Policy::Adaptive => "the windows of linux-6, for streams found by position, not by handle",
    }
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
