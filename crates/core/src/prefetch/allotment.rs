//! Computes a stream's part of the prefetch memory, and frees the frames for it.
//!
//! The policy decides within this [`Allotment`]; only `adaptive` has one.

use super::asker::{Asker, PendingShare};
use super::decision::{Allotment, Ask, Trigger};
use super::memory_shares::ShareQuestion;
use super::policy::Policy;
use super::policy::adaptive;
use super::policy::rules::AdaptivePart;
use super::prefetcher::Prefetcher;
use super::run_ends::RunChoice;
use super::stream_state::Advice;
use crate::cache::PageCache;
use crate::units::{Nanos, PageIndex, Pages};

impl Prefetcher {
    /// Returns the allotment of the asking stream: its share of the memory, limited to the frames
    /// that can be freed now. The ceilings are those of its question and of smaller reads.
    pub(super) fn allot(
        &mut self,
        asker: &mut Asker<'_>,
        ask: Ask,
        (ceiling, common_ceiling): (Pages, Pages),
        set_aside: Pages,
        cache: &mut PageCache,
    ) -> Allotment {
        let is_put_off = ask.trigger == Trigger::Marker && self.wants_idle_device(asker);
        let nothing = Allotment::whole(Pages::ZERO, None);
        if ceiling == Pages::ZERO || is_put_off {
            return nothing;
        }
        let question = self.share_question(asker, ask, (ceiling, common_ceiling));
        if ask.trigger == Trigger::Miss {
            self.files[asker.file.0 as usize].note_near(ask.page, ask.count);
        }
        let residency = cache.residency(asker.file);
        let found = adaptive::asking(&self.files[asker.file.0 as usize], ask, &residency).copied();
        let runs = self.choose_by_runs(asker, ask, found.as_ref(), ceiling);
        if runs.is_put_off {
            return nothing;
        }
        let file = &self.files[asker.file.0 as usize];
        let found = found.and_then(|known| known.share_at(ask.page));
        let id = found.map(|(share, _)| share);
        let page = found.map_or(ask.page, |(_, position)| position);
        let question = ShareQuestion { page, ..question };
        let memory = cache.room_for_ahead();
        let allotted = match id {
            Some(id) => self.shares.ask(id, question, memory),
            None => self.shares.ask_new(question, memory),
        };
        let leaves_out_shares = self.is_without(AdaptivePart::Shares);
        let mut max = if leaves_out_shares { ceiling } else { allotted.window };
        let distance = allotted.distance.filter(|_| !self.is_without(AdaptivePart::Distance));
        let distance = distance.into_iter().chain(runs.distance).min();
        let base = self.allotment(asker, ask, (max, distance), question.far, &runs);
        let within = |max| Allotment { max, ..base };
        let wanted = |max| adaptive::wants(file, ask, within(max), &residency);
        let (mut size, mut lacks) = wanted(max);
        let (mut unclipped, mut is_staggered) = (None, false);
        if let (Some(id), Some(_), false) = (id, allotted.distance, leaves_out_shares) {
            let part = self.shares.stagger(id, size, max);
            if part < max {
                is_staggered = true;
                unclipped = Some(size);
                max = part;
                (size, lacks) = wanted(max);
            }
        }
        if !self.is_without(AdaptivePart::Clip) {
            let wants = size + lacks;
            let room = self.reclaim(asker.now, wants, set_aside, memory, cache);
            asker.frames_ahead = Some(room);
            if ask.trigger == Trigger::Marker && room < wants.min(allotted.least) {
                if let Some(id) = id.filter(|_| is_staggered) {
                    self.shares.keep_phase(id);
                }
                return nothing;
            }
            if room < wants {
                unclipped = unclipped.or(Some(size));
                max = room.saturating_sub(lacks).max(Pages(1));
            }
        }
        assert!(max > Pages::ZERO, "a stream that is not put off may have a page");
        asker.pending = Some(PendingShare { share: id, question, page: ask.page, unclipped });
        within(max)
    }

    /// Frees frames for a window of `wants` pages. Returns the number that may be filled for it.
    fn reclaim(
        &self,
        now: Nanos,
        wants: Pages,
        set_aside: Pages,
        memory: Pages,
        cache: &mut PageCache,
    ) -> Pages {
        // Some free frames are reserved for pins. Take half of the rest, to leave some for the next
        // question.
        let most = Pages(cache.available().saturating_sub(set_aside).0.div_ceil(2));
        // Leave a frame for a read that begins without a window.
        let set_aside = set_aside + Pages(memory.0 / NEWCOMERS_DENOM);
        let room = cache.reclaim(wants + set_aside, |file, page| self.is_live(now, file, page));
        let room = room.saturating_sub(set_aside).min(most);
        debug_assert!(room <= cache.available(), "frames that are promised can be had");
        room
    }

    /// Returns true if a marker is ignored now, to measure the device idle.
    fn wants_idle_device(&self, asker: &Asker<'_>) -> bool {
        let estimator = &self.estimators[asker.device as usize];
        self.is_window_learnt && asker.is_device_reading && estimator.wants_idle_device()
    }

    /// Returns true if the device serves the requests of a window concurrently, so that its streams
    /// divide the queue depth.
    fn is_far(&self, asker: &Asker<'_>) -> bool {
        let is_on = self.is_window_learnt && !self.is_without(AdaptivePart::Far);
        is_on && self.estimators[asker.device as usize].is_far(asker.max_io)
    }

    /// Returns the next position on such a device that is read in turn, as a question of a reader
    /// that misses there. It skips positions that would not continue: with the page already
    /// resident, or with no reader expected any more.
    pub(crate) fn next_in_turn(
        &mut self,
        asker: &Asker<'_>,
        cache: &PageCache,
    ) -> Option<(PageIndex, Pages, Trigger)> {
        let is_asked = self.policy == Policy::Adaptive && asker.reader.advice == Advice::Normal;
        if !is_asked || !self.is_far(asker) {
            return None;
        }
        let streams = &mut self.files[asker.file.0 as usize];
        // Each is taken once, and there are no more than tentative streams.
        loop {
            let (page, count) = streams.next_in_turn()?;
            let is_missing = page < asker.file_end && cache.look_up(asker.file, page).is_none();
            let trigger = Trigger::Miss;
            let ask = Ask { page, count, trigger, prev_pos: None, has_waited: true };
            let found = adaptive::asking(streams, ask, &cache.residency(asker.file));
            if is_missing && found.is_some_and(|known| known.is_random() && known.end == page) {
                return Some((page, count, trigger));
            }
        }
    }

    /// Returns an allotment of at most `max` pages, given the run lengths and the device.
    fn allotment(
        &self,
        asker: &Asker<'_>,
        ask: Ask,
        (max, distance): (Pages, Option<Pages>),
        far: Option<u32>,
        runs: &RunChoice,
    ) -> Allotment {
        let RunChoice { window: run, begins_backwards, .. } = *runs;
        let next_stream = far.and_then(|_| self.next_stream(asker, ask));
        let is_far = far.is_some();
        Allotment { max, distance, run, begins_backwards, is_far, next_stream }
    }

    /// Returns the start of the next active stream of the file behind one at its marker.
    fn next_stream(&self, asker: &Asker<'_>, ask: Ask) -> Option<PageIndex> {
        let streams = &self.files[asker.file.0 as usize];
        streams.with_marker(ask.page)?;
        streams.next_begun(ask.page, |share| self.shares.reads_far(asker.now, share))
    }

    fn share_question(
        &self,
        asker: &mut Asker<'_>,
        ask: Ask,
        (ceiling, common_ceiling): (Pages, Pages),
    ) -> ShareQuestion {
        // A configured limit is used as it is.
        let unstalled = if self.is_window_learnt { asker.max_io } else { Pages(u64::MAX) };
        assert!(common_ceiling > Pages::ZERO, "a stream without windows has no share");
        debug_assert!(ceiling >= common_ceiling, "a large read raises its own ceiling");
        ShareQuestion {
            now: asker.now,
            page: ask.page,
            count: ask.count,
            submitter: asker.reader.submitter,
            has_waited: ask.has_waited,
            blocked_ns: core::mem::take(&mut asker.reader.blocked_ns),
            handle_blocked_ns: asker.reader.handle_blocked_ns,
            ceiling,
            common_ceiling,
            max_window_unstalled: unstalled.min(ceiling),
            latency_ns: self.estimators[asker.device as usize].latency_ns(),
            far: self.is_far(asker).then_some(asker.device),
        }
    }
}

/// Part of the memory, as a divisor, left for pages that a read waits for, so that none of them
/// takes a frame of another stream. There are fewer such reads between two windows.
const NEWCOMERS_DENOM: u64 = 256;
