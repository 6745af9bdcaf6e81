//! Open connections, with places by kind: clients of one listener take no place of another's.
//!
//! In:    connections that come, finish their handshake, and end.
//! Out:   admission, or refusal; the handshake that is closed to make room.
//! Never: a client that has not finished its handshake in the place of a new one; a control request
//!        kept out by clients that are served.
//!
//! ```text
//!   Network   | served . . . . . | handshakes |                 max
//!   Local     | served . . . . . | handshakes |  control room | max + CONTROL_ROOM
//!                                  ^-- full: the oldest of these is closed for a new client
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::socket::Socket;

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
        let places = self.max.saturating_add(kind.control_room());
        let open =
            |it: &&mut OpenConnection| it.kind == kind && it.phase != ConnectionPhase::Evicted;
        if self.all.values_mut().filter(open).count() >= places {
            let in_handshake = |it: &&mut OpenConnection| it.phase == ConnectionPhase::Handshake;
            let waiting = self.all.values_mut().filter(open).filter(in_handshake);
            let Some(oldest) = waiting.min_by_key(|it| it.arrival) else { return Admission::Full };
            oldest.phase = ConnectionPhase::Evicted;
            oldest.socket.shut();
            admission = Admission::Replaced(Arc::clone(&oldest.socket));
        }
        self.arrivals += 1;
        let (socket, arrival) = (Arc::clone(socket), self.arrivals);
        let phase = ConnectionPhase::Handshake;
        let old = self.all.insert(number, OpenConnection { socket, kind, phase, arrival });
        assert!(old.is_none(), "a number names one open connection");
        admission
    }

    /// Gives a client whose handshake has ended a place among those that are served.
    pub(crate) fn begin_service(&mut self, number: u32) -> ServiceStart {
        let Some(client) = self.all.get(&number) else { return ServiceStart::Evicted };
        if client.phase == ConnectionPhase::Evicted {
            return ServiceStart::Evicted;
        }
        let kind = client.kind;
        let is_served =
            |it: &&OpenConnection| it.kind == kind && it.phase == ConnectionPhase::Served;
        if self.all.values().filter(is_served).count() >= self.max {
            return ServiceStart::Full;
        }
        if let Some(client) = self.all.get_mut(&number) {
            client.phase = ConnectionPhase::Served;
        }
        ServiceStart::Served
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

/// Control requests at a time while all local connections are served: `stats` and `set` by hand,
/// and a monitor or two. Each takes some milliseconds.
pub(crate) const CONTROL_ROOM: usize = 16;
/// Evicted clients whose threads have not ended.
const EVICTED_MAX: usize = 64;
