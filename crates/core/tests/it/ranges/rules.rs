//! Properties of every plan on any device: all wanted bytes are read once, within the limits. Also
//! the time of requests against a second model.

#![expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

use std::ops::Range;

use foreread_core::ranges::{CostModel, RequestLimits, RequestPlan, makespan, plan};

use super::optimum::{bytes_of, coalesced};
use super::sets::{DEVICES, FEW_AT_ONCE, LIMITS, NVME, ONE_HEAD, STORE};
use crate::random::Random;

fn check(plan: &RequestPlan, wanted: &[Range<u64>], model: &CostModel, limits: &RequestLimits) {
    let requests = plan.requests();
    assert_eq!(plan.time_ns(), makespan(requests, model, limits.budget));
    assert_eq!(plan.bytes(), bytes_of(requests));
    let mut ascending = requests.to_vec();
    ascending.sort_by_key(|request| request.start);
    for request in &ascending {
        let bytes = request.end - request.start;
        assert!(bytes > 0 && bytes <= limits.largest && bytes <= limits.budget, "{request:?}");
        assert_eq!(request.start % limits.align, 0, "{request:?}");
        assert!(request.end % limits.align == 0 || request.end == u64::MAX, "{request:?}");
        assert!(
            coalesced(wanted, limits.align.min(512), 0)
                .iter()
                .any(|span| { span.start < request.end && request.start < span.end }),
            "{request:?} reads nothing that is wanted"
        );
    }
    assert!(ascending.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ascending:?}");
    for range in wanted {
        let mut start = range.start;
        for (number, part) in plan.parts(range.clone()) {
            assert_eq!(part.start, start, "{range:?}");
            assert!(requests[number].start <= part.start && part.end <= requests[number].end);
            start = part.end;
        }
        assert_eq!(start, range.end, "all of {range:?} is read");
    }
}

#[test]
fn every_wanted_byte_is_read_once_within_the_limits() {
    for model in DEVICES.map(|(_, model)| model).into_iter().chain(FEW_AT_ONCE) {
        for seed in 0..100 {
            let mut dice = Random(seed);
            let count = 1 + dice.below(40);
            let wanted = dice.ranges(count);
            let align = [1, 512, 4096, 3000][usize::try_from(dice.below(4)).unwrap()];
            let largest = 65536 << dice.below(10);
            let limits = RequestLimits { align, largest, budget: 1 << (16 + dice.below(14)) };
            check(&plan(&wanted, &model, &limits), &wanted, &model, &limits);
        }
    }
}

#[test]
fn empty_and_overlapping_ranges_cost_nothing_more() {
    assert!(plan(&[], &STORE, &LIMITS).requests().is_empty());
    let none = plan(&[7..7, 0..0, u64::MAX..u64::MAX], &STORE, &LIMITS);
    assert_eq!((none.requests().len(), none.bytes(), none.time_ns()), (0, 0, 0));
    assert_eq!(none.parts(7..7).count(), 0);
    let once = plan(&[0..4096], &STORE, &LIMITS);
    assert_eq!(plan(&[100..200, 0..4096, 5..5, 0..4096, 4000..4096], &STORE, &LIMITS), once);
    assert_eq!(once.requests(), [0..4096]);
    assert_eq!(once.parts(100..200).collect::<Vec<_>>(), [(0, 100..200)]);
    // Adjacent ranges are one span: one request on a serial device.
    assert_eq!(plan(&[4096..8192, 0..4096], &ONE_HEAD, &LIMITS).requests(), [0..8192]);
}

#[test]
fn ranges_at_the_end_of_the_numbers_are_planned() {
    let last = u64::MAX - 4095;
    let wanted = [u64::MAX - 1..u64::MAX, 0..1, last - 4096..last];
    for (_, model) in DEVICES {
        let planned = plan(&wanted, &model, &LIMITS);
        assert_eq!(planned.bytes(), 4096 + 4096 + 4095);
        check(&planned, &wanted[1..], &model, &LIMITS);
        let part = planned.parts(wanted[0].clone()).next().expect("it is read");
        assert_eq!(part.1, wanted[0]);
    }
}

#[test]
fn thousands_of_ranges_are_planned() {
    let wanted = Random(7).ranges(5000);
    for (_, model) in DEVICES {
        let planned = plan(&wanted, &model, &LIMITS);
        assert_eq!(planned.time_ns(), makespan(planned.requests(), &model, LIMITS.budget));
        let spans = coalesced(&wanted, LIMITS.align, 0);
        assert!(planned.time_ns() <= makespan(&spans, &model, LIMITS.budget) / 127 * 128);
    }
}

#[test]
#[should_panic(expected = "ends before it starts")]
fn a_reversed_range_is_a_bug_of_the_caller() {
    let (start, end) = (8192, 4096);
    let _ = plan(&[start..end], &NVME, &LIMITS);
}

#[test]
#[should_panic(expected = "at least one request runs at a time")]
fn a_device_that_serves_no_request_is_a_bug_of_the_caller() {
    let _ = plan(&[0..1], &CostModel { parallel: 0, ..NVME }, &LIMITS);
}

#[test]
#[should_panic(expected = "the budget is smaller than the alignment")]
fn a_budget_below_a_block_is_a_bug_of_the_caller() {
    let _ = plan(&[0..1], &NVME, &RequestLimits { budget: 4095, ..LIMITS });
}

/// Merging wins on a serial device up to latency x bandwidth: 400,000 bytes. A gap just below it
/// would gain nothing worth its bytes.
#[test]
fn a_serial_device_merges_what_costs_less_than_a_request() {
    let limits = RequestLimits { align: 1, ..LIMITS };
    assert_eq!(ONE_HEAD.break_even_gap(), 400_000);
    for (gap, requests) in [(1, 1), (300_000, 1), (401_000, 2), (1_000_000, 2)] {
        let planned = plan(&[0..1000, 1000 + gap..2000 + gap], &ONE_HEAD, &limits);
        assert_eq!(planned.requests().len(), requests, "a gap of {gap}");
    }
}

/// The device of [`makespan`], stepped over all requests at each event.
fn makespan_by_steps(requests: &[Range<u64>], model: &CostModel, budget: u64) -> f64 {
    let mut waiting: Vec<f64> = requests.iter().map(|r| (r.end - r.start) as f64).collect();
    waiting.reverse();
    // Remaining latency, remaining bytes, and all bytes.
    let mut active: Vec<[f64; 3]> = Vec::new();
    let mut now = 0.0;
    loop {
        while let Some(&bytes) = waiting.last() {
            let in_flight: f64 = active.iter().map(|request| request[2]).sum();
            let is_full = active.len() as u64 >= u64::from(model.parallel);
            if !active.is_empty() && (is_full || in_flight + bytes > budget as f64) {
                break;
            }
            active.push([model.latency_ns as f64, bytes, bytes]);
            waiting.pop();
        }
        let transferring = active.iter().filter(|request| request[0] <= 0.0).count();
        let share = model.total_bytes_per_s as f64 / transferring as f64;
        let rate = share.min(model.connection_bytes_per_s as f64) / 1e9;
        let left = |request: &[f64; 3]| match request[0] > 0.0 {
            true => request[0],
            false => request[1] / rate,
        };
        let Some(step) = active.iter().map(left).min_by(f64::total_cmp) else { return now };
        now += step;
        for request in &mut active {
            match request[0] > 0.0 {
                true => request[0] -= step,
                false => request[1] -= step * rate,
            }
            request[0] = if request[0] < 1e-3 { 0.0 } else { request[0] };
        }
        active.retain(|request| request[0] > 0.0 || request[1] > 1e-3);
    }
}

#[test]
fn the_time_of_requests_is_that_of_a_device_stepped_by_hand() {
    for model in DEVICES.map(|(_, model)| model).into_iter().chain(FEW_AT_ONCE) {
        for seed in 0..50 {
            let mut dice = Random(seed);
            let count = 1 + dice.below(100);
            let requests = coalesced(&dice.ranges(count), 512, 0);
            let budget = 1 << (16 + dice.below(14));
            let (got, want) = (
                makespan(&requests, &model, budget) as f64,
                makespan_by_steps(&requests, &model, budget),
            );
            assert!((got - want).abs() <= 2.0 + want / 1e6, "{got} {want} {model:?} {seed}");
        }
    }
}

#[test]
fn one_at_a_time_the_costs_add_up() {
    let requests = [0..1_000_000, 5_000_000..7_000_000];
    assert_eq!(makespan(&requests, &ONE_HEAD, u64::MAX), 8_000_000 + 30_000_000);
    assert_eq!(makespan(&[], &ONE_HEAD, u64::MAX), 0);
    // Two at once if the budget allows it: they share the bandwidth, and one latency is hidden.
    let two = CostModel { parallel: 2, ..ONE_HEAD };
    assert_eq!(makespan(&requests, &two, 3_000_000), 34_000_000);
    assert_eq!(makespan(&requests, &two, 2_999_999), 38_000_000);
}
