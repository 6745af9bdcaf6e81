//! The arguments of `foreread replay --real`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use foreread::Policy;

use crate::measure::method::AccessMethod;
use crate::output::Failure;

/// A real target, and how it is read.
#[derive(Clone, Debug, Args)]
pub(in crate::cmd::replay) struct RealArgs {
    /// Read TARGET in real time in place of a model: by each --method in turn, as often as there
    /// are policies and memory sizes for foreread
    ///
    /// Nothing is written. TARGET is a file or block device, or a directory with the files of the
    /// trace: DIR/NAME, or DIR/NAME without the directories that all names have in common. On one
    /// file or device the files of a trace lie one behind the other. Each thread of the trace is a
    /// thread; of more than 256, several share one. In an open loop a read whose thread is not back
    /// from the one before is issued late, and counted (`late`). Pages of TARGET that were in the
    /// page cache before stay there; what the runs bring in is dropped after each. Ctrl-C ends the
    /// run, and what was measured until then is printed.
    #[arg(long = "real", value_name = "TARGET")]
    #[arg(conflicts_with_all = ["device", "cache", "objects", "per", "series", "seed", "seeds"])]
    target: Option<PathBuf>,

    /// With --real: how it is read, with commas between: foreread, buffered (through the page
    /// cache), direct (O_DIRECT and nothing else) [default: all three, in this order]
    #[arg(long = "method", value_name = "METHOD,..", value_delimiter = ',', requires = "target")]
    #[arg(value_parser = methods())]
    methods: Vec<AccessMethod>,

    /// With --real: let reads past the end of TARGET begin again at its start
    #[arg(long, requires = "target")]
    pub(super) wrap: bool,

    /// With --real and an open loop: N threads, of which each takes the next read of the trace,
    /// whatever thread made it [default: the threads of the trace; 256 where it names none]
    #[arg(long, value_name = "N", requires = "target")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) workers: Option<u32>,
}

impl RealArgs {
    /// Whether a real target is read.
    pub(in crate::cmd::replay) fn is_given(&self) -> bool {
        self.target.is_some()
    }

    /// The target.
    pub(super) fn target(&self) -> Option<&PathBuf> {
        self.target.as_ref()
    }

    /// The methods, in their order.
    pub(super) fn methods(&self) -> Vec<AccessMethod> {
        let all = [AccessMethod::Foreread, AccessMethod::Buffered, AccessMethod::Direct];
        if self.methods.is_empty() { all.to_vec() } else { self.methods.clone() }
    }
}

/// The simulator has more policies than the engine.
pub(super) fn check_policy(policy: Policy) -> Result<(), Failure> {
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
