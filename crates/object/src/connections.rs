//! The connections of a store, as far as its requests show them.
//!
//! In:    requests as they are sent, answered and over.
//! Out:   whether a request waits on a connection that the server does not serve; how many the
//!        server serves at once.
//! Never: a socket: connections are those of the HTTP client, which takes an idle one before it
//!        makes another.
//!
//! ```text
//!   a server with one thread   connection 1   |answer|answer|  idle: the thread waits here
//!                              connection 2   |sent, accepted by the kernel, never read ..
//!                                                     '--> sent again on connection 1
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Counts of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// When each idle connection became idle, the oldest first.
    idle: Vec<Instant>,
    /// Requests on connections that are known to be served.
    served: u32,
    /// How many the server serves; None: as many as there are requests.
    most: Option<u32>,
    /// Answers since the last request that was not served, and after how many of them one more
    /// connection is tried.
    answers: u32,
    probe_after: u32,
    /// Of HTTP/2 one connection has all requests.
    is_shared: bool,
}

impl Connections {
    /// A request is sent. Returns whether it makes a connection.
    pub(crate) fn sent(&mut self, now: Instant) -> bool {
        self.idle.retain(|since| now.saturating_duration_since(*since) < IDLE_MAX);
        let is_fresh = self.idle.pop().is_none();
        self.served += u32::from(!is_fresh);
        is_fresh
    }

    /// A response has begun, on a connection that was fresh.
    pub(crate) fn answered(&mut self, was_fresh: bool) {
        self.served += u32::from(was_fresh);
        self.answers = self.answers.saturating_add(1);
        if let Some(most) = self.most
            && self.answers >= self.probe_after
        {
            self.most = Some(most + 1);
            self.answers = 0;
        }
    }

    /// A request is over; its connection is idle if its response has come whole.
    pub(crate) fn ended(&mut self, was_served: bool, is_idle: bool, now: Instant) {
        self.served -= u32::from(was_served);
        if is_idle {
            self.idle.push(now);
        }
    }

    /// A request is sent again, because its connection is not served while another one is idle.
    pub(crate) fn not_served(&mut self) {
        let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
        self.most = Some(self.served.saturating_add(idle).max(1));
        self.answers = 0;
        self.probe_after = (self.probe_after * 4).clamp(PROBE_AFTER_MIN, PROBE_AFTER_MAX);
    }

    /// Since when the connection has been idle that was idle first.
    pub(crate) fn idle_since(&self, now: Instant) -> Option<Instant> {
        let is_there = |since: &&Instant| now.saturating_duration_since(**since) < IDLE_MAX;
        self.idle.iter().find(is_there).copied().filter(|_| !self.is_shared)
    }

    /// How many requests may be in flight.
    pub(crate) fn most(&self) -> u32 {
        self.most.filter(|_| !self.is_shared).unwrap_or(u32::MAX)
    }

    /// All requests go over one connection.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }
}

/// For so long a request waits for its first byte before an idle connection is taken instead: one
/// that makes its connection, and one on a connection that has answered before. A connection with
/// TLS takes three round trips.
pub(crate) fn patience(is_fresh: bool) -> Duration {
    if is_fresh { Duration::from_millis(500) } else { Duration::from_secs(2) }
}

/// For so long a connection is idle before a request that waits is sent again on it: shorter gaps
/// are between two requests.
pub(crate) const GAP_MAX: Duration = Duration::from_millis(10);

/// How often a request may be sent again for this reason: a server that is slow as a whole serves
/// none of them sooner.
pub(crate) const MOVES_MAX: u32 = 2;

/// A server closes a connection that was idle for some seconds.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// Answers before one more connection is tried, after the first time and at most.
const PROBE_AFTER_MIN: u32 = 64;
const PROBE_AFTER_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_sent_as_many_requests_as_it_serves_connections() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        for _ in 0..64 {
            assert!(connections.sent(now), "all are fresh");
        }
        for _ in 0..2 {
            connections.answered(true);
            connections.ended(true, true, now);
        }
        assert_eq!(connections.idle_since(now), Some(now));
        assert_eq!(connections.most(), u32::MAX);
        connections.not_served();
        assert_eq!(connections.most(), 2);
        // Those that are sent again are on the two.
        assert!(!connections.sent(now) && !connections.sent(now) && connections.sent(now));
        for _ in 0..PROBE_AFTER_MIN {
            connections.answered(false);
        }
        assert_eq!(connections.most(), 3, "one more is tried");
    }

    #[test]
    fn a_connection_that_was_idle_for_long_is_gone() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        assert!(connections.sent(now));
        connections.answered(true);
        connections.ended(true, true, now);
        assert_eq!(connections.idle_since(now + IDLE_MAX), None);
        assert!(connections.sent(now + IDLE_MAX));
    }
}
