//! The simulator and the engine are one read path: the same reads, the same decisions.
//!
//! In:    reads, hints and advice, in an order; a real file for the engine, a model for the
//!        simulator.
//! Out:   each decision of both, as a line. They must be equal, under every policy.
//! Never: a comparison that hangs on time. When a device answers differs between the two, and it
//!        may: a page on its way counts as resident, and nothing here is evicted, so a decision
//!        follows from what was asked for before it, and from nothing else.
//!
//! Both end with their proof: what was done to the core, done to another, says the same.

use std::fs;
use std::path::Path;

use foreread::lab::Rules;
use foreread::{Advice, Engine, Policy, ReadStream};
use foreread_core::path::Config;
use foreread_core::prefetch::{AdaptivePart, Advice as Pattern, Without};
use foreread_core::sched::SchedulerKind;
use foreread_core::stats::Stats;
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Nanos, Pages, Sector};
use foreread_sim::device::DeviceParams;
use foreread_sim::device::Flash;
use foreread_sim::policy;
use foreread_sim::reader::SimReader;
use foreread_sim::record::RecordMode;
use foreread_sim::rng::Rng;
use foreread_sim::run::{RunOutcome, SimRun};
use foreread_sim::size::Size;
use tempfile::TempDir;

/// What a reader does, in order. Numbers are bytes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read { stream: usize, pos: u64, len: u64 },
    WillNeed { pos: u64, len: u64 },
    Advise { stream: usize, pattern: Pattern },
    DontNeed { pos: u64, len: u64 },
}

/// What came of it.
#[derive(Debug)]
struct Came {
    /// `sSTREAM pattern(req=.., ra=.., async=..) = pages`.
    decisions: Vec<String>,
    /// Pages asked from the device. Which reader they are asked for depends on time: a late reader
    /// finds pages that were asked for another.
    pages: u64,
    markers: u64,
}

#[test]
fn the_engine_decides_as_the_simulator_does() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, vec![7; usize::try_from(LEN).unwrap()]).unwrap();
    // How long streams run says what to read ahead by what a request costs, and that is measured.
    let without = Without::from_iter([AdaptivePart::Runs]);
    let plain = Rules { without, ..Rules::default() };
    for rules in [plain, Rules { snap_eof: true, backwards: true, ..plain }] {
        // Rules change few decisions: the scenario that has something of all will do for them.
        let first = if rules == plain { 0 } else { scenarios().len() - 1 };
        // What `distance` does follows from waits, and those are of real time in the engine.
        for policy in policy::ALL.into_iter().filter(|policy| *policy != policy::DISTANCE) {
            for (name, steps) in scenarios().split_off(first) {
                let what = format!("{name}, {}, {rules:?}", policy.name());
                let engine = by_engine(&path, policy, rules, &steps, &what);
                let sim = by_simulator(policy, rules, &steps, &what);
                assert!(engine.decisions.len() >= 2, "{what}: {:?}", engine.decisions);
                for (at, (engine, sim)) in engine.decisions.iter().zip(&sim.decisions).enumerate() {
                    assert_eq!(engine, sim, "{what}: decision {at}");
                }
                let ends = |came: &Came| (came.decisions.len(), came.pages, came.markers);
                assert_eq!(ends(&engine), ends(&sim), "{what}");
            }
        }
    }
}

fn by_engine(path: &Path, policy: Policy, rules: Rules, steps: &[Step], what: &str) -> Came {
    let builder = Engine::builder().memory(MEMORY).policy(policy).rules(rules);
    let builder = builder.max_window(WINDOW.0 * 4096).trace(1 << 20).record(usize::MAX);
    let engine = builder.build().unwrap();
    let file = engine.open(path).unwrap();
    let streams: Vec<ReadStream> = (0..STREAMS).map(|_| file.stream()).collect();
    for step in steps {
        match *step {
            Step::Read { stream, pos, len } => {
                let mut buffer = vec![0; usize::try_from(len).unwrap()];
                let got = streams[stream].read_at(&mut buffer, pos).unwrap();
                assert_eq!(got as u64, len.min(LEN - pos), "{what}: {step:?}");
                assert!(buffer[..got].iter().all(|byte| *byte == 7), "{what}: {step:?}");
            }
            Step::WillNeed { pos, len } => {
                file.will_need(std::iter::once(pos..pos + len)).unwrap();
            }
            Step::Advise { stream, pattern } => streams[stream].advise(match pattern {
                Pattern::Normal => Advice::Normal,
                Pattern::Sequential => Advice::Sequential,
                Pattern::Random => Advice::Random,
            }),
            Step::DontNeed { pos, len } => file.dont_need(pos..pos + len).unwrap(),
        }
    }
    let decided = |what| match what {
        EventKind::Decided { stream, decided } => Some(format!("s{} {decided}", stream.index())),
        EventKind::Dispatched { .. } | EventKind::Arrived { .. } | EventKind::Completed { .. } => {
            None
        }
    };
    let events = engine.take_trace().unwrap();
    let decisions = events.into_iter().filter_map(|event| decided(event.what)).collect();
    let counters = engine.counters().unwrap();
    assert_eq!(counters.markers_dropped + counters.cache.evictions, 0, "{what}");
    drop((streams, file));
    engine.replay().unwrap_or_else(|mismatch| panic!("{what}: the engine's replay: {mismatch}"));
    came(decisions, &counters.path)
}

fn by_simulator(policy: Policy, rules: Rules, steps: &[Step], what: &str) -> Came {
    let lines = run(policy, rules, steps, RecordMode::Lines);
    let recorded = run(policy, rules, steps, RecordMode::Log);
    assert_eq!(recorded.hash, lines.hash, "{what}: what is kept changes nothing");
    recorded.replay().unwrap_or_else(|mismatch| panic!("{what}: the run's replay: {mismatch}"));
    let decided = |line: &str| {
        let (_, event) = line.split_once(' ')?;
        event.starts_with('s').then(|| event.to_owned())
    };
    let decisions = lines.lines.iter().filter_map(|line| decided(line)).collect();
    assert_eq!(lines.cache.evictions, 0, "{what}");
    came(decisions, &lines.stats)
}

fn run(policy: Policy, rules: Rules, steps: &[Step], keep: RecordMode) -> RunOutcome {
    let config = Config { memory: ByteCount(MEMORY), policy, max_window: WINDOW, rules };
    let mut run = SimRun::new(config, 1, keep).unwrap();
    let model = DeviceParams::Flash(Flash {
        capacity: Size(ByteCount(1 << 30)),
        mb_per_s: 500.0,
        overhead_us: 100.0,
        // As the engine asks a regular file.
        max_command: Size(ByteCount(1 << 20)),
        channels: 4,
        depth: 32,
        stall_us: 0.0,
        stall_size: Size::default(),
        jitter: 0.0,
    });
    let device = run.device("flash", &model, &SchedulerKind::Noop).unwrap();
    let file = run.file(device, Sector(0), ByteCount(LEN));
    let steps = steps.to_vec();
    run.spawn("", async move |process| {
        let readers: Vec<SimReader> = (0..STREAMS).map(|_| process.open(file)).collect();
        for step in steps {
            match step {
                Step::Read { stream, pos, len } => {
                    readers[stream].read(ByteCount(pos), ByteCount(len)).await.unwrap();
                }
                Step::WillNeed { pos, len } => readers[0].will_need(ByteCount(pos), ByteCount(len)),
                Step::Advise { stream, pattern } => readers[stream].advise(pattern),
                Step::DontNeed { pos, len } => readers[0].forget(ByteCount(pos), ByteCount(len)),
            }
        }
    });
    run.go(Nanos(u64::MAX));
    run.end()
}

fn came(decisions: Vec<String>, stats: &Stats) -> Came {
    let pages = stats.pages_missed + stats.pages_ahead + stats.pages_hinted;
    Came { decisions, pages, markers: stats.markers }
}

fn scenarios() -> Vec<(&'static str, Vec<Step>)> {
    let read =
        |stream, page: u64, pages: u64| Step::Read { stream, pos: page * 4096, len: pages * 4096 };
    let mut rng = Rng::new(5);
    let anywhere: Vec<_> = (0..300)
        .map(|_| Step::Read { stream: 0, pos: rng.below(LEN), len: 1 + rng.below(40_000) })
        .collect();
    let mixed = mixed(&mut rng);
    // Streams are named by their first read.
    let by_name = (0..STREAMS).map(|stream| read(stream, 100 * stream as u64, 1));
    let mixed = by_name.chain(mixed).collect();
    vec![
        ("a page at a time", (0..1500).map(|page| read(0, page, 1)).collect()),
        ("to the end, in pieces", {
            let piece = |at| Step::Read { stream: 0, pos: at * 3001, len: 3001 };
            (0..LEN / 3001).map(piece).collect()
        }),
        ("much at a time", (0..20).map(|at| read(0, at * 100, 100)).collect()),
        (
            "two streams through one handle",
            (0..300).flat_map(|page| [read(0, page, 1), read(0, 1000 + page, 1)]).collect(),
        ),
        (
            "three handles in turns",
            (0..150)
                .flat_map(|at| (0..3).map(move |s| read(s, 600 * s as u64 + at * 4, 4)))
                .collect(),
        ),
        ("backwards", (0..400).rev().map(|page| read(0, page, 1)).collect()),
        ("every seventh page", (0..200).map(|at| read(0, at * 7, 1)).collect()),
        ("anywhere", anywhere),
        ("a hint before a run", {
            let hint = [read(0, 0, 1), Step::WillNeed { pos: 50 * 4096, len: 400 * 4096 }];
            hint.into_iter().chain((1..600).map(|page| read(0, page, 1))).collect()
        }),
        ("advice: sequential, random, none", {
            let mut steps = Vec::new();
            for (at, pattern) in
                [Pattern::Sequential, Pattern::Random, Pattern::Normal].into_iter().enumerate()
            {
                steps.push(Step::Advise { stream: 0, pattern });
                steps.extend((0..200).map(|page| read(0, at as u64 * 200 + page, 1)));
            }
            steps
        }),
        ("what was forgotten, again", {
            let once = (0..300).map(|page| read(0, page, 1));
            let forget = Step::DontNeed { pos: 40 * 4096, len: 200 * 4096 };
            once.clone().chain([forget]).chain(once).collect()
        }),
        ("all of it at once", mixed),
    ]
}

/// Reads, hints and advice of several streams, in any order.
fn mixed(rng: &mut Rng) -> Vec<Step> {
    let mut mixed = Vec::new();
    let mut cursors = [0, LEN / 3, LEN / 2];
    for _ in 0..500 {
        let stream = usize::try_from(rng.below(STREAMS as u64)).unwrap();
        let (pos, len) = (rng.below(LEN - (1 << 20)), rng.below(60) * 4096 + 4096);
        match rng.below(12) {
            0 => mixed.push(Step::WillNeed { pos, len }),
            1 => mixed.push(Step::DontNeed { pos: pos / 4096 * 4096, len }),
            2 => {
                let pattern = Pattern::ALL[usize::try_from(rng.below(3)).unwrap()];
                mixed.push(Step::Advise { stream, pattern });
            }
            3 => mixed.push(Step::Read { stream, pos, len }),
            _ => {
                let len = 1 + rng.below(20_000);
                mixed.push(Step::Read { stream, pos: cursors[stream], len });
                cursors[stream] = (cursors[stream] + len) % (LEN - 30_000);
            }
        }
    }
    mixed
}

/// Not whole pages.
const LEN: u64 = 2000 * 4096 - 100;

/// Room for all of it: nothing is evicted.
const MEMORY: u64 = 64 << 20;

const WINDOW: Pages = Pages(32);

const STREAMS: usize = 3;
