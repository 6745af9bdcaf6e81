//! Selected patterns and access methods of a run without a flood.

use super::args::{BenchArgs, BenchPattern, NamedMethod};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::output::Failure;

/// Patterns that only read, and the access methods for them.
pub(super) struct ReadSelection<'a> {
    pub(super) args: &'a BenchArgs,
    /// Those named; none stands for all that fit.
    pub(super) patterns: Vec<AccessPattern>,
    pub(super) methods: Vec<AccessMethod>,
}

impl<'a> ReadSelection<'a> {
    /// Refuses options that apply only to a flood.
    pub(super) fn of(args: &'a BenchArgs) -> Result<Self, Failure> {
        let of_flood = [
            ("--overwrite", args.overwrite),
            ("--scheduler", args.scheduler != "deadline"),
            ("--set", !args.set.is_empty()),
        ];
        if let Some((flag, _)) = of_flood.iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::WrongUse(format!(
                "{flag}: these patterns only read; leave it out, or give --pattern flood"
            )));
        }
        let read = |pattern: &BenchPattern| match pattern {
            BenchPattern::Read(pattern) => *pattern,
            BenchPattern::Flood => unreachable!("a flood is run by itself, in flood::run"),
        };
        let patterns = args.patterns.iter().map(read).collect();
        let method = |method: &NamedMethod| match method {
            NamedMethod::AccessMethod(method) => Ok(*method),
            NamedMethod::Scheduler(name) => Err(Failure::WrongUse(format!(
                "--method direct:{name}: only flood sets schedulers; give --pattern flood, or \
                 --method direct"
            ))),
        };
        let mut methods = args.methods.iter().map(method).collect::<Result<Vec<_>, _>>()?;
        if methods.is_empty() {
            methods.extend(AccessMethod::ALL);
        }
        Ok(Self { args, patterns, methods })
    }
}
