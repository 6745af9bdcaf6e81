//! Runs an eviction policy of `cache_policy` in place of the core's, below the whole path. Dirty
//! pages and pages in flight stay under the core's control.
//!
//! ```text
//!   path --request--> device --done--> insert --evicted?--> path.invalidate, page by page
//!                                         ^
//!   reader --use of a page----------------'
//! ```
//!
//! The path has an eighth more frames than the policy has keys, for requests in flight, so the path
//! finds a free frame without evicting. If more is in flight, the path has to evict, and those
//! evictions are counted separately.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use foreread_core::path::{FileId, IoPath, Tag};
use foreread_core::table::{FileSlot, PageTable};
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, Sector};

use crate::cache_policy::{CacheKey, CachePolicy, CachePolicyKind};

/// The policy, and the state that maps device addresses to the path's pages.
#[derive(Debug)]
pub(crate) struct ExternalCache {
    policy: Box<dyn CachePolicy>,
    /// By device and first byte on the device.
    files: BTreeMap<(u32, u64), ExternalFile>,
    ids: HashMap<FileSlot, FileId>,
    in_flight: HashMap<Tag, PagesInFlight>,
    /// Pages that the path must drop.
    leaving: Vec<(FileId, PageIndex)>,
    evicted: u64,
    /// Number of pages evicted before their first use.
    evicted_unread: u64,
}

/// Pages of a request in flight.
#[derive(Clone, Debug)]
struct PagesInFlight {
    device: u32,
    bytes: Range<u64>,
    is_ahead: bool,
}

/// A file, with the path's slot.
#[derive(Clone, Copy, Debug)]
struct ExternalFile {
    slot: FileSlot,
    len: u64,
}

/// Share of the policy's pages reserved for requests in flight, as a divisor.
const IN_FLIGHT_DENOM: u64 = 8;

/// Returns the memory of a path under an external policy, for a total of `memory`.
pub(crate) fn memory_of_path(memory: ByteCount, kind: CachePolicyKind) -> ByteCount {
    let is_own = kind == CachePolicyKind::TwoLists;
    let in_flight = if is_own { 0 } else { memory.0 / IN_FLIGHT_DENOM };
    ByteCount(memory.0 + in_flight)
}

impl ExternalCache {
    /// Creates the cache for a path with this many frames; None for the path's own policy.
    pub(crate) fn new(kind: CachePolicyKind, frames: u32) -> Option<Self> {
        if kind == CachePolicyKind::TwoLists {
            return None;
        }
        let capacity = u64::from(frames) * IN_FLIGHT_DENOM / (IN_FLIGHT_DENOM + 1);
        let capacity = usize::try_from(capacity.max(1)).expect("frames are counted in 32 bits");
        let policy = kind.build(capacity);
        Some(Self {
            policy,
            files: BTreeMap::new(),
            ids: HashMap::new(),
            in_flight: HashMap::new(),
            leaving: Vec::new(),
            evicted: 0,
            evicted_unread: 0,
        })
    }

    /// Registers a file and its position on the device.
    pub(crate) fn open(&mut self, device: u32, start: Sector, id: FileId, len: ByteCount) {
        let file = ExternalFile { slot: IoPath::slot(id), len: len.0 };
        self.files.insert((device, start.0 * SECTOR_SIZE), file);
        self.ids.insert(file.slot, id);
    }

    /// Registers a request for pages.
    pub(crate) fn sent(&mut self, tag: Tag, device: u32, bytes: Range<u64>, is_ahead: bool) {
        self.in_flight.insert(tag, PagesInFlight { device, bytes, is_ahead });
    }

    /// Drops the evicted pages from the path.
    pub(crate) fn drop_leaving(&mut self, path: &mut IoPath, now: Nanos) {
        for (file, page) in self.leaving.drain(..) {
            path.invalidate(now, file, page..page + Pages(1));
        }
    }

    /// Marks the resident pages of a read as used.
    pub(crate) fn note_uses(&mut self, slot: FileSlot, pages: Range<PageIndex>, table: &PageTable) {
        for page in (pages.start.0..pages.end.0).map(PageIndex) {
            let Some(found) = table.look_up(slot, page) else { continue };
            if found.entry().is_up_to_date() {
                self.used(slot, page, found.entry().is_unused(), table);
            }
        }
    }

    /// Returns the number of pages evicted unused.
    pub(crate) fn evicted_unread(&self) -> u64 {
        self.evicted_unread
    }

    /// Returns the number of evicted pages.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Marks a resident page as used.
    pub(crate) fn used(
        &mut self,
        slot: FileSlot,
        page: PageIndex,
        is_first: bool,
        table: &PageTable,
    ) {
        let key = key_of(slot, page);
        if is_first {
            self.policy.first_use(key);
        } else {
            self.policy.access(key);
        }
        self.note_evicted(table);
    }

    /// Handles pages that an application dropped.
    pub(crate) fn forget(&mut self, slot: FileSlot, pages: Range<PageIndex>) {
        for page in pages.start.0..pages.end.0 {
            self.policy.forget(key_of(slot, PageIndex(page)));
        }
    }

    /// Inserts the pages of a completed request.
    pub(crate) fn filled(&mut self, tag: Tag, table: &PageTable) {
        let Some(PagesInFlight { device, bytes, is_ahead }) = self.in_flight.remove(&tag) else {
            return;
        };
        for at in bytes.step_by(usize::try_from(PAGE_SIZE).expect("a page is small")) {
            let Some(key) = self.page_at(device, at, table) else { continue };
            if is_ahead {
                self.policy.insert_ahead(key);
            } else {
                self.policy.access(key);
            }
            self.note_evicted(table);
        }
    }

    /// Queues the policy's victim for removal, if the path still holds it.
    fn note_evicted(&mut self, table: &PageTable) {
        let Some(victim) = self.policy.take_evicted() else { return };
        let (slot, page) = (FileSlot(victim.file), PageIndex(victim.place));
        let Some(found) = table.look_up(slot, page) else { return };
        self.evicted += 1;
        self.evicted_unread += u64::from(found.entry().is_unused());
        self.leaving.extend(self.ids.get(&slot).map(|id| (*id, page)));
    }

    /// Returns the resident page of a file at this address. Files may overlap.
    fn page_at(&self, device: u32, at: u64, table: &PageTable) -> Option<CacheKey> {
        let before = self.files.range((device, 0)..=(device, at)).rev();
        before.take(MOST_OVERLAPPING).find_map(|((_, start), file)| {
            let page = PageIndex((at - start) / PAGE_SIZE);
            let is_inside = at - start < file.len;
            let is_resident = is_inside && table.look_up(file.slot, page).is_some();
            is_resident.then(|| key_of(file.slot, page))
        })
    }
}

fn key_of(slot: FileSlot, page: PageIndex) -> CacheKey {
    CacheKey { file: slot.0, place: page.0 }
}

/// Number of files before an address that are searched for it.
const MOST_OVERLAPPING: usize = 8;
