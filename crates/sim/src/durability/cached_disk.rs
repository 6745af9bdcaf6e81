//! A disk with a volatile cache whose flushes can fail.
//!
//! In:    writes, flushes, failures, power cuts.
//! Out:   what reads see; what the medium holds.
//! Never: an order between sectors. Each is on its own.
//!
//! ```text
//!   write  ---> cache ---- flush, or at some time by itself ---> medium
//!   FUA    ------------------------------------------------------->
//!   failed flush   each cached sector: reaches the medium | stays cached | is dropped | is torn
//!   power cut      each cached sector: reached the medium | is dropped | is torn
//! ```

use std::collections::BTreeMap;

use crate::rng::Rng;

/// What a sector holds: the number of the write that it came from.
pub(super) type Stamp = u32;

/// What a torn sector holds: neither what it was nor what it was to be.
pub(super) const TORN: Stamp = Stamp::MAX;

#[derive(Debug)]
pub(super) struct CachedDisk {
    medium: Vec<Stamp>,
    cache: BTreeMap<usize, Stamp>,
    /// Whether a FUA write is done as a write and a flush.
    pub(super) fua_flushes: bool,
    tears: bool,
}

impl CachedDisk {
    /// A disk whose sectors hold the numbers from 1 on.
    pub(super) fn new(sectors: usize, rng: &mut Rng) -> Self {
        let medium = (1..).take(sectors).collect();
        let (fua_flushes, tears) = (rng.below(2) == 0, rng.below(4) == 0);
        Self { medium, cache: BTreeMap::new(), fua_flushes, tears }
    }

    pub(super) fn sector(&self, at: usize) -> Stamp {
        self.cache.get(&at).copied().unwrap_or(self.medium[at])
    }

    pub(super) fn durable(&self, at: usize) -> Stamp {
        self.medium[at]
    }

    pub(super) fn write(&mut self, at: usize, stamp: Stamp) {
        self.cache.insert(at, stamp);
    }

    pub(super) fn write_durably(&mut self, at: usize, stamp: Stamp) {
        self.cache.remove(&at);
        self.medium[at] = stamp;
    }

    /// Makes these sectors durable. A flush for one file need not reach what belongs to another.
    pub(super) fn flush(&mut self, sectors: std::ops::Range<usize>) {
        let cached: Vec<_> = self.cache.range(sectors).map(|(&at, &stamp)| (at, stamp)).collect();
        for (at, stamp) in cached {
            self.write_durably(at, stamp);
        }
    }

    /// Some of the cache reaches the medium.
    pub(super) fn destage(&mut self, rng: &mut Rng) {
        for (at, stamp) in std::mem::take(&mut self.cache) {
            if rng.below(2) == 0 {
                self.medium[at] = stamp;
            } else {
                self.cache.insert(at, stamp);
            }
        }
    }

    /// A flush fails. Returns the sectors that were dropped, or torn.
    pub(super) fn fail_flush(&mut self, rng: &mut Rng) -> Vec<usize> {
        let mut dropped = Vec::new();
        // A disk that drops all, as a page cache below a loop device does, is the common case.
        let keeps = rng.below(3) == 0;
        for (at, stamp) in std::mem::take(&mut self.cache) {
            match rng.below(4) {
                0 if keeps => self.medium[at] = stamp,
                1 if keeps => _ = self.cache.insert(at, stamp),
                fate => {
                    if fate == 2 && self.tears {
                        self.medium[at] = TORN;
                    }
                    dropped.push(at);
                }
            }
        }
        dropped
    }

    /// The power fails.
    pub(super) fn cut(&mut self, rng: &mut Rng) {
        for (at, stamp) in std::mem::take(&mut self.cache) {
            match rng.below(4) {
                0 | 1 => self.medium[at] = stamp,
                2 if self.tears => self.medium[at] = TORN,
                _ => {}
            }
        }
    }
}
