//! Open connections, with separate limits for Unix and TCP clients.
//!
//! In:    connections that arrive, finish their handshake, and end.
//! Out:   admission or refusal, and the handshake that is closed to make room.
//! Never: a stalled handshake that keeps a new client out; a control request refused because all
//!        connections are served; one TCP peer that takes the places of all others.
//!
//! ```text
//!   Network   | served . . . . . | handshakes |  room for peers | max + at most PEER_ROOM
//!                                                with few of all
//!   Local     | served . . . . . | handshakes |  control room   | max + CONTROL_ROOM
//!                                  ^-- full: one of these is closed for a new client, the oldest
//!                                      of the peer with most connections
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::socket::{Peer, Socket};

/// Kind of listener through which a client connected.
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
    /// Limit of served connections, for each kind.
    max: usize,
    arrivals: u64,
    all: HashMap<u32, OpenConnection>,
    /// Counts of each kind, updated with each change of phase.
    kinds: [KindCounts; 2],
}

#[derive(Debug)]
struct OpenConnection {
    socket: Arc<Socket>,
    kind: ClientKind,
    phase: ConnectionPhase,
    arrival: u64,
    /// None for a local client: all of them are one peer.
    network: Option<PeerNetwork>,
}

/// Connections of one kind that were not evicted.
#[derive(Debug, Default)]
struct KindCounts {
    open: usize,
    served: usize,
    peers: HashMap<Option<PeerNetwork>, PeerCounts>,
}

/// Connections of one peer that were not evicted.
#[derive(Debug, Default)]
struct PeerCounts {
    open: usize,
    served: usize,
    /// Numbers of connections in their handshake, by arrival.
    waiting: BTreeMap<u64, u32>,
}

/// Addresses that count as one TCP peer: an IPv4 address, or an IPv6 prefix of 64 bits, because one
/// host may use all addresses below it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum PeerNetwork {
    V4([u8; 4]),
    V6([u8; 8]),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ConnectionPhase {
    Handshake,
    Served,
    /// Closed to make room for a newer client; its thread has not ended yet.
    Evicted,
}

/// Result of a client's arrival.
#[derive(Clone, Debug)]
pub(crate) enum Admission {
    /// The client may begin its handshake.
    Admitted,
    /// The client may begin its handshake, in place of this other client, which was disconnected.
    Replaced(Arc<Socket>),
    /// All connections of its kind are served.
    Full,
}

/// Result of a completed handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ServiceStart {
    /// The client is served from now on.
    Served,
    /// All connections of its kind are served.
    Full,
    /// The connection was closed for a newer client.
    Evicted,
}

impl OpenConnections {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, arrivals: 0, all: HashMap::new(), kinds: Default::default() }
    }

    /// Adds a client in its handshake if a place is free or can be freed.
    pub(crate) fn admit(
        &mut self,
        number: u32,
        socket: &Arc<Socket>,
        kind: ClientKind,
    ) -> Admission {
        // Threads of evicted clients end soon; if the system does not run them, admit no more.
        if self.all.len() >= 2 * (self.max + CONTROL_ROOM) + EVICTED_MAX {
            return Admission::Full;
        }
        let mut admission = Admission::Admitted;
        let network = PeerNetwork::of(socket.peer);
        let counts = &self.kinds[kind as usize];
        let of_peer = counts.peers.get(&network).map_or(0, |peer| peer.open);
        if counts.open >= self.places(kind, of_peer) {
            let Some(oldest) = counts.oldest_handshake_of_largest_peer(of_peer) else {
                return Admission::Full;
            };
            self.set_phase(oldest, ConnectionPhase::Evicted);
            let socket = &self.all[&oldest].socket;
            socket.shut();
            admission = Admission::Replaced(Arc::clone(socket));
        }
        self.arrivals += 1;
        let (socket, arrival) = (Arc::clone(socket), self.arrivals);
        let phase = ConnectionPhase::Handshake;
        let client = OpenConnection { socket, kind, phase, arrival, network };
        self.kinds[kind as usize].add(number, &client);
        let old = self.all.insert(number, client);
        assert!(old.is_none(), "a number names one open connection");
        admission
    }

    /// Moves a client that has finished its handshake to the served connections.
    pub(crate) fn begin_service(&mut self, number: u32) -> ServiceStart {
        let Some(client) = self.all.get(&number) else { return ServiceStart::Evicted };
        if client.phase == ConnectionPhase::Evicted {
            return ServiceStart::Evicted;
        }
        let kind = client.kind;
        let counts = &self.kinds[kind as usize];
        let of_peer = counts.peers.get(&client.network).map_or(0, |peer| peer.served);
        let places = self.max.saturating_add(self.peer_room(kind, of_peer));
        if counts.served >= places {
            return ServiceStart::Full;
        }
        self.set_phase(number, ConnectionPhase::Served);
        ServiceStart::Served
    }

    fn set_phase(&mut self, number: u32, phase: ConnectionPhase) {
        let client = self.all.get_mut(&number).expect("only open connections change their phase");
        let counts = &mut self.kinds[client.kind as usize];
        counts.subtract(client);
        client.phase = phase;
        counts.add(number, client);
    }

    /// Returns the limit of open connections of a kind, for a peer that has `of_peer` of them.
    fn places(&self, kind: ClientKind, of_peer: usize) -> usize {
        self.max.saturating_add(kind.control_room()).saturating_add(self.peer_room(kind, of_peer))
    }

    /// Returns the extra places for a TCP peer that has `of_peer` connections: 0 unless these are
    /// few.
    fn peer_room(&self, kind: ClientKind, of_peer: usize) -> usize {
        let has_few = kind == ClientKind::Network && of_peer < PEER_FEW;
        if has_few { (self.max / 4).min(PEER_ROOM) } else { 0 }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(client) = self.all.remove(&number) {
            self.kinds[client.kind as usize].subtract(&client);
        }
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

impl KindCounts {
    fn add(&mut self, number: u32, client: &OpenConnection) {
        if client.phase == ConnectionPhase::Evicted {
            return;
        }
        let peer = self.peers.entry(client.network).or_default();
        self.open += 1;
        peer.open += 1;
        if client.phase == ConnectionPhase::Served {
            self.served += 1;
            peer.served += 1;
        } else {
            peer.waiting.insert(client.arrival, number);
        }
    }

    fn subtract(&mut self, client: &OpenConnection) {
        if client.phase == ConnectionPhase::Evicted {
            return;
        }
        let peer = self.peers.get_mut(&client.network).expect("its peer was counted with it");
        self.open -= 1;
        peer.open -= 1;
        if client.phase == ConnectionPhase::Served {
            self.served -= 1;
            peer.served -= 1;
        } else {
            peer.waiting.remove(&client.arrival);
        }
        if peer.open == 0 {
            self.peers.remove(&client.network);
        }
    }

    /// Returns the oldest handshake of the peer with most connections, among peers with at least
    /// `min_open`.
    fn oldest_handshake_of_largest_peer(&self, min_open: usize) -> Option<u32> {
        let peers = self.peers.values().filter(|peer| peer.open >= min_open);
        let oldest = peers.filter_map(|peer| Some((peer.open, peer.waiting.first_key_value()?)));
        let chosen = oldest.max_by_key(|(open, (arrival, _))| (*open, Reverse(**arrival)));
        chosen.map(|(_, (_, number))| *number)
    }
}

impl ClientKind {
    /// Returns the number of handshakes allowed in addition to the served connections.
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

/// Extra places for TCP peers with few connections once all others are taken; a quarter of the
/// limit, if that is less.
const PEER_ROOM: usize = 16;
/// A TCP peer with this many connections gets none of the extra places.
const PEER_FEW: usize = 4;

/// Concurrent control requests while all local connections are served: `stats` and `set` by hand,
/// and a monitor or two.
pub(crate) const CONTROL_ROOM: usize = 16;
/// Limit of evicted clients whose threads have not ended.
const EVICTED_MAX: usize = 64;

#[cfg(test)]
mod tests;
