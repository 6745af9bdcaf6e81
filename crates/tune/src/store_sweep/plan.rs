//! What a sweep may ask for, before it asks for anything.
//!
//! In:    its settings.
//! Out:   the points, and the most requests, bytes and seconds.
//! Never: a figure that the sweep may exceed, but for requests that are sent again.

use serde::Serialize;

use super::settings::StoreSweepSettings;
use super::step::StorePoint;
use super::{NEW_CONNECTIONS, SMALL_READS_MAX};

/// What a sweep may ask for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedSweep {
    /// Numbers of connections, as far as more of them give more.
    pub connections: Vec<u32>,
    /// Part sizes, unless the store is so slow that smaller ones do.
    pub parts_kib: Vec<u64>,
    /// Small reads, one at a time, at most.
    pub small_reads: u32,
    /// New connections that are timed.
    pub new_connections: u32,
    /// At most so many requests, without those that are sent again.
    pub requests: u64,
    /// At most so many bytes.
    pub bytes: u64,
    /// At most so many seconds.
    pub seconds: f64,
}

impl StoreSweepSettings {
    /// Returns what a sweep with these settings may ask for.
    #[must_use]
    pub fn plan(&self) -> PlannedSweep {
        let part = self.part_max();
        let doubled = (0..32).map(|power| 1_u32 << power);
        let connections = doubled.take_while(|connections| {
            let point = StorePoint { part, connections: *connections };
            *connections <= self.connections_max && self.has_room_for(point.in_flight())
        });
        let parts = self.parts_around(part).into_iter();
        PlannedSweep {
            connections: connections.collect(),
            parts_kib: parts.map(|part| part.0 >> 10).collect(),
            small_reads: SMALL_READS_MAX,
            new_connections: NEW_CONNECTIONS,
            requests: self.requests(),
            bytes: self.bytes.0,
            seconds: self.budget.as_secs_f64(),
        }
    }
}
