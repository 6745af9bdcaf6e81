//! What a sweep asks of a store, and what comes of it.
//!
//! In:    nothing.
//! Out:   [`StoreStep`], one at a time; [`StepResult`].
//! Never: a decision.

use std::time::Duration;

use foreread_core::units::ByteCount;

/// Parts of a size, read over a number of connections.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct StorePoint {
    /// The size of one request.
    pub part: ByteCount,
    /// How many requests are in flight; with HTTP/1.1 each has a connection.
    pub connections: u32,
}

impl StorePoint {
    /// Bytes that are asked for and not there yet.
    #[must_use]
    pub fn in_flight(self) -> ByteCount {
        ByteCount(self.part.0 * u64::from(self.connections))
    }
}

/// One step of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreStep {
    /// Opens so many connections, one after the other, each with a small read and a second one.
    NewConnections {
        /// How many.
        count: u32,
    },
    /// Reads small ranges, one at a time.
    SmallReads(SmallReadStep),
    /// Reads parts over several connections.
    Transfer(TransferStep),
    /// Sends nothing for so long: the store has refused requests.
    Pause(Duration),
}

/// Small ranges to read, one at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallReadStep {
    /// Where they begin.
    pub offsets: Vec<u64>,
    /// How long each is.
    pub len: ByteCount,
    /// No more of them begin after this.
    pub at_most: Duration,
}

/// Parts to read.
///
/// ```text
///   connection 1  |--|-----|-----|-----|-
///   connection 2  |----|-----|-----|-----       the first part of each is cut to another length:
///   connection 3  |------|-----|-----|---       they shall not all wait for a first byte at once
///                        ^             ^
///                        |<-- window ->|        `window` of time, then up to the end of a part
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferStep {
    /// Part size and connections.
    pub point: StorePoint,
    /// Where the first part begins; the last one of the object is followed by the first.
    pub start: u64,
    /// How long it is measured for, once each connection has had its first part.
    pub window: Duration,
    /// No part is asked for that would make more than this.
    pub bytes_max: ByteCount,
    /// It is given up after this.
    pub at_most: Duration,
}

/// What a step found.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// What the store was asked for meanwhile.
    pub spent: StoreSpent,
    /// What was measured.
    pub found: StepFindings,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub enum StepFindings {
    /// One for each connection.
    NewConnections(Vec<ConnectionCost>),
    /// One for each read that has ended.
    SmallReads(Vec<SmallRead>),
    /// None if the window did not end.
    Transfer(Option<TransferSample>),
    /// It was a pause.
    Nothing,
}

/// What a store was asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct StoreSpent {
    /// Requests, with those that were sent again.
    pub requests: u64,
    /// Bytes of the object that came.
    pub bytes: u64,
    /// Responses of 429 and 503.
    pub throttled: u64,
    /// How long it took, in nanoseconds.
    #[serde(skip)]
    pub ns: u64,
}

/// A request on a new connection, and the next one on the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionCost {
    /// From the request, with name, connection and TLS, to the head of the response, nanoseconds.
    pub first_ns: u64,
    /// From the second request to the head of its response.
    pub next_ns: u64,
}

/// A small range that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallRead {
    /// From the request to the head of the response, in nanoseconds.
    pub first_byte_ns: u64,
    /// From the request to the last byte.
    pub ns: u64,
}

/// What came during the window of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferSample {
    /// Bytes.
    pub bytes: ByteCount,
    /// How long the window was, in nanoseconds.
    pub ns: u64,
}

impl StoreSpent {
    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            throttled: self.throttled + other.throttled,
            ns: self.ns + other.ns,
        }
    }

    /// Requests a second.
    #[must_use]
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 * 1e9 / self.ns.max(1) as f64
    }
}

impl TransferSample {
    /// Throughput, in 10^6 bytes a second.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes.0 as f64 * 1e3 / self.ns.max(1) as f64
    }
}
