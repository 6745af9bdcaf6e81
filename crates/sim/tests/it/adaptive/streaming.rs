//! Clients with rates: no page is read twice, and few requests.

use foreread_core::prefetch::Policy;
use foreread_sim::policy;

use super::{measure, ours, row, scenario};

/// No unread page leaves, each client has its rate, and requests are no more than a fifth over the
/// fewest that there could be.
#[track_caller]
fn serves(name: &str) {
    let row = ours(name);
    assert_eq!(row.evicted_unread, 0, "pages were read in vain");
    assert_eq!(row.at_rate, row.streams, "every client at its rate");
    let over = row.requests as f64 / row.optimum_requests.expect("it has one");
    assert!(over <= 1.2, "{over} times the fewest requests");
}

#[test]
fn eight_hundred_slow_clients() {
    serves("streaming-many-slow");
}

#[test]
fn three_hundred_fast_clients() {
    serves("streaming-fast");
}

#[test]
fn clients_some_of_whom_are_a_hundred_times_as_fast_as_others() {
    serves("streaming-lognormal");
}

#[test]
fn a_thousand_clients() {
    serves("streaming-thousand");
}

#[test]
fn a_server_whose_slow_clients_thrash_with_the_kernel() {
    serves("streaming-server");
    for policy in [policy::LINUX_2_6_31, Policy::Linux6] {
        let row = row("streaming-server", policy, Some(1024));
        assert!(row.evicted_unread > 1000, "{}: {}", row.policy, row.evicted_unread);
    }
}

#[test]
fn overload_is_no_collapse() {
    let whole = ours("streaming-overload");
    let over = whole.requests as f64 / whole.optimum_requests.expect("it has one");
    assert!(over <= 2.0, "{over} times the fewest requests");

    // While the device is overloaded, each client makes progress.
    let mut scenario = scenario("streaming-overload");
    (scenario.count_from_s, scenario.until_s) = (60.0, Some(90.0));
    let bytes: Vec<u64> = measure(&scenario).processes().iter().map(|done| done.bytes).collect();
    let (mean, least) = (bytes.iter().sum::<u64>() / 300, *bytes.iter().min().unwrap());
    assert!(least > mean / 2, "the one that got least got {least} bytes, the mean is {mean}");
}

#[test]
fn after_an_overload_all_is_as_before_within_ten_windows() {
    let mut scenario = scenario("streaming-overload");
    scenario.count_from_s = 117.0;
    let measured = measure(&scenario);
    assert!(measured.at_rate(&scenario).iter().all(|is_so| *is_so), "every client at its rate");
    let over = measured.requests() as f64 / measured.optimum_requests(&scenario).unwrap();
    // Clients that are as fast and never saw one are at 1.17.
    assert!(over <= 1.22, "{over} times the fewest requests");
}

#[test]
fn a_slow_client_beside_fast_ones_never_waits_for_a_page_that_was_there() {
    let measured = measure(&scenario("slow-beside-fast"));
    let slow = measured.ran.processes.iter().find(|meter| meter.name == "slow-0").unwrap();
    assert_eq!(slow.other["read_twice"], 0.0);
    assert_eq!(measured.to.evicted_unread, 0);
    // It waits while its first windows grow, some ms each behind eight full queues.
    assert!(slow.waited_ns < 500_000_000, "{} ms", slow.waited_ns / 1_000_000);
}
