//! The findings of a store sweep, complete or partial. A choice was always measured, and never
//! refused by the store.

use foreread_core::units::{ByteCount, Nanos};
use serde::Serialize;

use super::axis::Axis;
use super::step::{StorePoint, StoreSpent};
use super::throttle::ThrottleSeen;
use super::{StoreSweep, StoreSweepEnd};
use crate::plateau::CurvePoint;

pub use super::latency::{ConnectionCosts, LatencyQuantiles, SmallReads};

/// Findings of a store sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreFindings {
    /// Duration of the sweep.
    pub seconds: f64,
    /// Requests and bytes spent.
    pub asked: StoreSpent,
    /// Chosen part size and number of connections; None if too little was measured.
    pub chosen: Option<StoreChoice>,
    /// Results by number of connections at one part size, in ascending order.
    pub connections: Vec<PointResult>,
    /// Results by part size at the chosen number of connections, in ascending order.
    pub parts: Vec<PointResult>,
    /// Rate of one connection, in 10^6 bytes a second.
    pub one_connection_mb_per_s: Option<f64>,
    /// Small reads, one at a time.
    pub small_reads: Option<SmallReads>,
    /// Cost of a new connection.
    pub new_connection: Option<ConnectionCosts>,
    /// Points at which the store refused requests.
    pub throttling: Vec<ThrottleSeen>,
    /// Notes for the interpretation of the figures.
    pub notes: Vec<String>,
    /// End of the sweep; None if it was stopped.
    pub ended: Option<StoreSweepEnd>,
}

/// Result of one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PointResult {
    /// Part size.
    pub part_kib: u64,
    /// Number of connections.
    pub connections: u32,
    /// Throughput, in 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end of the 95 % confidence interval.
    pub high: f64,
    /// Requests per second at this rate.
    pub requests_per_s: f64,
    /// Number of readings.
    pub samples: u32,
}

/// The smallest part size and the fewest connections that give 97 % of the best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StoreChoice {
    /// Part size.
    pub part_kib: u64,
    /// 95 % confidence interval of the part size.
    pub part_between_kib: [u64; 2],
    /// Number of connections.
    pub connections: u32,
    /// 95 % confidence interval of the number of connections.
    pub connections_between: [u32; 2],
    /// Throughput of this choice, in 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end of the 95 % confidence interval.
    pub high: f64,
    /// True if no larger number of connections was measured: more may be faster.
    pub is_most_connections: bool,
}

impl StoreSweep {
    /// Returns the findings so far.
    #[must_use]
    pub fn findings(&self, now: Nanos) -> StoreFindings {
        let took = now.0.saturating_sub(self.began.unwrap_or(now).0);
        let size_kib = self.settings.small_read().0 >> 10;
        let connections = rows(&self.connections);
        StoreFindings {
            seconds: took as f64 / 1e9,
            asked: self.spent,
            chosen: self.chosen(),
            // Prefer the rounds: the climb has read each number only once.
            one_connection_mb_per_s: connections
                .iter()
                .find(|row| row.connections == 1)
                .map_or_else(|| self.climb.of_one(), |row| Some(row.mb_per_s)),
            connections,
            parts: rows(&self.parts),
            small_reads: SmallReads::of(size_kib, &self.small),
            new_connection: ConnectionCosts::of(&self.costs),
            throttling: self.refused.clone(),
            notes: self.all_notes(),
            ended: self.end,
        }
    }

    fn chosen(&self) -> Option<StoreChoice> {
        let of_connections = self.connections.plateau()?;
        let of_parts = self.parts.plateau()?;
        let (connections, parts) = (&self.connections, &self.parts);
        let point = parts.point_of(of_parts.window)?;
        let curve = parts.curve();
        let measured = curve.at(of_parts.window)?;
        let number = |window: ByteCount| connections.point_of(window).map(|it| it.connections);
        let most = connections.points().last()?.connections;
        Some(StoreChoice {
            part_kib: point.part.0 >> 10,
            part_between_kib: [of_parts.low.0 >> 10, of_parts.high.0 >> 10],
            connections: point.connections,
            connections_between: [number(of_connections.low)?, number(of_connections.high)?],
            mb_per_s: measured.mb_per_s(),
            low: measured.low(),
            high: measured.high(),
            is_most_connections: point.connections == most,
        })
    }

    fn all_notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let object = self.settings.object.0;
        if self.spent.bytes > object {
            notes.push(format!(
                "{} MB were read from an object of {} MB, so ranges were read twice: a cache of \
                 the store may have answered them",
                self.spent.bytes / 1_000_000,
                object / 1_000_000
            ));
        }
        let drifts = [&self.connections, &self.parts].map(|axis| axis.curve().drift());
        if let Some(share) = drifts.into_iter().flatten().reduce(f64::max) {
            notes.push(format!(
                "the speed changed by {:.0} % during the run; points are compared with others \
                 measured at about the same time",
                share * 100.0
            ));
        }
        if self.connections.plateau().is_none() || self.parts.plateau().is_none() {
            notes.push(
                "too little was measured to recommend a part size and a number of \
                        connections"
                    .into(),
            );
        }
        notes
    }
}

fn rows(axis: &Axis) -> Vec<PointResult> {
    let curve = axis.curve();
    let row = |measured: &CurvePoint| {
        let StorePoint { part, connections } = axis.point_of(measured.window)?;
        let mb_per_s = measured.mb_per_s();
        Some(PointResult {
            part_kib: part.0 >> 10,
            connections,
            mb_per_s,
            low: measured.low(),
            high: measured.high(),
            requests_per_s: mb_per_s * 1e6 / part.0 as f64,
            samples: measured.readings,
        })
    };
    curve.points.iter().filter_map(row).collect()
}
