//! Assigns parts to connections, and counts the bytes that arrive within the measured window.
//!
//! Requests never exceed the byte limit of the step. The window begins once each connection has
//! completed its first part.
//!
//! The first parts have staggered lengths, up to a whole part. Connections that all begin with a
//! whole part would wait for their first bytes together and leave the link idle, unlike those of a
//! program that has been running for a while.

use std::ops::Range;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use super::step::{TransferSample, TransferStep};

/// The parts of one [`TransferStep`].
#[derive(Debug)]
pub struct PartWindow {
    step: TransferStep,
    object: ByteCount,
    /// Start of the next part.
    offset: u64,
    /// Bytes requested.
    asked: u64,
    /// Bytes received.
    arrived: u64,
    /// State of each connection.
    connections: Vec<ConnectionState>,
    /// Number of connections that have completed their first part.
    warm: usize,
    began: Option<WindowEdge>,
    ended: Option<WindowEdge>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ConnectionState {
    New,
    First,
    Warm,
}

/// A point in time, and the bytes received by then.
#[derive(Clone, Copy, Debug)]
struct WindowEdge {
    at: Nanos,
    arrived: u64,
}

impl PartWindow {
    /// Creates the parts of a step, for an object of this size.
    #[must_use]
    pub fn new(step: TransferStep, object: ByteCount) -> Self {
        let connections = vec![ConnectionState::New; step.point.connections as usize];
        Self {
            offset: step.start,
            step,
            object,
            asked: 0,
            arrived: 0,
            connections,
            warm: 0,
            began: None,
            ended: None,
        }
    }

    /// Returns the next part for a connection that has completed its last one; None if the
    /// connection should stop.
    ///
    /// # Panics
    ///
    /// If there is no such connection.
    pub fn next_part(&mut self, connection: u32, now: Nanos) -> Option<Range<u64>> {
        let index = connection as usize;
        let part = self.step.point.part.0;
        let len = match self.connections[index] {
            ConnectionState::New => {
                self.connections[index] = ConnectionState::First;
                let share = part * (u64::from(connection) + 1);
                let len = share / self.connections.len() as u64;
                len.next_multiple_of(SECTOR).min(part)
            }
            ConnectionState::First => {
                self.connections[index] = ConnectionState::Warm;
                self.warm += 1;
                if self.warm == self.connections.len() {
                    self.began = Some(WindowEdge { at: now, arrived: self.arrived });
                }
                part
            }
            ConnectionState::Warm => part,
        };
        let window_ns = u64::try_from(self.step.window.as_nanos()).unwrap_or(u64::MAX);
        let is_measured =
            self.began.is_some_and(|began| now.0.saturating_sub(began.at.0) >= window_ns);
        let is_spent = self.asked + len > self.step.bytes_max.0;
        if self.ended.is_some() || is_measured || is_spent {
            self.end(now);
            return None;
        }
        // The last part of an object has full length, too, and may begin before its boundary.
        let start = if self.offset + len > self.object.0 { 0 } else { self.offset };
        let end = (start + len).min(self.object.0);
        self.offset = end;
        self.asked += end - start;
        Some(start..end)
    }

    /// Adds received bytes of a part.
    pub fn arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// Returns the bytes received.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.arrived
    }

    /// Returns the sample of the window; None if the window did not end.
    #[must_use]
    pub fn sample(&self) -> Option<TransferSample> {
        let (began, ended) = (self.began?, self.ended?);
        let ns = ended.at.0.saturating_sub(began.at.0);
        let is_long = Duration::from_nanos(ns) * 4 >= self.step.window;
        let bytes = ByteCount(ended.arrived - began.arrived);
        is_long.then_some(TransferSample { bytes, ns })
    }

    fn end(&mut self, now: Nanos) {
        if self.began.is_some() && self.ended.is_none() {
            self.ended = Some(WindowEdge { at: now, arrived: self.arrived });
        }
    }
}

/// First parts are whole pages.
const SECTOR: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store_sweep::StorePoint;

    const PART: u64 = 1 << 20;

    fn window(connections: u32, window_ns: u64, bytes_max: u64) -> PartWindow {
        let point = StorePoint { part: ByteCount(PART), connections };
        let step = TransferStep {
            point,
            start: 2 * PART,
            window: Duration::from_nanos(window_ns),
            bytes_max: ByteCount(bytes_max),
            at_most: Duration::from_secs(1),
        };
        PartWindow::new(step, ByteCount(4 * PART + 1000))
    }

    #[test]
    fn first_parts_are_cut_and_the_window_begins_after_all_of_them() {
        let mut parts = window(2, 10, 100 * PART);
        assert_eq!(parts.next_part(0, Nanos(0)), Some(2 * PART..2 * PART + PART / 2));
        assert_eq!(parts.next_part(1, Nanos(0)), Some(2 * PART + PART / 2..3 * PART + PART / 2));
        parts.arrived(PART / 2);
        assert_eq!(parts.next_part(0, Nanos(5)), Some(0..PART), "the end is too near");
        parts.arrived(PART);
        assert_eq!(parts.next_part(1, Nanos(6)), Some(PART..2 * PART), "here it begins");
        parts.arrived(PART);
        assert_eq!(parts.next_part(0, Nanos(15)), Some(2 * PART..3 * PART));
        assert_eq!(parts.sample(), None);
        parts.arrived(PART);
        assert_eq!(parts.next_part(1, Nanos(17)), None, "it is over");
        parts.arrived(PART);
        assert_eq!(parts.next_part(0, Nanos(18)), None);
        let sample = TransferSample { bytes: ByteCount(2 * PART), ns: 11 };
        assert_eq!((parts.sample(), parts.bytes()), (Some(sample), 4 * PART + PART / 2));
    }

    #[test]
    fn it_never_asks_for_more_than_it_may() {
        let mut parts = window(1, 1000, 3 * PART + 5);
        let mut asked = 0;
        while let Some(range) = parts.next_part(0, Nanos(asked / PART * 200)) {
            assert!(range.end <= 4 * PART + 1000, "{range:?}");
            asked += range.end - range.start;
            parts.arrived(range.end - range.start);
        }
        assert_eq!(asked, 3 * PART);
        assert!(parts.sample().is_some(), "what came by then is a sample if it is not short");
    }
}
