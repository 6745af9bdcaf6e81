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

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

/// Connections of one store. Counts are kept for each host that its requests reach, because mirrors
/// behind a redirect serve each other's connections no more than strangers do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    /// Number of the client that makes connections. A client is replaced, along with its idle
    /// connections, when some of its connections turn out not to be served.
    client: u32,
    hosts: HashMap<Host, HostConnections>,
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

/// Connections to one host.
#[derive(Clone, Debug, Default)]
struct HostConnections {
    /// Time at which each idle connection became idle, oldest first.
    idle: Vec<Instant>,
    /// Requests in flight on connections known to be served.
    served: u32,
    /// Shortest time from a request on a fresh connection to its response.
    shortest_fresh: Option<Duration>,
}

/// A host with its scheme and port, as a hash: equal ones share connections.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Host(u64);

impl Host {
    /// Returns the host of a URL.
    pub(crate) fn of(url: &str) -> Self {
        let start = url.find("://").map_or(0, |at| at + 3);
        let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |len| start + len);
        let mut hasher = DefaultHasher::new();
        url[..end].to_ascii_lowercase().hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The connection of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Connection {
    /// Number of the client.
    pub(crate) client: u32,
    host: Host,
    /// True if the request opened the connection.
    is_fresh: bool,
    /// Time left until the deadline, if the request was abandoned on another connection before.
    moved: Option<Duration>,
    pub(crate) sent: Instant,
    /// Time to wait for the first byte before the request moves to an idle connection.
    pub(crate) patience: Duration,
    /// The same once the client is replaced, because another connection was not served.
    pub(crate) patience_replaced: Duration,
}

impl Connection {
    /// Time without an answer after which the request itself counts as hung; None if it has not
    /// moved yet, because then the connection may be at fault. Half of the time left remains for
    /// the requests that wait behind it.
    pub(crate) fn hangs_after(&self) -> Option<Duration> {
        let usual = self.patience.max(PATIENCE) * HANG_FACTOR;
        self.moved.map(|left| usual.min(left / 2))
    }
}

impl Connections {
    /// Counts a request being sent, and returns its connection. `moved`: it was abandoned on
    /// another connection before, and has this time left until its deadline.
    pub(crate) fn sent(&mut self, host: Host, moved: Option<Duration>, now: Instant) -> Connection {
        let is_idle = |since: &Instant| now.saturating_duration_since(*since) < IDLE_MAX;
        if self.hosts.len() > HOSTS_MAX {
            self.hosts.retain(|_, it| it.served > 0 || it.idle.last().is_some_and(is_idle));
        }
        let at = self.hosts.entry(host).or_default();
        at.idle.retain(is_idle);
        let is_fresh = at.idle.pop().is_none();
        at.served += u32::from(!is_fresh);
        // The client may open a connection although another one becomes idle at the same moment.
        let may_be_fresh = is_fresh || self.most.is_some();
        let least = if may_be_fresh { PATIENCE_FRESH } else { PATIENCE };
        let usual = at.shortest_fresh.unwrap_or_default() * PATIENCE_FACTOR;
        let patience = least.max(usual);
        // A connection that was used before is known to be served.
        let patience_replaced = if is_fresh { usual } else { patience };
        let client = self.client;
        Connection { client, host, is_fresh, moved, sent: now, patience, patience_replaced }
    }

    /// Counts the first byte of a response that came from `host`, where a redirect may have led.
    pub(crate) fn answered(&mut self, on: &mut Connection, host: Host, now: Instant) {
        let is_current = on.client == self.client;
        if on.is_fresh {
            let took = now.saturating_duration_since(on.sent);
            // The connection was at fault, not the request.
            self.is_doubted &= on.hangs_after().is_none_or(|hang| took >= hang);
        }
        if on.host != host {
            if is_current && !on.is_fresh {
                self.at(on.host).served -= 1;
            }
            (on.host, on.is_fresh) = (host, true);
        }
        let at = self.at(host);
        if on.is_fresh {
            let took = now.saturating_duration_since(on.sent).min(IDLE_MAX);
            at.shortest_fresh = Some(at.shortest_fresh.map_or(took, |it| it.min(took)));
        }
        if !is_current {
            return;
        }
        at.served += u32::from(on.is_fresh);
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
        let at = self.at(on.host);
        at.served -= u32::from(was_answered || !on.is_fresh);
        if is_idle {
            at.idle.push(now);
        }
    }

    /// Counts a request that is abandoned because its connection is not served while another one is
    /// idle. The limit becomes the number of served connections of its host, unless it is in doubt.
    /// Replacing the client closes its idle and its unserved connections.
    pub(crate) fn not_served(&mut self, on: &Connection) {
        if on.client != self.client {
            return;
        }
        let at = self.at(on.host);
        let idle = u32::try_from(at.idle.len()).unwrap_or(u32::MAX);
        let most = Some(at.served.saturating_add(idle).max(1));
        let probe_after = (self.probe_after * 4).clamp(PROBE_AFTER_MIN, PROBE_AFTER_MAX);
        let mut hosts = std::mem::take(&mut self.hosts);
        for at in hosts.values_mut() {
            let shortest_fresh = at.shortest_fresh;
            *at = HostConnections { shortest_fresh, ..HostConnections::default() };
        }
        *self = Self {
            client: self.client.wrapping_add(1),
            hosts,
            most: if self.is_doubted { self.most } else { most },
            is_doubted: self.is_doubted,
            probe_after: if self.is_doubted { self.probe_after } else { probe_after },
            ..Self::default()
        };
    }

    /// Lifts the limit that a move has set: the moved request is not answered on its new connection
    /// either.
    pub(crate) fn hangs(&mut self) {
        self.most = None;
        self.is_doubted = true;
    }

    /// Returns true if the client of a connection has been replaced.
    pub(crate) fn is_replaced(&self, on: &Connection) -> bool {
        on.client != self.client
    }

    /// Returns when the oldest idle connection to the host of a request became idle, if any.
    pub(crate) fn idle_since(&self, on: &Connection, now: Instant) -> Option<Instant> {
        if self.is_replaced(on) || self.is_shared {
            return None;
        }
        let is_there = |since: &&Instant| now.saturating_duration_since(**since) < IDLE_MAX;
        self.hosts.get(&on.host)?.idle.iter().find(is_there).copied()
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

    fn at(&mut self, host: Host) -> &mut HostConnections {
        self.hosts.entry(host).or_default()
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

/// Maximum number of moves of a request off a connection of its own. A server that is slow as a
/// whole serves no connection sooner.
pub(crate) const MOVES_MAX: u32 = 2;

/// Maximum number of moves because the client was replaced for the sake of other requests.
pub(crate) const REPLACED_MAX: u32 = 4;

/// Number of hosts beyond which the counts of unused ones are dropped.
const HOSTS_MAX: usize = 64;

/// Idle time after which a server closes a connection.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// Answers before one more connection is probed: initially, and at most.
const PROBE_AFTER_MIN: u32 = 64;
const PROBE_AFTER_MAX: u32 = 1 << 16;

#[cfg(test)]
mod tests;
