//! What a server tells of itself: the shape of `foreread stats --json`, and of the metrics.
//!
//! In:    the counters of an engine, its file, its device and the server.
//! Out:   [`ServerStats`], one value with everything.
//! Never: a name that changes: new ones are added, and read as zeroes from an older server.
//!
//! Counts begin with the server and only grow; what is "now" says so. Each number is read by
//! itself, so that two of them may differ by what happened in between.

mod gather;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use gather::ServerInfo;

/// All statistics of a server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ServerStats {
    /// Of the program that serves.
    pub version: String,
    /// Seconds since it was ready.
    pub up_s: f64,
    /// What is served, and how.
    pub export: ExportStats,
    /// The cache's memory, now.
    pub memory: MemoryStats,
    /// Reads as the engine sees them: one of a client is one of the engine, or one for each eighth
    /// of the memory.
    pub reads: ReadStats,
    /// Pages that reads found, or did not.
    pub pages: PageStats,
    /// What was read before a read asked for it.
    pub ahead: ReadAheadStats,
    /// What left the cache, and came back.
    pub cache: EvictionStats,
    /// Writes as the engine sees them.
    pub writes: WriteStats,
    /// The device below, both ways.
    pub device: DeviceStats,
    /// What the object store was asked; null if a file or device is served.
    pub store: Option<StoreStats>,
    /// Connections and what they asked for.
    pub clients: ClientStats,
}

/// What is served, and how.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ExportStats {
    /// The file or device.
    pub target: String,
    /// The name that clients ask for.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Why the kernel's page cache is used, too; null if it is not.
    pub buffered: Option<String>,
    /// How requests get to the kernel, in words.
    pub io: String,
}

/// The cache's memory, now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct MemoryStats {
    /// The bound for pages and all that is needed to find them, in bytes.
    pub bound_bytes: u64,
    /// Bytes of pages in frames that are not being filled or held.
    pub idle_bytes: u64,
    /// Bytes that were written and are not on the device.
    pub dirty_bytes: u64,
}

/// Reads as the engine sees them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReadStats {
    /// They found all pages, waited for nothing, and met no marker.
    pub hit: u64,
    /// They waited: a page had to come from the device, or was on its way.
    pub waited: u64,
    /// Of those, the ones that one system call in their own thread has answered.
    pub alone: u64,
    /// They, or writes, had to wait for memory before they could begin.
    pub waited_for_memory: u64,
}

/// Pages of the reads that waited; those of a hit are not counted, as the driver never sees them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PageStats {
    /// All that they wanted.
    pub wanted: u64,
    /// Of those, the ones that were on their way already: read ahead, but not early enough.
    pub hit_in_flight: u64,
    /// Of those, the ones neither in memory nor on their way.
    pub miss: u64,
    /// Pages whose readers got an error.
    pub failed: u64,
    /// Pages that were asked a second time, alone, because their request had failed.
    pub retried: u64,
}

/// What was read before a read asked for it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ReadAheadStats {
    /// Pages that read-ahead asked from the device.
    pub issued: u64,
    /// Pages that clients announced (NBD's cache request), asked from the device.
    pub hinted: u64,
    /// Pages of both that left the cache before any read used them.
    pub evicted_before_use: u64,
    /// Markers met: the next window was asked for while the reader was still in the last one.
    pub markers: u64,
    /// Markers lost because too many waited.
    pub markers_dropped: u64,
    /// Windows that were cut because memory was short.
    pub shortened: u64,
    /// Announcements that were cut, for the same reason.
    pub hints_shortened: u64,
    /// How large windows were, smallest first; sizes that never were are left out.
    pub windows: Vec<WindowCount>,
    /// Pages of all windows.
    pub window_pages: u64,
}

/// Windows of one size.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct WindowCount {
    /// Bytes of the largest of them; the smallest is larger than half of it. Null: larger than all.
    pub up_to_bytes: Option<u64>,
    /// How many there were.
    pub count: u64,
}

/// What left the cache, and came back.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct EvictionStats {
    /// Pages that left because another needed their frame.
    pub evicted: u64,
    /// Pages that became active: used twice.
    pub activated: u64,
    /// Pages that are not active any more.
    pub demoted: u64,
    /// Pages that came back while the cache still remembered them.
    pub refaulted: u64,
}

/// Writes as the engine sees them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct WriteStats {
    /// Writes that were asked for.
    pub asked: u64,
    /// Pages that they wrote into the cache.
    pub pages: u64,
    /// Of those, the ones that had to be read first, as only a part of them was written.
    pub partial: u64,
    /// Writes, trims and zeroes that waited for earlier ones of the same pages.
    pub waited_for_pages: u64,
    /// Writes that waited because too much was dirty.
    pub waited_for_room: u64,
    /// Pages that were written a second time, alone, because their request had failed.
    pub retried: u64,
    /// Pages that the device refused, each time: they stay dirty, and each flush says so.
    pub failed: u64,
    /// Flushes: of clients, and the last one at the end.
    pub flushes: u64,
    /// Device flushes that failed, those in FUA writes included.
    pub flush_failures: u64,
    /// Pages that were written again because a device flush had failed after their first write.
    pub rewritten: u64,
    /// Whether acknowledged writes are lost, and each flush says so, now.
    pub lost: bool,
}

/// The device below.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DeviceStats {
    /// What reads it.
    pub read: DirectionStats,
    /// What writes to it.
    pub write: DirectionStats,
}

/// One direction of a device.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct DirectionStats {
    /// Requests that it got.
    pub requests: u64,
    /// Their bytes, in whole pages.
    pub bytes: u64,
    /// Requests that wait for their turn, now.
    pub queued: u64,
    /// Requests that it works on, now.
    pub in_flight: u64,
    /// How many it may work on, now; null: no limit.
    pub limit: Option<u64>,
    /// Requests that went out of turn because they had waited too long.
    pub expired: u64,
    /// What its completions tell; null as long as they tell too little.
    pub fit: Option<CostStats>,
}

/// What a device is like. A request of n bytes takes `per_request_ns + n / 1024 x per_kib_ns`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct CostStats {
    /// Nanoseconds that each request costs, whatever its size.
    pub per_request_ns: f64,
    /// Nanoseconds that 1024 bytes cost; null as long as all requests were of about one size.
    pub per_kib_ns: Option<f64>,
    /// How many requests it serves at once; null as long as that was never seen.
    pub parallel: Option<u32>,
    /// How many requests told this.
    pub samples: u64,
}

/// What an object store was asked, and has answered.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct StoreStats {
    /// HTTP requests, with those that were sent again.
    pub requests: u64,
    /// Of those, the ones that were sent again for the same bytes, because an earlier one was
    /// refused or broke.
    pub retried: u64,
    /// Second copies of late requests.
    pub hedged: u64,
    /// Responses of 429 and 503: the store wants fewer requests.
    pub throttled: u64,
    /// Requests without a response, and responses with another error of the server.
    pub failed: u64,
    /// Bytes of objects that came.
    pub bytes: u64,
    /// What that costs by the prices that the server was given; null without a price.
    pub cost: Option<f64>,
}

/// Connections, and what they asked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ClientStats {
    /// Connections, now.
    pub connections: u64,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Connections that were closed at once, because there were too many.
    pub refused: u64,
    /// Connections that were closed because of what their client sent, or did not send.
    pub misbehaved: u64,
    /// Requests by kind: read, write, flush, trim, zero, cache, block_status.
    pub requests: BTreeMap<String, u64>,
    /// Requests that were answered by an error.
    pub errors: u64,
    /// Bytes that clients read.
    pub read_bytes: u64,
    /// Bytes that clients wrote.
    pub written_bytes: u64,
}

/// Something that can be set while a server runs: the shape of `foreread set SOCKET --json`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SettingValue {
    /// What it is called.
    pub name: String,
    /// What is in force.
    pub value: String,
    /// What it belongs to: `engine`, `scheduler` or `file`.
    pub of: String,
}
