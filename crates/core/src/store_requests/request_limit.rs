//! Limits the requests in flight at a store: fewer when it throttles, more again later.
//!
//! Refusals of requests sent before the last cut do not cut the limit again, and it never reaches
//! 0.
//!
//! ```text
//!   limit   64 ------.                              .-------
//!                    | a quarter less           .--'  one more for each
//!   48               '---.                  .--'      round of answers
//!   36                   '---------------.-'
//!                    ^ 503  ^ 503
//! ```

use crate::units::Nanos;

/// Limit of requests in flight that drops by a quarter on a refusal and grows by one for each round
/// of answers (additive increase, multiplicative decrease).
///
/// TCP halves instead. Here a refused request already costs a pause, and a store with a request
/// rate limit serves most of a slightly excessive rate.
///
/// ```
/// use foreread_core::store_requests::RequestLimit;
/// use foreread_core::units::Nanos;
///
/// let mut limit = RequestLimit::new(64);
/// limit.refused(Nanos(30), Nanos(10));
/// assert_eq!(limit.allowed(), 48);
/// for _ in 0..48 {
///     limit.served();
/// }
/// assert_eq!(limit.allowed(), 49);
/// ```
#[derive(Clone, Debug)]
pub struct RequestLimit {
    most: u32,
    allowed: u32,
    in_flight: u32,
    /// Answers since the limit last changed.
    served: u32,
    /// Time of the last cut.
    cut_at: Option<Nanos>,
}

impl RequestLimit {
    /// Returns a limit that has not been cut.
    ///
    /// # Panics
    ///
    /// If `most` is 0.
    #[must_use]
    pub fn new(most: u32) -> Self {
        assert!(most > 0, "one request at least");
        Self { most, allowed: most, in_flight: 0, served: 0, cut_at: None }
    }

    /// Starts a request, if the limit allows one more.
    #[must_use]
    pub fn start(&mut self) -> bool {
        let is_allowed = self.in_flight < self.allowed;
        self.in_flight += u32::from(is_allowed);
        is_allowed
    }

    /// Ends a request.
    ///
    /// # Panics
    ///
    /// If none is in flight.
    pub fn end(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("a request ends once");
    }

    /// Records an answer other than a refusal.
    pub fn served(&mut self) {
        if self.allowed == self.most {
            return;
        }
        self.served += 1;
        if self.served >= self.allowed {
            self.allowed += 1;
            self.served = 0;
        }
    }

    /// Records that the store refused at `now` a request sent at `sent`. Refusals of requests sent
    /// before the last cut say nothing about the new limit, and are ignored.
    pub fn refused(&mut self, now: Nanos, sent: Nanos) {
        if self.cut_at.is_some_and(|cut| sent < cut) {
            return;
        }
        self.allowed = (self.allowed - self.allowed.div_ceil(4)).max(1);
        self.served = 0;
        self.cut_at = Some(now);
    }

    /// Returns the number of requests that may be in flight.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Returns true if the store has refused requests and the limit has not recovered since.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.allowed < self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_allowed_are_in_flight() {
        let mut limit = RequestLimit::new(2);
        assert!(limit.start());
        assert!(limit.start());
        assert!(!limit.start());
        limit.end();
        assert!(limit.start());
    }

    #[test]
    fn a_storm_of_refusals_of_one_moment_is_one_cut() {
        let mut limit = RequestLimit::new(64);
        for _ in 0..64 {
            limit.refused(Nanos(20), Nanos(0));
        }
        assert_eq!(limit.allowed(), 48);
        limit.refused(Nanos(50), Nanos(19));
        assert_eq!(limit.allowed(), 48, "it was sent before the cut");
        limit.refused(Nanos(50), Nanos(20));
        assert_eq!(limit.allowed(), 36);
    }

    #[test]
    fn the_limit_is_never_0_and_recovers_in_full() {
        let mut limit = RequestLimit::new(64);
        for round in 0..30 {
            limit.refused(Nanos(round), Nanos(round));
        }
        assert_eq!((limit.allowed(), limit.is_cut()), (1, true));
        let mut answers = 0;
        while limit.is_cut() {
            limit.served();
            answers += 1;
        }
        // 1 + 2 + .. + 63.
        assert_eq!((limit.allowed(), answers), (64, 2016));
    }

    #[test]
    fn a_cut_below_what_is_in_flight_lets_those_end_first() {
        let mut limit = RequestLimit::new(4);
        for _ in 0..4 {
            assert!(limit.start());
        }
        limit.refused(Nanos(1), Nanos(0));
        limit.refused(Nanos(2), Nanos(1));
        assert_eq!(limit.allowed(), 2);
        for _ in 0..2 {
            limit.end();
            assert!(!limit.start());
        }
        limit.end();
        assert!(limit.start());
    }
}
