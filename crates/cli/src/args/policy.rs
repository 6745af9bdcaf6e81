//! The names of read-ahead policies, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rival_policy;

/// The names of all policies, each with its line of help.
pub(crate) fn policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(Policy::ALL.map(value)).map(|name| {
        // Clap has let through only the names of `Policy::ALL`.
        Policy::from_name(&name).expect("clap accepts only names of Policy::ALL")
    })
}

/// The same with the rivals that only the simulator has.
pub(crate) fn simulated_policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(rival_policy::all().map(value)).map(|name| {
        // Clap has let through only the names of `rival_policy::all`.
        rival_policy::find(&name).expect("clap accepts only names of rival_policy::all")
    })
}

/// The names of all eviction policies, each with its line of help.
pub(crate) fn eviction_policies() -> impl TypedValueParser<Value = CachePolicyKind> {
    let value = |kind: CachePolicyKind| PossibleValue::new(kind.name()).help(about_eviction(kind));
    PossibleValuesParser::new(CachePolicyKind::ALL.map(value)).map(|name| {
        // Clap has let through only the names of `CachePolicyKind::ALL`.
        CachePolicyKind::from_name(&name).expect("clap accepts only names of CachePolicyKind::ALL")
    })
}

fn about_eviction(kind: CachePolicyKind) -> &'static str {
    match kind {
        CachePolicyKind::Fifo => "first in, first out",
        CachePolicyKind::Lru => "least recently used",
        CachePolicyKind::Sieve => "one queue, and a hand that passes what was used (NSDI 2024)",
        CachePolicyKind::S3Fifo => "three queues: small, main, ghost (SOSP 2023)",
        CachePolicyKind::Arc => "recency and frequency in balance (FAST 2003)",
        CachePolicyKind::WTinyLfu => "a window, and admission by frequency (TOS 2017)",
        CachePolicyKind::Sarc => "sequential and other pages apart (ATC 2005)",
        CachePolicyKind::TwoLists => "the library's own: active, inactive, shadows",
    }
}

fn about(policy: Policy) -> &'static str {
    match policy {
        Policy::None => "no read-ahead: each miss reads what is left of its read",
        Policy::Linux2_6_28 => "by the reader's own state alone; interleaved streams are random",
        Policy::Linux2_6_31 => "streams also found by the pages they left in the cache",
        Policy::Linux6 => "Linux 6.16 and later without large folios: the same, more careful",
        Policy::Thrash2009 => "never more ahead than was seen to survive behind",
        Policy::Thrash2010 => "windows as large as what survives behind; careful after a loss",
        Policy::Fixed => "windows of the largest size, each asked for when the last is entered",
        Policy::Distance => "asks further ahead each time its reader waited; no sharing",
        Policy::Adaptive => "the windows of linux-6, for streams found by position, not by handle",
        Policy::Custom(_) => "of the literature or the field, in the simulator only",
    }
}
