//! Computes a stream's part of the prefetch memory, and frees the frames for it.
//!
//! The policy decides within this [`Allotment`]; only `adaptive` has one.

use super::decision::{Allotment, Ask, Trigger};
use super::memory_shares::{ShareAllotment, ShareId};
use super::policy::Policy;
use super::policy::adaptive::{self, WantedPages};
use super::policy::rules::AdaptivePart;
use super::prefetcher::{PendingShare, Prefetcher};
use super::question::{Question, WindowBounds};
use super::stream_state::Advice;
use crate::cache::PageCache;
use crate::units::{PageIndex, Pages};

/// A stream's window on its way from its share of the memory to its allotment.
#[derive(Debug)]
struct SharedWindow {
    /// Share of a remembered stream.
    id: Option<ShareId>,
    /// Memory that the streams divide.
    memory: Pages,
    /// Answer of the memory shares.
    granted: ShareAllotment,
    allotment: Allotment,
    /// Pages that the policy would prefetch within the allotment.
    wants: WantedPages,
    /// Size of the window before the stagger or a clip shortened it.
    unclipped: Option<Pages>,
}

impl Prefetcher {
    /// Returns the allotment of the asking stream: its share of the memory, limited to the frames
    /// that can be freed now. `common_ceiling` is the ceiling of smaller reads.
    ///
    /// ```text
    ///   share    window and distance by the memory shares, distance also by run lengths
    ///   stagger  the first window after memory ran short is shorter, by the stream's phase
    ///   clip     no more pages than frames can be freed; a marker waits until some can
    /// ```
    pub(super) fn allot(
        &mut self,
        question: &mut Question<'_>,
        ceiling: Pages,
        common_ceiling: Pages,
        cache: &mut PageCache,
    ) -> Allotment {
        let nothing = Allotment::whole(Pages::ZERO, None);
        if ceiling == Pages::ZERO || self.wants_idle_device(question) {
            return nothing;
        }
        question.bounds = self.bounds(question, ceiling, common_ceiling);
        let window = self.share(question, cache);
        question.reader.blocked_ns = 0;
        let Some(mut window) = window else { return nothing };
        self.stagger(question, &mut window, cache);
        if !self.is_without(AdaptivePart::Clip) && !self.clip(question, &mut window, cache) {
            return nothing;
        }
        let SharedWindow { id, allotment, unclipped, .. } = window;
        assert!(allotment.max > Pages::ZERO, "a stream that is not put off may have a page");
        self.pending = Some(PendingShare { share: id, unclipped });
        allotment
    }

    /// Returns the stream's share of the memory, or None if its run lengths put the window off.
    fn share(&mut self, question: &Question<'_>, cache: &PageCache) -> Option<SharedWindow> {
        let (ask, bounds) = (question.ask, question.bounds);
        let streams = &mut self.files[question.file.0 as usize];
        if ask.trigger == Trigger::Miss {
            streams.note_near(ask.page, ask.count);
        }
        let found = adaptive::asking(streams, ask, &cache.residency(question.file)).copied();
        let runs = self.choose_by_runs(question, found.as_ref(), bounds.ceiling);
        if runs.is_put_off {
            return None;
        }
        let found = found.and_then(|known| known.share_at(ask.page));
        let memory = cache.room_for_ahead();
        let granted = match found {
            Some((id, position)) => self.shares.ask(id, question, position, memory),
            None => self.shares.ask_new(question, memory),
        };
        let is_shared = !self.is_without(AdaptivePart::Shares);
        let distance = granted.distance.filter(|_| !self.is_without(AdaptivePart::Distance));
        let allotment = Allotment {
            max: if is_shared { granted.window } else { bounds.ceiling },
            distance: distance.into_iter().chain(runs.distance).min(),
            run: runs.window,
            begins_backwards: runs.begins_backwards,
            is_far: bounds.is_far,
            next_stream: if bounds.is_far { self.next_stream(question) } else { None },
        };
        let wants = self.wants(question, allotment, cache);
        let id = found.map(|(share, _)| share);
        Some(SharedWindow { id, memory, granted, allotment, wants, unclipped: None })
    }

    /// Shortens the first window of a stream after memory ran short, so that streams do not ask in
    /// step.
    fn stagger(&mut self, question: &Question<'_>, window: &mut SharedWindow, cache: &PageCache) {
        let Some(id) = window.id.filter(|_| window.granted.distance.is_some()) else { return };
        if self.is_without(AdaptivePart::Shares) {
            return;
        }
        let part = self.shares.stagger(id, window.wants.window, window.allotment.max);
        if part < window.allotment.max {
            window.unclipped = Some(window.wants.window);
            window.allotment.max = part;
            window.wants = self.wants(question, window.allotment, cache);
        }
    }

    /// Frees frames for the window, and shortens it to their number. Returns false if a marker
    /// should wait until more can be freed.
    fn clip(
        &mut self,
        question: &mut Question<'_>,
        window: &mut SharedWindow,
        cache: &mut PageCache,
    ) -> bool {
        let WantedPages { window: size, lacks } = window.wants;
        let wants = size + lacks;
        let room = self.reclaim(question, wants, window.memory, cache);
        question.frames_ahead = Some(room);
        if question.ask.trigger == Trigger::Marker && room < wants.min(window.granted.least) {
            // Nothing was clipped yet: only the stagger has shortened the window.
            if let Some(id) = window.id.filter(|_| window.unclipped.is_some()) {
                self.shares.keep_phase(id);
            }
            return false;
        }
        if room < wants {
            window.unclipped = window.unclipped.or(Some(size));
            window.allotment.max = room.saturating_sub(lacks).max(Pages(1));
        }
        true
    }

    /// Returns the pages that the policy would prefetch within this allotment.
    fn wants(
        &self,
        question: &Question<'_>,
        allotment: Allotment,
        cache: &PageCache,
    ) -> WantedPages {
        let streams = &self.files[question.file.0 as usize];
        adaptive::wants(streams, question.ask, allotment, &cache.residency(question.file))
    }

    /// Frees frames for a window of `wants` pages. Returns the number that may be filled for it.
    fn reclaim(
        &self,
        question: &Question<'_>,
        wants: Pages,
        memory: Pages,
        cache: &mut PageCache,
    ) -> Pages {
        let Question { now, set_aside, .. } = *question;
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
    fn wants_idle_device(&self, question: &Question<'_>) -> bool {
        let estimator = &self.estimators[question.device as usize];
        question.ask.trigger == Trigger::Marker
            && self.is_window_learnt
            && question.is_device_reading
            && estimator.wants_idle_device()
    }

    /// Returns true if the device serves the requests of a window concurrently, so that its streams
    /// divide the queue depth.
    fn is_far(&self, question: &Question<'_>) -> bool {
        let is_on = self.is_window_learnt && !self.is_without(AdaptivePart::Far);
        is_on && self.estimators[question.device as usize].is_far(question.max_io)
    }

    /// Returns the next question on such a device that is asked in turn, as if a reader missed
    /// there. It skips positions that would not continue: with the page already resident, or with
    /// no reader expected any more.
    pub(crate) fn next_in_turn(&mut self, asked: &Question<'_>, cache: &PageCache) -> Option<Ask> {
        let is_asked = self.policy == Policy::Adaptive && asked.reader.advice == Advice::Normal;
        if !is_asked || !self.is_far(asked) {
            return None;
        }
        let streams = &mut self.files[asked.file.0 as usize];
        // Each is taken once, and there are no more than tentative streams.
        loop {
            let (page, count) = streams.next_in_turn()?;
            let is_missing = page < asked.file_end && cache.look_up(asked.file, page).is_none();
            let trigger = Trigger::Miss;
            let ask = Ask { page, count, trigger, prev_pos: None, has_waited: true };
            let found = adaptive::asking(streams, ask, &cache.residency(asked.file));
            if is_missing && found.is_some_and(|known| known.is_random() && known.end == page) {
                return Some(ask);
            }
        }
    }

    /// Returns the start of the next active stream of the file behind one at its marker.
    fn next_stream(&self, question: &Question<'_>) -> Option<PageIndex> {
        let streams = &self.files[question.file.0 as usize];
        let page = question.ask.page;
        streams.with_marker(page)?;
        streams.next_begun(page, |share| self.shares.reads_far(question.now, share))
    }

    /// Returns the bounds on the window of this question.
    fn bounds(
        &self,
        question: &Question<'_>,
        ceiling: Pages,
        common_ceiling: Pages,
    ) -> WindowBounds {
        // A configured limit is used as it is.
        let unstalled = if self.is_window_learnt { question.max_io } else { Pages(u64::MAX) };
        assert!(common_ceiling > Pages::ZERO, "a stream without windows has no share");
        debug_assert!(ceiling >= common_ceiling, "a large read raises its own ceiling");
        WindowBounds {
            ceiling,
            common_ceiling,
            max_unstalled: unstalled.min(ceiling),
            latency_ns: self.estimators[question.device as usize].latency_ns(),
            is_far: self.is_far(question),
        }
    }
}

/// Part of the memory, as a divisor, left for pages that a read waits for, so that none of them
/// takes a frame of another stream. There are fewer such reads between two windows.
const NEWCOMERS_DENOM: u64 = 256;
