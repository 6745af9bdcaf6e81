//! Which part a connection reads next, and what came within the window that is measured.
//!
//! In:    connections that are free, bytes that came, the time.
//! Out:   ranges; the sample.
//! Never: more bytes asked for than the step may; a window that begins before each connection has
//!        had its first part.
//!
//! The first parts have lengths from a share of a part to a whole one. Connections that all begin
//! with a whole part wait for their first bytes together, and leave the link idle meanwhile; those
//! of a program that has run for a while do not.

use std::ops::Range;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use super::step::{TransferSample, TransferStep};

/// The parts of one [`TransferStep`].
#[derive(Debug)]
pub struct PartWindow {
    step: TransferStep,
    object: ByteCount,
    /// Where the next part begins.
    offset: u64,
    /// Bytes asked for.
    asked: u64,
    /// Bytes that came.
    arrived: u64,
    /// How far each connection is.
    connections: Vec<ConnectionState>,
    /// How many have had their first part.
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

/// A moment, and what had come by then.
#[derive(Clone, Copy, Debug)]
struct WindowEdge {
    at: Nanos,
    arrived: u64,
}

impl PartWindow {
    /// Returns the parts of a step, of an object of this size.
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

    /// Returns the next part for a connection, whose last one has come; None if it is to end.
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
        // The last part of an object is as long as all others, and may begin before its boundary.
        let start = if self.offset + len > self.object.0 { 0 } else { self.offset };
        let end = (start + len).min(self.object.0);
        self.offset = end;
        self.asked += end - start;
        Some(start..end)
    }

    /// Bytes of a part have come.
    pub fn arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// How many bytes have come.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.arrived
    }

    /// What came within the window; None if it did not end.
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
