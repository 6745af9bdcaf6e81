//! Which streams have ended: those that were not met while many others began.
//!
//! In:    how many streams and random reads have come since.
//! Out:   entries to be counted, each once.
//! Never: a clock. A reader that comes back is taken out of the count again.

use super::entry::{StreamEntry, StreamSlot};
use super::{CountedRun, Streams};

impl Streams {
    /// The next few that may have ended since the last question, and were not counted.
    ///
    /// ```text
    ///   tentative   | .. | 16 | .. | 1 | 0        the one that came so many ago, once on its way
    ///   confirmed   |e|e|e|>e|e|e|e<|e|e|         a few at each question, in turns
    /// ```
    pub(in crate::prefetch) fn ended(&self) -> impl Iterator<Item = StreamSlot> + use<> {
        let mut found = [None; LOOKS + AGES.len()];
        let (arrivals, meetings) = (self.arrivals as usize, self.meetings as usize);
        let confirmed = self.confirmed.entries();
        let hand = arrivals.wrapping_add(meetings).wrapping_mul(LOOKS);
        for (look, slot) in found.iter_mut().enumerate().take(LOOKS.min(confirmed.len())) {
            let index = hand.wrapping_add(look) % confirmed.len();
            let is_over = self.is_over(&confirmed[index]);
            *slot = Some(StreamSlot::Confirmed(index)).filter(|_| is_over);
        }
        let tentative = self.tentative.entries();
        for (age, slot) in AGES.into_iter().zip(&mut found[LOOKS..]) {
            let index = arrivals.wrapping_sub(age) % Self::TENTATIVE_MAX;
            let is_old = |entry: &StreamEntry| {
                let age = self.arrivals.wrapping_sub(entry.stamp);
                is_uncounted(entry) && age >= ENDED_AFTER
            };
            let is_over = tentative.get(index).is_some_and(is_old);
            *slot = Some(StreamSlot::Tentative(index)).filter(|_| is_over);
        }
        found.into_iter().flatten()
    }

    /// All that were not counted.
    pub(in crate::prefetch) fn uncounted(&self) -> impl Iterator<Item = &StreamEntry> {
        let entries = self.confirmed.entries().iter().chain(self.tentative.entries());
        entries.filter(|entry| is_uncounted(entry))
    }

    /// It was counted as ended.
    pub(in crate::prefetch) fn set_counted(&mut self, place: StreamSlot, counted: CountedRun) {
        match place {
            StreamSlot::Confirmed(index) => self.confirmed.set_counted(index, counted),
            StreamSlot::Tentative(index) => self.tentative.set_counted(index, counted),
        }
    }

    /// Where the one that was met last had been counted as ended; asked for after each decision.
    pub(in crate::prefetch) fn take_resumed(&mut self) -> CountedRun {
        core::mem::take(&mut self.resumed)
    }

    fn is_over(&self, entry: &StreamEntry) -> bool {
        // What is noted of a strided one are its pieces.
        let age = if entry.way.stride().is_some() {
            self.meetings.wrapping_sub(entry.stamp) / MEETINGS
        } else {
            self.arrivals.wrapping_sub(entry.reads)
        };
        is_uncounted(entry) && age >= ENDED_AFTER
    }
}

fn is_uncounted(entry: &StreamEntry) -> bool {
    entry.is_there() && entry.counted == CountedRun::NOWHERE
}

/// A stream that was not met while so many others began has ended, unless it comes back.
const ENDED_AFTER: u32 = 16;

/// A strided one: while so many times as many windows were asked for.
const MEETINGS: u32 = 16;

/// So many confirmed streams are looked at for each question.
const LOOKS: usize = 4;

/// When a tentative stream is looked at, in arrivals since it came: a second time before it goes.
const AGES: [usize; 2] = [17, 63];
