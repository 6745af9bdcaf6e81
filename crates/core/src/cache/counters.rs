//! What a cache tells of itself: counters, and where each frame is.
//!
//! In:    nothing: these are values.
//! Out:   the same, at any time.
//! Never: a rule.

use alloc::vec::Vec;

use crate::table::Frame;

/// Counters since the cache was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CacheStats {
    /// Pages that left because another needed their frame.
    pub evictions: u64,
    /// Of those, the ones that were read ahead and never used.
    pub evicted_before_use: u64,
    /// Pages that became active: referenced or pinned when they reached the tail, or back early
    /// enough.
    pub activations: u64,
    /// Pages that went back from the active to the inactive list.
    pub demotions: u64,
    /// Pages that came back while their shadow was there.
    pub refaults: u64,
    /// Of those, the ones that came back early enough to start as active.
    pub refaults_activated: u64,
}

/// Where each frame is, for tests and for people. Lists are from head to tail.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CacheDump {
    /// They hold nothing.
    pub free: Vec<Frame>,
    /// The next to be evicted is the last.
    pub inactive: Vec<Frame>,
    /// The next to become inactive is the last.
    pub active: Vec<Frame>,
    /// They were read ahead, and not seen used since. The last has been there longest.
    pub ahead: Vec<Frame>,
    /// They are being filled or held, and their page is in the table. So is what is dirty.
    pub held: Vec<Frame>,
    /// They are being filled, held or pinned, and their page is not in the table any more; or they
    /// are fresh, and not in it yet.
    pub orphans: Vec<Frame>,
}
