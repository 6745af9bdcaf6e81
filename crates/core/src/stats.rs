//! Counters of an `IoPath`: reads, their cost, and unused read-ahead.
//!
//! Hits are not counted here: they do not enter the path, and the caller that serves them counts
//! them.

/// Counters since the path was created.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Reads that missed at least one page.
    pub reads: u64,
    /// Pages requested by these reads.
    pub pages_wanted: u64,
    /// Of those, pages not requested from the device before.
    pub pages_missed: u64,
    /// Of those, pages already in flight.
    pub pages_joined: u64,
    /// Pages requested from the device ahead of their readers.
    pub pages_ahead: u64,
    /// Pages requested from the device because of a hint.
    pub pages_hinted: u64,
    /// Markers met, by hits and by reads.
    pub markers: u64,
    /// Requests that read from a device.
    pub device_reads: u64,
    /// Requests that wrote to a device.
    pub device_writes: u64,
    /// Cache pages in those writes.
    pub device_write_pages: u64,
    /// Cache pages in the device reads. A page that is read in parts counts once for each part.
    pub device_pages: u64,
    /// Pages that were read again, alone, because their request failed.
    pub retries: u64,
    /// Pages whose readers got an error.
    pub pages_failed: u64,
    /// Reads and writes that had to wait for frames.
    pub waited_for_frames: u64,
    /// Windows that were cut because frames were short.
    pub windows_shortened: u64,
    /// Hints that were cut: too many hinted pages were unused, or frames were short.
    pub hints_shortened: u64,
    /// Write calls.
    pub writes: u64,
    /// Pages written to the cache.
    pub pages_written: u64,
    /// Pages read because only a part of them was written.
    pub pages_rmw: u64,
    /// Writes and zero requests that waited for earlier ones on the same pages.
    pub writes_waited_for_pages: u64,
    /// Writes that waited because the dirty limit was reached.
    pub writes_waited_for_room: u64,
    /// Pages that were sent again in a smaller request, because theirs was refused.
    pub write_retries: u64,
    /// Pages that the device refused, or that were not sent after many refusals, counted each time.
    pub pages_write_failed: u64,
    /// Flushes, with or without a device flush.
    pub flushes: u64,
    /// Failed device flushes, in any command.
    pub flush_failures: u64,
    /// Pages written again because a device flush failed after their first write.
    pub pages_rewritten: u64,
}
