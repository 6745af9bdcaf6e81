//! Ends of streams: counts how long they ran, and chooses the next window accordingly.
//!
//! Hits are not tracked: the first unread page of a window tells later where its stream ended.

use super::decision::Trigger;
use super::known_runs::KnownRuns;
use super::policy::adaptive;
use super::policy::rules::AdaptivePart;
use super::prefetcher::Prefetcher;
use super::question::Question;
use super::run_lengths::{CountedRun, LIKELY, LONG_DENOM, RunEnd, RunWay, TRUSTED};
use super::stream_state::Advice;
use super::streams::{StreamDirection, StreamEntry};
use crate::cache::PageCache;
use crate::table::FileSlot;
use crate::units::{PageIndex, Pages};

/// Effect of the run lengths on the next window of a stream; empty while too little is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunChoice {
    /// Size of the window, including the pages that its reader waits for.
    pub(super) window: Option<Pages>,
    /// Upper bound of the prefetch distance.
    pub(super) distance: Option<Pages>,
    /// Nothing is requested before the reader waits for it.
    pub(super) is_put_off: bool,
    /// A stream that begins in the middle of the file goes backwards.
    pub(super) begins_backwards: bool,
}

impl Prefetcher {
    /// Counts the streams of a file that have ended since the last question.
    pub(super) fn count_runs(&mut self, question: &Question<'_>, cache: &mut PageCache) {
        let (device, slot) = (question.device, question.file);
        let streams = &mut self.files[slot.0 as usize];
        let resumed = streams.take_resumed();
        if self.rules.without.has(AdaptivePart::Runs) {
            return;
        }
        if resumed != CountedRun::NOWHERE {
            self.runs.take_back(device, slot, resumed);
        }
        for place in streams.ended() {
            let entry = *streams.get(place);
            let end = run_end(&entry, question.file_end, |page| cache.is_unread(slot, page));
            let counted = self.runs.add(device, slot, &entry, end);
            streams.set_counted(place, counted);
        }
    }

    /// Counts the streams of a file that is about to be closed, for others on its device.
    pub(crate) fn count_runs_of_closed(
        &mut self,
        device: u32,
        slot: FileSlot,
        file_end: PageIndex,
        cache: &mut PageCache,
    ) {
        if self.policy != super::Policy::Adaptive || self.is_without(AdaptivePart::Runs) {
            return;
        }
        for entry in self.files[slot.0 as usize].uncounted().filter(|entry| !entry.is_random()) {
            let end = run_end(entry, file_end, |page| cache.is_unread(slot, page));
            self.runs.add_to_device(device, end);
        }
    }

    /// Chooses the next window of the asking stream by run length, up to `max`; `found` is its
    /// entry, if there is one.
    pub(super) fn choose_by_runs(
        &mut self,
        question: &Question<'_>,
        found: Option<&StreamEntry>,
        max: Pages,
    ) -> RunChoice {
        let (nothing, ask) = (RunChoice::default(), question.ask);
        // Explicit advice takes precedence.
        if self.is_without(AdaptivePart::Runs) || question.reader.advice != Advice::Normal {
            return nothing;
        }
        let KnownRuns { files, devices } = &mut self.runs;
        let device = &mut devices[question.device as usize];
        let Some(request) = device.request else { return nothing };
        let own = files.get_mut(question.file.0 as usize).and_then(Option::as_deref_mut);
        let is_new = found.is_none() && adaptive::begins_anywhere(ask);
        let lengths = match own.filter(|own| own.knows(1, TRUSTED)) {
            Some(own) => own,
            None if is_new => return nothing,
            None => match device.lengths.as_deref_mut() {
                Some(others) => others,
                None => return nothing,
            },
        };
        lengths.refresh(request, max.0);
        let way = lengths.way();
        if is_new && way == RunWay::Mixed {
            return nothing;
        }
        let (start, wanted, part) = match (ask.trigger, found) {
            (Trigger::Miss, None) if is_new && !lengths.knows(ask.count.0, 2 * TRUSTED) => {
                return nothing;
            }
            // It is in a row with the last read of its handle and is not remembered: one of many
            // that began together, of which too few pages are known to tell.
            (Trigger::Miss, None) if !is_new && ask.page > PageIndex(0) => return nothing,
            (Trigger::Miss, _) => {
                (found.map_or(0, |known| known.run_before(ask.page, ask.count)), ask.count.0, 1.0)
            }
            (Trigger::Marker, None) => return nothing,
            (Trigger::Marker, Some(known)) => {
                let read = known.run_before(ask.page, ask.count) + ask.count.0;
                let end = known.run_at_end(question.file_end);
                (end.max(read), 1, lengths.part_beyond(read, end))
            }
        };
        let Some(window) = lengths.window(start, wanted) else {
            let is_put_off = part < LIKELY;
            return RunChoice { is_put_off, ..nothing };
        };
        let distance = lengths.distance_before(start + window);
        // A window this small wastes little against the pages already read.
        let is_long = window <= start / LONG_DENOM;
        RunChoice {
            window: Some(Pages(window)),
            distance: distance.filter(|_| !is_long).map(Pages),
            is_put_off: part < LIKELY && !is_long,
            begins_backwards: way == RunWay::Backwards,
        }
    }
}

/// Returns the run length of a stream that is no longer matched. `is_unread` returns true for an
/// unread prefetched page, and None for an evicted one.
///
/// ```text
///   met here      used       unread               met here     gone   gone
///   |===========|==========|.........|           |===========|-------------|
///   run                    ^ it ended here       run          ^ it may have read more
/// ```
fn run_end(
    entry: &StreamEntry,
    file_end: PageIndex,
    mut is_unread: impl FnMut(PageIndex) -> Option<bool>,
) -> RunEnd {
    let (run, all) = (entry.run(), entry.run_at_end(file_end));
    let is_backwards = entry.way == StreamDirection::BACKWARDS;
    let is_whole = if is_backwards { entry.start.0 == 0 } else { entry.end >= file_end };
    if entry.is_random() {
        let length = run + (entry.end - entry.start).0;
        return if is_whole { RunEnd::Censored(length) } else { RunEnd::Ended(length) };
    }
    // Binary search: earlier pages are used or gone, later ones are unread.
    let (mut low, mut high) = (0, all - run);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_unread(entry.nth_ahead(middle)) == Some(true) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    if low < all - run {
        return RunEnd::Ended(run + low);
    }
    let is_gone = low > 0 && is_unread(entry.nth_ahead(low - 1)).is_none();
    match (is_gone, is_whole) {
        (true, _) => RunEnd::Censored(run + 1),
        (false, true) => RunEnd::Censored(all),
        (false, false) => RunEnd::Ended(all),
    }
}
