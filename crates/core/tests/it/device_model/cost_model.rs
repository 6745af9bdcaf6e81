//! Convergence of the range planner's cost model on four devices in virtual time: the tables of
//! docs/design/ranges.md.

use foreread_core::ranges::CostModel;

use super::device::{KIB, MS, Model, ONE_HEAD, Run, US};

/// The devices of the planner's tests; each slot has its share of the total bandwidth.
const DEVICES: [(&str, Model); 4] = [
    ("one head", Model { bytes_per_s: 100_000_000, ..ONE_HEAD }),
    ("8 at once", Model { per_request_ns: MS, bytes_per_s: 125_000_000, parallel: 8, ..ONE_HEAD }),
    ("store", Model { per_request_ns: 20 * MS, bytes_per_s: 80_000_000, parallel: 64, ..ONE_HEAD }),
    ("NVMe", Model { per_request_ns: 80 * US, bytes_per_s: 93_750_000, parallel: 32, ..ONE_HEAD }),
];

const SIZES: [u64; 2] = [16 * KIB, 256 * KIB];

fn learnt(run: &Run) -> CostModel {
    CostModel::learnt(&run.model(), run.estimator.min_parallel())
}

fn off_per_cent(got: u64, want: u64) -> f64 {
    (got as f64 - want as f64).abs() / want as f64 * 100.0
}

/// Eight single requests of two alternating sizes, and eight small ones at once.
fn sixteen(model: Model) -> Run {
    let mut run = Run::of(model);
    for _ in 0..4 {
        run.lone(1, &SIZES[..1]);
        run.lone(1, &SIZES[1..]);
    }
    for _ in 0..8 {
        run.dispatch(SIZES[0]);
    }
    (0..8).for_each(|_| run.complete(0));
    run
}

/// Costs are within the goal of 10 %; parallelism only on the device with one head.
#[test]
fn after_16_requests_costs_are_known_and_parallelism_is_not() {
    for (name, model) in DEVICES {
        let got = learnt(&sixteen(model));
        let latency = off_per_cent(got.latency_ns, model.per_request_ns);
        let bandwidth = off_per_cent(got.connection_bytes_per_s, model.bytes_per_s);
        assert!(latency <= 1.0, "{name}: latency is {latency} % off");
        assert!(bandwidth <= 1.0, "{name}: bandwidth is {bandwidth} % off");
        assert_eq!(got.parallel, 1, "{name}: two bursts tell, and this was one");
    }
}

/// With 20 % noise, a line through eight samples is less certain.
#[test]
fn after_16_noisy_requests_the_cost_of_a_request_is_roughly_known() {
    for (name, model) in DEVICES {
        let (mut worst, mut within_10) = (0.0_f64, 0);
        for seed in 0..100 {
            let noisy = Model { noise: 20, ..model };
            let mut run = Run::of(noisy);
            run.dice.0 = seed;
            for _ in 0..4 {
                run.lone(1, &SIZES[..1]);
                run.lone(1, &SIZES[1..]);
            }
            run.load(8, 8, &SIZES);
            let got = learnt(&run);
            let time =
                |request: u64, bytes_per_s: u64| request + 64 * KIB * 1_000_000_000 / bytes_per_s;
            let want = time(model.per_request_ns, model.bytes_per_s);
            let off = off_per_cent(time(got.latency_ns, got.connection_bytes_per_s), want);
            worst = worst.max(off);
            within_10 += u32::from(off <= 10.0);
        }
        assert!(within_10 >= 97 && worst <= 14.0, "{name}: {within_10}, worst {worst} %");
    }
}

/// Number of requests until parallelism is within 10 %, with twice as many in flight as the device
/// serves at once.
#[test]
fn parallelism_is_known_after_some_rounds_of_more_requests_than_are_served() {
    for ((name, model), known_after) in DEVICES.into_iter().zip([16, 32, 272, 144]) {
        let mut run = sixteen(model);
        let mut count = 16;
        let want = model.parallel as u64;
        while off_per_cent(u64::from(learnt(&run).parallel), want) > 10.0 {
            assert!(count < 10_000, "{name}: never");
            let burst = 2 * model.parallel;
            (0..burst).for_each(|_| run.dispatch(16 * KIB));
            (0..burst).for_each(|_| run.complete(0));
            count += burst;
        }
        assert_eq!(count, known_after, "{name}");
    }
}
