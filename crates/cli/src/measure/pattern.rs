//! The patterns, and one measurement of one of them.
//!
//! In:    a reader, a length, a seed.
//! Out:   how many reads took how long.
//! Never: the same random pages twice in a row of runs: each run has its seed.

use std::io;
use std::time::{Duration, Instant};

use super::arm::{Asked, Reader};
use super::clock;
use super::target::mix;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pattern {
    Seq4k,
    Inter2,
    Rand4k,
    Hot4k,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) reads: u64,
    pub(crate) elapsed: Duration,
    pub(crate) asked: Asked,
}

/// When a run is long enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) time: Duration,
    /// Reads between two looks at the clock.
    pub(crate) look: u64,
}

impl Pattern {
    /// The name, as in `bench`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seq4k => "seq4k",
            Self::Inter2 => "inter2",
            Self::Rand4k => "rand4k",
            Self::Hot4k => "hot4k",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Seq4k => "one stream",
            Self::Inter2 => "two in turns",
            Self::Rand4k => "random, cold",
            Self::Hot4k => "random, cached",
        }
    }

    /// What its cells count.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            Self::Seq4k | Self::Inter2 | Self::Rand4k => "MB/s",
            Self::Hot4k => "ns",
        }
    }

    /// Where read number `i` begins in a file of `pages` pages; None when the pattern is over.
    fn page(self, i: u64, pages: u64, hot: u64, seed: u64) -> Option<u64> {
        match self {
            Self::Seq4k => (i < pages).then_some(i),
            Self::Inter2 => (i / 2 < pages / 2).then_some(i / 2 + i % 2 * (pages / 2)),
            Self::Rand4k => {
                let places = pages / APART;
                (i < places).then(|| shuffled(i, seed, places) * APART + APART / 2)
            }
            Self::Hot4k => Some(mix(seed ^ i) % hot),
        }
    }

    pub(crate) fn run(
        self,
        reader: &mut Reader<'_>,
        len: u64,
        hot: u64,
        seed: u64,
        enough: Enough,
    ) -> io::Result<Run> {
        let pages = len / PAGE as u64;
        let mut buffer = vec![0; 2 * PAGE];
        let start = buffer.as_ptr().align_offset(PAGE);
        let page = &mut buffer[start..start + PAGE];
        let hot = HOT_PAGES.min(pages).min(hot);
        if self == Self::Hot4k {
            for index in 0..hot {
                reader.read(page, index * PAGE as u64)?;
            }
        }
        let before = reader.asked()?;
        let started = clock();
        let mut reads: u64 = 0;
        while !(reads.is_multiple_of(enough.look) && over(started, enough.time)) {
            let Some(index) = self.page(reads, pages, hot, seed) else { break };
            reader.read(page, index * PAGE as u64)?;
            reads += 1;
        }
        let elapsed = clock().duration_since(started);
        let asked = since(before, reader.asked()?);
        Ok(Run { reads, elapsed, asked })
    }
}

impl Run {
    pub(crate) fn mb_per_s(&self) -> f64 {
        (self.reads * PAGE as u64) as f64 / self.elapsed.as_secs_f64() / 1e6
    }

    pub(crate) fn ns_per_read(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.reads.max(1) as f64
    }
}

/// The `i`th page of a shuffled file: each page once, so that no read finds it read already.
///
/// An odd multiplier and an exclusive or with a shift are one to one on numbers of so many bits;
/// what falls outside the file is shuffled again until it falls inside.
fn shuffled(mut i: u64, seed: u64, pages: u64) -> u64 {
    let bits = u64::BITS - (pages - 1).leading_zeros();
    let mask = u64::MAX >> (u64::BITS - bits.max(1));
    loop {
        for round in 0..3 {
            i = (i ^ (mix(seed + round) & mask)).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
            i ^= i >> bits.div_ceil(2);
        }
        if i < pages {
            return i;
        }
    }
}

fn over(started: Instant, time: Duration) -> bool {
    clock().duration_since(started) >= time
}

fn since(before: Asked, now: Asked) -> Asked {
    let minus = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
    Asked {
        reads: minus(now.reads, before.reads),
        bytes: minus(now.bytes, before.bytes),
        evicted_before_use: minus(now.evicted_before_use, before.evicted_before_use),
    }
}

pub(crate) const PAGE: usize = 4096;

/// Random reads are so many pages apart: in a small file some would otherwise follow each other by
/// chance, and that is a stream, for the kernel as for us.
const APART: u64 = 8;

/// The hot set, 64 MiB: larger than the processor's caches, smaller than the cache's default bound.
/// A small bound makes it smaller.
const HOT_PAGES: u64 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffled_file_has_each_page_once_and_few_where_they_were() {
        for pages in [1, 2, 3, 1000, 4096, 5000] {
            let mut order: Vec<u64> = (0..pages).map(|i| shuffled(i, 42, pages)).collect();
            let neighbours = order.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() as u64;
            assert!(neighbours <= 1 + pages / 100, "{neighbours} of {pages}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..pages));
        }
    }
}
