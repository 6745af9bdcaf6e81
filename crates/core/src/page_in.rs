//! Page-in: assigns frames to missing pages, builds requests for them, and wakes their waiters.
//!
//! In:    ranges of pages to read; the ends of requests.
//! Out:   runs of pages for the device queues; frames held for reads; the waiters of a frame that
//!        is filled, or whose fill failed.
//! Never: a choice of pages to read: the prefetcher makes it.

pub(crate) mod partial_fill;
pub(crate) mod read;
pub(crate) mod waiters;
pub(crate) mod walk;

use self::partial_fill::PartialFills;
use self::waiters::Waiters;
use crate::cache::PageCache;
use crate::device_queue::payload::PageFill;
use crate::extent_map::{ExtentMap, FileLocation, PagePlace};
use crate::table::FileSlot;
use crate::units::{ByteCount, PAGE_SIZE, PageIndex, Pages, SECTORS_PER_PAGE, Sector, Sectors};

/// The cache, with the waiters and partial fills of its frames.
#[derive(Debug)]
pub(crate) struct PageIn {
    pub(crate) cache: PageCache,
    /// Reads and writes that wait for each frame.
    pub(crate) waiters: Waiters,
    /// Pages that need more than one request, or zeros.
    pub(crate) partial: PartialFills,
}

/// The properties of a file that page-in needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePages<'f> {
    pub(crate) slot: FileSlot,
    pub(crate) len: ByteCount,
    /// The file's location on its device.
    pub(crate) location: &'f FileLocation,
    /// The largest request that the device accepts.
    pub(crate) max_io: Pages,
}

impl PageIn {
    pub(crate) fn new(cache: PageCache) -> Self {
        assert!(cache.idle().0 == u64::from(cache.frames()), "a new path has a new cache");
        let waiters = Waiters::new(cache.frames());
        Self { cache, waiters, partial: PartialFills::default() }
    }
}

impl FilePages<'_> {
    /// Returns the number of bytes of the page that are in the file.
    pub(crate) fn page_len(&self, page: PageIndex) -> u32 {
        page_len(self.len, page)
    }

    /// Returns the device position of a page, if the whole page is in one place.
    pub(crate) fn sector_of(&self, page: PageIndex) -> Option<Sector> {
        match self.location {
            FileLocation::Contiguous(start) => Some(*start + Sectors(page.0 * SECTORS_PER_PAGE)),
            FileLocation::Extents(map) => match map.page(page, &mut 0) {
                PagePlace::At(start) => Some(start),
                PagePlace::Hole | PagePlace::Parts => None,
            },
        }
    }

    /// Calls `add` with the device position of each part of a page.
    pub(crate) fn sectors_of(&self, page: PageIndex, mut add: impl FnMut(Sector)) {
        match self.location {
            FileLocation::Contiguous(start) => add(*start + Sectors(page.0 * SECTORS_PER_PAGE)),
            FileLocation::Extents(map) => match map.page(page, &mut 0) {
                PagePlace::At(start) => add(start),
                PagePlace::Hole => {}
                PagePlace::Parts => {
                    let parts = map.parts_of(page, self.page_len(page));
                    parts.filter_map(|(_, start)| start).for_each(add);
                }
            },
        }
    }

    /// Passes the parts of a page to `add` with their device positions, and holes to `partial`.
    /// `near` is the position in the extent map where the last page was found.
    pub(crate) fn place(
        &self,
        page: PageIndex,
        fill: PageFill,
        near: &mut usize,
        partial: &mut PartialFills,
        mut add: impl FnMut(Sector, PageFill),
    ) {
        debug_assert!(fill.part.is_whole(), "a page is placed whole");
        match self.location {
            FileLocation::Contiguous(start) => {
                add(*start + Sectors(page.0 * SECTORS_PER_PAGE), fill);
            }
            FileLocation::Extents(map) => match map.page(page, near) {
                PagePlace::At(start) => add(start, fill),
                PagePlace::Hole => partial.add_hole(fill),
                PagePlace::Parts => place_parts(map, page, &fill, partial, add),
            },
        }
    }
}

/// Places a page that is in several extents, or has holes.
fn place_parts(
    map: &ExtentMap,
    page: PageIndex,
    fill: &PageFill,
    partial: &mut PartialFills,
    mut add: impl FnMut(Sector, PageFill),
) {
    let mut count = 0;
    for (part, start) in map.parts_of(page, fill.len) {
        let fill = PageFill::part(&fill.filling, part, fill.len);
        match start {
            Some(start) => add(start, fill),
            None => partial.add_hole(fill),
        }
        count += 1;
    }
    assert!(count > 0, "{page:?} has bytes, so it has parts");
    partial.begin(&fill.filling, count);
}

/// Returns the number of bytes of the page in a file of this length.
pub(crate) fn page_len(file_len: ByteCount, page: PageIndex) -> u32 {
    assert!(page.offset() < file_len, "{page:?} lies behind a file of {file_len} bytes");
    (file_len - page.offset()).0.min(PAGE_SIZE) as u32
}
