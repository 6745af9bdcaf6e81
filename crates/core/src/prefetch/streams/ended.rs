//! Finds ended streams: those not matched while many others began.

use super::entry::{StreamEntry, StreamSlot};
use super::{CountedRun, Streams};

impl Streams {
    /// Returns the next few streams that may have ended since the last question and were not
    /// counted.
    ///
    /// ```text
    ///   tentative   | .. | 16 | .. | 1 | 0        arrivals since: each is checked at a fixed age
    ///   confirmed   |e|e|e|>e|e|e|e<|e|e|         a few at each question, round robin
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

    /// Returns all streams that were not counted.
    pub(in crate::prefetch) fn uncounted(&self) -> impl Iterator<Item = &StreamEntry> {
        let entries = self.confirmed.entries().iter().chain(self.tentative.entries());
        entries.filter(|entry| is_uncounted(entry))
    }

    /// Records in which run the stream was counted as ended.
    pub(in crate::prefetch) fn set_counted(&mut self, place: StreamSlot, counted: CountedRun) {
        match place {
            StreamSlot::Confirmed(index) => self.confirmed.set_counted(index, counted),
            StreamSlot::Tentative(index) => self.tentative.set_counted(index, counted),
        }
    }

    /// Takes the run in which the stream matched last had been counted as ended; call it after each
    /// decision.
    pub(in crate::prefetch) fn take_resumed(&mut self) -> CountedRun {
        core::mem::take(&mut self.resumed)
    }

    fn is_over(&self, entry: &StreamEntry) -> bool {
        // For a strided stream this field holds the pages of a piece.
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

/// Arrivals without a match after which a stream counts as ended, unless it comes back.
const ENDED_AFTER: u32 = 16;

/// The same for a strided stream, in multiples of its requested windows.
const MEETINGS: u32 = 16;

/// Confirmed streams checked at each question.
const LOOKS: usize = 4;

/// Arrivals after which a tentative stream is checked; the second time is before it is replaced.
const AGES: [usize; 2] = [17, 63];
