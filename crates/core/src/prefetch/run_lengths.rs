//! How long streams run: a sketch of the lengths of those that ended, and the windows that follow.
//!
//! In:    the length of each stream that ended, or that was last seen alive; what a request costs.
//! Out:   the window of least expected cost, and whether it pays to request it ahead.
//! Never: a clock, a page, an answer from few streams: then windows double as they always did.
//!
//! ```text
//!   V(x) = min over w of  R + w + S(x + w) / S(x) V(x + w)
//!
//!   S(x)   1 |------.                     R   what a request costs, in pages of transfer
//!            |      '--.                  S   how many streams are longer than x
//!            |         '-----------.      w   the window at x
//!          0 +---------------------'--- x
//! ```
//!
//! Derivation, figures and costs: docs/run-lengths.md.

/// A sketch of run lengths, in pages: what ended by its length, in bins of half an octave, the
/// newest counting most.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLengths {
    bins: [RunBin; BINS],
    /// The part of those that reach a bin which ends in it.
    hazards: [f32; BINS],
    /// The cost of the rest of a stream that outlived a bin, beside its own pages, in pages.
    rest: [f32; BINS],
    /// For what `rest` was computed: what a request costs, and the largest window.
    request: f32,
    max: u64,
    /// How many streams have come since.
    fresh: u8,
    /// Which way streams go: from 1, all forwards, to -1, all backwards.
    way: f32,
    /// How many were counted for it, at most [`WAYS_MAX`].
    ways: u8,
}

/// Streams of about one length.
#[derive(Clone, Copy, Debug, Default)]
struct RunBin {
    /// How many ended, times [`ONE`].
    ended: u16,
    /// How many were last seen alive, times [`ONE`].
    alive: u16,
    /// About the longest of them.
    top: u32,
}

/// What is known of a run when a stream was forgotten.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunEnd {
    /// Its reader stopped after so many pages.
    Ended(u64),
    /// It read so many pages; whether it would have gone on cannot be told.
    Censored(u64),
}

/// Which way streams go from their first read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunWay {
    Forwards,
    Backwards,
    /// Some forwards and some backwards, or piece by piece.
    Mixed,
}

/// Where a stream was counted, so that it can be taken back.
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
            // A length that was not seen before has no hazard and no rest yet.
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

    /// Counts which way a stream went.
    pub(super) fn add_way(&mut self, way: RunWay) {
        self.ways = (self.ways + 1).min(WAYS_MAX);
        let way = match way {
            RunWay::Forwards => 1.0,
            RunWay::Backwards => -1.0,
            RunWay::Mixed => 0.0,
        };
        self.way += (way - self.way) / f32::from(self.ways);
    }

    /// Which way most streams go.
    pub(super) fn way(&self) -> RunWay {
        match self.way {
            way if way >= MOST_GO => RunWay::Forwards,
            way if way <= -MOST_GO => RunWay::Backwards,
            _ => RunWay::Mixed,
        }
    }

    /// A stream that was counted goes on.
    pub(super) fn take_back(&mut self, counted: CountedRun) {
        let Some((index, is_ended)) = counted.bin() else { return };
        let bin = &mut self.bins[index];
        let count = if is_ended { &mut bin.ended } else { &mut bin.alive };
        *count = count.saturating_sub(ONE);
        self.fresh = self.fresh.saturating_add(1);
    }

    /// Whether enough streams of at least so many pages were seen.
    pub(super) fn knows(&self, pages: u64, streams: u32) -> bool {
        let all: u32 = self.bins.iter().filter(|bin| bin.reaches(pages)).map(|bin| bin.all()).sum();
        all >= streams * u32::from(ONE)
    }

    /// The window that begins after `start` pages of a stream and has the next `wanted`, which its
    /// reader waits for; None if too few streams were as long, or if those pages fill the largest
    /// window and most streams go on.
    ///
    /// ```text
    ///   0            start    wanted
    ///   |============|=======|..........|.....|..........|     ends that are tried: where streams
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
        // What is wasted of so small a window is little beside what was read.
        Some(pages.max(start / LONG_DENOM).clamp(wanted.min(max), max))
    }

    /// The part of streams of at least `read` pages that are longer than `end`; 1 if too few were
    /// seen.
    pub(super) fn part_beyond(&self, read: u64, end: u64) -> f32 {
        if !self.knows(read, TRUSTED) {
            return 1.0;
        }
        let ends_between = |bin: &RunBin| bin.reaches(read) && u64::from(bin.top) <= end;
        let bins = self.bins.iter().zip(&self.hazards);
        bins.filter(|(bin, _)| ends_between(bin))
            .fold(1.0, |part, (_, hazard)| part * (1.0 - hazard))
    }

    /// How many pages before `end` a reader is likelier to come to `end` than not; None: at any.
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

    /// Computes what follows from the bins for requests of this cost and windows of up to `max`
    /// pages, if they have changed; asked before all questions.
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

    /// Where the window from `start` on had best end, which reaches `wanted` in any case: the cost
    /// of that, in pages that no reader wants and requests, and the page.
    ///
    /// From one end to the next, a stream that is longer than the largest window takes several.
    fn best_end(&self, start: u64, wanted: u64) -> (f32, u64) {
        let (request, max) = (self.request, self.max);
        let requests = |end: u64| float((end - start).div_ceil(max).max(1));
        // Streams that are still there at `end`, those that ended before it, and their pages.
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
                // Nothing ahead: the rest is requested when it is wanted.
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
        // Beyond all that was seen: as long as there is a stream, nothing of it is lost.
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
    /// It was not.
    pub(super) const NOWHERE: Self = Self(0);

    /// It was not counted for the device of its file.
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

    /// Whether streams of it are as long.
    fn reaches(self, pages: u64) -> bool {
        self.all() > 0 && u64::from(self.top) >= pages
    }
}

/// 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, .. pages; the last bin is all from 192 MiB on.
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

/// Of what is counted, beside its bin.
const FILE_ONLY: u8 = 0x80;

/// The weight of a stream: halves of it are still numbers for some time.
const ONE: u16 = 64;

/// When so many streams are counted, each counts half from then on: a new kind of streams is a half
/// of what is known after 64.
const FORGETS_AT: u32 = 128;

/// Fewer streams say nothing.
pub(super) const TRUSTED: u32 = 8;

/// What was computed is good for so many more streams.
const REFRESH: u8 = 8;

/// Which way streams go is a mean of about so many.
const WAYS_MAX: u8 = 16;

/// Three of four go this way, and one goes the other.
const MOST_GO: f32 = 0.5;

/// The longest of a bin is forgotten by a 64th of the difference with each that is shorter.
const TOP_DENOM: u32 = 64;

/// A stream that is longer than others by less than an eighth is not of another kind, and gets a
/// quarter of what it has read.
const NEAR_DENOM: u64 = 8;
const OVER_DENOM: u64 = 4;

/// A window of a 32nd of what its stream has read is never too large: at most 3 % is lost.
pub(super) const LONG_DENOM: u64 = 32;

/// A window is requested ahead if its reader comes to it in half of all cases: the time that is
/// saved then is worth what is lost in the others.
pub(super) const LIKELY: f32 = 0.5;

#[cfg(test)]
mod tests;
