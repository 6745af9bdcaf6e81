//! What the stream that asks may have of the memory that all streams share.
//!
//! In:    a question of `adaptive`; the cache's room.
//! Out:   an [`Allotment`]; frames made free for it.
//! Never: a decision. The policy decides within it.

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
    /// What the stream that asks may have: its share of the memory, as far as frames for it can be
    /// had now. The ceilings are that of its question, and that of smaller reads.
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

    /// Makes room for a window of `wants` pages; returns how many frames may be filled for it.
    fn reclaim(
        &self,
        now: Nanos,
        wants: Pages,
        set_aside: Pages,
        memory: Pages,
        cache: &mut PageCache,
    ) -> Pages {
        // Some of what is free is kept for pins. Half of the rest, so that the next question finds
        // some, too.
        let most = Pages(cache.available().saturating_sub(set_aside).0.div_ceil(2));
        // A read that begins with no window of its own finds a frame there.
        let set_aside = set_aside + Pages(memory.0 / NEWCOMERS_DENOM);
        let room = cache.reclaim(wants + set_aside, |file, page| self.is_live(now, file, page));
        let room = room.saturating_sub(set_aside).min(most);
        debug_assert!(room <= cache.available(), "frames that are promised can be had");
        room
    }

    /// Whether a marker brings nothing now, because the device is to be idle when it is asked.
    fn wants_idle_device(&self, asker: &Asker<'_>) -> bool {
        let estimator = &self.estimators[asker.device as usize];
        self.is_window_learnt && asker.is_device_reading && estimator.wants_idle_device()
    }

    /// Whether its device serves the requests of a window at once, so that streams share what is in
    /// flight there.
    fn is_far(&self, asker: &Asker<'_>) -> bool {
        let is_on = self.is_window_learnt && !self.is_without(AdaptivePart::Far);
        is_on && self.estimators[asker.device as usize].is_far(asker.max_io)
    }

    /// The next of the positions that are read in turns on such a device: a question, as if its
    /// reader missed its pages now. Those that would not go on are passed over: whose page is there
    /// already, or where no reader is expected any more.
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

    /// A window of at most `max` pages, by how long streams run and whether their device is far.
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

    /// Where the next stream of the file began that is read now, behind one that meets its marker.
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
        // What is set is set.
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

/// A 256th of the memory is left for pages that a read waits for, so that none of those takes a
/// frame from another stream: more than there are such reads between one window and the next.
const NEWCOMERS_DENOM: u64 = 256;
