//! When a read that waits and has no copy asks for one again.
//!
//! In:    nothing: it is asked once for each pause.
//! Out:   the pauses, each twice as long as the last.
//! Never: a clock. A pause that is longer than its bound.
//!
//! ```text
//!   late   |10|--20--|----40----|--------80--------| ..  320 ms each from then on
//!          ^ no copy: too little is known, or the budget is used up
//! ```

use crate::units::Nanos;

/// The pauses of one read that waits and has no copy, because too little is known or the budget is
/// used up. By the end of a pause others have been answered, and sent.
///
/// Why they double: while a store is slow as a whole, a thousand readers wait, and the budget has
/// copies for a few. With pauses of 10 ms they would ask a hundred thousand times a second. A read
/// that has waited for 300 ms has its copy at most as late again.
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
    /// Returns for how long the read pauses now; the next pause is twice as long.
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

/// Less than a store near by takes for an answer: a copy that comes so much later still gains.
const PAUSE_MIN: Nanos = Nanos(10_000_000);
/// Of a thousand readers it is three thousand wake-ups a second; and where the budget has copies
/// again after seconds without, a read that still waits has one a third of a second later at most.
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
