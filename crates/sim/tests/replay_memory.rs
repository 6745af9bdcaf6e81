//! What a replay allocates for each thread of its trace.
//!
//! A process of its own, so that what is counted is the replay's.

#[path = "../../engine/tests/allocations/counter.rs"]
mod counter;

use std::fmt::Write as _;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use counter::allocated_bytes;
use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::device::known;
use foreread_sim::replay::{Replay, ReplayGroup, ReplayPace, replay};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::{CacheSpec, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{TraceReader, TraceSummary};

/// The most that was allocated when a replay read on in its trace.
static MOST: AtomicU64 = AtomicU64::new(0);

/// A trace that notes how much is allocated whenever a replay reads on.
struct ProbedTrace(&'static [u8]);

impl Read for ProbedTrace {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        MOST.fetch_max(allocated_bytes(), Ordering::Relaxed);
        self.0.read(buffer)
    }
}

/// The most that a replay of so many threads has allocated, in bytes. All of them read at once.
fn most_of(threads: u64) -> u64 {
    let mut text = "time_us,thread,op,file,offset,length\n".to_owned();
    for thread in 0..threads {
        let _ = writeln!(text, "0,{thread},r,/data,{},4096", thread * 4096);
    }
    let text: &'static str = text.leak();
    let open = || TraceReader::new(ProbedTrace(text.as_bytes()), "t");
    let summary = TraceSummary::of(open().unwrap()).unwrap();
    let how = Replay {
        cache: CacheSpec {
            memory: Size(ByteCount(4 << 20)),
            policy: PolicyName(Policy::None),
            ..CacheSpec::default()
        },
        device: known::find("cloud-gp3").unwrap().model,
        pace: ReplayPace::Closed { think: 1.0 },
        is_warmed: false,
        group: ReplayGroup::Whole,
        has_picture: false,
        series: None,
        seed: DEFAULT_SEED,
    };
    MOST.store(0, Ordering::Relaxed);
    let before = allocated_bytes();
    let figures = replay(&how, &summary, &open).unwrap();
    assert_eq!(figures.reads, threads);
    MOST.load(Ordering::Relaxed) - before
}

/// Each thread had an empty histogram of 16 KB before it read.
#[test]
fn a_thread_of_a_trace_takes_no_more_than_its_process_and_its_handle() {
    let (few, many) = (2_000, 20_000);
    let each = (most_of(many) - most_of(few)) / (many - few);
    println!("{each} bytes for a thread");
    assert!((200..=BYTES_FOR_A_THREAD).contains(&each), "{each} bytes for a thread");
}

/// Its process, its meter, its handle with a stream, and the vectors and maps that hold them, which
/// may be half empty.
const BYTES_FOR_A_THREAD: u64 = 4096;
