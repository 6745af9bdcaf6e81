//! Backoff of a waiting read that could not be hedged yet.
//!
//! ```text
//!   late   |10|--20--|----40----|--------80--------| ..  320 ms each from then on
//!          ^ no copy: too little is known, or the budget is used up
//! ```

use crate::units::Nanos;

/// Pauses of a waiting read without a copy, because latencies are unknown or the budget is used up.
/// By the end of a pause, other requests have been sent and answered.
///
/// The pauses double, because a store that is slow as a whole keeps a thousand readers waiting,
/// with budget for a few copies: with pauses of 10 ms they would retry a hundred thousand times a
/// second. A read that has waited for 300 ms gets its copy at most that much later.
///
/// ```
/// use foreread_core::store_requests::CopyBackoff;
/// use foreread_core::units::Nanos;
///
/// let mut backoff = CopyBackoff::default();
/// let pauses = [(); 3].map(|()| backoff.pause());
/// assert_eq!(pauses, [Nanos(10_000_000), Nanos(20_000_000), Nanos(40_000_000)]);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyBackoff {
    next: Nanos,
}

impl CopyBackoff {
    /// Returns the current pause; the next one is twice as long.
    #[must_use]
    pub fn pause(&mut self) -> Nanos {
        let pause = self.next;
        self.next = Nanos(pause.0 * 2).min(PAUSE_MAX);
        pause
    }
}

impl Default for CopyBackoff {
    fn default() -> Self {
        Self { next: PAUSE_MIN }
    }
}

/// Shortest pause, below the latency of a nearby store: a copy delayed by that much still helps.
const PAUSE_MIN: Nanos = Nanos(10_000_000);
/// With a thousand readers, three thousand wake-ups per second. When the budget recovers after
/// seconds, a waiting read notices within a third of a second.
const PAUSE_MAX: Nanos = Nanos(320_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound() {
        let mut backoff = CopyBackoff::default();
        let ms = [(); 8].map(|()| backoff.pause().0 / 1_000_000);
        assert_eq!(ms, [10, 20, 40, 80, 160, 320, 320, 320]);
    }
}
