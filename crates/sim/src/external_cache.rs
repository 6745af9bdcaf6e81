//! An eviction policy of `cache_policy` in place of the core's, below the whole path.
//!
//! In:    which pages came from a device, which of them are used, which leave otherwise.
//! Out:   the pages that leave next.
//! Never: a page that is dirty or in flight: the core keeps those.
//!
//! ```text
//!   path --request--> device --done--> insert --evicted?--> path.invalidate, page by page
//!                                         ^
//!   reader --use of a page----------------'
//! ```
//!
//! The path has an eighth more frames than the policy has keys, for what is in flight; so its own
//! eviction finds a free frame, and evicts nothing. Where more is in flight it has to, and what it
//! evicts is counted apart.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use foreread_core::path::{FileId, IoPath, Tag};
use foreread_core::table::{FileSlot, PageTable};
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, PageIndex, Pages, SECTOR_SIZE, Sector};

use crate::cache_policy::{CacheKey, CachePolicy, CachePolicyKind};

/// The policy, and what is needed to tell the path's pages from device addresses.
#[derive(Debug)]
pub(crate) struct ExternalCache {
    policy: Box<dyn CachePolicy>,
    /// By device and first byte on it.
    files: BTreeMap<(u32, u64), ExternalFile>,
    ids: HashMap<FileSlot, FileId>,
    in_flight: HashMap<Tag, PagesInFlight>,
    /// Pages that the path is to drop.
    leaving: Vec<(FileId, PageIndex)>,
    evicted: u64,
    /// Of those, pages that were evicted before their first use.
    evicted_unread: u64,
}

/// A request for pages.
#[derive(Clone, Debug)]
struct PagesInFlight {
    device: u32,
    bytes: Range<u64>,
    is_ahead: bool,
}

/// A file, as the path names it.
#[derive(Clone, Copy, Debug)]
struct ExternalFile {
    slot: FileSlot,
    len: u64,
}

/// What is in flight has so many-eighths of the policy's pages.
const IN_FLIGHT_DENOM: u64 = 8;

/// The memory of a path whose pages an external policy evicts, where the whole is `memory`.
pub(crate) fn memory_of_path(memory: ByteCount, kind: CachePolicyKind) -> ByteCount {
    let is_own = kind == CachePolicyKind::TwoLists;
    let in_flight = if is_own { 0 } else { memory.0 / IN_FLIGHT_DENOM };
    ByteCount(memory.0 + in_flight)
}

impl ExternalCache {
    /// A cache for a path of so many frames; None if the path's own policy is asked for.
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

    /// Notes a file, and where it lies.
    pub(crate) fn open(&mut self, device: u32, start: Sector, id: FileId, len: ByteCount) {
        let file = ExternalFile { slot: IoPath::slot(id), len: len.0 };
        self.files.insert((device, start.0 * SECTOR_SIZE), file);
        self.ids.insert(file.slot, id);
    }

    /// Notes a request for pages.
    pub(crate) fn sent(&mut self, tag: Tag, device: u32, bytes: Range<u64>, is_ahead: bool) {
        self.in_flight.insert(tag, PagesInFlight { device, bytes, is_ahead });
    }

    /// Drops the pages that it has evicted.
    pub(crate) fn drop_leaving(&mut self, path: &mut IoPath, now: Nanos) {
        for (file, page) in self.leaving.drain(..) {
            path.invalidate(now, file, page..page + Pages(1));
        }
    }

    /// Notes that pages of a read are used, as far as they are resident.
    pub(crate) fn note_uses(&mut self, slot: FileSlot, pages: Range<PageIndex>, table: &PageTable) {
        for page in (pages.start.0..pages.end.0).map(PageIndex) {
            let Some(found) = table.look_up(slot, page) else { continue };
            if found.entry().is_up_to_date() {
                self.used(slot, page, found.entry().is_unused(), table);
            }
        }
    }

    /// How many pages it evicted unused.
    pub(crate) fn evicted_unread(&self) -> u64 {
        self.evicted_unread
    }

    /// How many pages it evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Notes the use of a resident page.
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

    /// Notes that an application dropped pages.
    pub(crate) fn forget(&mut self, slot: FileSlot, pages: Range<PageIndex>) {
        for page in pages.start.0..pages.end.0 {
            self.policy.forget(key_of(slot, PageIndex(page)));
        }
    }

    /// Takes the pages of a request that has ended.
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

    /// What the policy evicted leaves, if the path still has it.
    fn note_evicted(&mut self, table: &PageTable) {
        let Some(victim) = self.policy.take_evicted() else { return };
        let (slot, page) = (FileSlot(victim.file), PageIndex(victim.place));
        let Some(found) = table.look_up(slot, page) else { return };
        self.evicted += 1;
        self.evicted_unread += u64::from(found.entry().is_unused());
        self.leaving.extend(self.ids.get(&slot).map(|id| (*id, page)));
    }

    /// The resident page of a file at this address. Files may lie over each other.
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

/// Files that begin before an address and are looked at for it.
const MOST_OVERLAPPING: usize = 8;
