//! Measures replayed requests a second, on one core: `./dev bench replay [TRACE]`.
//!
//! In:    a trace of any format; without one, a block trace generated from a seed.
//! Out:   a table in Markdown, a row for each kind of replay.
//! Never: part of a test: the result depends on the machine.
//!
//! The kinds alternate, for three rounds. A run repeats its replay for at least half a second. The
//! table has its rate by the clock and by the CPU time of this thread, which other programs disturb
//! less.

#[path = "../tests/it/replay/block_trace.rs"]
mod block_trace;

use std::error::Error;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as Clock;

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_sim::cache_policy::CachePolicyKind;
use foreread_sim::device::{DeviceParams, known};
use foreread_sim::replay::{CacheUnit, Replay, ReplayGroup, ReplayPace, count_misses, replay};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::{CacheSpec, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{TraceError, TraceReader, TraceSummary};

fn main() -> Result<(), Box<dyn Error>> {
    let trace = match std::env::args_os().nth(1) {
        Some(path) => TraceSource::Recorded(path.into()),
        None => TraceSource::Made(block_trace::block_trace(REQUESTS, SEED).into()),
    };
    let summary = TraceSummary::of(trace.open()?)?;
    println!("{}\n", trace.about(&summary));
    let kinds = kinds();
    let mut runs: Vec<Vec<SpeedRun>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (kind, runs) in kinds.iter().zip(&mut runs) {
            runs.push(run(kind, &trace, &summary)?);
        }
    }
    println!("| replay | requests | requests/s | a second of the processor | ns a request |");
    println!("|---|--:|--:|--:|--:|");
    for (kind, runs) in kinds.iter().zip(&runs) {
        println!("{}", row(kind, runs));
    }
    Ok(())
}

/// Origin of the trace.
enum TraceSource {
    Recorded(PathBuf),
    Made(Arc<[u8]>),
}

impl TraceSource {
    fn open(&self) -> Result<TraceReader<'static>, TraceError> {
        match self {
            Self::Recorded(path) => TraceReader::open(path, None),
            Self::Made(bytes) => TraceReader::new(Cursor::new(Arc::clone(bytes)), "made"),
        }
    }

    fn about(&self, summary: &TraceSummary) -> String {
        let name = match self {
            Self::Recorded(path) => path
                .file_name()
                .map_or("a trace".into(), |name| format!("`{}`", name.to_string_lossy())),
            Self::Made(_) => format!("A trace made with seed {SEED}"),
        };
        let pages = (summary.read_bytes + summary.write_bytes) / PAGE_SIZE;
        let a_request = pages / summary.records().max(1);
        format!(
            "{name}: {} requests, {} of them reads, {a_request} pages each in the mean, {}.",
            summary.records(),
            summary.reads,
            summary.format.name()
        )
    }
}

/// A kind of replay.
enum SpeedKind {
    /// Only reads the trace: the upper bound of every replay.
    Reading,
    /// `replay --cache lru`, by pages or by objects.
    Lru(CacheUnit, usize),
    /// `replay --device cloud-gp3`.
    WholePath(Policy, ByteCount),
}

fn kinds() -> Vec<SpeedKind> {
    let mut kinds = vec![SpeedKind::Reading];
    kinds.extend(OBJECTS.map(|objects| SpeedKind::Lru(CacheUnit::Object, objects)));
    let pages = |memory: ByteCount| usize::try_from(memory.0 / PAGE_SIZE).expect("a count fits");
    kinds.extend(MEMORY.map(|memory| SpeedKind::Lru(CacheUnit::Page, pages(memory))));
    for policy in [Policy::Linux6, Policy::Adaptive] {
        kinds.extend(MEMORY.map(|memory| SpeedKind::WholePath(policy, memory)));
    }
    kinds
}

impl SpeedKind {
    fn name(&self) -> String {
        match self {
            Self::Reading => "the trace is read alone".to_owned(),
            Self::Lru(CacheUnit::Object, objects) => format!("`--cache lru --objects {objects}`"),
            Self::Lru(CacheUnit::Page, pages) => {
                let memory = ByteCount(u64::try_from(*pages).expect("a count fits") * PAGE_SIZE);
                format!("`--cache lru --memory {}`", Exact(memory))
            }
            Self::WholePath(policy, memory) => {
                format!("`--policy {} --memory {}`", policy.name(), Exact(*memory))
            }
        }
    }

    /// Replays the trace once and returns its number of requests.
    fn replay(&self, trace: &TraceSource, of: &TraceSummary) -> Result<u64, Box<dyn Error>> {
        match self {
            Self::Reading => {
                let mut reader = trace.open()?;
                let mut bytes = 0;
                while let Some(record) = reader.next_record()? {
                    bytes += record.length;
                }
                assert_eq!(bytes, of.read_bytes + of.write_bytes);
                Ok(of.records())
            }
            Self::Lru(unit, capacity) => {
                let policies = [CachePolicyKind::Lru];
                let counts = count_misses(trace.open()?, &policies, &[*capacity], *unit)?;
                assert!(counts[0].misses <= counts[0].uses && counts[0].uses >= of.records());
                Ok(of.records())
            }
            Self::WholePath(policy, memory) => {
                let figures = replay(&whole_path(*policy, *memory), of, &|| trace.open())?;
                assert_eq!(figures.reads + figures.failed, of.reads);
                Ok(of.reads)
            }
        }
    }
}

fn whole_path(policy: Policy, memory: ByteCount) -> Replay {
    let cache =
        CacheSpec { memory: Size(memory), policy: PolicyName(policy), ..CacheSpec::default() };
    Replay {
        cache,
        device: device(),
        pace: ReplayPace::Open { scale: 1.0 },
        is_warmed: false,
        group: ReplayGroup::Whole,
        has_picture: false,
        series: None,
        seed: DEFAULT_SEED,
    }
}

fn device() -> DeviceParams {
    known::find("cloud-gp3").expect("a known device").model
}

/// Number of requests of one run, and its duration.
struct SpeedRun {
    requests: u64,
    wall_s: f64,
    /// None if the kernel does not report it.
    cpu_s: Option<f64>,
}

fn run(
    kind: &SpeedKind,
    trace: &TraceSource,
    summary: &TraceSummary,
) -> Result<SpeedRun, Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "a measurement takes the time")]
    let began = Clock::now();
    let cpu_before = cpu_s();
    let mut requests = 0;
    loop {
        requests += kind.replay(trace, summary)?;
        let wall_s = began.elapsed().as_secs_f64();
        if wall_s >= LEAST_S {
            let cpu_s = cpu_before.zip(cpu_s()).map(|(before, after)| after - before);
            return Ok(SpeedRun { requests, wall_s, cpu_s });
        }
    }
}

/// Returns the CPU time of this thread: the first number of its `schedstat`, in ns.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|ns| ns / 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "rates")]
fn row(kind: &SpeedKind, runs: &[SpeedRun]) -> String {
    let by_clock: Vec<f64> = runs.iter().map(|run| run.requests as f64 / run.wall_s).collect();
    let by_cpu: Option<Vec<f64>> = runs
        .iter()
        .map(|run| run.cpu_s.filter(|cpu_s| *cpu_s > 0.0).map(|cpu_s| run.requests as f64 / cpu_s))
        .collect();
    let best_known = by_cpu.clone().unwrap_or_else(|| by_clock.clone());
    let ns = 1e9 / median(best_known);
    let of = if matches!(kind, SpeedKind::WholePath(..)) { "reads" } else { "all" };
    let by_cpu = by_cpu.map_or("-".to_owned(), millions);
    format!("| {} | {of} | {} | {by_cpu} | {ns:.0} |", kind.name(), millions(by_clock))
}

/// Formats median, minimum and maximum, in millions.
fn millions(mut rates: Vec<f64>) -> String {
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    format!("{:.2} M [{:.2}-{:.2}]", median(rates) / 1e6, least / 1e6, most / 1e6)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

const ROUNDS: u32 = 3;

/// Minimum duration of a run.
const LEAST_S: f64 = 0.5;

/// Length of the generated trace.
const REQUESTS: u32 = 200_000;
const SEED: u64 = 1;

const OBJECTS: [usize; 2] = [1_000, 10_000];
const MEMORY: [ByteCount; 2] = [ByteCount(64 << 20), ByteCount(1 << 30)];
