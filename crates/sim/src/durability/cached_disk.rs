//! Simulated disk with a volatile cache, failing flushes, and files whose lengths change.
//!
//! Sectors are independent: the disk guarantees no order between them.
//!
//! ```text
//!   write  ---> cache ---- flush, or destaged at any time ---> medium
//!   FUA    ------------------------------------------------------->
//!   failed flush   each cached sector: reaches the medium | stays cached | is dropped | is torn
//!   power cut      each cached sector: reached the medium | is dropped | is torn
//! ```
//!
//! File lengths follow a journal: cached lengths of a file reach the medium in order. Sectors past
//! the shortest cached length stay in the cache until the lengths are applied.
//!
//! ```text
//!   medium    |=====|=====|=====|                      length 3
//!   cached    cut to 1, grown to 4, a write of 3       a power cut finds length 3, 1, or 4 and in
//!                                                      sector 3 zeros or the written data
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use crate::rng::Rng;

/// Content of a sector: the number of the write that produced it.
pub(super) type Stamp = u32;

/// Content of a torn sector: neither the old nor the new data.
pub(super) const TORN: Stamp = Stamp::MAX;

/// Content past the end of a file.
pub(super) const ABSENT: Stamp = Stamp::MAX - 1;

/// Content that a growing file gets at its end.
pub(super) const ZEROS: Stamp = 0;

#[derive(Clone, Debug)]
pub(super) struct CachedDisk {
    medium: Vec<Stamp>,
    cache: BTreeMap<usize, Stamp>,
    files: Vec<DiskFile>,
    /// If true, a FUA write is a write followed by a flush.
    pub(super) fua_flushes: bool,
    tears: bool,
    /// If true, flushes leave lengths in the cache.
    pub(super) forgets_lengths: bool,
}

/// A file of a disk. Lengths are in sectors.
#[derive(Clone, Debug)]
struct DiskFile {
    /// Sectors reserved for the file.
    space: Range<usize>,
    /// Length on the medium.
    len: usize,
    /// Later lengths that are only cached, oldest first.
    cached_lens: Vec<usize>,
}

/// Losses of a failed flush.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    pub(super) sectors: Vec<usize>,
    /// First sectors of the files whose cached lengths were dropped.
    pub(super) lens: Vec<usize>,
}

impl DiskFile {
    fn live_len(&self) -> usize {
        self.cached_lens.last().copied().unwrap_or(self.len)
    }

    /// Returns the first sector that must not reach the medium before a cached length.
    fn first_bound(&self) -> usize {
        let shortest = self.cached_lens.iter().copied().min().unwrap_or(usize::MAX);
        let is_bound = !self.cached_lens.is_empty();
        if is_bound { self.space.start + shortest.min(self.len) } else { usize::MAX }
    }

    /// Applies the oldest `count` cached lengths to the medium.
    fn apply(&mut self, count: usize, medium: &mut [Stamp]) {
        for len in self.cached_lens.drain(..count) {
            let start = self.space.start;
            if len > self.len {
                medium[start + self.len..start + len].fill(ZEROS);
            }
            self.len = len;
        }
    }
}

impl CachedDisk {
    /// Creates a disk of `sectors` sectors, stamped from 1 on.
    pub(super) fn new(sectors: usize, rng: &mut Rng) -> Self {
        let medium = (1..).take(sectors).collect();
        let (fua_flushes, tears) = (rng.below(2) == 0, rng.below(4) == 0);
        let (cache, files, forgets_lengths) = (BTreeMap::new(), Vec::new(), false);
        Self { medium, cache, files, fua_flushes, tears, forgets_lengths }
    }

    /// Adds a file that owns the sectors `space` and has length `len`, unless it exists.
    pub(super) fn set_file(&mut self, space: Range<usize>, len: usize) {
        assert!(space.start + len <= space.end && space.end <= self.medium.len());
        if !self.files.iter().any(|it| it.space == space) {
            self.files.push(DiskFile { space, len, cached_lens: Vec::new() });
        }
    }

    fn file(&mut self, base: usize) -> &mut DiskFile {
        self.files.iter_mut().find(|it| it.space.start == base).expect("the base of a file")
    }

    fn file_of(&self, at: usize) -> &DiskFile {
        self.files.iter().find(|it| it.space.contains(&at)).expect("each sector is some file's")
    }

    /// Returns the length of the file at `base` as readers see it.
    pub(super) fn live_len(&self, base: usize) -> usize {
        self.file_of(base).live_len()
    }

    /// Returns the length of the file at `base` on the medium.
    pub(super) fn durable_len(&self, base: usize) -> usize {
        self.file_of(base).len
    }

    pub(super) fn sector(&self, at: usize) -> Stamp {
        let file = self.file_of(at);
        if at >= file.space.start + file.live_len() {
            return ABSENT;
        }
        // A sector not written since the file was shorter reads as zeros.
        let is_new = at >= file.first_bound();
        self.cache.get(&at).copied().unwrap_or(if is_new { ZEROS } else { self.medium[at] })
    }

    pub(super) fn durable(&self, at: usize) -> Stamp {
        let file = self.file_of(at);
        if at < file.space.start + file.len { self.medium[at] } else { ABSENT }
    }

    /// Writes a sector within the length of its file.
    pub(super) fn write(&mut self, at: usize, stamp: Stamp) {
        assert!(self.sector(at) != ABSENT, "a write behind the end of a file");
        self.cache.insert(at, stamp);
    }

    /// Sets the length of the file at `base`; a growing file gets zeros at its end.
    pub(super) fn set_len(&mut self, base: usize, len: usize) {
        let file = self.file(base);
        let (before, end) = (base + file.live_len(), file.space.end);
        assert!(base + len <= end, "a file has a limit here");
        if before == base + len {
            return;
        }
        file.cached_lens.push(len);
        let cut: Vec<_> = self.cache.range(base + len..end).map(|(&at, _)| at).collect();
        cut.iter().for_each(|at| _ = self.cache.remove(at));
    }

    /// Writes a sector durably, together with the length of its file.
    pub(super) fn write_durably(&mut self, base: usize, at: usize, stamp: Stamp) {
        self.write(at, stamp);
        self.flush_sectors(base, at..at + 1);
    }

    /// Makes the lengths and sectors of the file at `base` durable; other files stay cached.
    pub(super) fn flush(&mut self, base: usize) {
        let space = self.file(base).space.clone();
        self.flush_sectors(base, space);
    }

    fn flush_sectors(&mut self, base: usize, sectors: Range<usize>) {
        if !self.forgets_lengths {
            let file = self.files.iter_mut().find(|it| it.space.start == base);
            let file = file.expect("the base of a file");
            file.apply(file.cached_lens.len(), &mut self.medium);
        }
        let bound = self.file(base).first_bound();
        let cached: Vec<_> = self.cache.range(sectors).map(|(&at, &stamp)| (at, stamp)).collect();
        for (at, stamp) in cached.into_iter().filter(|(at, _)| *at < bound) {
            self.cache.remove(&at);
            self.medium[at] = stamp;
        }
    }

    /// Applies a random number of the cached lengths of each file to the medium.
    fn destage_lens(&mut self, rng: &mut Rng) {
        let Self { files, medium, .. } = self;
        for file in files.iter_mut().filter(|it| !it.cached_lens.is_empty()) {
            let count = rng.below(file.cached_lens.len() as u64 + 1) as usize;
            file.apply(count, medium);
        }
    }

    /// Removes and returns the cached sectors that do not depend on a cached length.
    fn take_unbound(&mut self) -> BTreeMap<usize, Stamp> {
        let cached = std::mem::take(&mut self.cache);
        let is_bound = |at: &usize| *at >= self.file_of(*at).first_bound();
        let (bound, free) = cached.into_iter().partition(|(at, _)| is_bound(at));
        self.cache = bound;
        free
    }

    /// Drops the cached lengths and the sectors that depend on them.
    fn drop_lens(&mut self) -> Dropped {
        let mut dropped = Dropped::default();
        for file in self.files.iter_mut().filter(|it| !it.cached_lens.is_empty()) {
            let longest = file.cached_lens.iter().copied().max().unwrap_or(0).max(file.len);
            let sectors = file.first_bound()..file.space.start + longest;
            file.cached_lens.clear();
            sectors.clone().for_each(|at| _ = self.cache.remove(&at));
            dropped.sectors.extend(sectors);
            dropped.lens.push(file.space.start);
        }
        dropped
    }

    /// Writes a random part of the cache to the medium.
    pub(super) fn destage(&mut self, rng: &mut Rng) {
        self.destage_lens(rng);
        for (at, stamp) in self.take_unbound() {
            if rng.below(2) == 0 {
                self.medium[at] = stamp;
            } else {
                self.cache.insert(at, stamp);
            }
        }
    }

    /// Fails a flush; returns the losses.
    pub(super) fn fail_flush(&mut self, rng: &mut Rng) -> Dropped {
        // Dropping everything is the common case: the page cache below a loop device does so.
        let keeps = rng.below(3) == 0;
        let mut dropped = Dropped::default();
        if keeps {
            self.destage_lens(rng);
        }
        if !keeps || rng.below(2) == 0 {
            dropped = self.drop_lens();
        }
        for (at, stamp) in self.take_unbound() {
            match rng.below(4) {
                0 if keeps => self.medium[at] = stamp,
                1 if keeps => _ = self.cache.insert(at, stamp),
                fate => {
                    if fate == 2 && self.tears {
                        self.medium[at] = TORN;
                    }
                    dropped.sectors.push(at);
                }
            }
        }
        dropped
    }

    /// Cuts the power.
    pub(super) fn cut(&mut self, rng: &mut Rng) {
        self.destage_lens(rng);
        self.drop_lens();
        for (at, stamp) in std::mem::take(&mut self.cache) {
            match rng.below(4) {
                0 | 1 => self.medium[at] = stamp,
                2 if self.tears => self.medium[at] = TORN,
                _ => {}
            }
        }
    }
}
