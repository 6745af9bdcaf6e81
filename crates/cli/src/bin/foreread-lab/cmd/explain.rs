//! `foreread-lab explain`: prints the decisions of policies for given input.

mod geometry;
mod itable;
mod pages;
mod readahead;
mod schedule;

use clap::Subcommand;

use foreread_cli::output::{Failure, Printer};

/// Subcommands of explain.
#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    Readahead(readahead::ReadaheadArgs),
    Geometry(geometry::GeometryArgs),
    Itable(itable::ItableArgs),
    Schedule(schedule::ScheduleArgs),
}

pub(crate) fn run(what: &ExplainCommand, out: &mut Printer) -> Result<(), Failure> {
    match what {
        ExplainCommand::Readahead(args) => readahead::run(args, out),
        ExplainCommand::Geometry(args) => geometry::run(args, out),
        ExplainCommand::Itable(args) => itable::run(args, out),
        ExplainCommand::Schedule(args) => schedule::run(args, out),
    }
}
