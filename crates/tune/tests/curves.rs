//! Plateaus of noisy curves: a whole sweep, its minute included, over a thousand devices.
//!
//! In:    seeds; the shapes of real devices and of some that are harder.
//! Out:   the window is the right one, or one that costs at most 2 % of throughput.
//! Never: a curve left out because it is hard.

mod virtual_device;

use foreread_core::units::Bytes;
use foreread_tune::sweep::{Outcome, Settings, Sweep};
use virtual_device::{Rng, Virtual, right_step};

const CASES: u64 = 1200;

type Curve = std::rc::Rc<dyn Fn(u64) -> f64>;

struct Case {
    name: String,
    curve: Curve,
    noise: f64,
    stalls: f64,
    drift: f64,
}

fn case(seed: u64) -> Case {
    let mut rng = Rng(seed.wrapping_mul(0x1234_5678_9ABC_DEF1));
    let columns = columns();
    let (name, curve): (String, Curve) = match seed % 6 {
        0 | 1 => {
            let overhead_us = 10.0_f64.powf(rng.range(0.7, 3.8));
            let mb_per_s = 10.0_f64.powf(rng.range(1.3, 3.7));
            (
                format!("saturating {overhead_us:.0} us {mb_per_s:.0} MB/s"),
                saturating(overhead_us, mb_per_s),
            )
        }
        2 => {
            let index = (seed / 6) as usize % columns.len();
            let (name, points) = columns[index].clone();
            (name, through(points))
        }
        3 if seed % 12 < 6 => ("D1".into(), through(D1.to_vec())),
        3 => ("D2".into(), through(D2.to_vec())),
        4 => {
            let mb_per_s = 10.0_f64.powf(rng.range(1.0, 4.0));
            ("flat".into(), std::rc::Rc::new(move |_| mb_per_s))
        }
        _ => {
            let at = 1_u64 << (14.0 + rng.range(0.0, 10.0)) as u32;
            let deep = rng.range(0.7, 0.95);
            let whole = saturating(10.0_f64.powf(rng.range(1.0, 3.0)), rng.range(50.0, 2000.0));
            let name = format!("dip to {deep:.2} at {}K", at >> 10);
            (
                name,
                std::rc::Rc::new(move |window| {
                    whole(window) * if window == at { deep } else { 1.0 }
                }),
            )
        }
    };
    let noise = rng.range(0.01, 0.10);
    let stalls = if rng.unit() < 0.5 { rng.range(0.0, 0.08) } else { 0.0 };
    let drift = if rng.unit() < 0.5 { rng.range(0.0, 0.08) } else { 0.0 };
    Case { name, curve, noise, stalls, drift }
}

/// w / (a + b w): a price for each window and a rate.
fn saturating(overhead_us: f64, mb_per_s: f64) -> Curve {
    std::rc::Rc::new(move |window| {
        let window = window as f64;
        window / (overhead_us + window / mb_per_s)
    })
}

/// A curve through points (KiB, MB/s), flat behind the last.
fn through(points: Vec<(u64, f64)>) -> Curve {
    std::rc::Rc::new(move |window| {
        let kib = window as f64 / 1024.0;
        let after = points.iter().position(|(at, _)| *at as f64 >= kib);
        let Some(after) = after else { return points[points.len() - 1].1 };
        if after == 0 {
            return points[0].1;
        }
        let ((low, slow), (high, fast)) = (points[after - 1], points[after]);
        let share = (kib / low as f64).ln() / (high as f64 / low as f64).ln();
        slow * (fast / slow).powf(share)
    })
}

/// The lab's devices: 4 ms a request one at a time, and 1 ms eight at a time.
const D1: [(u64, f64); 11] = [
    (4, 1.0),
    (8, 1.97),
    (16, 3.9),
    (32, 7.9),
    (64, 15.7),
    (128, 30.4),
    (256, 61.1),
    (512, 119.7),
    (1024, 220.7),
    (2048, 227.5),
    (4096, 219.3),
];
const D2: [(u64, f64); 12] = [
    (4, 3.5),
    (8, 10.0),
    (16, 26.9),
    (32, 55.7),
    (64, 103.3),
    (128, 179.3),
    (256, 370.0),
    (512, 615.0),
    (1024, 923.0),
    (2048, 1248.0),
    (4096, 1462.0),
    (8192, 1524.0),
];

/// The eight published columns: the mean of the runs.
fn columns() -> Vec<(String, Vec<(u64, f64)>)> {
    let text = include_str!("../../sim/data/seed-tables/000_readahead_throughput.csv");
    let mut columns: Vec<(String, Vec<(u64, Vec<f64>)>)> = Vec::new();
    for line in text.lines().skip(1) {
        let mut fields = line.rsplitn(7, ',').collect::<Vec<_>>();
        fields.reverse();
        let (name, kib) = (fields[0].trim_matches('"'), fields[1].parse().expect("KiB"));
        let mb_per_s: f64 = fields[3].parse().expect("MB/s");
        if columns.last().is_none_or(|(last, _)| last != name) {
            columns.push((name.into(), Vec::new()));
        }
        let points = &mut columns.last_mut().expect("a column").1;
        match points.last_mut() {
            Some((at, runs)) if *at == kib => runs.push(mb_per_s),
            _ => points.push((kib, vec![mb_per_s])),
        }
    }
    let mean = |runs: Vec<f64>| runs.iter().sum::<f64>() / runs.len() as f64;
    columns
        .into_iter()
        .map(|(name, points)| {
            (name, points.into_iter().map(|(kib, runs)| (kib, mean(runs))).collect())
        })
        .collect()
}

/// What a sweep came to.
struct Came {
    cost: f64,
    is_exact: bool,
    is_within: bool,
    rows: u32,
    rows_within: u32,
    seconds: f64,
    line: String,
}

fn sweep(seed: u64, settings: Settings, noise: Option<f64>) -> (Case, Came) {
    let mut case = case(seed);
    case.noise = noise.unwrap_or(case.noise);
    let curve = case.curve.clone();
    let mut device =
        Virtual::new(seed, move |window| curve(window)).noisy(case.noise, case.stalls, case.drift);
    let budget = settings.budget.as_secs_f64();
    let outcome: Outcome = Sweep::new(settings).run(&mut device, &mut |_| ());
    assert!(device.seconds() <= budget, "seed {seed}: {} s", device.seconds());
    assert_eq!(outcome.stopped, None, "seed {seed}");
    let found = outcome.plateau.unwrap_or_else(|| {
        panic!(
            "seed {seed} {} {:.3}: {} {:?}",
            case.name,
            case.noise,
            outcome.rows.len(),
            outcome.notes
        )
    });
    let right = right_step(&*case.curve, 16 << 20);
    let at = |window: Bytes| (case.curve)(window.0);
    let largest = at(Bytes(16 << 20));
    let share = |row: f64| row / outcome.rows.last().expect("rows").mb_per_s;
    let _ = (largest, share);
    let rows_within = outcome
        .rows
        .iter()
        .filter(|row| {
            let truth = (case.curve)(row.window_kib << 10);
            row.low <= truth && truth <= row.high
        })
        .count();
    let came = Came {
        cost: 1.0 - at(found.window) / at(Bytes(right)),
        is_exact: found.window.0 == right,
        is_within: found.low.0 <= right && right <= found.high.0,
        rows: outcome.rows.len() as u32,
        rows_within: rows_within as u32,
        seconds: outcome.seconds,
        line: format!(
            "seed {seed} {}: right {}K, found {}K [{}K-{}K], noise {:.1} %, stalls {:.1} %, drift {:.1} %, {:.0} s, largest {}K, {:?}",
            case.name,
            right >> 10,
            found.window.0 >> 10,
            found.low.0 >> 10,
            found.high.0 >> 10,
            case.noise * 100.0,
            case.stalls * 100.0,
            case.drift * 100.0,
            outcome.seconds,
            outcome.rows.last().unwrap().window_kib,
            outcome.notes
        ),
    };
    (case, came)
}

fn all(seeds: std::ops::Range<u64>, settings: &Settings, noise: Option<f64>, most: f64) {
    let mut wrong = Vec::new();
    let (mut n, mut exact, mut within, mut rows, mut rows_within, mut seconds) =
        (0, 0, 0, 0, 0, 0.0);
    for seed in seeds {
        let (_, came) = sweep(seed, settings.clone(), noise);
        n += 1;
        exact += u32::from(came.is_exact);
        within += u32::from(came.is_within);
        rows += came.rows;
        rows_within += came.rows_within;
        seconds += came.seconds;
        if came.cost > most {
            wrong.push(format!("costs {:.1} %: {}", came.cost * 100.0, came.line));
        }
    }
    eprintln!(
        "{n} curves: {exact} exact, {within} within, rows {rows_within}/{rows}, {:.1} s each, {} wrong\n{}",
        seconds / f64::from(n),
        wrong.len(),
        wrong.join("\n")
    );
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_full_sweep() {
    all(0..CASES, &Settings::full(Bytes(64 << 30)), None, 0.02);
}
#[test]
fn a_quick_sweep() {
    all(0..300, &Settings::quick(Bytes(64 << 30)), Some(0.02), 0.02);
}
