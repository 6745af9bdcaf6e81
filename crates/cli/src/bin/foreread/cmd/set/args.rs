//! The arguments of `foreread set`, their help, and the plan that follows from them.

use clap::Args;

use super::plan::TunablesPlan;
use crate::args::assignment::assignment;
use foreread_cli::args::help::CODES_AND_UNITS;

/// Change tunables of a running server, or list them
///
/// Talks to the `foreread serve` or `foreread mount --control` that listens on SOCKET. Changes take
/// effect at the next decision and last until the server exits; `foreread serve --set` makes them
/// at startup. The command stops at the first value that is refused; earlier ones stay in force.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct SetArgs {
    /// Unix socket of the server, or its NBD URI
    socket: String,

    /// Tunables to change; without any, all are listed with their current values
    #[arg(value_name = "NAME=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,

    /// Print JSON, one data object per tunable
    ///
    /// Keys: name, value, of (engine, scheduler or file).
    #[arg(long)]
    json: bool,
}

impl SetArgs {
    /// Resolves the options into a plan.
    pub(super) fn plan(self) -> TunablesPlan {
        let Self { socket, settings, json } = self;
        TunablesPlan { socket, settings, is_json: json }
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread set /tmp/disk.sock
  foreread set /tmp/disk.sock max_window=1048576 read_expire=100
  foreread set /tmp/disk.sock scheduler=noop

";
