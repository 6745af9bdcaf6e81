//! The names of read-ahead policies, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::{policy, rival_policy};

/// Returns the parser of an engine's policies, each with a line of help.
pub fn policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(Policy::ALL.map(value)).map(|name| {
        // Clap has let through only the names of `Policy::ALL`.
        Policy::from_name(&name).expect("clap accepts only names of Policy::ALL")
    })
}

/// Returns the same with the policies of old kernels, which the simulator and `explain` have.
pub fn explained_policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(policy::ALL.map(value)).map(|name| {
        // Clap has let through only the names of `policy::ALL`.
        rival_policy::find(&name).expect("clap accepts only names of policy::ALL")
    })
}

/// Returns the same, with rivals that exist only in the simulator.
pub fn simulated_policies() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| PossibleValue::new(policy.name()).help(about(policy));
    PossibleValuesParser::new(rival_policy::all().map(value)).map(|name| {
        // Clap has let through only the names of `rival_policy::all`.
        rival_policy::find(&name).expect("clap accepts only names of rival_policy::all")
    })
}

/// Returns the parser of all eviction policies, each with a line of help.
pub fn eviction_policies() -> impl TypedValueParser<Value = CachePolicyKind> {
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
        CachePolicyKind::Sieve => "one queue with a clock hand that skips used pages (NSDI 2024)",
        CachePolicyKind::S3Fifo => "three queues: small, main, ghost (SOSP 2023)",
        CachePolicyKind::Arc => "adaptive balance of recency and frequency (FAST 2003)",
        CachePolicyKind::WTinyLfu => "a small window, then admission by frequency (TOS 2017)",
        CachePolicyKind::Sarc => "separate lists for sequential and random pages (ATC 2005)",
        CachePolicyKind::TwoLists => "the library's own: active, inactive, shadows",
    }
}

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
