//! Hedged requests: which late request of a store gets a second copy, and when.
//!
//! ```text
//!   requests by latency   |=================================|======|==|
//!                                                          p95    p98  ^ slow ones
//!   hedged copy                                             |----->| sent from here on: as early
//!                                                                    as the budget allows
//! ```

use super::latency_quantiles::LatencyQuantiles;
use crate::units::Nanos;

/// Delay of the second copy of a request, and the budget for copies.
///
/// A request that is slow by chance is answered sooner by its copy. The copy is sent after the 95th
/// percentile of recent latencies, or a later one if copies of 5 % of the demand reads would exceed
/// the budget. A late piece of read-ahead soon stalls its stream, so it is hedged as well: after
/// the 98th percentile and from the budget that demand reads leave, or like a demand read once a
/// reader has [joined it](Self::joined).
///
/// ```
/// use foreread_core::store_requests::Hedging;
/// use foreread_core::units::Nanos;
///
/// let mut hedging = Hedging::default();
/// for _ in 0..1000 {
///     hedging.sent(true);
///     hedging.answered(Nanos(20_000_000));
/// }
/// let delay = hedging.sent(true).expect("a thousand latencies are known");
/// assert!(delay > Nanos(20_000_000) && delay < Nanos(21_000_000));
/// assert!(hedging.take_copy(true), "twenty copies are allowed by now");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Hedging {
    latencies: LatencyQuantiles,
    /// Recent requests.
    /// Recent requests that readers waited for.
    recent: u32,
    recent_demand: u32,
    /// Budget, in hundredths of a copy.
    credit: u32,
}

impl Hedging {
    /// Records a new request. Returns the time after which a copy is worth sending if it has no
    /// answer by then, or None while too little is known. `is_demand`: a reader waits for it.
    #[must_use]
    pub fn sent(&mut self, is_demand: bool) -> Option<Nanos> {
        if self.recent == RECENT_MAX {
            self.recent /= 2;
            self.recent_demand /= 2;
        }
        self.recent += 1;
        self.recent_demand += u32::from(is_demand);
        self.credit = (self.credit + BUDGET_PERCENT).min(CREDIT_MAX);
        self.delay(if is_demand { self.tail() } else { 100 * BUDGET_PERCENT })
    }

    /// Records that a reader joins a request in flight; `was_demand` is true if another reader
    /// already waited for it when it was sent. Returns the time since then after which a copy is
    /// worth sending, as for a demand read.
    ///
    /// ```text
    ///   read-ahead   |---------- p98 ---------->|  copy
    ///   joined       |---- p95 ---->|  copy     ^ its reader would have waited until here, or
    ///                      ^ a reader comes       without an end if the budget is short
    /// ```
    #[must_use]
    pub fn joined(&mut self, was_demand: bool) -> Option<Nanos> {
        // It was already counted in `recent` when it was sent.
        let demand = self.recent_demand + u32::from(!was_demand);
        self.recent_demand = demand.clamp(1, self.recent.max(1));
        self.delay(self.tail())
    }

    /// Returns the latency that `tail` of 10,000 requests exceed, or None while too little is
    /// known.
    ///
    /// ```text
    ///   latencies known     8             100
    ///   a copy        none  | 3 x median   | by percentile
    /// ```
    ///
    /// A few samples give the median but not the tail. A stream has its first dozens of requests in
    /// flight at once, and waits for the slowest of them.
    fn delay(&self, tail: u32) -> Option<Nanos> {
        let delay = match self.latencies.samples() {
            ..MEDIAN_MIN => return None,
            MEDIAN_MIN..SAMPLES_MIN => {
                let median = self.latencies.exceeded_by(MEDIAN)?;
                Nanos(median.0.saturating_mul(LATE_FACTOR))
            }
            _ => self.latencies.exceeded_by(tail)?,
        };
        Some(delay.max(DELAY_MIN))
    }

    /// Takes one copy from the budget. Returns true if there was one. Read-ahead leaves one copy
    /// for a demand read.
    #[must_use]
    pub fn take_copy(&mut self, is_demand: bool) -> bool {
        let is_allowed = self.credit >= if is_demand { 100 } else { 200 };
        if is_allowed {
            self.credit -= 100;
        }
        is_allowed
    }

    /// Records the time to a request's first byte. If its copy was faster, this is the time until
    /// then, which is enough to tell whether the request was late.
    pub fn answered(&mut self, waited: Nanos) {
        self.latencies.record(waited);
    }

    /// Returns how many of 10,000 demand reads may be hedged, to keep the budget half used. A
    /// budget used up by chance is missing when a request is slow, and a full one is wasted.
    ///
    /// ```text
    ///   credit   0 ------- half ------- full
    ///   tail     1.6 %     2 %         2.4 %       of all requests, if all are demand reads
    /// ```
    fn tail(&self) -> u32 {
        assert!(self.recent_demand > 0, "the request itself");
        let tail_of_all = BUDGET_PERCENT * (80 + 40 * self.credit / CREDIT_MAX);
        (tail_of_all * self.recent / self.recent_demand).min(TAIL_MAX)
    }
}

/// Additional requests in per cent. Stores charge for each.
pub const BUDGET_PERCENT: u32 = 2;
/// Copies for the 95th percentile and beyond, of 10,000: the original mostly beats earlier copies.
const TAIL_MAX: u32 = 500;
/// Fifty copies: late requests cluster by chance, while a store that is slow as a whole must not be
/// loaded further.
const CREDIT_MAX: u32 = 5000;
/// A shorter delay is CPU queueing on either side, which a copy would suffer, too.
const DELAY_MIN: Nanos = Nanos(5_000_000);
/// Samples needed for the 98th percentile.
const SAMPLES_MIN: u32 = 100;
/// Samples needed for the median.
const MEDIAN_MIN: u32 = 8;
/// Half of 10,000.
const MEDIAN: u32 = 5000;
/// Of log-normal latencies with a sigma of 0.5, 1.4 % exceed three times the median.
const LATE_FACTOR: u64 = 3;
/// Number of requests over which the share of demand reads is measured.
const RECENT_MAX: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Latencies of 1 to 100 ms, each as often as the others.
    fn learnt(is_demand: impl Fn(u64) -> bool) -> Hedging {
        let mut hedging = Hedging::default();
        for n in 0..4000 {
            let _ = hedging.sent(is_demand(n));
            hedging.answered(Nanos((n * 37 % 100 + 1) * MS));
        }
        hedging
    }

    #[test]
    fn copies_of_few_demand_reads_are_sent_after_the_95th_percentile() {
        let delay = learnt(|n| n % 10 == 0).sent(true).unwrap();
        assert!((95 * MS..98 * MS).contains(&delay.0), "{delay:?}");
    }

    #[test]
    fn copies_of_demand_reads_alone_are_sent_as_late_as_the_budget_wants() {
        let delay = learnt(|_| true).sent(true).unwrap();
        // 2.4 % of a hundred equal steps: two of them are longer.
        assert!((98 * MS..102 * MS).contains(&delay.0), "{delay:?}");
    }

    #[test]
    fn read_ahead_is_copied_later_and_leaves_a_copy_for_a_demand_read() {
        let mut hedging = learnt(|n| n % 10 == 0);
        let (demand, ahead) = (hedging.sent(true).unwrap(), hedging.sent(false).unwrap());
        assert!(demand < ahead && ahead.0 >= 98 * MS, "{demand:?}, {ahead:?}");
        let copies = (0..1000).filter(|_| hedging.take_copy(false)).count();
        assert_eq!(copies, 49);
        assert!(hedging.take_copy(true) && !hedging.take_copy(true));
    }

    #[test]
    fn read_ahead_that_a_reader_comes_to_is_copied_as_a_demand_read_is() {
        let mut hedging = learnt(|n| n % 10 == 0);
        let (demand, ahead) = (hedging.sent(true).unwrap(), hedging.sent(false).unwrap());
        assert_eq!(hedging.joined(false), Some(demand));
        assert!(demand < ahead, "{demand:?}, {ahead:?}");
    }

    /// A stream comes to all of its read-ahead: as many copies as of demand reads alone.
    #[test]
    fn read_ahead_that_is_joined_counts_as_demand_when_the_budget_is_shared() {
        let (mut streams, mut alone) = (learnt(|_| false), learnt(|_| true));
        for _ in 0..40_000 {
            let _ = (streams.sent(false), streams.joined(false), alone.sent(true));
        }
        assert_eq!(streams.sent(true), alone.sent(true));
        let before = streams.recent_demand;
        assert!(streams.joined(true).is_some());
        assert_eq!(streams.recent_demand, before, "it was one already");
    }

    #[test]
    fn the_first_requests_have_no_copy() {
        let mut hedging = Hedging::default();
        for _ in 0..MEDIAN_MIN {
            assert_eq!(hedging.sent(true), None);
            hedging.answered(Nanos(MS));
        }
        assert!(hedging.sent(true).is_some());
    }

    #[test]
    fn copies_of_the_next_are_sent_after_three_times_the_median() {
        let mut hedging = Hedging::default();
        for n in 0..SAMPLES_MIN {
            if n >= MEDIAN_MIN {
                let (demand, ahead) = (hedging.sent(true).unwrap(), hedging.sent(false).unwrap());
                assert_eq!(demand, ahead, "{n}: the tail is not known");
                assert!((60 * MS..66 * MS).contains(&demand.0), "{n}: {demand:?}");
            }
            // One in ten is slow.
            hedging.answered(Nanos(if n % 10 == 9 { 200 * MS } else { 20 * MS }));
        }
        assert!(hedging.sent(true).unwrap() > Nanos(190 * MS), "it is known, and is long");
    }

    #[test]
    fn a_store_near_by_is_given_some_ms() {
        let mut hedging = Hedging::default();
        for _ in 0..1000 {
            let _ = hedging.sent(true);
            hedging.answered(Nanos(200_000));
        }
        assert_eq!(hedging.sent(true), Some(DELAY_MIN));
    }

    #[test]
    fn copies_never_exceed_their_share_of_the_requests() {
        let mut hedging = Hedging::default();
        let mut copies = 0;
        for n in 1..=10_000_u32 {
            let _ = hedging.sent(n % 3 == 0);
            copies += u32::from(hedging.take_copy(n % 2 == 0));
            assert!(copies * 100 <= n * BUDGET_PERCENT, "{copies} after {n} requests");
        }
        assert!(copies >= 199, "and all of it can be used: {copies}");
    }

    #[test]
    fn a_long_time_without_copies_does_not_pay_for_many_at_once() {
        let mut hedging = learnt(|_| true);
        let copies = (0..1000).filter(|_| hedging.take_copy(true)).count();
        assert_eq!(copies, 50);
    }
}
