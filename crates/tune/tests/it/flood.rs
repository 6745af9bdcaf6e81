//! What the mixed load makes of devices that are known, in virtual time.
//!
//! In:    models of devices: what each setting gives, noise, drift, trouble.
//! Out:   recommendations, and what is left behind.
//! Never: real time. A failure names its seed.

mod model;

use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_tune::flood::{
    FloodOutcome, FloodReport, MixedSample, Trial, TrialRuns, measure, trials, verdict,
};
use foreread_tune::probe::Stopped;
use model::{Figures, Model, Rng, State, Trouble};

const BUDGET: Duration = Duration::from_secs(20);

fn run(model: &mut Model<'_>, seed: u64) -> FloodOutcome {
    let offer = model.offer();
    measure(model, &offer, BUDGET, seed, &mut |_| {})
}

fn named(report: &FloodReport) -> Vec<String> {
    let it = report.recommended.iter();
    it.map(|setting| format!("{}={}", setting.attribute, setting.value)).collect()
}

/// One head, 4.2 ms a request, 128 tags: measured with this load on a loop device over a delayed
/// server, Linux 6.18 (docs/guide/tune-scheduler.md).
fn deep(state: &State) -> Figures {
    let depth = state.tunables.get("async_depth").copied().unwrap_or(64).min(64);
    // As many writes lie before a read as may be queued; the rest is the read's own.
    one_head(depth as f64)
}

/// The same with 4 tags: the writes wait in the scheduler, so its batches count.
fn shallow(state: &State) -> Figures {
    // Without a scheduler all wait in a line for one of the tags.
    let Some(fifo_batch) = state.tunables.get("fifo_batch") else { return one_head(127.0) };
    let async_depth = state.tunables.get("async_depth").copied().unwrap_or(64);
    one_head((4.25 + 0.75 * *fifo_batch as f64).min(async_depth as f64))
}

fn one_head(writes_before: f64) -> Figures {
    let read_us = 4200.0 * (1.0 + writes_before);
    Figures { read_us, writes_per_s: 238.0 - 1e6 / read_us }
}

fn flat(_: &State) -> Figures {
    Figures { read_us: 900.0, writes_per_s: 8000.0 }
}

#[test]
fn a_deep_queue_wants_few_writes_in_it() {
    let mut more = 0;
    for seed in 0..50 {
        let mut model = Model::new(State::new("mq-deadline", 128), &deep, seed);
        model.noise = 0.05;
        model.overhead = Duration::from_millis(400);
        let FloodOutcome { report, stopped } = run(&mut model, seed);
        assert_eq!(stopped, None);
        let names = named(&report);
        assert_eq!(names[0], "queue/iosched/async_depth=4", "seed {seed}: {}", report.why);
        // `fifo_batch` makes no difference here, so it belongs to it by luck only.
        more += u32::from(names.len() > 1);
        assert!(report.restored && report.seconds <= 22.0, "seed {seed}: {} s", report.seconds);
    }
    assert!(more <= 2, "{more} of 50 change more than pays");
}

#[test]
fn a_shallow_queue_of_an_old_kernel_wants_short_batches() {
    for seed in 0..50 {
        let mut model = Model::new(State::new("mq-deadline", 4), &shallow, seed);
        model.state.tunables.remove("async_depth");
        model.has_async_depth = false;
        model.noise = 0.05;
        let FloodOutcome { report, .. } = run(&mut model, seed);
        assert_eq!(named(&report), ["queue/iosched/fifo_batch=1"], "seed {seed}: {}", report.why);
        let missing = report.notes.iter().filter(|note| note.contains("async_depth")).count();
        assert_eq!(missing, 4, "each of them is named: {:?}", report.notes);
    }
}

#[test]
fn where_nothing_matters_nothing_is_changed() {
    let mut changed = 0;
    for seed in 0..400 {
        let mut model = Model::new(State::new("mq-deadline", 64), &flat, seed);
        model.noise = 0.01 + 0.09 * (seed % 10) as f64 / 9.0;
        let FloodOutcome { report, .. } = run(&mut model, seed);
        changed += u32::from(!report.recommended.is_empty());
    }
    assert!(changed <= 4, "{changed} of 400 changed something for nothing");
}

/// A disk that slows down while it is flooded, by 1 % a run: what runs first seems better.
#[test]
fn a_device_that_slows_down_is_no_reason() {
    for seed in 0..100 {
        let mut model = Model::new(State::new("none", 64), &flat, seed);
        (model.noise, model.drift) = (0.02, 0.01);
        let FloodOutcome { report, .. } = run(&mut model, seed);
        assert_eq!(named(&report), [""; 0], "seed {seed}: {}", report.why);
    }
}

/// Reads that get faster at the price of an idle device are not worth it.
#[test]
fn writers_are_not_given_up() {
    let figures = |state: &State| match state.tunables.get("async_depth") {
        Some(0..=16) => Figures { read_us: 300.0, writes_per_s: 900.0 },
        _ => Figures { read_us: 900.0, writes_per_s: 9000.0 },
    };
    let mut model = Model::new(State::new("mq-deadline", 64), &figures, 1);
    let FloodOutcome { report, .. } = run(&mut model, 1);
    assert_eq!(named(&report), [""; 0], "{}", report.why);
}

/// Any table of a device: what is recommended costs little against the best of the table, or
/// nothing is recommended and that costs little more than what a change has to gain.
#[test]
fn what_is_recommended_is_nearly_the_best() {
    const TABLES: u64 = 600;
    let (mut costly, mut missed) = (Vec::new(), Vec::new());
    for seed in 0..TABLES {
        let base = 10.0_f64.powf(3.0 + 2.0 * Rng(seed).unit());
        let figures = |state: &State| table(state, seed, base);
        let mut model = Model::new(State::new("mq-deadline", 64), &figures, seed);
        model.noise = 0.01 + 0.09 * (seed % 10) as f64 / 9.0;
        let offer = model.offer();
        let found = model.state.clone();
        let FloodOutcome { report, .. } = run(&mut model, seed);
        assert_eq!(model.state, found, "seed {seed}");
        let best = true_best(&found, &trials(&offer), &figures);
        let (now, chosen) = (figures(&found), figures(&applied(&found, &report)));
        let regret = chosen.read_us / best - 1.0;
        if report.recommended.is_empty() {
            // What a change has to gain, and what 10 % of noise hides.
            missed.extend((regret > 0.25).then_some((seed, regret)));
        } else {
            assert!(chosen.read_us < now.read_us, "seed {seed}: it is worse: {}", report.why);
            costly.extend((regret > 0.05).then_some((seed, regret)));
        }
    }
    println!("costly: {costly:?}\nmissed: {missed:?}");
    assert!(costly.len() as u64 * 100 <= TABLES * 2, "{costly:?}");
    assert!(missed.len() as u64 * 100 <= TABLES * 2, "{missed:?}");
}

/// Each setting has its own factor, between half and twice, and writers hardly care.
fn table(state: &State, seed: u64, base: f64) -> Figures {
    let key = |name: &str| state.tunables.get(name).copied().unwrap_or(0);
    let state_seed = [key("fifo_batch"), key("async_depth"), state.nr_requests]
        .iter()
        .fold(seed + state.scheduler.len() as u64 * 1000, |sum, key| {
            sum.wrapping_mul(1_000_003).wrapping_add(*key)
        });
    let mut rng = Rng(state_seed);
    rng.unit();
    let read_us = base * 2.0_f64.powf(2.0 * rng.unit() - 1.0);
    Figures { read_us, writes_per_s: 1e7 / base * (0.95 + 0.05 * rng.unit()) }
}

/// What the device has after all of it is set.
fn applied(found: &State, report: &FloodReport) -> State {
    use foreread_tune::flood::MixedLoad as _;
    let mut model = Model::new(found.clone(), &flat, 0);
    for setting in &report.recommended {
        model.set(setting).expect("what is recommended can be set");
    }
    model.state
}

/// The fastest reads of the table whose writers have enough.
fn true_best(found: &State, trials: &[Trial], figures: &dyn Fn(&State) -> Figures) -> f64 {
    use foreread_tune::flood::MixedLoad as _;
    let all = trials.iter().map(|trial| {
        let mut model = Model::new(found.clone(), &flat, 0);
        let mut set = |name: &str, value: String| {
            let (device, attribute) = ("vdz".to_owned(), format!("queue/{name}"));
            let setting = foreread_tune::setting::DeviceSetting { device, attribute, value };
            model.set(&setting).expect("it can be set");
        };
        set("scheduler", trial.scheduler.clone().expect("it has one"));
        for (name, value) in &trial.changes {
            set(name, value.to_string());
        }
        figures(&model.state).read_us
    });
    all.fold(f64::INFINITY, f64::min)
}

/// Settings that are not the defaults, seen and unseen, come back; also without a scheduler and
/// from one that is not tried otherwise.
#[test]
fn everything_comes_back() {
    let unusual = State::new("mq-deadline", 7).with("fifo_batch", 3).with("async_depth", 40);
    let unusual = State { nr_requests: 50, ..unusual.with("read_expire", 99) };
    for found in [unusual, State::new("none", 64), State::new("bfq", 4).with("low_latency", 0)] {
        for seed in 0..20 {
            let mut model = Model::new(found.clone(), &deep, seed);
            let FloodOutcome { report, .. } = run(&mut model, seed);
            assert_eq!(model.state, found, "seed {seed}");
            assert!(report.restored && report.rows.len() > 5, "seed {seed}: {:?}", report.rows);
        }
    }
}

#[test]
fn everything_comes_back_whenever_it_is_interrupted() {
    for found in [State::new("mq-deadline", 4).with("fifo_batch", 3), State::new("none", 64)] {
        for run_number in 1..40 {
            let mut model = Model::new(found.clone(), &deep, 7);
            model.trouble = Trouble::Run(run_number);
            let FloodOutcome { report, stopped } = run(&mut model, 7);
            assert_eq!(model.state, found, "run {run_number}");
            if model.runs < run_number {
                continue;
            }
            assert_eq!(stopped, Some(Stopped::Interrupted), "run {run_number}");
            assert!(report.restored && report.recommended.is_empty(), "run {run_number}");
            let runs: u64 = report.rows.iter().map(|row| row.runs).sum();
            assert_eq!(runs, u64::from(run_number) - 1, "what was measured is told");
        }
    }
}

/// One call that fails loses its trial, or is told if it was to put something back.
#[test]
fn a_setting_that_is_refused_is_told() {
    let found = State::new("mq-deadline", 64);
    for number in 1..120 {
        let mut model = Model::new(found.clone(), &deep, 7);
        model.trouble = Trouble::Set(number);
        let FloodOutcome { report, .. } = run(&mut model, 7);
        if model.sets < number {
            continue;
        }
        assert!(!report.notes.is_empty(), "call {number}");
        assert_eq!(report.restored, model.state == found, "call {number}: {:?}", report.notes);
    }
}

/// A container's sysfs: root, and nothing can be set. It is asked once, not for each trial.
#[test]
fn a_read_only_system_is_asked_once() {
    let found = State::new("mq-deadline", 64);
    let mut model = Model::new(found.clone(), &deep, 7);
    model.trouble = Trouble::ReadOnly;
    let FloodOutcome { report, stopped } = run(&mut model, 7);
    assert_eq!((model.sets, stopped), (1, None));
    assert_eq!((model.state, report.restored, report.rows.len()), (found, true, 1));
    let [note] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(note.starts_with("only the current settings were measured: "), "{note}");
}

/// The chain is faster as a whole, but each hundredth read takes ten times as long as before: worse
/// for a program that waits for a single read.
#[test]
fn slow_reads_that_get_slower_are_no_gain() {
    let sample = |us: u64, slow_us: u64| MixedSample {
        reads_ns: (0..200).map(|n| 1000 * if n % 50 == 0 { slow_us } else { us }).collect(),
        written: ByteCount(64 << 20),
        ns: 1_000_000_000,
    };
    let tried = |slow_us: u64| {
        let mut base = TrialRuns::new(Trial::default());
        let mut other =
            TrialRuns::new(Trial { scheduler: None, changes: vec![("nr_requests", 8)] });
        for round in 0..6 {
            base.runs.push((round, sample(1000 + u64::from(round), 1000)));
            other.runs.push((round, sample(100 + u64::from(round), slow_us)));
        }
        verdict(&[base, other], true)
    };
    assert_eq!(tried(1000).choice, Some(1));
    let refused = tried(10_000);
    assert_eq!(refused.choice, None);
    assert!(refused.why.ends_with("but its slow reads are slower"), "{}", refused.why);
}

#[test]
fn without_leave_to_set_only_what_is_in_force_is_measured() {
    let mut model = Model::new(State::new("mq-deadline", 64), &deep, 7);
    let mut offer = model.offer();
    offer.may_set = false;
    let FloodOutcome { report, stopped } = measure(&mut model, &offer, BUDGET, 7, &mut |_| {});
    assert_eq!((model.sets, stopped), (0, None));
    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.rows[0].name, "mq-deadline");
    assert_eq!(report.why, "nothing else could be tried");
}

/// 64 writes of 100 ms each lie before a read, and as many have to end before a run does.
#[test]
fn on_a_very_slow_device_the_most_promising_are_tried() {
    let figures = |state: &State| {
        let Figures { read_us, writes_per_s } = deep(state);
        Figures { read_us: read_us * 24.0, writes_per_s: writes_per_s / 24.0 }
    };
    let mut model = Model::new(State::new("mq-deadline", 64), &figures, 7);
    model.overhead = Duration::from_secs(12);
    let FloodOutcome { report, .. } = run(&mut model, 7);
    let names: Vec<_> = report.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["mq-deadline", "mq-deadline, async_depth 4", "mq-deadline, fifo_batch 1"]);
    assert!(
        report.notes.iter().any(|note| note.contains("the device is slow")),
        "{:?}",
        report.notes
    );
    assert!(report.seconds < 150.0, "{} s", report.seconds);
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let mut model = Model::new(State::new("mq-deadline", 128), &deep, 7);
    let FloodOutcome { report, .. } = run(&mut model, 7);
    let text = serde_json::to_string(&report).expect("it is written");
    let again: FloodReport = serde_json::from_str(&text).expect("it is read");
    assert_eq!(again.rows.len(), report.rows.len());
    assert_eq!(again.recommended, report.recommended);
}
