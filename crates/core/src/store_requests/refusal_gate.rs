//! Probes a store that refuses every request, one request at a time.
//!
//! ```text
//!   answers   ok ok 503 x 8 |--pause--| 1 probe: 503 |----pause----| 1 probe: ok | all
//!                           ^ closed                                             ^ open
//! ```

use super::retry_pauses::RetryPauses;
use crate::units::Nanos;

/// Closes after some refusals in a row. Then one request at a time probes the store, after doubling
/// pauses, until it serves again.
///
/// [`RequestLimit`](super::RequestLimit) finds the rate of a store that refuses some requests. A
/// store that refuses all of them has no such rate: each further request is another refusal.
///
/// ```
/// use foreread_core::store_requests::RefusalGate;
/// use foreread_core::units::Nanos;
///
/// let ms = 1_000_000;
/// let mut gate = RefusalGate::new(Nanos(100 * ms), Nanos(5000 * ms));
/// for at in 0..8 {
///     gate.refused(Nanos(at), Nanos(at), None, 0);
/// }
/// assert!(!gate.start(Nanos(9)), "it pauses");
/// let again = gate.opens_at().expect("a time");
/// assert!(gate.start(again) && !gate.start(again), "one probe");
/// gate.served();
/// assert!(gate.start(again) && gate.start(again));
/// ```
#[derive(Clone, Debug)]
pub struct RefusalGate {
    first: Nanos,
    longest: Nanos,
    /// Refusals since the last answer.
    in_a_row: u32,
    /// Pauses since the last answer, and start and end of the current one.
    pauses: RetryPauses,
    began: Nanos,
    until: Nanos,
    is_probed: bool,
}

impl RefusalGate {
    /// Returns an open gate, whose pauses begin with `first` and grow to `longest`.
    #[must_use]
    pub fn new(first: Nanos, longest: Nanos) -> Self {
        let pauses = RetryPauses::new(first, longest);
        let (began, until) = (Nanos(0), Nanos(0));
        Self { first, longest, in_a_row: 0, pauses, began, until, is_probed: false }
    }

    /// Starts a request at `now`, if the store is open or due for a probe.
    #[must_use]
    pub fn start(&mut self, now: Nanos) -> bool {
        if !self.is_closed() {
            return true;
        }
        let is_due = now >= self.until && !self.is_probed;
        self.is_probed |= is_due;
        is_due
    }

    /// Records a refusal at `now` of a request sent at `sent`, with the store's Retry-After and a
    /// random number for the jitter.
    pub fn refused(&mut self, now: Nanos, sent: Nanos, asked: Option<Nanos>, random: u32) {
        if self.is_closed() && sent < self.began {
            return;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.is_closed() {
            let asked = asked.map(|asked| asked.min(ASKED_MAX));
            let pause = self.pauses.next(asked, Nanos(u64::MAX), random);
            (self.began, self.is_probed) = (now, false);
            self.until = Nanos(now.0.saturating_add(pause.map_or(0, |pause| pause.0)));
        }
    }

    /// Records an answer other than a refusal.
    pub fn served(&mut self) {
        if self.in_a_row > 0 {
            *self = Self::new(self.first, self.longest);
        }
    }

    /// Records that a request ended without an answer. If it was the probe, another one may be
    /// sent.
    pub fn given_up(&mut self) {
        self.is_probed = false;
    }

    /// Returns when the next probe is due, or None if the store is open or a probe is in flight.
    #[must_use]
    pub fn opens_at(&self) -> Option<Nanos> {
        (self.is_closed() && !self.is_probed).then_some(self.until)
    }

    /// Returns true if the store is paused or being probed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.in_a_row >= REFUSALS_MAX
    }
}

/// A store that serves more than half of the requests refuses this many in a row once in 256 times
/// at most, and then pauses shortly.
const REFUSALS_MAX: u32 = 8;

/// Limit for longer Retry-After values: readers are waiting.
const ASKED_MAX: Nanos = Nanos(30_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn closed() -> RefusalGate {
        let mut gate = RefusalGate::new(Nanos(100 * MS), Nanos(5000 * MS));
        for _ in 0..REFUSALS_MAX {
            assert!(gate.start(Nanos(MS)));
            gate.refused(Nanos(MS), Nanos(0), None, 0);
        }
        gate
    }

    /// A store that refused for 12 s was asked hundreds of times.
    #[test]
    fn a_closed_store_gets_one_probe_for_each_pause() {
        let mut gate = closed();
        let mut probes = 0;
        for ms in 0..12_000 {
            let now = Nanos(ms * MS);
            if gate.start(now) {
                assert!(!gate.start(now), "one at a time");
                gate.refused(now, now, None, 0);
                probes += 1;
            }
        }
        assert!((5..=12).contains(&probes), "{probes} probes");
    }

    #[test]
    fn refusals_of_what_was_sent_before_do_not_make_the_pause_longer() {
        let mut gate = closed();
        let until = gate.opens_at();
        for _ in 0..60 {
            gate.refused(Nanos(2 * MS), Nanos(0), None, 0);
        }
        assert_eq!(gate.opens_at(), until);
    }

    #[test]
    fn a_probe_without_an_answer_is_followed_by_another() {
        let mut gate = closed();
        let due = gate.opens_at().unwrap();
        assert!(gate.start(due) && !gate.start(due));
        gate.given_up();
        assert!(gate.start(due));
    }

    #[test]
    fn the_pause_that_a_store_asks_for_is_kept_up_to_a_bound() {
        let mut gate = closed();
        let due = gate.opens_at().unwrap();
        assert!(gate.start(due));
        gate.refused(due, due, Some(Nanos(2000 * MS)), 0);
        assert_eq!(gate.opens_at(), Some(Nanos(due.0 + 2000 * MS)));
        let due = gate.opens_at().unwrap();
        assert!(gate.start(due));
        gate.refused(due, due, Some(Nanos(u64::MAX)), 0);
        assert_eq!(gate.opens_at(), Some(Nanos(due.0 + ASKED_MAX.0)));
    }
}
