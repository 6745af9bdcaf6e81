//! Counters of a path: what was read, what it cost, what was read ahead and not used.
//!
//! In:    one addition per event, by the path.
//! Out:   a copy, at any time.
//! Never: hits. A hit does not enter the path; the caller that serves it counts it.

/// Counters since the path was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Reads that missed at least one page.
    pub reads: u64,
    /// Pages that they wanted.
    pub pages_wanted: u64,
    /// Of those, the ones that had not been requested from the device yet.
    pub pages_missed: u64,
    /// Of those, the ones that were on their way already.
    pub pages_joined: u64,
    /// Pages requested from the device before a read wanted them.
    pub pages_ahead: u64,
    /// Pages requested from the device because of a hint.
    pub pages_hinted: u64,
    /// Markers met, by hits and by reads.
    pub markers: u64,
    /// Requests that read from a device.
    pub device_reads: u64,
    /// Requests that wrote to one.
    pub device_writes: u64,
    /// Pages of the cache in the writes.
    pub device_write_pages: u64,
    /// Pages of the cache in the reads. One that comes in parts counts with each of them.
    pub device_pages: u64,
    /// Pages that were asked a second time, alone, because their request failed.
    pub retries: u64,
    /// Pages whose readers got an error.
    pub pages_failed: u64,
    /// Reads and writes that had to wait for frames.
    pub waited_for_frames: u64,
    /// Windows that were cut because frames were short.
    pub windows_shortened: u64,
    /// Hints that were cut: too many hinted pages were unused, or frames were short.
    pub hints_shortened: u64,
    /// Writes that were asked for.
    pub writes: u64,
    /// Pages that they wrote into the cache.
    pub pages_written: u64,
    /// Pages read because only a part of them was written.
    pub pages_rmw: u64,
    /// Writes and zeroes that waited for earlier ones of the same pages.
    pub writes_waited_for_pages: u64,
    /// Writes that waited because too much was dirty.
    pub writes_waited_for_room: u64,
    /// Pages that were sent again in a smaller request, because theirs was refused.
    pub write_retries: u64,
    /// Pages that the device refused, or that were not sent after many refusals, each time.
    pub pages_write_failed: u64,
    /// Flushes, with the device's own and without.
    pub flushes: u64,
    /// Device flushes that failed, in whatever command they were.
    pub flush_failures: u64,
    /// Pages that were written again because a device flush had failed after their first write.
    pub pages_rewritten: u64,
}
