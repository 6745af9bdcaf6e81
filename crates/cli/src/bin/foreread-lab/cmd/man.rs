//! `foreread-lab man` and `foreread-lab completions`: manual pages and shell completions.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use foreread_cli::args::help::CODES_AND_UNITS;

/// Write the manual pages into a directory
///
/// Writes one page for foreread-lab and one for each verb, in section 1: foreread-lab.1,
/// foreread-lab-sim.1.
/// Their text is that of `--help`. Earlier pages are replaced; any other file of the same name is
/// refused.
#[derive(Debug, Args)]
#[command(after_long_help = [MAN_EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ManArgs {
    /// Existing directory for the pages
    pub(crate) directory: PathBuf,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = [COMPLETIONS_EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    pub(crate) shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  mkdir -p ~/.local/share/man/man1 && foreread-lab man ~/.local/share/man/man1
  man foreread-lab-sim

";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  foreread-lab completions bash > ~/.local/share/bash-completion/completions/foreread-lab
  foreread-lab completions fish > ~/.config/fish/completions/foreread-lab.fish

";
