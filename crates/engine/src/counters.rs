//! Snapshot of the counters of an engine, with their names and units.

use std::fmt;

use foreread_core::cache::CacheStats;
use foreread_core::stats::Stats;
use foreread_core::windows::Windows;

/// Snapshot of an engine's counters. [`Display`](fmt::Display) prints one counter per line, with
/// its unit.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().memory(16 << 20).build()?;
/// let counters = engine.counters()?;
/// assert_eq!(counters.hits, 0);
/// assert!(counters.to_string().contains("cached reads"));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Counters {
    /// Reads served from the cache without the driver.
    pub hits: u64,
    /// Misses that the calling thread read inline, with no other request to start.
    pub inline_reads: u64,
    /// Durable (FUA) device writes that the calling thread issued inline, with no other request to
    /// start.
    pub inline_writes: u64,
    /// Counters of the read and write path.
    pub path: Stats,
    /// Counters of the page cache.
    pub cache: CacheStats,
    /// Counts of windows by their size.
    pub windows: Windows,
    /// Read-ahead markers dropped because too many were queued for the driver.
    pub markers_dropped: u64,
    /// Dirty bytes: written to the cache, not yet to the device.
    pub dirty: u64,
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, cache) = (&self.path, &self.cache);
        let rows = [
            ("cached reads", self.hits, "reads"),
            ("reads that missed", path.reads, "reads"),
            ("of those, in their own thread", self.inline_reads, "reads"),
            ("pages read ahead", path.pages_ahead, "pages"),
            ("pages requested by hints", path.pages_hinted, "pages"),
            ("read windows", self.windows.counts.iter().sum(), "windows"),
            ("device reads", path.device_reads, "requests"),
            ("pages in them", path.device_pages, "pages"),
            ("pages read again after an error", path.retries, "pages"),
            ("pages whose readers got an error", path.pages_failed, "pages"),
            ("evictions", cache.evictions, "pages"),
            ("of those, read ahead and unused", cache.evicted_before_use, "pages"),
            ("refaults", cache.refaults, "pages"),
            ("writes", path.writes, "writes"),
            ("pages written to the cache", path.pages_written, "pages"),
            ("device writes", path.device_writes, "requests"),
            ("of those, in their own thread", self.inline_writes, "requests"),
            ("pages in them", path.device_write_pages, "pages"),
            ("flushes", path.flushes, "flushes"),
            ("device flushes that failed", path.flush_failures, "flushes"),
            ("dirty now", self.dirty, "bytes"),
        ];
        for (name, number, unit) in rows {
            writeln!(f, "{name:<34}{number:>16} {unit}")?;
        }
        Ok(())
    }
}
