//! Infers the state of a store's connections from the timing of its requests: detects a request
//! stuck on a connection that the server does not serve, a request that hangs on any connection,
//! and the number of connections that the server serves at once.
//!
//! Sockets belong to the HTTP client, which reuses an idle one before it opens another.
//!
//! ```text
//!   a server with one thread   connection 1   |answer|answer|  idle: the thread waits here
//!                              connection 2   |sent, accepted by the kernel, never read ..
//!                                                           '--> both are closed: another client
//!                                                                makes one connection at a time
//!   an object that hangs       connection 3   |sent, never answered on another connection either:
//!                                              the limit is lifted, and none is learnt until a
//!                                              moved request is answered
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Counts of connections of one store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Number of the client that makes connections. A client is replaced, along with its idle
    /// connections, when some of its connections turn out not to be served.
    client: u32,
    /// Time at which each idle connection became idle, oldest first.
    idle: Vec<Instant>,
    /// Requests in flight on connections known to be served.
    served: u32,
    /// Shortest time from a request on a fresh connection to its response.
    shortest_fresh: Option<Duration>,
    /// Number of connections that the server serves; None if unlimited.
    most: Option<u32>,
    /// A moved request has hung as well: unserved connections no longer set the limit.
    is_doubted: bool,
    /// Answers since the last unserved request, and the number of answers after which one more
    /// connection is probed.
    answers: u32,
    probe_after: u32,
    /// HTTP/2: one connection carries all requests.
    is_shared: bool,
}

/// The connection of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Connection {
    /// Number of the client.
    pub(crate) client: u32,
    /// True if the request opened the connection.
    is_fresh: bool,
    /// True if the request was abandoned on another connection before.
    is_moved: bool,
    sent: Instant,
    /// Time to wait for the first byte before the request moves to an idle connection.
    pub(crate) patience: Duration,
}

impl Connection {
    /// Returns the time without an answer after which the request itself counts as hung; None on
    /// its first connection, which may itself be at fault.
    pub(crate) fn hangs_after(&self) -> Option<Duration> {
        self.is_moved.then(|| self.patience.max(PATIENCE) * HANG_FACTOR)
    }
}

impl Connections {
    /// Counts a request being sent, and returns its connection. `is_moved`: it was abandoned on
    /// another connection before.
    pub(crate) fn sent(&mut self, is_moved: bool, now: Instant) -> Connection {
        self.idle.retain(|since| now.saturating_duration_since(*since) < IDLE_MAX);
        let is_fresh = self.idle.pop().is_none();
        self.served += u32::from(!is_fresh);
        // The client may open a connection although another one becomes idle at the same moment.
        let may_be_fresh = is_fresh || self.most.is_some();
        let least = if may_be_fresh { PATIENCE_FRESH } else { PATIENCE };
        let usual = self.shortest_fresh.unwrap_or_default();
        let patience = least.max(usual * PATIENCE_FACTOR);
        Connection { client: self.client, is_fresh, is_moved, sent: now, patience }
    }

    /// Counts the first byte of a response.
    pub(crate) fn answered(&mut self, on: &Connection, now: Instant) {
        if on.is_fresh {
            let took = now.saturating_duration_since(on.sent);
            // The connection was at fault, not the request.
            self.is_doubted &= on.hangs_after().is_none_or(|hang| took >= hang);
            let took = took.min(IDLE_MAX);
            self.shortest_fresh = Some(self.shortest_fresh.map_or(took, |it| it.min(took)));
        }
        if on.client != self.client {
            return;
        }
        self.served += u32::from(on.is_fresh);
        self.answers = self.answers.saturating_add(1);
        if let Some(most) = self.most
            && self.answers >= self.probe_after
        {
            self.most = Some(most + 1);
            self.answers = 0;
        }
    }

    /// Counts the end of a request, answered or not. The connection is idle if the response has
    /// been read to its end.
    pub(crate) fn ended(
        &mut self,
        on: &Connection,
        was_answered: bool,
        is_idle: bool,
        now: Instant,
    ) {
        if on.client != self.client {
            return;
        }
        self.served -= u32::from(was_answered || !on.is_fresh);
        if is_idle {
            self.idle.push(now);
        }
    }

    /// Counts a request that is abandoned because its connection is not served while another one is
    /// idle. The limit becomes the number of served connections, unless it is in doubt. Replacing
    /// the client closes its idle and its unserved connections.
    pub(crate) fn not_served(&mut self, on: &Connection) {
        if on.client != self.client {
            return;
        }
        let idle = u32::try_from(self.idle.len()).unwrap_or(u32::MAX);
        let most = Some(self.served.saturating_add(idle).max(1));
        let probe_after = (self.probe_after * 4).clamp(PROBE_AFTER_MIN, PROBE_AFTER_MAX);
        *self = Self {
            client: self.client.wrapping_add(1),
            most: if self.is_doubted { self.most } else { most },
            is_doubted: self.is_doubted,
            probe_after: if self.is_doubted { self.probe_after } else { probe_after },
            shortest_fresh: self.shortest_fresh,
            ..Self::default()
        };
    }

    /// Lifts the limit that a move has set: the moved request is not answered on its new connection
    /// either.
    pub(crate) fn hangs(&mut self) {
        self.most = None;
        self.is_doubted = true;
    }

    /// Returns when the oldest idle connection became idle, if the request may be abandoned.
    pub(crate) fn idle_since(&self, on: &Connection, now: Instant) -> Option<Instant> {
        if on.client != self.client {
            // Other requests of the same client were abandoned.
            return now.checked_sub(GAP_MAX);
        }
        let is_there = |since: &&Instant| now.saturating_duration_since(**since) < IDLE_MAX;
        self.idle.iter().find(is_there).copied().filter(|_| !self.is_shared)
    }

    /// Returns the largest number of requests that may be in flight.
    pub(crate) fn most(&self) -> u32 {
        self.most.unwrap_or(u32::MAX)
    }

    /// Returns true if the server serves fewer connections than the client made.
    pub(crate) fn are_few(&self) -> bool {
        self.most.is_some()
    }

    /// Notes that all requests share one connection.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }
}

/// Minimum patience with a new connection, and with a reused one.
const PATIENCE_FRESH: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

/// Multiple of the shortest response time: a distant server takes that long now and then.
const PATIENCE_FACTOR: u32 = 4;

/// Multiple of its patience after which a moved request counts as hung. This exceeds the time that
/// a server keeps a thread for an idle connection, which the new connection may be waiting for.
const HANG_FACTOR: u32 = 4;

/// Time that a connection must be idle before a waiting request is sent again on it. Shorter gaps
/// occur between two ordinary requests.
pub(crate) const GAP_MAX: Duration = Duration::from_millis(10);

/// Time after a response in which the client may not have noticed yet that its connection is idle,
/// so that it opens another one for the next request.
pub(crate) const RETURN_TIME: Duration = Duration::from_millis(2);

/// Maximum number of moves of a request. A server that is slow as a whole serves no connection
/// sooner.
pub(crate) const MOVES_MAX: u32 = 2;

/// Idle time after which a server closes a connection.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// Answers before one more connection is probed: initially, and at most.
const PROBE_AFTER_MIN: u32 = 64;
const PROBE_AFTER_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests waited on connections that a server with few threads never looked at, while those
    /// that it served were idle.
    #[test]
    fn a_server_is_sent_as_many_requests_as_it_serves_connections() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let sent: Vec<_> = (0..64).map(|_| connections.sent(false, now)).collect();
        assert!(sent.iter().all(|on| on.is_fresh));
        assert_eq!(connections.idle_since(&sent[5], now), None);
        for on in &sent[..2] {
            connections.answered(on, now);
            connections.ended(on, true, true, now);
        }
        assert_eq!(connections.idle_since(&sent[5], now), Some(now));
        assert_eq!(connections.most(), u32::MAX);
        for on in &sent[2..] {
            assert!(connections.idle_since(on, now).is_some(), "all are given up");
            connections.not_served(on);
            connections.ended(on, false, false, now);
        }
        assert_eq!(connections.most(), 2);
        for _ in 0..PROBE_AFTER_MIN {
            let on = connections.sent(false, now);
            assert_eq!(on.client, 1, "of another client");
            connections.answered(&on, now);
            connections.ended(&on, true, true, now);
        }
        assert_eq!(connections.most(), 3, "one more is tried");
    }

    /// The limit was learnt from objects that never answer, and stayed: the others of the server
    /// waited behind one of them.
    #[test]
    fn a_moved_request_that_hangs_lifts_the_limit_until_a_moved_one_is_answered() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let idle_beside = |connections: &mut Connections, is_moved| {
            let (hung, other) = (connections.sent(is_moved, now), connections.sent(false, now));
            connections.answered(&other, now);
            connections.ended(&other, true, true, now);
            hung
        };
        let hung = idle_beside(&mut connections, false);
        assert_eq!(hung.hangs_after(), None, "its connection may not be served");
        connections.not_served(&hung);
        assert_eq!(connections.most(), 1);
        let hung = connections.sent(true, now);
        assert_eq!(hung.hangs_after(), Some(PATIENCE * HANG_FACTOR));
        connections.hangs();
        assert_eq!(connections.most(), u32::MAX);
        connections.answered(&hung, now + PATIENCE * HANG_FACTOR);
        connections.ended(&hung, true, false, now);
        let hung = idle_beside(&mut connections, false);
        connections.not_served(&hung);
        assert_eq!(connections.most(), u32::MAX, "another one that hangs teaches nothing");
        let moved = connections.sent(true, now);
        connections.answered(&moved, now);
        connections.ended(&moved, true, false, now);
        let waits = idle_beside(&mut connections, false);
        connections.not_served(&waits);
        assert_eq!(connections.most(), 1, "a moved one was answered: connections are few");
    }

    #[test]
    fn a_connection_that_was_idle_for_long_is_gone() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let on = connections.sent(false, now);
        connections.answered(&on, now);
        connections.ended(&on, true, true, now);
        assert!(!connections.sent(false, now).is_fresh);
        connections.ended(&on, true, true, now);
        assert!(connections.sent(false, now + IDLE_MAX).is_fresh);
    }

    /// Connections of a link with long round trips would all have been taken for ones that are not
    /// served.
    #[test]
    fn a_server_far_away_is_given_more_time() {
        let (mut connections, now) = (Connections::default(), Instant::now());
        let on = connections.sent(false, now);
        assert_eq!(on.patience, PATIENCE_FRESH);
        connections.answered(&on, now + Duration::from_secs(1));
        assert_eq!(connections.sent(false, now).patience, Duration::from_secs(4));
    }
}
