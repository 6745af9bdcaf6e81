//! Counters of a cache, and a dump of the list that each frame is on.

use alloc::vec::Vec;

use crate::table::Frame;

/// Counters since the cache was created.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheStats {
    /// Pages evicted because another page needed their frame.
    pub evictions: u64,
    /// Evicted pages that were read ahead and never used.
    pub evicted_before_use: u64,
    /// Pages that became active: referenced or pinned at the tail of the inactive list, or
    /// refaulted early enough.
    pub activations: u64,
    /// Pages moved back from the active to the inactive list.
    pub demotions: u64,
    /// Pages that came back while their shadow still existed.
    pub refaults: u64,
    /// Refaulted pages that came back early enough to start as active.
    pub refaults_activated: u64,
}

/// The list of each frame, for tests and debugging. Lists run from head to tail.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CacheDump {
    /// Frames without a page.
    pub free: Vec<Frame>,
    /// The last one is evicted next.
    pub inactive: Vec<Frame>,
    /// The last one becomes inactive next.
    pub active: Vec<Frame>,
    /// Frames read ahead and not seen used since. The last one is the oldest.
    pub ahead: Vec<Frame>,
    /// Frames being filled or held whose page is in the table; dirty pages among them.
    pub held: Vec<Frame>,
    /// Frames being filled, held or pinned whose page has left the table; and fresh frames, which
    /// have not entered it yet.
    pub orphans: Vec<Frame>,
}
