//! Eviction policies in isolation: the miss count of a trace at a given cache size, without
//! read-ahead, device or time.
//!
//! In:    keys of pages or objects, in order of use; a capacity.
//! Out:   hit or miss for each use.
//!
//! One file per policy, each with its source. The miss counts of `fifo`, `lru` and `sieve` equal
//! those of libCacheSim exactly; a test compares them, and bounds the difference of the others.
//! [`FutureUses`] computes the optimum, which no policy can beat.

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

/// Key of a page or an object: a file, and a page or a byte offset in it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CacheKey {
    /// The file.
    pub file: u32,
    /// Page of the file, or offset of an object.
    pub place: u64,
}

/// An eviction policy by name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CachePolicyKind {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// One queue with a clock hand that skips visited keys (NSDI '24).
    Sieve,
    /// Three queues: small, main, ghost (SOSP '23).
    S3Fifo,
    /// Balances recency and frequency (FAST '03).
    Arc,
    /// LRU window, and admission by frequency (TOS '17).
    WTinyLfu,
    /// Sequential and other pages, in two lists of adaptive size (ATC '05).
    Sarc,
    /// The library's own policy: active and inactive list, and shadows (docs/design/cache.md).
    #[default]
    TwoLists,
}

/// A cache of a fixed number of keys.
pub trait CachePolicy: std::fmt::Debug {
    /// Uses a key, inserting it on a miss. Returns true on a hit.
    fn access(&mut self, key: CacheKey) -> bool;

    /// Inserts a page that was read ahead. It counts as a miss and as one use; when that use
    /// happens, the caller calls [`Self::first_use`].
    fn insert_ahead(&mut self, key: CacheKey) {
        self.access(key);
    }

    /// Records the first use of a page that was read ahead. It does not count as a second use;
    /// policies ordered by last use reorder the page.
    fn first_use(&mut self, _key: CacheKey) {}

    /// Takes the key that the last call evicted; None on the second call.
    fn take_evicted(&mut self) -> Option<CacheKey>;

    /// Drops a key that left the cache by other means than eviction.
    fn forget(&mut self, key: CacheKey);

    /// Returns the number of keys in the cache.
    fn len(&self) -> usize;

    /// Returns true if the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Largest number of keys: they are numbered in 31 bits.
pub(crate) const MAX_KEYS: usize = (1 << 31) - 1;

impl CachePolicyKind {
    /// All policies.
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

    /// Returns the name used on the command line and in JSON.
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

    /// Returns the policy with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the largest capacity, in keys.
    #[must_use]
    pub fn max_capacity(self) -> usize {
        if self != Self::TwoLists {
            return MAX_KEYS;
        }
        // Limited by the frames that the library's page table can address.
        usize::try_from(PageCache::MAX_BOUND.0 / PAGE_SIZE).unwrap_or(usize::MAX)
    }

    /// Creates an empty cache with this capacity, in keys.
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
