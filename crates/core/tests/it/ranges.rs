//! The range planner against exhaustive search and simple methods: random sets of ranges with fixed
//! seeds, cost models of four devices and others. Also the table of docs/design/ranges.md.

#![cfg(not(loom))]

use crate::documented_table;
mod optimum;
use crate::random;
mod rules;
mod sets;

use std::ops::Range;
use std::thread;

use documented_table::check_table;
use foreread_core::ranges::{CostModel, RequestLimits, RequestPlan, makespan, plan};
use optimum::{Outcome, bytes_of, coalesced, optimum};
use random::Random;
use sets::{DEVICES, FEW_AT_ONCE, LIMITS};

const SETS: u64 = 1000;

fn outcome(plan: &RequestPlan) -> Outcome {
    Outcome { ns: plan.time_ns(), bytes: plan.bytes() }
}

/// Returns the outcome of spans cut into requests of the largest size, in ascending order, with at
/// most `at_once` in flight.
fn sent(spans: &[Range<u64>], model: &CostModel, at_once: u32) -> Outcome {
    let model = CostModel { parallel: model.parallel.min(at_once), ..*model };
    let mut requests = Vec::new();
    for span in spans {
        let mut start = span.start;
        while start < span.end {
            let end = span.end.min(start + LIMITS.largest);
            requests.push(start..end);
            start = end;
        }
    }
    Outcome { ns: makespan(&requests, &model, LIMITS.budget), bytes: bytes_of(&requests) }
}

fn one_each(wanted: &[Range<u64>], model: &CostModel) -> Outcome {
    sent(&coalesced(wanted, LIMITS.align, 0), model, u32::MAX)
}

/// As `object_store::coalesce_ranges` does: gaps of up to 1 MiB, ten requests at once.
fn fixed_gap(wanted: &[Range<u64>], model: &CostModel) -> Outcome {
    sent(&coalesced(wanted, LIMITS.align, 1 << 20), model, 10)
}

/// Largest deviations of plans from the optimum, as factors; and totals of each method.
#[derive(Default)]
struct Comparison {
    worst_time: f64,
    worst_bytes: f64,
    methods: [MethodSum; 4],
}

#[derive(Clone, Copy, Default)]
struct MethodSum {
    ns: u64,
    bytes: u64,
    /// Sum over the sets of the time relative to the optimum.
    times: f64,
    worst: f64,
}

impl Comparison {
    fn of(model: &CostModel, sets: u64, limits: impl Fn(&mut Random) -> RequestLimits) -> Self {
        let mut all = Self::default();
        for seed in 0..sets {
            let mut dice = Random(seed);
            let (wanted, limits) = (dice.few_ranges(), limits(&mut dice));
            let planned = outcome(&plan(&wanted, model, &limits));
            let (soonest, fewest) = optimum(&wanted, model, &limits, planned);
            all.worst_time = all.worst_time.max(planned.ns as f64 / soonest.ns as f64);
            all.worst_bytes = all.worst_bytes.max(planned.bytes as f64 / fewest as f64);
            let methods = [one_each(&wanted, model), fixed_gap(&wanted, model), planned, soonest];
            for (sum, method) in all.methods.iter_mut().zip(methods) {
                let times = method.ns as f64 / soonest.ns as f64;
                sum.ns += method.ns;
                sum.bytes += method.bytes;
                sum.times += times;
                sum.worst = sum.worst.max(times);
            }
        }
        all
    }
}

const METHODS: [&str; 4] =
    ["one request for each range", "gaps up to 1 MiB, 10 at once", "this planner", "optimum"];

fn rows(name: &str, all: &Comparison) -> String {
    let mut rows = String::new();
    for (method, sum) in METHODS.iter().zip(&all.methods) {
        let (s, mb) = (sum.ns as f64 / 1e9, sum.bytes as f64 / 1e6);
        let mean = sum.times / SETS as f64;
        let worst = sum.worst;
        rows += &format!("| {name} | {method} | {s:.2} | {mb:.0} | {mean:.3} | {worst:.2} |\n");
    }
    rows
}

/// The objective: within 5 % of the optimal time, and at the same time of the optimal bytes.
#[test]
fn plans_for_four_devices_are_within_5_percent_of_the_optimum_and_the_table_is_of_them() {
    let head = "| device | method | time, s | bytes, MB | time / optimum, mean | worst |\n\
                |---|---|---|---|---|---|\n";
    let compared = thread::scope(|scope| {
        let all =
            DEVICES.map(|(_, model)| scope.spawn(move || Comparison::of(&model, SETS, |_| LIMITS)));
        all.map(|thread| thread.join().expect("a comparison does not fail"))
    });
    let mut table = String::new();
    for ((name, _), all) in DEVICES.iter().zip(&compared) {
        assert!(all.worst_time <= 1.05, "{name}: {} times the optimum's time", all.worst_time);
        assert!(all.worst_bytes <= 1.05, "{name}: {} times the bytes", all.worst_bytes);
        table += &rows(name, all);
    }
    check_table("design/ranges.md", head, &table);
}

/// Not in the objective: few connections for many ranges. docs/design/ranges.md has the figures.
#[test]
fn plans_for_few_connections_are_near_the_optimum() {
    for model in FEW_AT_ONCE {
        let all = Comparison::of(&model, 300, |_| LIMITS);
        assert!(all.worst_time <= 1.06, "{model:?}: {} times the time", all.worst_time);
        assert!(all.worst_bytes <= 1.21, "{model:?}: {} times the bytes", all.worst_bytes);
    }
}

/// Requests of 64 KiB to 8 MiB, 1 to 32 MiB in flight.
fn narrow(dice: &mut Random) -> RequestLimits {
    let largest = 65536 << dice.below(8);
    RequestLimits { align: 512, largest, budget: 1 << (20 + dice.below(6)) }
}

#[test]
fn plans_under_narrow_limits_are_near_the_optimum() {
    for model in DEVICES.map(|(_, model)| model).into_iter().chain(FEW_AT_ONCE) {
        let all = Comparison::of(&model, 200, narrow);
        assert!(all.worst_time <= 1.09, "{model:?}: {} times the time", all.worst_time);
        assert!(all.worst_bytes <= 1.08, "{model:?}: {} times the bytes", all.worst_bytes);
    }
}

/// Sets too large for exhaustive search: up to 500 ranges.
#[test]
fn no_plan_is_slower_than_a_simple_method() {
    for model in DEVICES.map(|(_, model)| model).into_iter().chain(FEW_AT_ONCE) {
        let mut worst = 0.0_f64;
        for seed in 0..50 {
            let mut dice = Random(seed);
            let count = 13 + dice.below(488);
            let wanted = dice.ranges(count);
            let planned = outcome(&plan(&wanted, &model, &LIMITS));
            for simple in [one_each(&wanted, &model), fixed_gap(&wanted, &model)] {
                worst = worst.max(planned.ns as f64 / simple.ns as f64);
            }
        }
        let most = if DEVICES.iter().any(|device| device.1 == model) { 1.01 } else { 1.06 };
        assert!(worst <= most, "{model:?}: {worst} times a simple method's time");
    }
}
