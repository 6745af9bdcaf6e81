//! The arguments of `foreread-lab replay --real`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread::Policy;

use foreread_cli::measure::method::AccessMethod;
use foreread_cli::output::Failure;

/// Real target and access methods.
#[derive(Clone, Debug, Args)]
pub(in crate::cmd::replay) struct RealArgs {
    /// Read TARGET in real time instead of a model: once per --method, and for foreread once per
    /// policy and memory size
    ///
    /// Nothing is written. TARGET is a file or block device, or a directory with the files of the
    /// trace: DIR/NAME, or DIR/NAME without the directories that all names share. On one file or
    /// device, the files of the trace are laid out one after the other. Each thread of the trace is
    /// replayed by a thread; beyond 256, they share threads. In an open loop, a read is late if its
    /// thread has not returned from the previous one; `late` counts these. Pages of TARGET that
    /// were cached stay cached; pages cached by the runs are dropped after each. Ctrl-C ends the
    /// run and prints the results so far.
    #[arg(long = "real", value_name = "TARGET")]
    #[arg(conflicts_with_all = ["device", "cache", "objects", "per", "series", "seeds"])]
    target: Option<PathBuf>,

    /// With --real: access methods, separated by commas: foreread, buffered (page cache), direct
    /// (plain O_DIRECT) [default: all three, in this order]
    #[arg(long = "method", value_name = "METHOD,..", value_delimiter = ',', requires = "target")]
    #[arg(value_parser = methods())]
    methods: Vec<AccessMethod>,

    /// With --real: wrap reads past the end of TARGET around to its start
    #[arg(long, requires = "target")]
    pub(in crate::cmd::replay) wrap: bool,

    /// With --real and an open loop: replay by N threads, each taking the next read of the trace
    /// regardless of its thread [default: the threads of the trace, or 256 if it has none]
    #[arg(long, value_name = "N", requires = "target")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(in crate::cmd::replay) workers: Option<u32>,
}

impl RealArgs {
    /// Returns the target.
    pub(in crate::cmd::replay) fn target(&self) -> Option<&Path> {
        self.target.as_deref()
    }

    /// Returns the methods in order.
    pub(in crate::cmd::replay) fn methods(&self) -> Vec<AccessMethod> {
        let all = [AccessMethod::Foreread, AccessMethod::Buffered, AccessMethod::Direct];
        if self.methods.is_empty() { all.to_vec() } else { self.methods.clone() }
    }
}

/// Refuses policies that exist only in the simulator.
pub(in crate::cmd::replay) fn check_policy(policy: Policy) -> Result<(), Failure> {
    if Policy::ALL.contains(&policy) {
        return Ok(());
    }
    let names = Policy::ALL.map(Policy::name).join(", ");
    let name = policy.name();
    Err(Failure::WrongUse(format!(
        "--policy {name}: is in the simulator only; with --real choose from {names}"
    )))
}

fn methods() -> impl TypedValueParser<Value = AccessMethod> {
    PossibleValuesParser::new(["foreread", "buffered", "direct"]).map(|name| {
        // Clap has let through only these names.
        AccessMethod::from_name(&name).expect("clap accepts only names of methods")
    })
}
