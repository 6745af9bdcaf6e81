//! Steps of a store sweep, and their results.

use std::time::Duration;

use foreread_core::units::ByteCount;

/// Parts of a size, read over a number of connections.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct StorePoint {
    /// Size of one request.
    pub part: ByteCount,
    /// Number of requests in flight; with HTTP/1.1 each has its own connection.
    pub connections: u32,
}

impl StorePoint {
    /// Returns the bytes in flight.
    #[must_use]
    pub fn in_flight(self) -> ByteCount {
        ByteCount(self.part.0 * u64::from(self.connections))
    }
}

/// One step of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreStep {
    /// Opens new connections one after the other, each with a small read and a second one.
    NewConnections {
        /// Number of connections.
        count: u32,
    },
    /// Reads small ranges, one at a time.
    SmallReads(SmallReadStep),
    /// Reads parts over several connections.
    Transfer(TransferStep),
    /// Pauses all requests after the store has refused some.
    Pause(Duration),
}

/// Small ranges to read, one at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct SmallReadStep {
    /// Start of each range.
    pub offsets: Vec<u64>,
    /// Length of each range.
    pub len: ByteCount,
    /// No range is requested after this time.
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
    /// Start of the first part; after the object's last part follows its first.
    pub start: u64,
    /// Measured duration, once each connection has completed its first part.
    pub window: Duration,
    /// Limit on the bytes requested.
    pub bytes_max: ByteCount,
    /// The step is aborted after this time.
    pub at_most: Duration,
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// Requests and bytes spent on the step.
    pub spent: StoreSpent,
    /// Measurements.
    pub found: StepFindings,
}

/// Measurements of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepFindings {
    /// One for each connection.
    NewConnections(Vec<ConnectionCost>),
    /// One for each completed read.
    SmallReads(Vec<SmallRead>),
    /// None if the window did not end.
    Transfer(Option<TransferSample>),
    /// The step was a pause.
    Nothing,
}

/// Requests and bytes spent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct StoreSpent {
    /// Requests, including retries.
    pub requests: u64,
    /// Bytes of the object received.
    pub bytes: u64,
    /// Responses 429 and 503.
    pub throttled: u64,
    /// Duration, in nanoseconds.
    #[serde(skip)]
    pub ns: u64,
}

/// Times of a request on a new connection, and of the next one on the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionCost {
    /// Time from the request, including name lookup, connection and TLS, to the response header, in
    /// nanoseconds.
    pub first_ns: u64,
    /// Time from the second request to its response header.
    pub next_ns: u64,
}

/// Times of one small read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmallRead {
    /// Time from the request to the response header, in nanoseconds.
    pub first_byte_ns: u64,
    /// Time from the request to the last byte.
    pub ns: u64,
}

/// Bytes received during the window of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferSample {
    /// Bytes received.
    pub bytes: ByteCount,
    /// Duration of the window, in nanoseconds.
    pub ns: u64,
}

impl StoreSpent {
    /// Returns the sum.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            bytes: self.bytes + other.bytes,
            throttled: self.throttled + other.throttled,
            ns: self.ns + other.ns,
        }
    }

    /// Returns the requests per second.
    #[must_use]
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 * 1e9 / self.ns.max(1) as f64
    }
}

impl TransferSample {
    /// Returns the throughput, in 10^6 bytes a second.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes.0 as f64 * 1e3 / self.ns.max(1) as f64
    }
}
