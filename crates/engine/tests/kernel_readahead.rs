//! `linux-6` against the running kernel, decision by decision.
//!
//! Seeded random reads go to both sides: to the kernel through a file, and to our policy through
//! the walk of `foreread-core` over a plain set of pages. Both must decide the same, and leave the
//! same number of pages in memory. A failure prints the line that repeats it.

#[path = "../../core/tests/common/mod.rs"]
mod cache;
mod common;
mod kernel;

use std::collections::BTreeMap;
use std::fmt;

use cache::{PlainPages, PlainStream};
use common::{Need, needs, skip};
use foreread_core::prefetch::{Policy, Trigger};
use foreread_core::units::{ByteCount, Pages};
use kernel::{Answer, Kernel, Line};

const TEST: &str = "the_kernel_decides_as_linux_6_does";

#[test]
fn the_kernel_decides_as_linux_6_does() {
    let able = [Need::Root, Need::Loop, Need::Tracefs]
        .into_iter()
        .chain(["mkfs.ext4", "losetup", "fincore"].map(Need::Tool))
        .all(|need| needs(need, TEST));
    if !able {
        return;
    }
    if kernel_version() < FIRST_KERNEL {
        return skip(TEST, "the policy is that of Linux 6.16 and later");
    }

    let kernel = Kernel::new(&FILES);
    let seeds = match std::env::var("SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).expect("SEED is a number"),
        Err(_) => 0..TRACES,
    };
    let mut seen = BTreeMap::new();
    for seed in seeds.clone() {
        let trace = Trace::new(seed);
        let ours = ours(&trace, &mut seen);
        if let Some(difference) = difference(&kernel, &trace, &ours) {
            panic!("{trace}\n{difference}\nto repeat: SEED={seed} cargo test -p foreread {TEST}");
        }
    }

    // Traces that never meet a rule would prove nothing about it.
    if seeds == (0..TRACES) {
        for pattern in PATTERNS {
            let times = seen.get(pattern).copied().unwrap_or(0);
            assert!(times >= 50, "only {times} decisions were {pattern}: {seen:?}");
        }
    }
    println!("{} traces, decisions: {seen:?}", seeds.count());
}

/// What our policy decides.
fn ours(trace: &Trace, seen: &mut BTreeMap<&'static str, u32>) -> Answer {
    let mut pages = PlainPages::default();
    let mut stream = PlainStream::new(Policy::Linux6, trace.max);
    stream.limits.io_pages = Pages(trace.io_pages);
    stream.file = ByteCount(FILES[trace.file]);
    let mut answer = Answer::default();
    for (pos, len) in &trace.reads {
        for (decided, _) in stream.read_bytes(&mut pages, *pos, *len) {
            *seen.entry(decided.decision.pattern.name()).or_default() += 1;
            answer.lines.push(Line {
                page: decided.ask.page.0,
                count: decided.ask.count.0,
                is_async: decided.ask.trigger == Trigger::Marker,
                start: decided.decision.window.start.0,
                size: decided.decision.window.size.0,
                async_size: decided.decision.window.async_size.0,
            });
        }
    }
    answer.resident = pages.resident.len() as u64;
    answer
}

/// Returns where the kernel decides otherwise in each of five runs. A program that drops caches, or
/// a busy machine, changes some answers of the kernel; a policy that differs changes all of them.
fn difference(kernel: &Kernel, trace: &Trace, ours: &Answer) -> Option<String> {
    let ask = || kernel.answer(trace.file, trace.max, trace.io_pages, &trace.reads);
    let mut last = None;
    for _ in 0..5 {
        last = Some(first_difference(&ask(), ours)?);
    }
    last
}

/// The first line that differs, with the one before it.
fn first_difference(theirs: &Answer, ours: &Answer) -> Option<String> {
    let lines = theirs.lines.len().max(ours.lines.len());
    for i in 0..lines {
        let (kernel, we) = (theirs.lines.get(i), ours.lines.get(i));
        if kernel != we {
            let text = |line: Option<&Line>| line.map_or("nothing".into(), Line::to_string);
            let before = i.checked_sub(1).and_then(|i| ours.lines.get(i));
            return Some(format!(
                "decision {i}: after {}\n  the kernel: {}\n  linux-6:    {}",
                text(before),
                text(kernel),
                text(we)
            ));
        }
    }
    (theirs.resident != ours.resident)
        .then(|| format!("resident: the kernel {}, linux-6 {}", theirs.resident, ours.resident))
}

/// The reads of one stream, and what they meet.
struct Trace {
    seed: u64,
    file: usize,
    max: u64,
    io_pages: u64,
    /// Position and length in bytes.
    reads: Vec<(u64, u64)>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, file, max, io_pages, reads } = self;
        let len = FILES[*file];
        write!(f, "seed {seed}, max {max}, io_pages {io_pages}, file of {len} bytes, reads:")?;
        for (pos, len) in reads {
            if pos % PAGE == 0 && len % PAGE == 0 {
                write!(f, " {}+{}", pos / PAGE, len / PAGE)?;
            } else {
                write!(f, " @{pos}:{len}")?;
            }
        }
        Ok(())
    }
}

impl Trace {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let nth = usize::try_from(seed).expect("few seeds");
        let max = MAXIMA[nth % MAXIMA.len()];
        // A device takes long to change it, so it changes seldom.
        let io_pages = IO_PAGES[nth / (15 * MAXIMA.len()) % IO_PAGES.len()];
        let file = rng.pick(&[0, 0, 0, 1, 2, 3, 4]);
        let file_pages = FILES[file].div_ceil(PAGE);
        let mut trace = Self { seed, file, max, io_pages, reads: Vec::new() };
        // Everything close together meets pages that are resident; far apart, none.
        let span = rng.pick(&[60, 300, file_pages]).min(file_pages + 2);
        let largest = rng.pick(&[1, 2, 4, 16, 40]);
        let mut cursors = [0, rng.below(span), rng.below(span), file_pages.saturating_sub(50)];
        while trace.reads.len() < READS {
            let cursor = rng.index(cursors.len());
            let count = 1 + rng.below(largest);
            let times = 1 + rng.below(12);
            match rng.below(8) {
                // A run; the first cursor starts at page 0.
                0 | 1 => {
                    for _ in 0..times {
                        trace.read(cursors[cursor], count);
                        cursors[cursor] += count;
                    }
                }
                // Streams in turns, through one file.
                2 => {
                    for i in 0..times * 2 {
                        let cursor = (cursor + usize::from(i % 2 == 1)) % cursors.len();
                        trace.read(cursors[cursor], count);
                        cursors[cursor] += count;
                    }
                }
                // A stride.
                3 => {
                    let step = count + rng.below(8);
                    for i in 0..times {
                        trace.read(cursors[cursor] + i * step, count);
                    }
                }
                // Backwards.
                4 => {
                    for _ in 0..times {
                        trace.read(cursors[cursor], count);
                        cursors[cursor] = cursors[cursor].saturating_sub(count);
                    }
                }
                5 => {
                    let page = rng.below(span);
                    trace.read(page, count);
                }
                // A read that was there before, or the start of the file.
                6 => match trace.reads.len() {
                    0 => trace.read(0, count),
                    len => trace.reads.push(trace.reads[rng.index(len)]),
                },
                // A cursor goes elsewhere.
                _ => cursors[cursor] = rng.below(span),
            }
        }
        trace.reads.truncate(READS);
        // Some readers know nothing of pages.
        if rng.below(4) == 0 {
            for (pos, len) in &mut trace.reads {
                *pos += rng.below(PAGE);
                *len -= rng.below(PAGE);
            }
        }
        trace
    }

    fn read(&mut self, page: u64, count: u64) {
        self.reads.push((page * PAGE, count * PAGE));
    }
}

/// `SplitMix64`: a seed is a whole trace, on every machine.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index fits")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}

/// `6.18.44-rc1` as (6, 18).
fn kernel_version() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux has a release");
    let mut numbers =
        text.split(|c: char| !c.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The first release whose decisions `linux-6` describes.
const FIRST_KERNEL: (u32, u32) = (6, 16);

const PAGE: u64 = 4096;

/// A large file; files that end in the middle of a page and of a window; a tiny one.
const FILES: [u64; 5] = [64 << 20, 300 * PAGE, 37 * PAGE + 100, 10 * PAGE, 3 * PAGE - 1];

/// Windows in pages: the smallest ones, the default, and some that are no power of two.
const MAXIMA: [u64; 7] = [1, 2, 5, 8, 15, 32, 60];

/// Largest requests in pages: below, among and above the windows and the reads.
const IO_PAGES: [u64; 4] = [1, 8, 24, 320];

/// Sixty for each largest window.
const TRACES: u64 = 420;

const READS: usize = 60;

const PATTERNS: [&str; 7] =
    ["initial0", "initial", "oversize", "subsequent", "context", "interleaved", "random"];
