//! The learnt limit of writes, in virtual time: devices of known parallelism under a flood of
//! writes and a chain of reads. See docs/design/deadline.md, "Learnt".

#![cfg(not(loom))]

mod bench;

use bench::{Bench, EIGHT_WAYS, MS, Model, ONE_HEAD, SIXTY_FOUR_WAYS, US};
use foreread_core::sched::{Op, SchedulerKind};

const SECOND: u64 = 1000 * MS;

fn learning() -> SchedulerKind {
    SchedulerKind::learning()
}

fn settled(model: Model) -> Bench {
    let mut bench = Bench::of(model, &learning());
    bench.writers = 128;
    bench.go(SECOND);
    bench
}

#[test]
fn a_load_of_writes_alone_finds_out_how_many_the_device_serves() {
    for model in [ONE_HEAD, EIGHT_WAYS, SIXTY_FOUR_WAYS] {
        let bench = settled(model);
        let state = bench.state();
        let off = model.parallel.abs_diff(state.min_parallel as usize);
        assert!(off * 10 <= model.parallel, "{model:?}: {}", state.min_parallel);
        assert_eq!(state.write_limit, Some(state.min_parallel + 2), "{model:?}");
        assert_eq!(state.in_flight_writes, state.min_parallel + 2, "{model:?}");
        let cost = state.writes.expect("writes came alone").per_request_ns;
        assert!((cost / model.service_ns as f64 - 1.0).abs() < 0.01, "{model:?}: {cost}");
        // Includes the second in which it is learnt.
        let most = 1.0 * SECOND as f64 / model.service_ns as f64 * model.parallel as f64;
        let share = bench.written as f64 / most;
        assert!(share >= 0.9, "{model:?}: {share}");
    }
}

/// The first reads under a flood that started before them.
#[test]
fn a_chain_is_protected_from_its_first_reads_on() {
    for (model, most) in [(ONE_HEAD, 2.2), (EIGHT_WAYS, 1.2), (SIXTY_FOUR_WAYS, 1.2)] {
        let mut bench = settled(model);
        let took = bench.chain(20);
        let ratio = took as f64 / (20 * model.service_ns) as f64;
        assert!(ratio <= most, "{model:?}: {ratio}");
    }
}

/// Both begin at once on an unknown device.
#[test]
fn a_chain_is_protected_although_nothing_is_known() {
    for (model, most) in [(ONE_HEAD, 2.2), (EIGHT_WAYS, 1.3), (SIXTY_FOUR_WAYS, 1.3)] {
        let mut bench = Bench::of(model, &learning());
        bench.writers = 64;
        let took = bench.chain(400);
        let ratio = took as f64 / (400 * model.service_ns) as f64;
        assert!(ratio <= most, "{model:?}: {ratio}");
    }
}

/// Nothing is known of writes that began during a chain, and the chain never stops.
#[test]
fn writers_beside_a_chain_get_what_it_leaves() {
    for (model, least) in [(ONE_HEAD, 0.45), (EIGHT_WAYS, 0.8), (SIXTY_FOUR_WAYS, 0.8)] {
        let mut bench = Bench::of(model, &learning());
        bench.chain(100);
        bench.writers = 64;
        let reads = 2 * SECOND / model.service_ns;
        bench.chain(usize::try_from(reads / 5).unwrap());
        let (began, before) = (bench.now_ns, bench.written);
        bench.chain(usize::try_from(reads).unwrap());
        let took = (bench.now_ns - began) as f64;
        let alone = took / model.service_ns as f64 * model.parallel as f64;
        let share = (bench.written - before) as f64 / alone;
        assert!(share >= least, "{model:?}: {share}");
        let ratio = took / (reads * model.service_ns) as f64;
        assert!(ratio <= if model.parallel == 1 { 2.2 } else { 1.2 }, "{model:?}: {ratio}");
    }
}

/// A neighbour comes or goes, a path fails, a cache fills: flood alone, then a chain.
#[test]
fn a_device_that_changes_is_found_out() {
    let slower = Model { service_ns: 3 * MS / 2, ..EIGHT_WAYS };
    let much_slower = Model { service_ns: 10 * MS, ..EIGHT_WAYS };
    for (before, after) in [
        (EIGHT_WAYS, ONE_HEAD),
        (ONE_HEAD, EIGHT_WAYS),
        (Model { parallel: 1, ..EIGHT_WAYS }, EIGHT_WAYS),
        (EIGHT_WAYS, Model { parallel: 1, ..EIGHT_WAYS }),
        (EIGHT_WAYS, Model { parallel: 3, ..EIGHT_WAYS }),
        (SIXTY_FOUR_WAYS, EIGHT_WAYS),
        (EIGHT_WAYS, SIXTY_FOUR_WAYS),
        (EIGHT_WAYS, slower),
        (slower, EIGHT_WAYS),
        (EIGHT_WAYS, much_slower),
    ] {
        let mut bench = settled(before);
        bench.becomes(after);
        bench.go(6 * SECOND);
        let found = bench.state().min_parallel as usize;
        let off = found.abs_diff(after.parallel);
        assert!(off * 4 <= after.parallel, "{before:?} to {after:?}: {found}");
        let ratio = bench.chain(100) as f64 / (100 * after.service_ns) as f64;
        assert!(ratio <= if after.parallel == 1 { 2.2 } else { 1.3 }, "{after:?}: {ratio}");
        // And with the chain running all the time.
        let mut bench = settled(before);
        bench.chain(100);
        bench.becomes(after);
        let seconds = if before.parallel.max(after.parallel) > 8 { 3 } else { 12 };
        bench.chain(usize::try_from(seconds * SECOND / after.service_ns).unwrap());
        let (began, written) = (bench.now_ns, bench.written);
        bench.chain(1000);
        let took = (bench.now_ns - began) as f64;
        let alone = took / after.service_ns as f64 * after.parallel as f64;
        let share = (bench.written - written) as f64 / alone;
        let ratio = took / (1000 * after.service_ns) as f64;
        let (most, least) = if after.parallel == 1 { (2.2, 0.45) } else { (1.3, 0.5) };
        assert!(ratio <= most, "{before:?} to {after:?}, beside a chain: {ratio}");
        assert!(share >= least, "{before:?} to {after:?}, beside a chain: {share}");
    }
}

#[test]
fn writes_are_held_back_for_a_while_after_the_last_read_and_then_go_by_time_alone() {
    let mut bench = settled(EIGHT_WAYS);
    bench.chain(40);
    bench.writers = 0;
    bench.go(20 * MS);
    let ended = bench.now_ns;
    bench.chain(1);
    let read_ended = bench.now_ns;
    assert!(read_ended > ended);
    bench.device_stalls = true;
    bench.writers = 64;
    bench.go(MS);
    assert_eq!(bench.state().in_flight_writes, 7);
    assert_eq!(bench.path.poll_timeout().unwrap().0, read_ended + 50 * MS);
    bench.go(read_ended + 50 * MS - 1 - bench.now_ns);
    assert_eq!(bench.state().in_flight_writes, 7);
    bench.go(2);
    assert_eq!(bench.state().in_flight_writes, 10, "nothing ended, nothing came");
    assert_eq!(bench.path.poll_timeout(), None);
}

#[test]
fn the_hold_can_be_set_and_the_limit_too() {
    let mut bench = settled(EIGHT_WAYS);
    bench.set("read_hold", "0");
    bench.chain(40);
    bench.go(0);
    assert_eq!(bench.state().write_limit, Some(10), "no read is expected");
    bench.set("writes_in_flight", "3");
    bench.go(10 * MS);
    assert_eq!(bench.state().write_limit, Some(3));
    assert_eq!(bench.state().in_flight_writes, 3);
    bench.set("writes_in_flight", "0");
    bench.go(10 * MS);
    assert_eq!(bench.state().write_limit, None);
    assert_eq!(bench.state().in_flight_writes, 128);
    bench.set("writes_in_flight", "learn");
    bench.go(100 * MS);
    assert_eq!(bench.state().in_flight_writes, 10);
}

/// An endless upward sweep passes over a write below it until that one has expired; then it begins
/// the next batch of writes.
#[test]
fn a_queued_write_waits_no_longer_than_its_expiry_and_one_batch() {
    for (rule, is_passed_over) in [("4.x", false), ("mq", true)] {
        for model in [ONE_HEAD, EIGHT_WAYS] {
            let mut bench = Bench::of(model, &learning());
            bench.set("rule", rule);
            bench.writers = 64;
            bench.chain(40);
            let lone = bench.write_below();
            let queued = bench.now_ns;
            while bench.sent_at(lone).is_none() {
                bench.chain(1);
            }
            let waited = bench.sent_at(lone).unwrap() - queued;
            let expire = 5000 * MS;
            // Sixteen writes, one at a time, each with a read in flight.
            let batch = 16 * 2 * model.service_ns;
            assert!(waited <= expire + batch, "{rule}, {model:?}: {waited}");
            assert_eq!(waited >= expire, is_passed_over, "{rule}, {model:?}: {waited}");
            let state = bench.state();
            assert_eq!(state.expired_writes > 0, is_passed_over, "{rule}: {state:?}");
            assert_eq!(state.expired_reads, 0);
        }
    }
}

#[test]
fn a_scheduler_is_exchanged_while_it_works_and_nothing_is_lost() {
    let mut bench = settled(EIGHT_WAYS);
    for (name, limit) in [("noop", None), ("deadline", Some(10)), ("noop", None)] {
        bench.set("scheduler", name);
        assert_eq!(bench.settings()[0], ("scheduler", name.to_owned()));
        // Requests dispatched by the old queue end in the new one.
        bench.chain(20);
        bench.go(200 * MS);
        assert_eq!(bench.state().scheduler, name);
        assert_eq!(bench.state().write_limit, limit);
    }
    bench.set("scheduler", "deadline");
    bench.set("fifo_batch", "3");
    bench.set("scheduler", "deadline");
    assert!(bench.settings().contains(&("fifo_batch", "3".to_owned())), "it has it already");
    bench.writers = 0;
    bench.go(SECOND);
    assert_eq!(bench.done, bench.asked, "all were told of");
    let state = bench.state();
    assert_eq!((state.in_flight_reads, state.in_flight_writes), (0, 0));
    assert_eq!((state.queued_reads, state.queued_writes), (0, 0));
    let refused = bench.path.set_scheduler(bench.device, "scheduler", "cfq").unwrap_err();
    assert_eq!(refused.to_string(), "scheduler=cfq: must be noop or deadline");
}

/// The limit of the new queue counts the requests that the old one dispatched.
#[test]
fn an_exchange_keeps_count_of_what_is_in_flight() {
    let mut bench = settled(EIGHT_WAYS);
    bench.set("scheduler", "noop");
    bench.go(10 * MS);
    assert_eq!(bench.state().in_flight_writes, 128);
    bench.device_stalls = true;
    bench.set("scheduler", "deadline");
    bench.writers = 164;
    bench.go(MS);
    assert_eq!(bench.state().in_flight_writes, 128, "none of the 36 that came");
    assert_eq!(bench.state().queued_writes, 36);
}

#[test]
fn every_listed_setting_can_be_set() {
    let bench = Bench::of(ONE_HEAD, &learning());
    let listed = bench.settings();
    let mut other = Bench::of(ONE_HEAD, &SchedulerKind::Noop);
    for (name, value) in &listed {
        other.set(name, value);
    }
    assert_eq!(other.settings(), listed);
    let names: Vec<_> = listed.iter().skip(1).map(|(name, _)| *name).collect();
    assert_eq!(names, foreread_core::sched::deadline::DeadlineSettings::NAMES);
}

/// `noop` has no limit, nor has `deadline` by default: first come, first served.
#[test]
fn without_the_setting_there_is_no_limit() {
    for name in ["noop", "deadline"] {
        let mut bench = Bench::of(ONE_HEAD, &SchedulerKind::from_name(name).unwrap());
        bench.writers = 64;
        bench.go(SECOND);
        assert_eq!(bench.state().in_flight_writes, 64, "{name}");
        let ratio = bench.chain(20) as f64 / (20 * ONE_HEAD.service_ns) as f64;
        assert!(ratio > 60.0, "{name}: {ratio}");
    }
}

#[test]
fn expired_requests_are_counted_by_direction() {
    let mut choice = SchedulerKind::from_name("deadline").unwrap();
    choice.set("read_expire", "0").unwrap();
    choice.set("writes_in_flight", "1").unwrap();
    let mut bench = Bench::of(Model { service_ns: 100 * US, ..ONE_HEAD }, &choice);
    bench.writers = 4;
    bench.chain(10);
    let state = bench.state();
    assert_eq!((state.expired_reads, state.expired_writes), (10, 0), "{state:?}");
    assert_eq!(bench.sent(Op::Read), 10);
}
