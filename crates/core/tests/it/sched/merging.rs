//! `deadline`: merged requests, and their age.

use super::bench::{Bench, choice};

fn bench(max: u64) -> Bench {
    Bench::new(&choice(&[("rule", "4.x".into())]), max)
}

/// M1: a request that joins another takes over its age.
#[test]
fn a_back_merge_does_not_change_the_expiry() {
    let mut bench = bench(64);
    bench.add("W100@0 W50@5 W108@10");
    let request = bench.queue.take(at(4999)).unwrap();
    assert_eq!((request.start.0, request.sectors.0, request.arrival), (100, 16, at(0)));
    assert_eq!(request.load.0, ["W100", "W108"]);
}

/// M2: also at the front, although the request is sorted again.
#[test]
fn a_front_merge_does_not_change_the_expiry() {
    let mut bench = bench(64);
    bench.add("W100@0 W95+4@0 W108@10 W92+8@20");
    let request = bench.queue.take(at(5000)).unwrap();
    assert_eq!((request.start.0, request.sectors.0, request.arrival), (92, 24, at(0)));
    assert_eq!(request.load.0, ["W92", "W100", "W108"]);
    // Sorted again: from 92 on, W95 is next.
    assert_eq!(bench.take(5000), Some("W95".into()));
}

/// M3: the bio closes the gap between two; the survivor keeps the position of the older one.
#[test]
fn coalesced_requests_keep_the_earlier_expiry_and_position() {
    let mut bench = bench(64);
    bench.add("W116@0 W500@10 W100@20 W108@30");
    let request = bench.queue.take(at(5000)).unwrap();
    assert_eq!((request.start.0, request.sectors.0, request.arrival), (100, 24, at(0)));
    assert_eq!(request.load.0, ["W100", "W108", "W116"]);
    assert_eq!(bench.all(5000), ["W500"]);
}

#[test]
fn the_lower_of_two_coalesced_requests_may_be_older() {
    let mut bench = bench(64);
    bench.add("W500@0 W100@10 W116@20 W108@30");
    assert_eq!(bench.take(0), Some("W500".into()));
    let request = bench.queue.take(at(0)).unwrap();
    assert_eq!((request.start.0, request.sectors.0, request.arrival), (100, 24, at(10)));
}

#[test]
fn a_front_merge_can_be_forbidden() {
    let mut bench = bench(64);
    bench.set("front_merges", "off");
    bench.add("W100@0 W92@0 W108@0");
    assert_eq!(bench.all(0), ["W100 W108", "W92"]);
}

#[test]
fn a_merge_never_exceeds_the_largest_request() {
    let mut bench = bench(16);
    bench.add("R100@0 R108@0 R116@0 R92@0");
    assert_eq!(bench.all(0), ["R100 R108", "R116", "R92"]);
}

#[test]
fn directions_and_classes_do_not_merge() {
    for rule in ["2002", "4.x", "mq"] {
        let mut bench = bench(64);
        bench.set("rule", rule);
        bench.add("R100@0 W108@0 rt:R108@0 idle:R116@0 R124@0");
        let mut all = bench.all(0);
        all.sort();
        assert_eq!(all, ["R100", "R108", "R116", "R124", "W108"], "{rule}");
    }
}

/// The next request of a batch may itself be merged into another one.
#[test]
fn a_batch_goes_on_when_its_next_is_swallowed() {
    let mut bench = bench(64);
    bench.add("R10@0 R116@0 R200@0");
    assert_eq!(bench.take(0), Some("R10".into()));
    // R116, which is next, becomes part of R100, which arrived too late to be next.
    bench.add("R100@1 R108@1");
    assert_eq!(bench.all(1), ["R200", "R100 R108 R116"]);
}

fn at(ms: u64) -> foreread_core::units::Nanos {
    foreread_core::units::Nanos(ms * 1_000_000)
}
