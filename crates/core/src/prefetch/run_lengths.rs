//! Run lengths of streams: a sketch of the lengths of ended streams, and the windows that follow.
//!
//! ```text
//!   V(x) = min over w of  R + w + S(x + w) / S(x) V(x + w)
//!
//!   S(x)   1 |------.                     R   cost of a request, in pages of transfer
//!            |      '--.                  S   share of streams longer than x
//!            |         '-----------.      w   the window at x
//!          0 +---------------------'--- x
//! ```
//!
//! With too few streams there is no answer, and windows double as usual. Derivation, figures and
//! costs: docs/design/run-lengths.md.

/// Sketch of run lengths in pages: ended streams in bins of half an octave, discounted by age.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLengths {
    bins: [RunBin; BINS],
    /// Share of the streams reaching a bin that end in it.
    hazards: [f32; BINS],
    /// Cost of the rest of a stream that outlived a bin, in pages, without its own pages.
    rest: [f32; BINS],
    /// Request cost for which `rest` was computed.
    /// Largest window for which `rest` was computed.
    request: f32,
    max: u64,
    /// Streams added since.
    fresh: u8,
    /// Mean direction: from 1, all forwards, to -1, all backwards.
    way: f32,
    /// Streams counted in `way`, at most [`WAYS_MAX`].
    ways: u8,
}

/// Streams of about one length.
#[derive(Clone, Copy, Debug, Default)]
struct RunBin {
    /// Ended streams, times [`ONE`].
    ended: u16,
    /// Streams last seen alive, times [`ONE`].
    alive: u16,
    /// Approximate length of the longest one.
    top: u32,
}

/// Length of a run when its stream was forgotten.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunEnd {
    /// Its reader stopped after this many pages.
    Ended(u64),
    /// It read this many pages, and may have continued.
    Censored(u64),
}

/// Direction of a stream from its first read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunWay {
    Forwards,
    Backwards,
    /// Streams of both directions, or in pieces.
    Mixed,
}

/// Bin in which a stream was counted, to take it back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct CountedRun(u8);

impl RunLengths {
    /// Counts a stream.
    pub(super) fn add(&mut self, end: RunEnd) -> CountedRun {
        let total: u32 = self.bins.iter().map(|bin| bin.all()).sum();
        if total >= FORGETS_AT * u32::from(ONE) {
            for bin in &mut self.bins {
                (bin.ended, bin.alive) = (bin.ended / 2, bin.alive / 2);
            }
        }
        let (RunEnd::Ended(length) | RunEnd::Censored(length)) = end;
        let length = u32::try_from(length).unwrap_or(u32::MAX).max(1);
        let index = bin_of(length);
        let bin = &mut self.bins[index];
        let shrinks = (bin.top.saturating_sub(length)).div_ceil(TOP_DENOM);
        if bin.all() == 0 {
            // A new length has no hazard and no rest yet.
            (bin.top, self.fresh) = (length, REFRESH);
        } else {
            bin.top = length.max(bin.top - shrinks);
        }
        match end {
            RunEnd::Ended(_) => bin.ended += ONE,
            RunEnd::Censored(_) => bin.alive += ONE,
        }
        self.fresh = self.fresh.saturating_add(1);
        CountedRun::of(index, matches!(end, RunEnd::Ended(_)))
    }

    /// Counts the direction of a stream.
    pub(super) fn add_way(&mut self, way: RunWay) {
        self.ways = (self.ways + 1).min(WAYS_MAX);
        let way = match way {
            RunWay::Forwards => 1.0,
            RunWay::Backwards => -1.0,
            RunWay::Mixed => 0.0,
        };
        self.way += (way - self.way) / f32::from(self.ways);
    }

    /// Returns the direction of most streams.
    pub(super) fn way(&self) -> RunWay {
        match self.way {
            way if way >= MOST_GO => RunWay::Forwards,
            way if way <= -MOST_GO => RunWay::Backwards,
            _ => RunWay::Mixed,
        }
    }

    /// Takes back a counted stream that continues.
    pub(super) fn take_back(&mut self, counted: CountedRun) {
        let Some((index, is_ended)) = counted.bin() else { return };
        let bin = &mut self.bins[index];
        let count = if is_ended { &mut bin.ended } else { &mut bin.alive };
        *count = count.saturating_sub(ONE);
        self.fresh = self.fresh.saturating_add(1);
    }

    /// Returns true if at least `streams` of `pages` or more were seen.
    pub(super) fn knows(&self, pages: u64, streams: u32) -> bool {
        let all: u32 = self.bins.iter().filter(|bin| bin.reaches(pages)).map(|bin| bin.all()).sum();
        all >= streams * u32::from(ONE)
    }

    /// Returns the size of the window after `start` pages of a stream, including the `wanted` pages
    /// that the reader waits for. None if too few streams were that long, or if those pages fill
    /// the largest window and most streams continue.
    ///
    /// ```text
    ///   0            start    wanted
    ///   |============|=======|..........|.....|..........|     candidate ends: where streams
    ///                ^       ^                                 ended before
    /// ```
    pub(super) fn window(&self, start: u64, wanted: u64) -> Option<u64> {
        let max = self.max;
        assert!(wanted > 0 && max > 0, "a window has pages, and they were refreshed for it");
        if !self.knows(start + wanted, TRUSTED) {
            // Just beyond the longest it may end as well. From there on windows double.
            let is_near = start > 0 && self.knows(start - start / NEAR_DENOM, TRUSTED);
            return is_near.then(|| (start / OVER_DENOM).max(2 * wanted).min(max));
        }
        if wanted >= max && self.part_beyond(start + wanted, start + wanted) >= LIKELY {
            return None;
        }
        let pages = self.best_end(start, start + wanted).1 - start;
        // The waste of such a small window is negligible against the pages already read.
        Some(pages.max(start / LONG_DENOM).clamp(wanted.min(max), max))
    }

    /// Returns the share of streams of at least `read` pages that are longer than `end`; 1 if too
    /// few were seen.
    pub(super) fn part_beyond(&self, read: u64, end: u64) -> f32 {
        if !self.knows(read, TRUSTED) {
            return 1.0;
        }
        let ends_between = |bin: &RunBin| bin.reaches(read) && u64::from(bin.top) <= end;
        let bins = self.bins.iter().zip(&self.hazards);
        bins.filter(|(bin, _)| ends_between(bin))
            .fold(1.0, |part, (_, hazard)| part * (1.0 - hazard))
    }

    /// Returns how many pages before `end` a reader becomes more likely to reach `end` than not;
    /// None if it always is.
    pub(super) fn distance_before(&self, end: u64) -> Option<u64> {
        let mut part = 1.0;
        for (bin, hazard) in self.bins.iter().zip(&self.hazards).rev() {
            if bin.all() > 0 && u64::from(bin.top) <= end {
                part *= 1.0 - hazard;
                if part < LIKELY {
                    return Some(end - u64::from(bin.top));
                }
            }
        }
        None
    }

    /// Recomputes hazards and costs for this request cost and windows of up to `max` pages, if they
    /// have changed. Call it before any query.
    pub(super) fn refresh(&mut self, request: f32, max: u64) {
        let is_alike = (request - self.request).abs() <= self.request / 8.0 && max == self.max;
        if is_alike && self.fresh < REFRESH {
            return;
        }
        (self.request, self.max, self.fresh) = (request, max, 0);
        let mut reach: u32 = self.bins.iter().map(|bin| bin.all()).sum();
        for (bin, hazard) in self.bins.iter().zip(&mut self.hazards) {
            *hazard = if reach == 0 { 0.0 } else { float(bin.ended.into()) / float(reach.into()) };
            reach -= bin.all();
        }
        for index in (0..BINS).rev() {
            if self.bins[index].all() > 0 {
                let top = u64::from(self.bins[index].top);
                self.rest[index] = self.best_end(top, top).0;
            }
        }
    }

    /// Returns the cheapest end of a window from `start` that includes `wanted`: its cost in
    /// requests and wasted pages, and the end.
    ///
    /// A stream longer than the largest window needs several windows from one end to the next.
    fn best_end(&self, start: u64, wanted: u64) -> (f32, u64) {
        let (request, max) = (self.request, self.max);
        let requests = |end: u64| float((end - start).div_ceil(max).max(1));
        // Streams that reach `end`, streams that ended before it, and the pages of these.
        let (mut part, mut ended, mut ended_pages) = (1.0_f32, 0.0_f32, 0.0_f32);
        let waste = |end: u64, ended: f32, pages: f32| ended * float(end - start) - pages;
        let mut rest = None;
        let mut best = (f32::INFINITY, wanted);
        for ((bin, hazard), after) in self.bins.iter().zip(&self.hazards).zip(&self.rest) {
            let top = u64::from(bin.top);
            if bin.all() == 0 || top < wanted || top == start {
                continue;
            }
            if top > wanted && rest.is_none() && wanted > start {
                // No read-ahead: the rest is requested on demand.
                best = (request * requests(wanted) + self.best_end(wanted, wanted).0, wanted);
            }
            ended_pages += part * hazard * float(top - start);
            ended += part * hazard;
            part *= 1.0 - hazard;
            rest = Some(after);
            let cost = request * requests(top) + waste(top, ended, ended_pages) + part * after;
            if cost < best.0 {
                best = (cost, top);
            }
        }
        // Beyond the longest run seen, a living stream wastes nothing.
        let end = start + max;
        let last = self.bins.iter().rev().find(|bin| bin.all() > 0).map_or(0, |bin| bin.top.into());
        if end > last {
            let saved = part * request * float(end - last.max(start)) / float(max);
            let cost = request + waste(end, ended, ended_pages) - saved;
            if cost < best.0 {
                best = (cost, end);
            }
        }
        if best.0 == f32::INFINITY { (0.0, start.max(wanted)) } else { best }
    }
}

impl CountedRun {
    /// Value for a stream that is not counted.
    pub(super) const NOWHERE: Self = Self(0);

    /// Marks the stream as not counted for the device.
    pub(super) fn of_file_only(self) -> Self {
        Self(self.0 | FILE_ONLY)
    }

    pub(super) fn is_of_device(self) -> bool {
        self.0 & FILE_ONLY == 0
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are 32 bins")]
    fn of(index: usize, is_ended: bool) -> Self {
        Self(1 + index as u8 + if is_ended { 0 } else { BINS as u8 })
    }

    fn bin(self) -> Option<(usize, bool)> {
        let number = usize::from(self.0 & !FILE_ONLY).checked_sub(1)?;
        Some((number % BINS, number < BINS))
    }
}

impl RunBin {
    fn all(self) -> u32 {
        u32::from(self.ended) + u32::from(self.alive)
    }

    /// Returns true if its streams have at least `pages`.
    fn reaches(self, pages: u64) -> bool {
        self.all() > 0 && u64::from(self.top) >= pages
    }
}

/// Returns the bin of a length: 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, .. pages; the last bin starts
/// at 192 MiB.
fn bin_of(length: u32) -> usize {
    let below = length - 1;
    if below < 2 {
        return below as usize;
    }
    let octave = below.ilog2();
    let half = (below >> (octave - 1)) & 1;
    ((2 * octave + half) as usize).min(BINS - 1)
}

#[expect(clippy::cast_precision_loss, reason = "pages of a window, and weights")]
fn float(number: u64) -> f32 {
    number as f32
}

const BINS: usize = 32;

/// Flag in a [`CountedRun`], next to its bin.
const FILE_ONLY: u8 = 0x80;

/// Weight of one stream, large enough to be halved several times.
const ONE: u16 = 64;

/// Number of streams at which all counts are halved: a new kind of stream makes up half of the
/// sketch after 64.
const FORGETS_AT: u32 = 128;

/// Streams needed for an answer.
pub(super) const TRUSTED: u32 = 8;

/// Streams added before the results are recomputed.
const REFRESH: u8 = 8;

/// Streams over which the direction is averaged.
const WAYS_MAX: u8 = 16;

/// Least mean direction for an answer: three of four streams go one way.
const MOST_GO: f32 = 0.5;

/// Decay of a bin's longest run: a 64th of the difference for each shorter stream.
const TOP_DENOM: u32 = 64;

/// A stream up to an eighth longer than others is considered one of them; its window is a quarter
/// of the pages it has read.
const NEAR_DENOM: u64 = 8;
const OVER_DENOM: u64 = 4;

/// A window of a 32nd of the pages read is always acceptable: it wastes 3 % at most.
pub(super) const LONG_DENOM: u64 = 32;

/// Probability from which a window is requested ahead: the time saved then outweighs the waste in
/// the other half of the cases.
pub(super) const LIKELY: f32 = 0.5;

#[cfg(test)]
mod tests;
