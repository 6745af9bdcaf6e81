//! Eviction policies alone: the miss count of a trace for a number of pages.
//!
//! In:    keys of pages or objects, in the order of their use; a capacity.
//! Out:   whether each was a hit.
//! Never: read-ahead, a device, or time: those are the simulator's whole path.
//!
//! One file per policy, each with its source. The counts of `lru` and `fifo` are those of
//! libCacheSim, exactly; a test compares them.

mod arc;
mod fifo;
mod key_map;
mod linked_nodes;
mod lru;
mod s3_fifo;
mod sieve;
mod tiny_lfu;

/// The key of a page or an object: a file, and a page or a byte in it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CacheKey {
    /// The file.
    pub file: u32,
    /// The page of the file, or the offset of an object.
    pub place: u64,
}

/// An eviction policy by name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
}

/// A cache of a fixed number of keys.
pub trait CachePolicy {
    /// Uses a key. Returns whether it was a hit; a miss puts it into the cache.
    fn access(&mut self, key: CacheKey) -> bool;

    /// The number of keys in the cache.
    fn len(&self) -> usize;

    /// Whether the cache is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl CachePolicyKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Fifo, Self::Lru, Self::Sieve, Self::S3Fifo, Self::Arc, Self::WTinyLfu];

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
        }
    }

    /// The policy of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns an empty cache of so many keys.
    ///
    /// # Panics
    ///
    /// If the capacity is 0, or 2^31 or more.
    #[must_use]
    pub fn build(self, capacity: usize) -> Box<dyn CachePolicy> {
        assert!((1..1 << 31).contains(&capacity), "a cache holds 1 to 2^31 - 1 keys");
        match self {
            Self::Fifo => Box::new(fifo::FifoCache::new(capacity)),
            Self::Lru => Box::new(lru::LruCache::new(capacity)),
            Self::Sieve => Box::new(sieve::SieveCache::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3FifoCache::new(capacity)),
            Self::Arc => Box::new(arc::ArcCache::new(capacity)),
            Self::WTinyLfu => Box::new(tiny_lfu::TinyLfuCache::new(capacity)),
        }
    }
}
