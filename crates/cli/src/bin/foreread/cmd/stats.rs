//! `foreread stats`: prints the statistics of a running server.

mod args;
mod plan;
mod report;

use foreread_serve::stats::ServerStats;

pub(crate) use self::args::StatsArgs;
use self::plan::StatsPlan;
use crate::control::client::{ask, understood};
use foreread_cli::output::{Failure, Printer};

pub(crate) fn run(args: StatsArgs, out: &mut Printer) -> Result<(), Failure> {
    let StatsPlan { socket, is_json } = args.plan();
    let text = ask(&socket, "stats")?;
    // Parsed, so that answers of other servers are not passed on.
    let stats: ServerStats = understood(&socket, &text)?;
    if is_json { out.json("stats", [&stats]) } else { report::print(out, &stats) }
}
