//! How long the streams of files and devices ran, and what follows for the next window.
//!
//! In:    streams that were not met for a while; which of the pages read ahead for them were used;
//!        what requests of the device cost.
//! Out:   the window of a stream, its distance, and whether to wait until it is wanted
//!        ([`RunChoice`]).
//! Never: a hit. Where a stream ended is told later, by the first page that no reader has used.

use super::asker::Asker;
use super::decision::{Ask, Trigger};
use super::known_runs::KnownRuns;
use super::policy::adaptive;
use super::policy::rules::AdaptivePart;
use super::prefetcher::Prefetcher;
use super::run_lengths::{CountedRun, LIKELY, LONG_DENOM, RunEnd, RunWay, TRUSTED};
use super::stream_state::Advice;
use super::streams::{StreamDirection, StreamEntry};
use crate::cache::PageCache;
use crate::table::FileSlot;
use crate::units::{PageIndex, Pages};

/// What follows for the next window of a stream. Nothing, if too little is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunChoice {
    /// Its size, with what its reader waits for.
    pub(super) window: Option<Pages>,
    /// The most pages that are to be ahead of its reader when it asks again.
    pub(super) distance: Option<Pages>,
    /// Whether nothing is requested before its reader waits for it.
    pub(super) is_put_off: bool,
    /// Whether a stream that begins anywhere goes backwards.
    pub(super) begins_backwards: bool,
}

impl Prefetcher {
    /// Counts streams of a file that have ended since the last question.
    pub(super) fn count_runs(&mut self, asker: &Asker<'_>, cache: &mut PageCache) {
        let (device, slot) = (asker.device, asker.file);
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
            let end = run_end(&entry, asker.file_end, |page| cache.is_unread(slot, page));
            let counted = self.runs.add(device, slot, &entry, end);
            streams.set_counted(place, counted);
        }
    }

    /// A file is about to be closed: what its streams told is kept for others on its device.
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

    /// What follows from how long streams run, for the one that asks: `found` if it is remembered.
    /// No window is larger than `max`.
    pub(super) fn choose_by_runs(
        &mut self,
        asker: &Asker<'_>,
        ask: Ask,
        found: Option<&StreamEntry>,
        max: Pages,
    ) -> RunChoice {
        let nothing = RunChoice::default();
        // An owner that says how it reads is believed.
        if self.is_without(AdaptivePart::Runs) || asker.reader.advice != Advice::Normal {
            return nothing;
        }
        let KnownRuns { files, devices } = &mut self.runs;
        let device = &mut devices[asker.device as usize];
        let Some(request) = device.request else { return nothing };
        let own = files.get_mut(asker.file.0 as usize).and_then(Option::as_deref_mut);
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
                let end = known.run_at_end(asker.file_end);
                (end.max(read), 1, lengths.part_beyond(read, end))
            }
        };
        let Some(window) = lengths.window(start, wanted) else {
            let is_put_off = part < LIKELY;
            return RunChoice { is_put_off, ..nothing };
        };
        let distance = lengths.distance_before(start + window);
        // As little as that is nothing beside what was read.
        let is_long = window <= start / LONG_DENOM;
        RunChoice {
            window: Some(Pages(window)),
            distance: distance.filter(|_| !is_long).map(Pages),
            is_put_off: part < LIKELY && !is_long,
            begins_backwards: way == RunWay::Backwards,
        }
    }
}

/// How long a stream ran that is not met any more. `is_unread` says of a page whether it was read
/// ahead and is unread; None if it is gone.
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
    // All before it are used or gone, all from it on are unread.
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
