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
mod map_probe;
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

/// An export: the bytes that a server offers to its clients.
#[derive(Clone, Debug)]
pub struct Export {
    /// Export name; also used for clients that request the empty name.
    pub name: String,
    /// File that holds the bytes.
    pub file: foreread::File,
    /// Range of the file that clients see; export offset 0 is its start.
    pub range: Range<u64>,
    /// Refuse writes. A file opened read-only refuses them in any case.
    pub read_only: bool,
    /// Description for people, in one line.
    pub description: String,
}

/// Limits for clients.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Connections served at a time, for each kind of listener (Unix, TCP); the server closes
    /// further clients. Control requests have room beyond these. A client in its handshake is
    /// closed when a newer one needs its place.
    pub connections: usize,
    /// Requests in hand per connection; at the limit, the server stops receiving from it.
    pub requests: usize,
    /// Reply bytes per connection that are being read or queued to send; at the limit, the server
    /// stops receiving from it.
    pub reply_bytes: usize,
    /// Budget in bytes that all connections share for replies and writes in flight, beyond the
    /// fixed buffers of each. Once it is spent, each connection continues with its fixed buffers,
    /// one piece at a time. At least 1 MiB; None: an eighth of the engine's memory, between 4 MiB
    /// and 64 MiB.
    pub shared_bytes: Option<usize>,
    /// Time limit for the handshake.
    pub handshake_timeout: Duration,
    /// Time limit for a silent connection with no request in hand; None: no limit.
    pub idle_timeout: Option<Duration>,
    /// Time limit, once the server stops, for answering requests in hand and delivering the
    /// replies; then the connections are closed.
    pub stop_timeout: Duration,
    /// Time limit for the final flush after that.
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
