//! The names of simulated policies, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use foreread_cli::args::policy::one_of;
use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::rival_policy;

/// Returns the parser of all policies of the simulator, rivals included.
pub(crate) fn simulated_policies() -> impl TypedValueParser<Value = Policy> {
    one_of(rival_policy::all())
}

/// Returns the parser of all eviction policies, each with a line of help.
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
        CachePolicyKind::Sieve => "one queue with a clock hand that skips used pages (NSDI 2024)",
        CachePolicyKind::S3Fifo => "three queues: small, main, ghost (SOSP 2023)",
        CachePolicyKind::Arc => "adaptive balance of recency and frequency (FAST 2003)",
        CachePolicyKind::WTinyLfu => "a small window, then admission by frequency (TOS 2017)",
        CachePolicyKind::Sarc => "separate lists for sequential and random pages (ATC 2005)",
        CachePolicyKind::TwoLists => "the library's own: active, inactive, shadows",
    }
}
