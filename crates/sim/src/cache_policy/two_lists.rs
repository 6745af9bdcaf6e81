//! The library's own page cache: an active and an inactive list, and shadows of evicted pages.
//!
//! Drives the core's [`PageCache`] one page at a time, without read-ahead, so the ahead list stays
//! empty. Design and sources: docs/design/cache.md.

use std::sync::Arc;

use foreread_core::cache::{PageCache, Use};
use foreread_core::table::{FileSlot, PageTable};
use foreread_core::units::{MAX_FILE_PAGES, PageIndex, Pages};

use super::{CacheKey, CachePolicy};

#[derive(Debug)]
pub(super) struct TwoListsCache {
    cache: PageCache,
    table: Arc<PageTable>,
    /// By frame: the key in it.
    keys: Vec<Option<CacheKey>>,
    len: usize,
    evicted: Option<CacheKey>,
}

impl TwoListsCache {
    pub(super) fn new(capacity: usize) -> Self {
        let frames = u32::try_from(capacity).expect("a cache has fewer than 2^31 keys");
        let cache = PageCache::with_frames(frames);
        let table = cache.table();
        Self { cache, table, keys: Vec::new(), len: 0, evicted: None }
    }

    fn fill(&mut self, key: CacheKey, use_: Use) {
        let (file, page) = place_of(key);
        let filling = self.cache.start_fill(file, page, use_, false);
        let frame = filling.frame().0 as usize;
        self.cache.filled(filling);
        self.keys.resize(self.keys.len().max(frame + 1), None);
        self.evicted = self.keys[frame].replace(key);
        self.len += usize::from(self.evicted.is_none());
    }

    /// Marks a key as used. Returns false if it is not cached.
    fn touch(&self, key: CacheKey) -> bool {
        let (file, page) = place_of(key);
        let found = self.table.look_up(file, page);
        found.inspect(|found| found.touch(false)).is_some()
    }
}

impl CachePolicy for TwoListsCache {
    fn access(&mut self, key: CacheKey) -> bool {
        let is_hit = self.touch(key);
        if !is_hit {
            self.fill(key, Use::Wanted);
        }
        is_hit
    }

    fn insert_ahead(&mut self, key: CacheKey) {
        let (file, page) = place_of(key);
        if self.table.look_up(file, page).is_none() {
            self.fill(key, Use::Ahead);
        }
    }

    fn first_use(&mut self, key: CacheKey) {
        self.touch(key);
    }

    fn take_evicted(&mut self) -> Option<CacheKey> {
        self.evicted.take()
    }

    fn forget(&mut self, key: CacheKey) {
        let (file, page) = place_of(key);
        let Some(found) = self.table.look_up(file, page) else { return };
        let frame = found.entry().frame().0 as usize;
        self.cache.forget_range(file, page, Pages(1));
        self.keys[frame] = None;
        self.len -= 1;
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Maps a key to a file slot and page. The page table addresses fewer files, and smaller page
/// numbers, than a trace of objects may contain; larger ones are folded in.
fn place_of(key: CacheKey) -> (FileSlot, PageIndex) {
    let more_files = u64::from(key.file >> FILE_BITS);
    let place = key.place.wrapping_add(more_files << 44) % MAX_FILE_PAGES.0;
    (FileSlot(key.file & ((1 << FILE_BITS) - 1)), PageIndex(place))
}

/// Bits of a file slot: half of the files that the page table can address.
const FILE_BITS: u32 = 18;
