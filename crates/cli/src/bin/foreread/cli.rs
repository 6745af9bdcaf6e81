//! The verbs of `foreread`.
//!
//! The flags of a verb are in its file in `cmd`, shared flags in [`crate::args`] and
//! [`foreread_cli::args`].

use clap::{Command, CommandFactory as _, Parser, Subcommand};

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::generated_docs::{CompletionsArgs, DocumentedProgram, ManArgs};
use foreread_cli::measure::{nbd_load, slow_server};
use foreread_cli::settings_holder::HOLD;

use crate::cmd::lab::LAB_VERBS;
use crate::cmd::{bench, cat, demo, doctor, ls, mount, record, serve, set, stat, stats, tune};

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
    after_help = LAB,
    after_long_help = [CODES_AND_UNITS, "\n\n", LAB].concat(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl DocumentedProgram for Cli {
    const NAME: &'static str = "foreread";
    const VERB: &'static str = "serve";
}

/// The other program, named at the end of the help.
const LAB: &str = "\
The lab:
  foreread-lab simulates, replays traces and explains policies: see foreread-lab --help";

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

    Record(record::RecordArgs),

    /// Internal: slow device for demo and bench
    #[command(name = slow_server::VERB, hide = true)]
    ServeSlowDevice(slow_server::SlowServerArgs),

    /// Print one line of figures about an NBD server, for measuring scripts
    #[command(name = nbd_load::VERB, hide = true)]
    NbdLoad(nbd_load::NbdLoadArgs),

    /// Internal: holds kernel settings for bench and restores them
    #[command(name = HOLD, hide = true)]
    HoldSettings,

    Man(ManArgs<Cli>),

    Completions(CompletionsArgs<Cli>),
}

/// Returns the parser: hidden verbs of the lab let clap suggest them for a mistyped verb.
pub(crate) fn parser() -> Command {
    Cli::command().subcommands(LAB_VERBS.map(|verb| Command::new(verb).hide(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_verb_hides_one_of_the_lab() {
        let verbs = Cli::command();
        assert!(LAB_VERBS.iter().all(|verb| verbs.find_subcommand(verb).is_none()));
    }
}
