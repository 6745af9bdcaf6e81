//! Computes the limits of a sweep before it starts. The sweep exceeds none of them, except by
//! retried requests.

use serde::Serialize;

use super::settings::StoreSweepSettings;
use super::step::StorePoint;
use super::{NEW_CONNECTIONS, SMALL_READS_MAX};

/// Limits of a planned sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedSweep {
    /// Numbers of connections, until more are not faster.
    pub connections: Vec<u32>,
    /// Part sizes, unless the store is so slow that smaller ones suffice.
    pub parts_kib: Vec<u64>,
    /// Most small reads, one at a time.
    pub small_reads: u32,
    /// New connections to time.
    pub new_connections: u32,
    /// Most requests, without retries.
    pub requests: u64,
    /// Largest number of bytes.
    pub bytes: u64,
    /// Longest duration in seconds.
    pub seconds: f64,
}

impl StoreSweepSettings {
    /// Returns the limits of a sweep with these settings.
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
