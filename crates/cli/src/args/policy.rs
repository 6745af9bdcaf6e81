//! The names of read-ahead policies, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;

/// Returns the parser of an engine's policies.
pub fn policies() -> impl TypedValueParser<Value = Policy> {
    one_of(Policy::ALL)
}

/// Returns the parser of some policies, each with a line of help.
pub fn one_of(policies: impl IntoIterator<Item = Policy>) -> impl TypedValueParser<Value = Policy> {
    let policies = Vec::from_iter(policies);
    let value = |policy: &Policy| PossibleValue::new(policy.name()).help(about(*policy));
    let names: Vec<_> = policies.iter().map(value).collect();
    PossibleValuesParser::new(names).map(move |name| {
        let named = policies.iter().find(|policy| policy.name() == name);
        *named.expect("clap accepts only these names")
    })
}

/// Returns a line of help.
fn about(policy: Policy) -> &'static str {
    match policy.name() {
        "none" => "no read-ahead: a miss reads the rest of its request",
        "linux-6" => "Linux 6.16 and later without large folios; more conservative",
        "adaptive" => "windows of linux-6, with streams found by position, not by handle",
        "linux-2.6.28" => "per-handle state only; interleaved streams look random",
        "linux-2.6.31" => "also finds streams by their pages in the cache",
        "thrash-2009" => "reads no further ahead than earlier pages survive in the cache",
        "thrash-2010" => "windows as large as the surviving history; backs off after a loss",
        "fixed" => "windows of maximum size, each requested when the previous is entered",
        "distance" => "raises the prefetch distance each time the reader stalls; no sharing",
        _ => "from the literature or other software; simulator only",
    }
}
