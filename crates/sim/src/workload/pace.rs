//! Due times of a reader whose rate changes over time.
//!
//! ```text
//!   rate      1              2                 1
//!        |---------|-------------------|------------------
//!        began     at_s                at_s                   time
//! ```

use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::rates::is_rate;
use crate::time::{check_time, ns_of_ms};
use crate::validate::check;

/// A change of rate, relative to the initial one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Time of the change, in seconds from the start of the run.
    pub at_s: f64,
    /// Factor on the initial rate.
    pub times: f64,
}

impl RateChange {
    pub(super) fn check_all(changes: &[Self]) -> Result<(), String> {
        for change in changes {
            check_time(change.at_s * 1e3, "at_s")?;
            check(is_rate(change.times), "times", "0.001 to 10^9")?;
        }
        check(changes.is_sorted_by(|a, b| a.at_s < b.at_s), "changes", "in order of at_s")
    }

    fn at(&self) -> Nanos {
        Nanos(ns_of_ms(self.at_s * 1e3))
    }
}

/// Returns the time at which a reader of this rate needs the byte at `done`.
#[expect(clippy::cast_precision_loss, reason = "53 bits of bytes")]
pub(super) fn due(began: Nanos, done: ByteCount, kib_per_s: f64) -> Nanos {
    let ns = ns_of_ms(done.0 as f64 / 1024.0 / kib_per_s * 1e3);
    Nanos(began.0.saturating_add(ns))
}

/// A varying rate, with a reference point in time and position.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    kib_per_s: f64,
    changes: Vec<RateChange>,
    /// Time at which it had reached `pos`.
    from: Nanos,
    pos: ByteCount,
    catches_up: bool,
}

impl Pace {
    pub(super) fn new(
        kib_per_s: f64,
        changes: &[RateChange],
        from: Nanos,
        catches_up: bool,
    ) -> Self {
        Self { kib_per_s, changes: changes.to_vec(), from, pos: ByteCount::ZERO, catches_up }
    }

    /// Returns the time at which it needs the byte at `pos`.
    #[expect(clippy::cast_precision_loss, reason = "53 bits of bytes and of nanoseconds")]
    pub(super) fn due(&self, pos: ByteCount) -> Nanos {
        let mut kib = (pos - self.pos).0 as f64 / 1024.0;
        let mut from = self.from;
        let mut rate = self.kib_per_s;
        for change in &self.changes {
            let until = change.at();
            if until > from {
                let part = rate * ((until.0 - from.0) as f64 / 1e9);
                if part >= kib {
                    break;
                }
                kib -= part;
                from = until;
            }
            rate = self.kib_per_s * change.times;
        }
        Nanos(from.0.saturating_add(ns_of_ms(kib / rate * 1e3)))
    }

    /// Returns the KiB that it consumes from `from` up to a time.
    #[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds")]
    pub(super) fn kib_at(&self, at: Nanos) -> f64 {
        let starts = self.changes.iter().map(|change| (change.at(), change.times));
        let parts: Vec<_> = std::iter::once((Nanos(0), 1.0)).chain(starts).collect();
        let ends = parts.iter().skip(1).map(|part| part.0).chain([Nanos(u64::MAX)]);
        let part = |((start, times), end): (&(Nanos, f64), Nanos)| {
            let (start, end) = ((*start).max(self.from), end.min(at));
            end.0.saturating_sub(start.0) as f64 / 1e9 * self.kib_per_s * times
        };
        parts.iter().zip(ends).map(part).sum()
    }

    /// Records that the client has all bytes up to `pos`. A late client that does not catch up
    /// continues from here at its normal rate.
    pub(super) fn has(&mut self, pos: ByteCount, now: Nanos) {
        if !self.catches_up && now > self.due(pos) {
            (self.from, self.pos) = (now, pos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pace(catches_up: bool) -> Pace {
        let changes =
            [RateChange { at_s: 10.0, times: 2.0 }, RateChange { at_s: 20.0, times: 1.0 }];
        Pace::new(4.0, &changes, Nanos(2 * SECOND), catches_up)
    }

    #[test]
    fn a_rate_that_doubles_and_comes_back_moves_what_is_due() {
        let due = |kib: u64| pace(true).due(ByteCount(kib << 10)).0;
        assert_eq!(due(0), 2 * SECOND);
        assert_eq!(due(32), 10 * SECOND);
        assert_eq!(due(40), 11 * SECOND);
        assert_eq!(due(112), 20 * SECOND);
        assert_eq!(due(116), 21 * SECOND);
        for kib in [0, 32, 40, 112, 116] {
            assert_eq!(pace(true).kib_at(Nanos(due(kib))), kib as f64);
        }
    }

    #[test]
    fn a_client_that_does_not_catch_up_goes_on_from_where_it_stalled() {
        let mut pace = pace(false);
        pace.has(ByteCount(32 << 10), Nanos(9 * SECOND));
        assert_eq!(pace.due(ByteCount(40 << 10)).0, 11 * SECOND, "it was in time");
        pace.has(ByteCount(40 << 10), Nanos(15 * SECOND));
        assert_eq!(pace.due(ByteCount(48 << 10)).0, 16 * SECOND);
        assert_eq!(pace.due(ByteCount(84 << 10)).0, 21 * SECOND);
    }
}
