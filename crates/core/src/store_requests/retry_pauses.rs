//! Pauses between the attempts of a request that a store refuses.
//!
//! ```text
//!   without Retry-After   |.1|-.2-|--.4--|----.8----| ..  up to 5 s, each with jitter
//!   deadline near                           |-- half of the time left --|-- half --|..
//! ```

use crate::units::Nanos;

/// Pauses of one request: exponential backoff with jitter up to a limit, and at least the store's
/// Retry-After.
///
/// A pause takes at most half of the time left. A store that requests an hour, or that has been
/// down for most of the deadline, still gets a few attempts before the deadline.
///
/// ```
/// use foreread_core::store_requests::RetryPauses;
/// use foreread_core::units::Nanos;
///
/// let second = 1_000_000_000;
/// let mut pauses = RetryPauses::new(Nanos(second / 10), Nanos(5 * second));
/// let left = Nanos(60 * second);
/// assert_eq!(pauses.next(Some(Nanos(2 * second)), left, 0), Some(Nanos(2 * second)));
/// assert_eq!(pauses.next(Some(Nanos(3600 * second)), left, 0), Some(Nanos(30 * second)));
/// assert_eq!(pauses.next(None, Nanos(second / 10), 0), None);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RetryPauses {
    first: Nanos,
    longest: Nanos,
    next: Nanos,
}

impl RetryPauses {
    /// Returns pauses that begin with `first` and grow to `longest`.
    #[must_use]
    pub fn new(first: Nanos, longest: Nanos) -> Self {
        Self { first, longest: longest.max(first), next: first }
    }

    /// Returns the pause before the next attempt, or None if too little time is left for one.
    /// `asked` is the store's Retry-After, `left` the time to the deadline, and `random` any
    /// number: it keeps a thousand requests that fail together from being retried together.
    #[must_use]
    pub fn next(&mut self, asked: Option<Nanos>, left: Nanos, random: u32) -> Option<Nanos> {
        // With a Retry-After, retry then.
        let bound = asked.filter(|asked| asked.0 > 0).map_or(u64::MAX, |it| it.0.max(SOON.0));
        let half = self.next.0.min(bound) / 2;
        let jittered = half + (half >> 16) * u64::from(random >> 16);
        self.next = Nanos(self.next.0.saturating_mul(2)).min(self.longest);
        let pause = jittered.max(asked.map_or(0, |asked| asked.0)).min(left.0 / 2);
        (pause > 0 && left.0 > self.first.0).then_some(Nanos(pause))
    }
}

/// Floor for short Retry-After values, which must not make later attempts more frequent.
const SOON: Nanos = Nanos(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FAR: Nanos = Nanos(3_600_000 * MS);

    #[test]
    fn pauses_double_up_to_their_bound_and_have_jitter() {
        for (random, expected) in
            [(0, [50, 100, 200, 400, 500]), (u32::MAX, [99, 199, 399, 799, 999])]
        {
            let mut pauses = RetryPauses::new(Nanos(100 * MS), Nanos(1000 * MS));
            let ms = [(); 5].map(|()| pauses.next(None, FAR, random).unwrap().0 / MS);
            assert_eq!(ms, expected);
        }
    }

    #[test]
    fn pauses_do_not_grow_beyond_what_a_store_asks_for() {
        let mut pauses = RetryPauses::new(Nanos(100 * MS), Nanos(60_000 * MS));
        for _ in 0..20 {
            let pause = pauses.next(Some(Nanos(2000 * MS)), FAR, u32::MAX).unwrap();
            assert_eq!(pause, Nanos(2000 * MS));
        }
    }

    /// The pause that a store asks for was ignored.
    #[test]
    fn a_pause_is_as_long_as_the_store_asks_for_within_the_deadline() {
        let mut pauses = RetryPauses::new(Nanos(100 * MS), Nanos(1000 * MS));
        let asked = Some(Nanos(7000 * MS));
        assert_eq!(pauses.next(asked, FAR, 0), asked);
        let mut left = 8000 * MS;
        let mut attempts = 0;
        while let Some(pause) = pauses.next(asked, Nanos(left), 0) {
            left -= pause.0;
            attempts += 1;
        }
        assert!((5..=8).contains(&attempts), "{attempts} attempts in 8 s");
        assert!(left > 0, "the last one has time for an answer");
    }
}
