//! The verbs of `foreread-lab`.
//!
//! The flags of a verb are in its file in `cmd`, shared flags in [`crate::args`] and
//! [`foreread_cli::args`].

use clap::{Parser, Subcommand};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::generated_docs::{CompletionsArgs, DocumentedProgram, ManArgs};

use crate::cmd::{explain, replay, seeds, sim, trace};

/// Simulator, trace replay and policy explanations of foreread
///
/// Runs the policies of foreread and of other systems in simulated devices and over recorded
/// accesses, and shows their decisions. See `foreread-lab help VERB` for one verb.
#[derive(Debug, Parser)]
#[command(
    name = "foreread-lab",
    version,
    arg_required_else_help = false,
    max_term_width = 100,
    after_help = FOREREAD,
    after_long_help = [CODES_AND_UNITS, "\n\n", FOREREAD].concat(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl DocumentedProgram for Cli {
    const NAME: &'static str = "foreread-lab";
    const VERB: &'static str = "sim";
}

/// The other program, named at the end of the help.
const FOREREAD: &str = "\
foreread:
  foreread serves, mounts, tunes and records files and devices: see foreread --help";

/// All verbs; each has a file in `cmd`.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Sim(sim::SimArgs),

    Replay(replay::ReplayArgs),

    Trace(trace::TraceArgs),

    Seeds(seeds::SeedsArgs),

    /// Show the decisions of a read-ahead policy or scheduler for a given access pattern
    ///
    /// Runs the policies as plain functions; reads no file and touches no device.
    #[command(subcommand, arg_required_else_help = false, after_long_help = CODES_AND_UNITS)]
    Explain(explain::ExplainCommand),

    Man(ManArgs<Cli>),

    Completions(CompletionsArgs<Cli>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }
}
