//! The connections of a store, as far as its requests show them.
//!
//! In:    requests as they are sent, answered and over.
//! Out:   whether a request waits on a connection that the server does not serve, or would wait on
//!        any; how many connections the server serves at once.
//! Never: a socket: connections are those of the HTTP client, which takes an idle one before it
//!        makes another.
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

/// Counts of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Of the client that makes them: it is replaced, and with it what it has idle, when
    /// connections turn out not to be served.
    client: u32,
    /// When each idle connection became idle, the oldest first.
    idle: Vec<Instant>,
    /// Requests on connections that are known to be served.
    served: u32,
    /// The shortest time from a request on a fresh connection to its response.
    shortest_fresh: Option<Duration>,
    /// How many the server serves; None: as many as there are requests.
    most: Option<u32>,
    /// A moved request has hung as well: a connection that is not served teaches no limit.
    is_doubted: bool,
    /// Answers since the last request that was not served, and after how many of them one more
    /// connection is tried.
    answers: u32,
    probe_after: u32,
    /// Of HTTP/2 one connection has all requests.
    is_shared: bool,
}

/// The connection of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Connection {
    /// The number of the client.
    pub(crate) client: u32,
    /// Whether the request makes the connection.
    is_fresh: bool,
    /// Whether the request was given up on another connection before.
    is_moved: bool,
    sent: Instant,
    /// For so long it waits for its first byte before an idle connection is taken instead.
    pub(crate) patience: Duration,
}

impl Connection {
    /// After so long without an answer the request itself hangs; None: that cannot be told yet.
    pub(crate) fn hangs_after(&self) -> Option<Duration> {
        self.is_moved.then(|| self.patience.max(PATIENCE) * HANG_FACTOR)
    }
}

impl Connections {
    /// Counts a request that is sent, and returns its connection. `is_moved`: it was given up on
    /// another one before.
    pub(crate) fn sent(&mut self, is_moved: bool, now: Instant) -> Connection {
        self.idle.retain(|since| now.saturating_duration_since(*since) < IDLE_MAX);
        let is_fresh = self.idle.pop().is_none();
        self.served += u32::from(!is_fresh);
        // The client may make a connection although one becomes idle in the same moment.
        let may_be_fresh = is_fresh || self.most.is_some();
        let least = if may_be_fresh { PATIENCE_FRESH } else { PATIENCE };
        let usual = self.shortest_fresh.unwrap_or_default();
        let patience = least.max(usual * PATIENCE_FACTOR);
        Connection { client: self.client, is_fresh, is_moved, sent: now, patience }
    }

    /// A response has begun.
    pub(crate) fn answered(&mut self, on: &Connection, now: Instant) {
        if on.is_fresh {
            let took = now.saturating_duration_since(on.sent);
            // The connection was at fault, and not the request.
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

    /// Counts the end of a request, answered or not; its connection is idle if the response has
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

    /// A request is given up, because its connection is not served while another one is idle: the
    /// limit becomes the number of served connections, unless it is in doubt. The client is
    /// replaced, which closes its idle connections and those that are not served.
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

    /// A moved request is not answered on another connection either: the limit that its move
    /// taught is lifted.
    pub(crate) fn hangs(&mut self) {
        self.most = None;
        self.is_doubted = true;
    }

    /// Whether a request may be given up; and since when the connection has been idle that was
    /// idle first.
    pub(crate) fn idle_since(&self, on: &Connection, now: Instant) -> Option<Instant> {
        if on.client != self.client {
            // Others of the same client were given up.
            return now.checked_sub(GAP_MAX);
        }
        let is_there = |since: &&Instant| now.saturating_duration_since(**since) < IDLE_MAX;
        self.idle.iter().find(is_there).copied().filter(|_| !self.is_shared)
    }

    /// How many requests may be in flight.
    pub(crate) fn most(&self) -> u32 {
        self.most.unwrap_or(u32::MAX)
    }

    /// Whether the server serves fewer connections than were made.
    pub(crate) fn are_few(&self) -> bool {
        self.most.is_some()
    }

    /// All requests go over one connection.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }
}

/// The least patience with a connection that the request makes, and with one that is there.
const PATIENCE_FRESH: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

/// A server that is far away takes a multiple of its shortest time now and then.
const PATIENCE_FACTOR: u32 = 4;

/// A request that was moved hangs after so many times its patience: longer than a server keeps a
/// thread for an idle connection, which its new one may wait for.
const HANG_FACTOR: u32 = 4;

/// For so long a connection is idle before a request that waits is sent again on it: shorter gaps
/// are between two requests.
pub(crate) const GAP_MAX: Duration = Duration::from_millis(10);

/// For so long after a response the client may not know yet that its connection is idle, and make
/// another one for the next request.
pub(crate) const RETURN_TIME: Duration = Duration::from_millis(2);

/// How often a request may be given up for this reason: a server that is slow as a whole serves
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
