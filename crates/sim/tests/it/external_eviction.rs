//! Eviction policies of the literature in place of the library's own, below the whole path.

use foreread_core::prefetch::Policy;
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::record::RecordMode;
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::{EvictionName, PolicyName, Scenario};

/// Look-ups of pages that are likely beside two scans of files that do not fit.
const SCENARIO: &str = "\
name = 'look-ups beside scans'
until_s = 4
[cache]
memory = '32M'
max_window = '256K'
[device.disk]
model.flash = { capacity = '4G', mb_per_s = 500, overhead_us = 100, channels = 4, depth = 16 }
[file.table]
device = 'disk'
size = '256M'
[file.logs]
device = 'disk'
at = '1G'
size = '2G'
[[process]]
name = 'look-up'
count = 2
run.random = { file = 'table', read = '4K', zipf = 0.9, cpu_us = 20 }
[[process]]
name = 'scan-a'
run.sequential = { file = 'logs', from = '0', kib_per_s = 29296.875 }
[[process]]
name = 'scan-b'
run.sequential = { file = 'logs', from = '1G', kib_per_s = 29296.875 }
";

fn run(policy: Policy, eviction: CachePolicyKind) -> RunOutcome {
    let mut scenario = Scenario::parse(SCENARIO).unwrap();
    scenario.cache.policy = PolicyName(policy);
    scenario.cache.eviction = EvictionName(eviction);
    let mut run = scenario.build(RecordMode::Hash).unwrap().run;
    run.go(scenario.until());
    run.end()
}

#[test]
fn the_policy_evicts_and_the_path_next_to_nothing() {
    for policy in [Policy::Linux6, Policy::Adaptive] {
        for kind in CachePolicyKind::ALL {
            let ran = run(policy, kind);
            let bytes: u64 = ran.processes.iter().map(|process| process.bytes.0).sum();
            assert!(bytes > 100 << 20, "{policy:?} {kind:?}: {bytes} bytes");
            if kind == CachePolicyKind::TwoLists {
                assert_eq!(ran.external_evictions, None);
                continue;
            }
            let external = ran.external_evictions.expect("another policy evicts");
            let own = ran.cache.evictions;
            assert!(external > 10_000, "{policy:?} {kind:?}: {external}");
            assert!(own * 10 <= external, "{policy:?} {kind:?}: {own} beside {external}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let hash = || run(Policy::Adaptive, CachePolicyKind::S3Fifo).hash;
    assert_eq!(hash(), hash());
}
