//! Statistics of a server: the schema of `foreread stats --json` and of the metrics.
//!
//! Field names are stable: fields are only added, and read as zero from an older server. Counters
//! start at zero with the server and only grow; fields marked "now" are gauges. Each number is read
//! on its own, so two of them may differ by events in between.

mod gather;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use gather::ServerInfo;

/// All statistics of a server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ServerStats {
    /// Version of the serving program.
    pub version: String,
    /// Seconds since the server became ready.
    pub up_s: f64,
    /// The export and its I/O mode.
    pub export: ExportStats,
    /// Memory of the cache, now.
    pub memory: MemoryStats,
    /// Reads as the engine counts them: a client's read is one engine read, or one for each eighth
    /// of the memory.
    pub reads: ReadStats,
    /// Cache hits and misses in pages.
    pub pages: PageStats,
    /// Read-ahead.
    pub ahead: ReadAheadStats,
    /// Evictions and refaults.
    pub cache: EvictionStats,
    /// Writes at the engine.
    pub writes: WriteStats,
    /// The underlying device, reads and writes.
    pub device: DeviceStats,
    /// Requests to the object store; null if a file or device is served.
    pub store: Option<StoreStats>,
    /// Connections and their requests.
    pub clients: ClientStats,
}

/// The export and its I/O mode.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ExportStats {
    /// Path of the file or device.
    pub target: String,
    /// Export name.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// True if writes are refused.
    pub read_only: bool,
    /// Reason for also using the kernel's page cache; null if it is bypassed.
    pub buffered: Option<String>,
    /// I/O interface to the kernel, in words.
    pub io: String,
}

/// Memory of the cache, now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct MemoryStats {
    /// Limit for pages and their index, in bytes.
    pub bound_bytes: u64,
    /// Bytes of pages in frames that are neither being filled nor held.
    pub idle_bytes: u64,
    /// Dirty bytes: written, but not yet on the device.
    pub dirty_bytes: u64,
}

/// Reads at the engine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReadStats {
    /// Reads that found all pages, did not block and met no marker.
    pub hit: u64,
    /// Reads that blocked on a page that was missing or in flight.
    pub waited: u64,
    /// Of those, reads answered by one system call on the reader's own thread.
    pub alone: u64,
    /// Reads and writes that blocked on memory before they could begin.
    pub waited_for_memory: u64,
}

/// Pages of reads that blocked; pure hits bypass the driver and are not counted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PageStats {
    /// All pages of these reads.
    pub wanted: u64,
    /// Of those, pages already in flight: prefetched, but too late.
    pub hit_in_flight: u64,
    /// Of those, pages neither in memory nor in flight.
    pub miss: u64,
    /// Pages whose readers got an error.
    pub failed: u64,
    /// Pages retried one by one after their request had failed.
    pub retried: u64,
}

/// Read-ahead.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReadAheadStats {
    /// Pages that read-ahead requested from the device.
    pub issued: u64,
    /// Pages requested from the device because clients announced them (NBD cache request).
    pub hinted: u64,
    /// Pages of both kinds evicted before any read used them.
    pub evicted_before_use: u64,
    /// Markers met: the next window was requested while the reader was still in the previous one.
    pub markers: u64,
    /// Markers dropped because too many were pending.
    pub markers_dropped: u64,
    /// Windows shortened because memory was short.
    pub shortened: u64,
    /// Announcements shortened because memory was short.
    pub hints_shortened: u64,
    /// Histogram of window sizes, smallest first, without empty classes.
    pub windows: Vec<WindowCount>,
    /// Total pages of all windows.
    pub window_pages: u64,
}

/// One class of the histogram of window sizes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct WindowCount {
    /// Upper bound in bytes; the class starts above half of it. Null for sizes above every bound.
    pub up_to_bytes: Option<u64>,
    /// Number of windows.
    pub count: u64,
}

/// Evictions and refaults.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EvictionStats {
    /// Pages evicted to reuse their frame.
    pub evicted: u64,
    /// Pages that became active on their second use.
    pub activated: u64,
    /// Pages demoted from active.
    pub demoted: u64,
    /// Pages read again while the cache still remembered their eviction.
    pub refaulted: u64,
}

/// Writes at the engine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteStats {
    /// Requested writes.
    pub asked: u64,
    /// Pages written into the cache.
    pub pages: u64,
    /// Of those, pages read first because the write covered only part of them.
    pub partial: u64,
    /// Writes, trims and zeroes that blocked on earlier ones of the same pages.
    pub waited_for_pages: u64,
    /// Writes that blocked on the dirty limit.
    pub waited_for_room: u64,
    /// Pages rewritten one by one after their request had failed.
    pub retried: u64,
    /// Pages that the device refused on every attempt; they stay dirty, and each flush reports
    /// them.
    pub failed: u64,
    /// Flushes: those of clients and the final one.
    pub flushes: u64,
    /// Failed device flushes, including those of FUA writes.
    pub flush_failures: u64,
    /// Pages rewritten because a device flush had failed after their first write.
    pub rewritten: u64,
    /// True if acknowledged writes are lost, now; each flush then reports it.
    pub lost: bool,
}

/// The underlying device.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DeviceStats {
    /// Reads.
    pub read: DirectionStats,
    /// Writes.
    pub write: DirectionStats,
}

/// One direction of a device.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DirectionStats {
    /// Requests dispatched to the device.
    pub requests: u64,
    /// Bytes of these requests, in whole pages.
    pub bytes: u64,
    /// Queued requests, now.
    pub queued: u64,
    /// Requests in flight, now.
    pub in_flight: u64,
    /// In-flight limit, now; null if there is none.
    pub limit: Option<u64>,
    /// Requests dispatched out of order because they had waited too long.
    pub expired: u64,
    /// Cost model fitted to the completions; null until they suffice.
    pub fit: Option<CostStats>,
}

/// Cost model of a device: a request of n bytes takes `per_request_ns + n / 1024 x per_kib_ns`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct CostStats {
    /// Fixed cost of a request in nanoseconds.
    pub per_request_ns: f64,
    /// Nanoseconds per 1024 bytes; null while all requests have about one size.
    pub per_kib_ns: Option<f64>,
    /// Requests served in parallel; null until observed.
    pub parallel: Option<u32>,
    /// Number of requests in the fit.
    pub samples: u64,
}

/// Requests to an object store and their outcomes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct StoreStats {
    /// HTTP requests, including retries.
    pub requests: u64,
    /// Of those, requests sent again for the same bytes because an earlier one was refused or broke
    /// off.
    pub retried: u64,
    /// Hedged requests: second copies of late ones.
    pub hedged: u64,
    /// Responses with status 429 or 503: the store asks for fewer requests.
    pub throttled: u64,
    /// Requests without a response, and responses with another server error.
    pub failed: u64,
    /// Bytes of objects received.
    pub bytes: u64,
    /// Cost at the prices given to the server; null without a price.
    pub cost: Option<f64>,
}

/// Connections and their requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ClientStats {
    /// Open connections, now.
    pub connections: u64,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections closed at once because there were too many.
    pub refused: u64,
    /// Connections closed because of data that the client sent or failed to send.
    pub misbehaved: u64,
    /// Requests by kind: read, write, flush, trim, zero, cache, block_status.
    pub requests: BTreeMap<String, u64>,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
}

/// A setting that can be changed while a server runs: the schema of `foreread set SOCKET --json`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SettingValue {
    /// Name.
    pub name: String,
    /// Current value.
    pub value: String,
    /// Owner of the setting: `engine`, `scheduler` or `file`.
    pub of: String,
}
