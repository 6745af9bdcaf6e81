//! `deadline`: limits of requests in flight, and settings that change while requests are queued.

use foreread_core::sched::{InvalidSetting, Op};
use foreread_core::units::Nanos;

use super::bench::{Bench, choice, request};

fn bench(rule: &str) -> Bench {
    Bench::new(&choice(&[("rule", rule.into()), ("quirks", "off".into())]), 8)
}

const RULES: [&str; 3] = ["2002", "4.x", "mq"];

#[test]
fn a_limit_of_writes_leaves_the_device_to_reads() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("writes_in_flight", "2");
        bench.set("seek_cost", "1");
        bench.add("W10@0 W20@0 W30@0");
        assert_eq!(bench.take(0), Some("W10".into()), "{rule}");
        assert_eq!(bench.take(0), Some("W20".into()));
        assert_eq!(bench.take(0), None);
        bench.add("R500@1");
        assert_eq!(bench.take(1), Some("R500".into()), "{rule}: reads are not held back");
        bench.complete("W20");
        assert_eq!(bench.take(1), Some("W30".into()), "{rule}");
        assert!(bench.queue.is_empty());
    }
}

#[test]
fn a_learnt_limit_counts_only_where_it_is_asked_for() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("seek_cost", "1");
        assert_eq!(bench.queue.wants_limit(), None);
        bench.set("writes_in_flight", "learn");
        assert_eq!(bench.queue.wants_limit(), Some(50_000_000), "{rule}: as long as reads hold");
        assert_eq!(bench.queue.write_limit(), None, "{rule}: none is set");
        bench.add("W10@0 W20@0 W30@0 R500@0");
        assert_eq!((bench.queue.queued(Op::Read), bench.queue.queued(Op::Write)), (1, 3));
        bench.queue.limit_writes(Some(0));
        assert_eq!(bench.take(0), Some("R500".into()), "{rule}");
        assert_eq!(bench.take(0), None, "{rule}: 0 is none, and not no limit");
        bench.queue.limit_writes(Some(1));
        assert_eq!(bench.take(0), Some("W10".into()), "{rule}");
        assert_eq!(bench.take(0), None, "{rule}");
        bench.set("writes_in_flight", "2");
        assert_eq!(bench.take(0), Some("W20".into()), "{rule}: what is set counts");
        assert_eq!(bench.take(0), None, "{rule}");
        bench.set("writes_in_flight", "0");
        assert_eq!(bench.take(0), Some("W30".into()), "{rule}");
    }
}

/// A queue that replaces another one counts the requests dispatched by it.
#[test]
fn adopted_requests_count_and_complete() {
    let mut bench = bench("4.x");
    bench.set("writes_in_flight", "1");
    let old = request("W900@0");
    bench.queue.adopt(old.origin, old.arrival);
    bench.add("W10@0");
    assert_eq!(bench.take(0), None, "one is in flight");
    bench.queue.completed(Nanos(0), old.origin, old.arrival);
    assert_eq!(bench.take(0), Some("W10".into()));
}

#[test]
fn a_limit_of_reads_leaves_the_device_to_writes() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("reads_in_flight", "1");
        bench.add("R10@0 R20@0 W30@0");
        assert_eq!(bench.take(0), Some("R10".into()), "{rule}");
        assert_eq!(bench.take(0), Some("W30".into()), "{rule}");
        assert_eq!(bench.take(0), None);
        // Lifted while requests wait.
        bench.set("reads_in_flight", "0");
        assert_eq!(bench.take(0), Some("R20".into()), "{rule}");
    }
}

#[test]
fn an_old_read_in_flight_has_the_device_for_itself() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("read_drain", "50");
        bench.add("R10@0 R20@30 W30@0 W40@0");
        assert_eq!(bench.take(30), Some("R10".into()), "{rule}");
        assert_eq!(bench.take(49), Some("R20".into()), "{rule}");
        assert_eq!(bench.take(50), None, "{rule}: R10 is 50 ms old");
        bench.complete("R20");
        assert_eq!(bench.take(60), None, "{rule}: the younger one ended");
        bench.complete("R10");
        assert_eq!(bench.take(60), Some("W30".into()), "{rule}");
    }
}

/// Requests in the line are not sorted: they join the queue by age.
#[test]
fn writes_over_the_depth_wait_in_a_line() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("async_depth", "2");
        bench.add("W50@0 W40@1 W30@2 W20@3 R10@4");
        assert_eq!(bench.take(4), Some("R10".into()), "{rule}: reads have no such limit");
        let first = bench.take(4).unwrap();
        assert!(["W40", "W50"].contains(&first.as_str()), "{rule}: {first}");
        let second = bench.take(4).unwrap();
        assert!(["W40", "W50"].contains(&second.as_str()), "{rule}: {second}");
        assert_eq!(bench.take(4), None, "{rule}: two are in flight");
        assert!(!bench.queue.is_empty(), "{rule}: and two in the line");
        bench.complete(&first);
        assert_eq!(bench.take(4), Some("W30".into()), "{rule}");
        bench.set("async_depth", "0");
        assert_eq!(bench.take(4), Some("W20".into()), "{rule}");
        assert!(bench.queue.is_empty());
    }
}

#[test]
fn a_new_rule_finds_all_that_was_queued() {
    for (before, after) in RULES.iter().flat_map(|before| RULES.map(|after| (*before, after))) {
        let mut bench = bench(before);
        bench.set("fifo_batch", "64");
        bench.add("R50@0 rt:R30@0 W20@0 idle:W10@0 R40@0 W60@0");
        let mut all = vec![bench.take(0).unwrap()];
        bench.set("rule", after);
        bench.add("R70@1 W80@1");
        bench.complete(&all[0].clone());
        all.append(&mut bench.all(20_000));
        assert!(bench.queue.is_empty());
        all.sort();
        let want = ["R30", "R40", "R50", "R70", "W10", "W20", "W60", "W80"];
        assert_eq!(all, want, "{before} to {after}");
    }
}

/// Under any rule, the oldest request before the change is the oldest after it.
#[test]
fn a_new_rule_keeps_ages() {
    let mut bench = bench("mq");
    bench.add("rt:R50@0 R30@1 idle:R70@2 R10@3");
    bench.set("rule", "4.x");
    bench.set("fifo_batch", "1");
    assert_eq!(bench.all(500), ["R50", "R70", "R30", "R10"]);
}

#[test]
fn a_device_that_is_gone_gives_all_back() {
    for rule in RULES {
        let mut bench = bench(rule);
        bench.set("async_depth", "1");
        bench.set("fifo_batch", "64");
        bench.add("R50@0 R60@0 R70@0 rt:R30@0 W20@0 W10@0");
        let taken = bench.take(0).unwrap();
        let mut all: Vec<_> =
            bench.queue.drain().into_iter().flat_map(|each| each.load.0).collect();
        assert!(bench.queue.is_empty());
        assert_eq!(bench.take(0), None);
        all.push(taken);
        all.sort();
        assert_eq!(all, ["R30", "R50", "R60", "R70", "W10", "W20"], "{rule}");
    }
}

#[test]
fn an_expiry_counts_from_the_next_decision_on() {
    let mut bench = bench("4.x");
    bench.set("fifo_batch", "1");
    bench.add("R900@0 R100@1 R200@2 R950@3");
    assert_eq!(bench.take(5), Some("R900".into()));
    bench.set("read_expire", "2");
    assert_eq!(bench.take(5), Some("R100".into()), "expired, although R950 is next");
    bench.set("read_expire", "500");
    assert_eq!(bench.take(5), Some("R200".into()));
}

/// A sweep of 2002 goes up: a request behind the head waits for the next one.
#[test]
fn rule_2002_is_a_one_way_elevator() {
    let mut bench = bench("2002");
    bench.add("R100@0 R300@0");
    assert_eq!(bench.take(0), Some("R100".into()));
    bench.add("R50@0 R200@0 R20@0");
    assert_eq!(bench.all(0), ["R200", "R300", "R20", "R50"]);
}

#[test]
fn an_invalid_value_is_refused_with_the_valid_ones() {
    let mut bench = bench("4.x");
    for (name, value, hint) in [
        ("rule", "5.x", "rule=5.x: must be 2002, 4.x or mq"),
        ("fifo_batch", "-1", "fifo_batch=-1: must be a number from 0 to 4294967295"),
        (
            "writes_in_flight",
            "many",
            "writes_in_flight=many: must be a number from 0 to 4294967295, or learn",
        ),
        ("read_expire", "soon", "read_expire=soon: must be a time in milliseconds, 0 or more"),
        ("writes_starved", "1.5", "negative ones prefer writes"),
        ("front_merges", "yes", "on or off"),
        (
            "fifo-batch",
            "1",
            "there are rule, read_expire, write_expire, writes_starved, fifo_batch",
        ),
    ] {
        let error: InvalidSetting = bench.queue.set(name, value).unwrap_err();
        assert!(error.to_string().contains(hint), "{error}");
        let mut choice = choice(&[]);
        assert_eq!(choice.set(name, value), Err(error));
    }
}
