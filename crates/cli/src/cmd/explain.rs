//! `foreread explain`: feed a policy, see what it decides.

mod geometry;
mod itable;
mod pages;
mod readahead;
mod schedule;

use clap::Subcommand;

use crate::output::{Failure, Output};

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(crate) enum What {
    Readahead(readahead::Args),
    Geometry(geometry::Args),
    Itable(itable::Args),
    Schedule(schedule::Args),
}

pub(crate) fn run(what: &What, out: &mut Output) -> Result<(), Failure> {
    match what {
        What::Readahead(args) => readahead::run(args, out),
        What::Geometry(args) => geometry::run(args, out),
        What::Itable(args) => itable::run(args, out),
        What::Schedule(args) => schedule::run(args, out),
    }
}
