//! Reads through the page cache, with the kernel's own read-ahead at the current window.
//!
//! Pages that were resident before are neither read nor evicted, and pages that this run brought in
//! do not stay.
//!
//! ```text
//!   |4K|----- window -----|------ window ------| lap | lap | lap | ..   |-- read ahead --|
//!   ^start                 the pipe fills       ^ it counts from here    dropped, too
//! ```
//!
//! The first page is read alone, which the kernel treats as a random read. The second read is as
//! large as the window, so the first window is full-sized; otherwise only the fourth would be.
//!
//! Residency is surveyed before reading, always farther ahead than the kernel can read. Only pages
//! that another program reads after the survey and before eviction cannot be distinguished from
//! this run's own.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use foreread_core::units::{ByteCount, PAGE_SIZE};
use rustix::fs::Advice;

use super::intervals::Intervals;
use super::laps::{Laps, ns};
use super::read_offsets::ReadOffsets;
use super::run::ProbeRun;
use super::{ProbeSample, RandomReads, SequentialRead, Stopped};
use crate::clock::{now, pause};
use crate::pages::resident;

/// Touches as much memory as streams need, and frees it. In a virtual machine the first touch of
/// memory is slow, for the page cache as for this process.
pub(super) fn warm_up(window: u64) {
    let bytes = 2 * (KEPT_BYTES + window) + window;
    // Not zeros: those could be allocated without a touch.
    let memory =
        vec![1_u8; usize::try_from(bytes).expect("windows are smaller than the address space")];
    std::hint::black_box(&memory);
}

/// Reads one stream.
pub(super) fn sequential(
    run: &ProbeRun,
    places: &mut ReadOffsets,
    ask: &SequentialRead,
) -> Result<ProbeSample, Stopped> {
    let window = ask.window.0.max(PAGE_SIZE);
    warm_up(window);
    let most = window.min(places.bytes() / 8 / PAGE_SIZE * PAGE_SIZE).max(PAGE_SIZE);
    let mut laps = Laps::new(&SequentialRead { window: ByteCount(most), ..*ask }, run.zero, now());
    let mut memory =
        vec![0; usize::try_from(window).expect("a window is smaller than the address space")];
    let mut read_before = 0;
    while !laps.is_enough(now()) {
        let free = free_run(run, places, PAGE_SIZE + 10 * window)?;
        let file = run.open()?;
        let mut stream = BufferedStream {
            run,
            file: &file,
            window,
            start: free.start,
            at: free.start,
            dropped: free.start,
            seen: free.start,
            theirs: Intervals::default(),
        };
        let is_long = free.end - free.start >= PAGE_SIZE + 3 * window + laps.lap();
        let result = stream.read(&mut laps, places, &mut memory, is_long);
        if is_long {
            laps.pause();
        } else {
            laps.close(now());
        }
        stream.forget();
        let (start, at) = (stream.start, stream.at);
        read_before += places.read(start..at);
        places.read(at..at + 2 * window);
        places.go_on_from(at + 2 * window);
        result?;
    }
    Ok(ProbeSample { slices: laps.slices(now()), read_before: ByteCount(read_before) })
}

/// Returns the next uncached range of the desired length, or else the longest one.
fn free_run(run: &ProbeRun, places: &ReadOffsets, wish: u64) -> Result<Range<u64>, Stopped> {
    let file = run.open()?;
    let mut longest = 0..0;
    for part in places.onwards() {
        let mut free = part.start..part.start;
        let mut at = part.start;
        while at < part.end {
            run.go_on()?;
            let piece = at..part.end.min(at + SURVEY_BYTES.max(wish));
            let mut theirs = Intervals::default();
            for range in resident(&file, &piece).ok_or_else(|| untold(run))? {
                theirs.insert(range);
            }
            for gap in theirs.gaps(&piece) {
                free = if gap.start == free.end { free.start..gap.end } else { gap };
                if free.end - free.start >= wish {
                    return Ok(free);
                }
                if free.end - free.start > longest.end - longest.start {
                    longest = free.clone();
                }
            }
            at = piece.end;
        }
    }
    if longest.is_empty() {
        let line = format!(
            "{}: entirely in the page cache; give a larger target, or try later",
            run.path.display()
        );
        return Err(Stopped::Failed(line));
    }
    Ok(longest)
}

fn untold(run: &ProbeRun) -> Stopped {
    let line = "the kernel does not reveal which pages are cached; run as its owner or as root";
    Stopped::Failed(format!("{}: {line}", run.path.display()))
}

/// A stream from a page that was not resident, up to the next resident one.
struct BufferedStream<'a> {
    run: &'a ProbeRun,
    file: &'a File,
    window: u64,
    start: u64,
    /// End of the bytes read.
    at: u64,
    /// End of the evicted bytes.
    dropped: u64,
    /// End of the surveyed range.
    seen: u64,
    /// Pages that were resident before, within the surveyed range.
    theirs: Intervals,
}

impl BufferedStream<'_> {
    fn read(
        &mut self,
        laps: &mut Laps,
        places: &ReadOffsets,
        memory: &mut [u8],
        is_long: bool,
    ) -> Result<(), Stopped> {
        let end = places.end_of_part(self.start);
        // At most half a window: a read of a whole window ignores the setting.
        let step = (self.window / 2).clamp(PAGE_SIZE, STEP_MAX);
        let full = self.start + PAGE_SIZE + 2 * self.window;
        let mut is_counted = !is_long;
        if is_counted {
            laps.count_from(now());
        }
        loop {
            let is_second = self.at == self.start + PAGE_SIZE;
            let want = match self.at - self.start {
                0 => PAGE_SIZE,
                _ if is_second => self.window,
                _ => step,
            };
            let want = want.min(self.free_to(self.at + want)?.min(end).saturating_sub(self.at));
            if want == 0 {
                return Ok(());
            }
            let to = &mut memory
                [..usize::try_from(want).expect("a window is smaller than the address space")];
            let got = self.file.read_at(to, self.at).map_err(|e| self.run.failed(self.at, &e))?;
            if got == 0 {
                return Err(self.run.shrunk(self.at));
            }
            let time = now();
            self.at += got as u64;
            laps.add(got as u64, time);
            if !is_counted && self.at >= full {
                is_counted = true;
                laps.count_from(time);
            }
            self.run.go_on()?;
            if laps.is_enough(time) {
                return Ok(());
            }
            if self.at - self.dropped >= 2 * KEPT_BYTES {
                // Neither call evicts a folio that crosses a boundary.
                let upto = (self.at - KEPT_BYTES) / FOLIO_MAX * FOLIO_MAX;
                self.drop_ours(self.dropped..upto);
                self.dropped = upto;
            }
        }
    }

    /// Returns the offset of the first page from `at` on that another process has brought in, or
    /// `to`.
    fn free_to(&mut self, to: u64) -> Result<u64, Stopped> {
        let reach = to + self.ahead();
        if reach > self.seen {
            let piece = self.seen..reach + SURVEY_BYTES;
            for range in resident(self.file, &piece).ok_or_else(|| untold(self.run))? {
                self.theirs.insert(range);
            }
            self.seen = piece.end;
        }
        let ahead = self.theirs.within(&(self.at..to));
        Ok(ahead.first().map_or(to, |theirs| theirs.start))
    }

    /// Returns the farthest that the kernel reads ahead: the current window, the next one, and
    /// padding that aligns its folios.
    fn ahead(&self) -> u64 {
        2 * self.window + FOLIO_MAX
    }

    /// Evicts the pages of this run, including those still in flight, so that the next stream has
    /// the device to itself.
    fn forget(&self) {
        let all = self.dropped..self.at + self.ahead();
        let began = now();
        loop {
            self.drop_ours(all.clone());
            let is_ours = |range: &Range<u64>| !self.theirs.gaps(range).is_empty();
            let stays = resident(self.file, &all).is_some_and(|all| all.iter().any(is_ours));
            let patience = if self.run.go_on().is_ok() { ON_THEIR_WAY } else { ON_THEIR_WAY / 10 };
            if !stays || now().duration_since(began) >= patience {
                return;
            }
            pause(LOOK_AGAIN);
        }
    }

    fn drop_ours(&self, range: Range<u64>) {
        for ours in self.theirs.gaps(&range) {
            let len = std::num::NonZeroU64::new(ours.end - ours.start);
            // A page that stays is in use by another process.
            let _ = rustix::fs::fadvise(self.file, ours.start, len, Advice::DontNeed);
        }
    }
}

/// Reads at random offsets if `O_DIRECT` is impossible.
pub(super) fn random(
    run: &ProbeRun,
    places: &mut ReadOffsets,
    ask: &RandomReads,
) -> Result<Vec<u64>, Stopped> {
    let file = run.open()?;
    let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
    let size = ask.size.0;
    let mut memory =
        vec![0; usize::try_from(size).expect("a read is smaller than the address space")];
    let mut latencies = Vec::new();
    let began = now();
    // A cached offset gives no sample; in a mostly cached file samples are rare.
    for _ in 0..ask.count.saturating_mul(TRIES) {
        let is_over = now().duration_since(began) >= ask.at_most && !latencies.is_empty();
        if latencies.len() >= ask.count as usize || is_over {
            break;
        }
        run.go_on()?;
        // A fragmented file may have no part large enough.
        let Some(place) = places.anywhere(size) else { break };
        if !resident(&file, &place).ok_or_else(|| untold(run))?.is_empty() {
            continue;
        }
        latencies.push(one(run, &file, &mut memory, place.start)?);
        let len = std::num::NonZeroU64::new(size);
        let _ = rustix::fs::fadvise(&file, place.start, len, Advice::DontNeed);
        places.read(place);
    }
    Ok(latencies)
}

/// Reads one whole range and returns the latency in nanoseconds.
pub(super) fn one(run: &ProbeRun, file: &File, to: &mut [u8], at: u64) -> Result<u64, Stopped> {
    let began: Instant = now();
    let got = file.read_at(to, at).map_err(|error| run.failed(at, &error))?;
    let took = now().duration_since(began);
    if got < to.len() { Err(run.shrunk(at + got as u64)) } else { Ok(ns(took)) }
}

/// Large enough to amortise a call, small enough to keep the pipeline busy.
const STEP_MAX: u64 = 64 << 10;

/// Bytes surveyed at a time.
const SURVEY_BYTES: u64 = 32 << 20;

/// Bytes kept in the cache behind the reader. This few evict no other pages, and recently used
/// memory is faster than memory that a virtual machine has not touched yet.
const KEPT_BYTES: u64 = 16 << 20;

/// Larger than a huge page.
const FOLIO_MAX: u64 = 4 << 20;

/// Time in which the last windows arrive from a slow device.
const ON_THEIR_WAY: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Offsets tried for each requested read.
const TRIES: u32 = 8;
