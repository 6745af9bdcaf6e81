//! What an engine has done so far, in numbers.
//!
//! In:    the counters of hits, of the core and of the driver.
//! Out:   the same at one moment, and as a table for people.
//! Never: a number without its name and unit.

use std::fmt;

use foreread_core::cache::CacheStats;
use foreread_core::stats::Stats;
use foreread_core::windows::Windows;

/// Counters of what an engine has done so far. [`Display`](fmt::Display) prints one a line, with
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
    /// Reads that found all they wanted, and needed no driver.
    pub hits: u64,
    /// Misses that the calling thread read by itself, as they were all there was to read.
    pub inline_reads: u64,
    /// Durable (FUA) writes to the device that the calling thread made by itself, as they were all
    /// there was to start.
    pub inline_writes: u64,
    /// Counters of the read and write path.
    pub path: Stats,
    /// Counters of the page cache.
    pub cache: CacheStats,
    /// Counts of windows by their size.
    pub windows: Windows,
    /// Markers that were dropped because too many waited for the driver.
    pub markers_dropped: u64,
    /// Bytes that are dirty at this moment: written, and not on the device yet.
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
            ("pages asked for by hints", path.pages_hinted, "pages"),
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
