//! An NBD server: any NBD client reads and writes through the engine's cache, its read-ahead and
//! its scheduler.
//!
//! In:    connections.
//! Out:   replies, in any order; counters.
//! Never: a client that harms another, or the server. Memory beyond the engine's bound, one budget
//!        for all replies, and a small fixed amount a connection.

mod blocking_pool;
mod budget;
mod buffer_memory;
pub mod client;
mod clock;
mod connection;
mod counters;
mod error;
mod log;
mod mailbox;
pub mod metrics;
pub mod nbd;
mod open_connections;
mod overlay;
mod server;
mod server_state;
mod socket;
pub mod stats;
mod store;

use std::ops::Range;
use std::time::Duration;

pub use counters::{CounterReader, Counters};
pub use error::ServeError;
pub use overlay::{Overlay, OverlayError, OverlayLosses};
pub use server::Server;
pub use server_state::Stopper;

/// What a server gives to its clients.
#[derive(Clone, Debug)]
pub struct Export {
    /// The name that clients ask for. Clients that ask for no name get it, too.
    pub name: String,
    /// The file that has the bytes.
    pub file: foreread::File,
    /// The bytes of the file that clients see; their offset 0 is its start.
    pub range: Range<u64>,
    /// Writes are refused; they always are if the file was opened for reading only.
    pub read_only: bool,
    /// One line for people.
    pub description: String,
}

/// How much a client may have.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Connections of each kind of listener, Unix or TCP, that are served at a time; further
    /// clients are closed. Control requests have room beyond these, and a client that has not ended
    /// its handshake is closed when a newer one needs its place.
    pub connections: usize,
    /// Requests of one connection that are in hand at a time; then it is not received from.
    pub requests: usize,
    /// Bytes of replies of one connection that are being read or wait to be sent; then it is not
    /// received from.
    pub reply_bytes: usize,
    /// Bytes of replies and of writes on their way, of all connections together, beyond the fixed
    /// amount that each has; then each goes on with that, one piece at a time. At least 1 MiB;
    /// None: an eighth of the engine's memory, 4 MiB at least and 64 MiB at most.
    pub shared_bytes: Option<usize>,
    /// How long a client may take to say what it wants.
    pub handshake_timeout: Duration,
    /// How long a connection may be silent with nothing in hand; None: no limit.
    pub idle_timeout: Option<Duration>,
    /// Once the server is to stop, how long requests in hand have to be answered, and their clients
    /// to take the answers; then the connections are closed.
    pub stop_timeout: Duration,
    /// How long the flush after that may take.
    pub exit_timeout: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            requests: 128,
            reply_bytes: 8 << 20,
            shared_bytes: None,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: None,
            stop_timeout: Duration::from_secs(5),
            exit_timeout: Duration::from_secs(60),
        }
    }
}
