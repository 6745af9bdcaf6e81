//! The names of patterns and access methods on the command line.

use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;

/// Access pattern to measure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BenchPattern {
    Read(AccessPattern),
    Flood,
}

/// Access method given on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NamedMethod {
    AccessMethod(AccessMethod),
    /// `direct:NAME`.
    Scheduler(String),
}

/// Parses the name of a pattern.
pub(super) fn pattern(name: &str) -> Result<BenchPattern, String> {
    if name == FLOOD {
        return Ok(BenchPattern::Flood);
    }
    AccessPattern::from_name(name).map(BenchPattern::Read).ok_or_else(|| {
        let names = AccessPattern::ALL.map(AccessPattern::name).join(", ");
        format!("no such pattern; choose from {names}, {}", FLOOD)
    })
}

/// Parses the name of an access method.
pub(super) fn method(name: &str) -> Result<NamedMethod, String> {
    let scheduler = name.strip_prefix("direct:").filter(|scheduler| !scheduler.is_empty());
    let method = || AccessMethod::from_name(name).map(NamedMethod::AccessMethod);
    scheduler
        .map(|scheduler| NamedMethod::Scheduler(scheduler.to_owned()))
        .or_else(method)
        .ok_or_else(|| {
            let names = AccessMethod::ALL.map(AccessMethod::name).join(", ");
            format!("no such access method; choose from {names}, and for flood direct:SCHEDULER")
        })
}

/// Name of the pattern that writes.
const FLOOD: &str = "flood";
