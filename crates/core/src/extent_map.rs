//! Extent maps: the device positions of a file that is not contiguous on its device. Extents that
//! are out of order or not aligned to sectors are rejected.
//!
//! ```text
//!   file     0        8K       16K  17K 18K            40K     len
//!            |== a ===|........|=b=|=c=|====== d ======|........|
//!   device   a at 1M   (hole)   b at 9M+1K   c at 2M   d at 3M   (hole)
//!
//!   pages    |at |at |0  |0  |b c d d|at | ...           the fifth has three parts
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::device_queue::payload::PagePart;
use crate::units::{
    ByteCount, MAX_FILE_BYTES, PAGE_SIZE, PageIndex, SECTOR_SIZE, SECTORS_PER_PAGE, Sector, Sectors,
};

/// A range of a file that is contiguous on its device, or a hole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileExtent {
    /// Offset in the file.
    pub start: ByteCount,
    /// Length in bytes.
    pub len: ByteCount,
    /// Offset on the device. None for a hole, which reads as zeros.
    pub place: Option<ByteCount>,
}

/// Device positions of a file's bytes. Ranges that no extent covers are holes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtentMap {
    /// Each run ends where the next begins. The last is a hole without end.
    runs: Vec<MappedRun>,
}

/// 16 bytes, because a fragmented file has many of these.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct MappedRun {
    /// Offset in the file.
    start: Sector,
    /// Offset on the device; [`HOLE`] for zeros.
    place: Sector,
}

/// An error in a list of extents: the index of the first bad one, from 0.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InvalidExtents {
    /// It starts before the end of the preceding one.
    Disorder(usize),
    /// It is not aligned to sectors of 512 bytes.
    Unaligned(usize),
    /// It ends past the limit for files and devices.
    TooFar(usize),
    /// It would make the map exceed its memory limit.
    TooMuch(usize),
}

/// Reason why a file was not opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OpenError {
    /// Too many files are open.
    TooMany,
    /// The extent maps of open files have reached their memory limit.
    ExtentMaps {
        /// Largest allowed map.
        limit: ByteCount,
    },
}

/// Location of a file on its device.
#[derive(Clone, Debug)]
pub(crate) enum FileLocation {
    /// Contiguous from this sector on.
    Contiguous(Sector),
    /// Mapped by a list of extents.
    Extents(Arc<ExtentMap>),
}

/// Location of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PagePlace {
    /// Contiguous from this sector on.
    At(Sector),
    /// A hole, which reads as zeros.
    Hole,
    /// Several extents, or partly a hole.
    Parts,
}

impl ExtentMap {
    /// Creates a map from extents in ascending order that do not overlap; adjacent ones are merged.
    ///
    /// # Errors
    ///
    /// If they are out of order or overlap, or one is not aligned to sectors.
    pub fn new(extents: impl IntoIterator<Item = FileExtent>) -> Result<Self, InvalidExtents> {
        Self::within(ByteCount(u64::MAX), extents)
    }

    /// Creates a map like [`new`](Self::new) that takes at most `limit` bytes of memory.
    /// Reads no further extents once the map exceeds it.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new), or if the map would exceed `limit`.
    pub fn within(
        limit: ByteCount,
        extents: impl IntoIterator<Item = FileExtent>,
    ) -> Result<Self, InvalidExtents> {
        let mut layout = Self { runs: Vec::new() };
        let mut end = Sector(0);
        for (index, extent) in extents.into_iter().enumerate() {
            let (run, run_end) = extent.run(index)?;
            if run.start < end {
                return Err(InvalidExtents::Disorder(index));
            }
            if run_end == run.start {
                continue;
            }
            if run.start > end {
                layout.push(MappedRun { start: end, place: HOLE });
            }
            layout.push(run);
            end = run_end;
            if size_of_val(layout.runs.as_slice()) as u64 > limit.0 {
                return Err(InvalidExtents::TooMuch(index));
            }
        }
        layout.push(MappedRun { start: end, place: HOLE });
        layout.runs.shrink_to_fit();
        Ok(layout)
    }

    /// Returns the memory used by the map.
    #[must_use]
    pub fn bytes(&self) -> ByteCount {
        ByteCount((size_of::<Self>() + self.runs.capacity() * size_of::<MappedRun>()) as u64)
    }

    /// Returns the offset behind the last byte on the device that the map refers to.
    #[must_use]
    pub fn device_end(&self) -> ByteCount {
        let ends = self.runs.windows(2).filter(|pair| pair[0].place != HOLE);
        let ends = ends.map(|pair| (pair[0].place + (pair[1].start - pair[0].start)).offset());
        ends.max().unwrap_or(ByteCount::ZERO)
    }

    /// Returns the data (true) and holes (false) of a range, in order and without gaps.
    pub fn parts(&self, range: Range<ByteCount>) -> impl Iterator<Item = (Range<ByteCount>, bool)> {
        let first = self.index_of(Sector(range.start.0 / SECTOR_SIZE));
        let runs = self.runs[first..].iter().enumerate();
        runs.map_while(move |(nth, run)| {
            let next = self.runs.get(first + nth + 1);
            let start = run.start.offset().max(range.start);
            let end = next.map_or(range.end, |next| next.start.offset().min(range.end));
            (start < end).then_some((start..end, run.place != HOLE))
        })
    }

    /// Appends a run, or merges it with the last one if it continues that.
    fn push(&mut self, run: MappedRun) {
        let goes_on = self.runs.last().is_some_and(|last| match (last.place, run.place) {
            (HOLE, HOLE) => true,
            (HOLE, _) | (_, HOLE) => false,
            (last_place, place) => last_place + (run.start - last.start) == place,
        });
        if !goes_on {
            self.runs.push(run);
        }
    }

    /// Returns the index of the run that contains a sector of the file.
    fn index_of(&self, sector: Sector) -> usize {
        self.runs.partition_point(|run| run.start <= sector) - 1
    }

    /// Returns the location of a page. `near` is the index of the run where the last page was
    /// found, and is updated: sequential look-ups then need no search.
    pub(crate) fn page(&self, page: PageIndex, near: &mut usize) -> PagePlace {
        let start = Sector(page.0 * SECTORS_PER_PAGE);
        let (has_begun, has_ended) = (self.runs[*near].start <= start, self.end(*near) <= start);
        if !has_begun || has_ended {
            let is_next = has_begun && self.end(*near + 1) > start;
            *near = if is_next { *near + 1 } else { self.index_of(start) };
        }
        let run = self.runs[*near];
        if self.end(*near) < start + Sectors(SECTORS_PER_PAGE) {
            PagePlace::Parts
        } else if run.place == HOLE {
            PagePlace::Hole
        } else {
            PagePlace::At(run.place + (start - run.start))
        }
    }

    /// Returns the parts of a page that are within its first `len` bytes, each with its device
    /// position; None for a hole.
    pub(crate) fn parts_of(
        &self,
        page: PageIndex,
        len: u32,
    ) -> impl Iterator<Item = (PagePart, Option<Sector>)> {
        let page_start = Sector(page.0 * SECTORS_PER_PAGE);
        let page_end = page_start + Sectors(SECTORS_PER_PAGE);
        let wanted_end = page_start + Sectors(u64::from(len).div_ceil(SECTOR_SIZE));
        let first = self.index_of(page_start);
        let is_wanted = move |index: &usize| self.runs[*index].start < wanted_end;
        (first..self.runs.len()).take_while(is_wanted).map(move |index| {
            let run = self.runs[index];
            let start = run.start.max(page_start);
            let end = self.end(index).min(page_end);
            let part = PagePart::new(start - page_start, end - start);
            (part, (run.place != HOLE).then(|| run.place + (start - run.start)))
        })
    }

    /// Returns the sector behind the last one of a run.
    fn end(&self, index: usize) -> Sector {
        self.runs.get(index + 1).map_or(Sector(u64::MAX), |next| next.start)
    }
}

impl FileLocation {
    /// Returns the start of a contiguous file. Extent-mapped files are read only and never need it.
    pub(crate) fn start(&self) -> Sector {
        match self {
            Self::Contiguous(start) => *start,
            Self::Extents(_) => panic!("an extent-mapped file is read only"),
        }
    }

    /// Returns the memory that this takes in addition to the file's own.
    pub(crate) fn bytes(&self) -> ByteCount {
        match self {
            Self::Contiguous(_) => ByteCount::ZERO,
            Self::Extents(layout) => layout.bytes(),
        }
    }
}

impl FileExtent {
    /// Converts the extent to a run, and returns it with its end in the file.
    fn run(&self, index: usize) -> Result<(MappedRun, Sector), InvalidExtents> {
        let place = self.place.unwrap_or(ByteCount::ZERO);
        for at in [self.start, self.len, place] {
            if !at.0.is_multiple_of(SECTOR_SIZE) {
                return Err(InvalidExtents::Unaligned(index));
            }
        }
        for start in [self.start, place] {
            // One page of slack, so that rounding up stays in range.
            let end = start.0.checked_add(self.len.0).and_then(|end| end.checked_add(PAGE_SIZE));
            if end.is_none_or(|end| end > MAX_FILE_BYTES.0) {
                return Err(InvalidExtents::TooFar(index));
            }
        }
        let sector = |at: ByteCount| Sector(at.0 / SECTOR_SIZE);
        let run = MappedRun { start: sector(self.start), place: self.place.map_or(HOLE, sector) };
        Ok((run, sector(self.start + self.len)))
    }
}

impl fmt::Display for InvalidExtents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, why) = match self {
            Self::Disorder(index) => (index, "overlaps the one before it"),
            Self::Unaligned(index) => (index, "is not aligned to sectors of 512 bytes"),
            Self::TooFar(index) => (index, "ends past the largest offset of a file"),
            Self::TooMuch(index) => (index, "exceeds the memory for extents"),
        };
        write!(f, "extent {index} {why}")
    }
}

impl core::error::Error for InvalidExtents {}

/// Marks a run as a hole.
const HOLE: Sector = Sector(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64, place: Option<u64>) -> FileExtent {
        FileExtent { start: ByteCount(start), len: ByteCount(len), place: place.map(ByteCount) }
    }

    fn layout(extents: &[(u64, u64, Option<u64>)]) -> Result<ExtentMap, InvalidExtents> {
        ExtentMap::new(extents.iter().map(|&(start, len, place)| extent(start, len, place)))
    }

    #[test]
    fn a_page_is_at_one_place_or_a_hole_or_comes_in_parts() {
        let layout = layout(&[
            (0, 8192, Some(1 << 20)),
            (16384, 1024, Some(9 << 20)),
            (17408, 1024, Some(2 << 20)),
            (18432, 22528, Some(3 << 20)),
        ])
        .unwrap();
        let mut near = 0;
        let places: Vec<_> = (0..12).map(|page| layout.page(PageIndex(page), &mut near)).collect();
        let (at, mib) = (PagePlace::At, |mib: u64| Sector(mib << 11));
        assert_eq!(places[..2], [at(mib(1)), at(mib(1) + Sectors(8))]);
        assert_eq!(places[2..5], [PagePlace::Hole, PagePlace::Hole, PagePlace::Parts]);
        assert_eq!(places[5], at(mib(3) + Sectors(4)), "the extent began within the page before");
        assert_eq!(places[10..], [PagePlace::Hole, PagePlace::Hole]);
        let backwards: Vec<_> =
            (0..12).rev().map(|page| layout.page(PageIndex(page), &mut near)).collect();
        assert!(places.iter().eq(backwards.iter().rev()), "found from wherever the search begins");

        let parts: Vec<_> = layout.parts_of(PageIndex(4), 4096).collect();
        let part = |from, sectors| PagePart::new(Sectors(from), Sectors(sectors));
        let want =
            [(part(0, 2), Some(mib(9))), (part(2, 2), Some(mib(2))), (part(4, 4), Some(mib(3)))];
        assert_eq!(parts, want);
        let short: Vec<_> = layout.parts_of(PageIndex(4), 1025).collect();
        assert_eq!(short, want[..2], "no more than the file has");
    }

    #[test]
    fn neighbours_become_one_and_what_is_left_out_is_a_hole() {
        let one = layout(&[(4096, 4096, Some(8192)), (8192, 4096, Some(12288))]);
        let both = layout(&[(0, 4096, None), (4096, 8192, Some(8192)), (12288, 4096, None)]);
        assert_eq!(one, both);
        let layout = one.unwrap();
        assert_eq!(layout.runs.len(), 3);
        assert_eq!(layout.device_end(), ByteCount(16384));
        let parts: Vec<_> = layout.parts(ByteCount(100)..ByteCount(99_999)).collect();
        let want = [(100, 4096, false), (4096, 12288, true), (12288, 99_999, false)];
        assert_eq!(parts, want.map(|(start, end, data)| (ByteCount(start)..ByteCount(end), data)));
        assert_eq!(layout.parts(ByteCount(5)..ByteCount(5)).count(), 0);
    }

    #[test]
    fn extents_that_make_no_sense_are_refused_by_their_number() {
        let sound = (0, 4096, Some(0));
        let refused = [
            ((2048, 4096, Some(8192)), InvalidExtents::Disorder(1)),
            ((4097, 512, None), InvalidExtents::Unaligned(1)),
            ((8192, 100, Some(0)), InvalidExtents::Unaligned(1)),
            ((8192, 512, Some(100)), InvalidExtents::Unaligned(1)),
            ((8192, 512, Some((1 << 63) - 512)), InvalidExtents::TooFar(1)),
            ((u64::MAX - 511, 512, Some(0)), InvalidExtents::TooFar(1)),
            ((8192, u64::MAX - 511, None), InvalidExtents::TooFar(1)),
        ];
        for (extent, why) in refused {
            assert_eq!(layout(&[sound, extent]), Err(why));
        }
        assert!(layout(&[]).is_ok());
    }
}
