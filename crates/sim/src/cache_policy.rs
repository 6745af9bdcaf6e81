//! Eviction policies alone: the miss count of a trace for a number of pages.
//!
//! In:    keys of pages or objects, in the order of their use; a capacity.
//! Out:   whether each was a hit.
//! Never: read-ahead, a device, or time: those are the simulator's whole path.
//!
//! One file per policy, each with its source. The counts of `fifo`, `lru` and `sieve` are those of
//! libCacheSim, exactly; a test compares them, and bounds the difference of the others.
//! [`FutureUses`] has the fewest misses that any of them can have.

mod arc;
mod belady;
mod fifo;
mod key_map;
mod linked_nodes;
mod lru;
mod s3_fifo;
mod sarc;
mod sieve;
mod tiny_lfu;
mod two_lists;

use foreread_core::cache::PageCache;
use foreread_core::units::PAGE_SIZE;

pub use belady::{FutureUses, UseCollector};

/// The key of a page or an object: a file, and a page or a byte in it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CacheKey {
    /// The file.
    pub file: u32,
    /// The page of the file, or the offset of an object.
    pub place: u64,
}

/// An eviction policy by name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CachePolicyKind {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// One queue, and a hand that passes what was used (NSDI '24).
    Sieve,
    /// Three queues: small, main, ghost (SOSP '23).
    S3Fifo,
    /// Recency and frequency in balance (FAST '03).
    Arc,
    /// A window, and admission by frequency (TOS '17).
    WTinyLfu,
    /// Sequential and other pages, in lists whose sizes are adapted (ATC '05).
    Sarc,
    /// The library's own: active and inactive list, and shadows (docs/cache.md).
    #[default]
    TwoLists,
}

/// A cache of a fixed number of keys.
pub trait CachePolicy: std::fmt::Debug {
    /// Uses a key. Returns whether it was a hit; a miss puts it into the cache.
    fn access(&mut self, key: CacheKey) -> bool;

    /// Puts a page into the cache that was read ahead. It counts as a miss that was used once; with
    /// that use, which is still to come, the caller calls [`Self::first_use`].
    fn insert_ahead(&mut self, key: CacheKey) {
        self.access(key);
    }

    /// The first use of a page that was read ahead. It is not a second use; policies that order
    /// their pages by the last use order them anew.
    fn first_use(&mut self, _key: CacheKey) {}

    /// Returns the key that the last call evicted; None the second time.
    fn take_evicted(&mut self) -> Option<CacheKey>;

    /// Forgets a key that left the cache otherwise than by eviction.
    fn forget(&mut self, key: CacheKey);

    /// The number of keys in the cache.
    fn len(&self) -> usize;

    /// Whether the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Keys are numbered in 31 bits.
pub(crate) const MAX_KEYS: usize = (1 << 31) - 1;

impl CachePolicyKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Fifo,
        Self::Lru,
        Self::Sieve,
        Self::S3Fifo,
        Self::Arc,
        Self::WTinyLfu,
        Self::Sarc,
        Self::TwoLists,
    ];

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3-fifo",
            Self::Arc => "arc",
            Self::WTinyLfu => "w-tinylfu",
            Self::Sarc => "sarc",
            Self::TwoLists => "two-lists",
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The most keys that a cache can hold.
    #[must_use]
    pub fn max_capacity(self) -> usize {
        if self != Self::TwoLists {
            return MAX_KEYS;
        }
        // As many frames as the library's page table can name.
        usize::try_from(PageCache::MAX_BOUND.0 / PAGE_SIZE).unwrap_or(usize::MAX)
    }

    /// Returns an empty cache of so many keys.
    ///
    /// # Panics
    ///
    /// If the capacity is 0, or above [`Self::max_capacity`].
    #[must_use]
    pub fn build(self, capacity: usize) -> Box<dyn CachePolicy> {
        assert!((1..=self.max_capacity()).contains(&capacity), "a capacity that is possible");
        match self {
            Self::Fifo => Box::new(fifo::FifoCache::new(capacity)),
            Self::Lru => Box::new(lru::LruCache::new(capacity)),
            Self::Sieve => Box::new(sieve::SieveCache::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3FifoCache::new(capacity)),
            Self::Arc => Box::new(arc::ArcCache::new(capacity)),
            Self::WTinyLfu => Box::new(tiny_lfu::TinyLfuCache::new(capacity)),
            Self::Sarc => Box::new(sarc::SarcCache::new(capacity)),
            Self::TwoLists => Box::new(two_lists::TwoListsCache::new(capacity)),
        }
    }
}
