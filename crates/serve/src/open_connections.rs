//! Open connections, with places by kind: clients of one listener take no place of another's.
//!
//! In:    connections that come, finish their handshake, and end.
//! Out:   admission, or refusal; the handshake that is closed to make room.
//! Never: a client that has not finished its handshake in the place of a new one; a control request
//!        kept out by clients that are served; a TCP peer kept out by the connections of another.
//!
//! ```text
//!   Network   | served . . . . . | handshakes |  room for peers | max + at most PEER_ROOM
//!                                                with few of all
//!   Local     | served . . . . . | handshakes |  control room   | max + CONTROL_ROOM
//!                                  ^-- full: one of these is closed for a new client, the oldest
//!                                      of the peer with most connections
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::socket::{Peer, Socket};

/// The kind of listener that a client came through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ClientKind {
    /// A Unix socket: processes of the same user, or root's. They may send control requests.
    Local,
    /// A TCP port.
    Network,
}

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    /// Connections of each kind that may be served at a time.
    max: usize,
    arrivals: u64,
    all: HashMap<u32, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    socket: Arc<Socket>,
    kind: ClientKind,
    phase: ConnectionPhase,
    arrival: u64,
    /// None of a local client: all of them are one peer.
    network: Option<PeerNetwork>,
}

/// The addresses that count as one TCP peer: one of IPv4, the 64 bits in front of IPv6, of which a
/// host may have all.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum PeerNetwork {
    V4([u8; 4]),
    V6([u8; 8]),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ConnectionPhase {
    Handshake,
    Served,
    /// Closed for a newer client; its thread has not ended yet.
    Evicted,
}

/// Result of a client's arrival.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    /// It may begin its handshake.
    Admitted,
    /// The same, after this client's handshake was closed.
    Replaced(Arc<Socket>),
    /// All connections of its kind are served.
    Full,
}

/// Result of a handshake that has ended well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ServiceStart {
    /// The client is served from now on.
    Served,
    /// All connections of its kind are served.
    Full,
    /// It was closed for a newer client before.
    Evicted,
}

impl OpenConnections {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, arrivals: 0, all: HashMap::new() }
    }

    /// Adds a client that begins its handshake, if there is a place for it.
    pub(crate) fn admit(
        &mut self,
        number: u32,
        socket: &Arc<Socket>,
        kind: ClientKind,
    ) -> Admission {
        // Threads of evicted clients end at once; if the system does not run them, none is added.
        if self.all.len() >= 2 * (self.max + CONTROL_ROOM) + EVICTED_MAX {
            return Admission::Full;
        }
        let mut admission = Admission::Admitted;
        let network = PeerNetwork::of(socket.peer);
        let open = self.count_by_peer(kind, |phase| phase != ConnectionPhase::Evicted);
        let of_peer = open.get(&network).copied().unwrap_or(0);
        if open.values().sum::<usize>() >= self.places(kind, of_peer) {
            let may_be_closed = |it: &&mut OpenConnection| {
                let is_waiting = it.kind == kind && it.phase == ConnectionPhase::Handshake;
                is_waiting && open[&it.network] >= of_peer
            };
            let waiting = self.all.values_mut().filter(may_be_closed);
            let Some(oldest) = waiting.max_by_key(|it| (open[&it.network], Reverse(it.arrival)))
            else {
                return Admission::Full;
            };
            oldest.phase = ConnectionPhase::Evicted;
            oldest.socket.shut();
            admission = Admission::Replaced(Arc::clone(&oldest.socket));
        }
        self.arrivals += 1;
        let (socket, arrival) = (Arc::clone(socket), self.arrivals);
        let phase = ConnectionPhase::Handshake;
        let client = OpenConnection { socket, kind, phase, arrival, network };
        let old = self.all.insert(number, client);
        assert!(old.is_none(), "a number names one open connection");
        admission
    }

    /// Gives a client whose handshake has ended a place among those that are served.
    pub(crate) fn begin_service(&mut self, number: u32) -> ServiceStart {
        let Some(client) = self.all.get(&number) else { return ServiceStart::Evicted };
        if client.phase == ConnectionPhase::Evicted {
            return ServiceStart::Evicted;
        }
        let (kind, network) = (client.kind, client.network);
        let served = self.count_by_peer(kind, |phase| phase == ConnectionPhase::Served);
        let of_peer = served.get(&network).copied().unwrap_or(0);
        let places = self.max.saturating_add(self.peer_room(kind, of_peer));
        if served.values().sum::<usize>() >= places {
            return ServiceStart::Full;
        }
        if let Some(client) = self.all.get_mut(&number) {
            client.phase = ConnectionPhase::Served;
        }
        ServiceStart::Served
    }

    /// The connections of a kind in some phases, by peer.
    fn count_by_peer(
        &self,
        kind: ClientKind,
        is_counted: impl Fn(ConnectionPhase) -> bool,
    ) -> HashMap<Option<PeerNetwork>, usize> {
        let mut counts = HashMap::new();
        for it in self.all.values().filter(|it| it.kind == kind && is_counted(it.phase)) {
            *counts.entry(it.network).or_default() += 1;
        }
        counts
    }

    /// Returns the largest number of connections of a kind at which a peer that has `of_peer` of
    /// them may open another.
    fn places(&self, kind: ClientKind, of_peer: usize) -> usize {
        self.max.saturating_add(kind.control_room()).saturating_add(self.peer_room(kind, of_peer))
    }

    /// Places beyond the connections of all, for a TCP peer that has few.
    fn peer_room(&self, kind: ClientKind, of_peer: usize) -> usize {
        let has_few = kind == ClientKind::Network && of_peer < PEER_FEW;
        if has_few { (self.max / 4).min(PEER_ROOM) } else { 0 }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.all.remove(&number);
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.all.contains_key(&number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.all.values().map(|it| &*it.socket)
    }
}

impl ClientKind {
    /// Places for handshakes beyond the connections that are served.
    fn control_room(self) -> usize {
        match self {
            Self::Local => CONTROL_ROOM,
            Self::Network => 0,
        }
    }
}

impl PeerNetwork {
    fn of(peer: Peer) -> Option<Self> {
        let Peer::Tcp(addr) = peer else { return None };
        Some(match addr.ip().to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        })
    }
}

/// Places for TCP peers with few connections when others have all; a quarter of these, if that is
/// less.
const PEER_ROOM: usize = 16;
/// A TCP peer that has so many connections gets none of those.
const PEER_FEW: usize = 4;

/// Control requests at a time while all local connections are served: `stats` and `set` by hand,
/// and a monitor or two. Each takes some milliseconds.
pub(crate) const CONTROL_ROOM: usize = 16;
/// Evicted clients whose threads have not ended.
const EVICTED_MAX: usize = 64;

#[cfg(test)]
mod tests;
