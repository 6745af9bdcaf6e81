//! How many requests a device serves at once at least: told by those that went out together.
//!
//! In:    when requests went to the device and came back; what each costs alone.
//! Out:   a number, not too large as long as requests cost what they cost alone.
//! Never: a time that must be exact. A last completion that is seen late only lowers the number.
//!
//! ```text
//!   sent together   |== service ==|
//!                   |== service ==| .
//!                   |== service ==|  . . .
//!                   |<------------- T -------->|       at least n x service / T; T ends when
//!                   start           seen back          the driver sees that they are back
//! ```
//!
//! A reader that waits for the first page of a window, and then works, sees only the first of its
//! requests in time. So this is all that can be told of a device that is far away.

use super::float;
use crate::units::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    number: u32,
    start: Nanos,
    count: u32,
    left: u32,
    /// What those that are back would have taken, one after the other.
    work_ns: f64,
    /// What the burst before said: what two say in turn is no chance.
    before: f64,
}

impl Burst {
    pub(super) const fn new() -> Self {
        let start = Nanos(0);
        Self { number: 0, start, count: 0, left: 0, work_ns: 0.0, before: 0.0 }
    }

    /// Costs are not what they were.
    pub(super) fn forget(&mut self) {
        self.before = 0.0;
    }

    /// A request goes out. Which burst it belongs to: those that go before the first of it is back.
    pub(super) fn dispatched(&mut self, now: Nanos) -> Option<u32> {
        if self.left == 0 {
            let number = self.number.wrapping_add(1);
            *self = Self { number, start: now, before: self.before, ..Self::new() };
        } else if self.left < self.count {
            return None;
        }
        self.count += 1;
        self.left += 1;
        Some(self.number)
    }

    /// It is back. If its burst is: how many were served at once, by this one and the one before.
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        burst: Option<u32>,
        service_ns: Option<f64>,
    ) -> Option<f64> {
        if burst != Some(self.number) {
            return None;
        }
        self.left -= 1;
        self.work_ns += service_ns.unwrap_or(0.0);
        if self.left > 0 {
            return None;
        }
        let ns = float(now.0.saturating_sub(self.start.0)).max(1.0);
        let rate = (self.work_ns / ns).min(f64::from(self.count));
        let told = rate.min(self.before);
        self.before = rate;
        Some(told)
    }
}
