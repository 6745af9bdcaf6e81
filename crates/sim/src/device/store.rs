//! An object store: each connection has a latency and a bandwidth, and all share a link.
//!
//! In:    commands.
//! Out:   when each ends, and when its pieces come before that.
//! Never: another order than that of arrival.
//!
//! ```text
//!   connection 0   |-- latency --|piece|piece|piece|
//!   connection 1   |-- latency --|piece|piece|piece|      each at connection_mb_per_s, unless
//!   connection 2     |-- latency --|piece|piece|piece|    the sum would be more than link_mb_per_s
//! ```

use foreread_core::path::Tag;
use foreread_core::units::Nanos;

use super::model::{BlockDevice, CommandEnd, CommandPieces, DeviceCommand, later, transfer_ns};
use super::params::Store;

/// A store with its connections.
#[derive(Debug)]
pub(super) struct StoreLink {
    params: Store,
    /// When each connection is free.
    connections: Vec<Nanos>,
    /// When the link has carried all that it was given.
    link: Nanos,
}

impl StoreLink {
    /// One at rest.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and its range.
    pub(super) fn new(params: Store) -> Result<Self, String> {
        params.check()?;
        let connections = vec![Nanos(0); params.connections as usize];
        Ok(Self { params, connections, link: Nanos(0) })
    }
}

impl BlockDevice for StoreLink {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        let total = command.sectors.bytes();
        let Store { latency_ms, connection_mb_per_s, link_mb_per_s, piece, .. } = self.params;
        let free = self.connections.iter_mut().min().expect("Store::check wants a connection");
        let from = later(now.max(*free), latency_ms * 1e6);
        // The link carries what it is given in turn: no later than all of it would take.
        self.link = later(from.max(self.link), transfer_ns(total, link_mb_per_s));
        let at = later(from, transfer_ns(total, connection_mb_per_s)).max(self.link);
        *free = at;
        let pieces = Some(CommandPieces { from, piece: piece.0, total });
        Some(CommandEnd { at, tag: command.tag, pieces })
    }

    fn ended(&mut self, _now: Nanos, _tag: Tag) -> Option<CommandEnd> {
        None
    }
}
