//! `foreread set`: changes tunables of a running server.
//!
//! Invalid values are refused, never corrected.

mod about;

use clap::Args;
use foreread_serve::stats::SettingValue;

use self::about::about;
use crate::args::assignment::assignment;
use crate::control::client::{ask, understood};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::{Failure, Printer};

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

const EXAMPLES: &str = "\
Examples:
  foreread set /tmp/disk.sock
  foreread set /tmp/disk.sock max_window=1048576 read_expire=100
  foreread set /tmp/disk.sock scheduler=noop

";

pub(crate) fn run(args: &SetArgs, out: &mut Printer) -> Result<(), Failure> {
    for (name, value) in &args.settings {
        ask(&args.socket, &format!("set {name}={value}"))?;
    }
    let all: Vec<SettingValue> = understood(&args.socket, &ask(&args.socket, "settings")?)?;
    let is_asked = |one: &SettingValue| args.settings.iter().any(|(name, _)| *name == one.name);
    let all = all.into_iter().filter(|one| args.settings.is_empty() || is_asked(one));
    if args.json {
        return out.json("set", all);
    }
    let all: Vec<_> = all.collect();
    let width =
        |of: fn(&SettingValue) -> &str| all.iter().map(|one| of(one).len()).max().unwrap_or(0);
    let (names, values) = (width(|one| &one.name), width(|one| &one.value));
    for one in &all {
        let label = format!("{:<names$}  {:>values$}  ", one.name, one.value);
        out.entry(&label, about(&one.name))?;
    }
    Ok(())
}
