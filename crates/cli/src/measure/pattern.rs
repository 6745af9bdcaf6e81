//! Access patterns: the offset of each read, as a pure function, so that all access methods read
//! the same offsets. docs/guide/bench.md explains the choice of patterns.

use serde::{Serialize, Serializer};

use super::random::mix;

/// Access patterns, with the names of the command line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AccessPattern {
    Seq4k,
    Seq64k,
    Seq1m,
    Inter2,
    Inter2By64k,
    Inter8,
    Inter200,
    Coop8,
    Rand4k,
    Rand16k,
    Rand64k,
    Scans,
    Stride,
    Back,
    Hot4k,
    Hot64k,
    Hot1m,
    HotSmall,
    HotPin,
}

/// Spatial order of the reads of a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PatternShape {
    /// Evenly spaced streams, round robin.
    Streams(u64),
    /// One stream shared by several threads.
    Shared,
    /// Random offsets, none twice.
    Random,
    /// Runs of this many sequential reads at random offsets, nothing twice.
    Scans(u64),
    /// Pages from one read to the next.
    Stride(u64),
    /// Backwards from the end.
    Back,
    /// Random offsets in a cached set of this many bytes.
    Hot(u64),
}

/// Part of the target that one reader reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PatternArea {
    pub start: u64,
    /// Length in bytes, a multiple of a page.
    pub len: u64,
    /// Offset of the first read in the area, or in each stream's part of it.
    pub shift: u64,
    /// Size of the hot set, if not the pattern's own.
    pub hot_set: Option<u64>,
}

impl AccessPattern {
    pub const ALL: [Self; 19] = [
        Self::Seq4k,
        Self::Seq64k,
        Self::Seq1m,
        Self::Inter2,
        Self::Inter2By64k,
        Self::Inter8,
        Self::Inter200,
        Self::Coop8,
        Self::Rand4k,
        Self::Rand16k,
        Self::Rand64k,
        Self::Scans,
        Self::Stride,
        Self::Back,
        Self::Hot4k,
        Self::Hot64k,
        Self::Hot1m,
        Self::HotSmall,
        Self::HotPin,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Seq4k => "seq4k",
            Self::Seq64k => "seq64k",
            Self::Seq1m => "seq1m",
            Self::Inter2 => "inter2",
            Self::Inter2By64k => "inter2-64k",
            Self::Inter8 => "inter8",
            Self::Inter200 => "inter200",
            Self::Coop8 => "coop8",
            Self::Rand4k => "rand4k",
            Self::Rand16k => "rand16k",
            Self::Rand64k => "rand64k",
            Self::Scans => "scans",
            Self::Stride => "stride",
            Self::Back => "back",
            Self::Hot4k => "hot4k",
            Self::Hot64k => "hot64k",
            Self::Hot1m => "hot1m",
            Self::HotSmall => "hot-small",
            Self::HotPin => "hot-pin",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.name() == name)
    }

    /// Returns the bytes per read.
    pub const fn block(self) -> u64 {
        match self {
            Self::Seq4k | Self::Inter2 | Self::Inter8 | Self::Inter200 | Self::Rand4k => PAGE,
            Self::Stride | Self::Back | Self::Hot4k | Self::HotSmall | Self::HotPin => PAGE,
            Self::Rand16k | Self::Scans => 16 << 10,
            Self::Seq64k | Self::Inter2By64k | Self::Coop8 => 64 << 10,
            Self::Rand64k | Self::Hot64k => 64 << 10,
            Self::Seq1m | Self::Hot1m => 1 << 20,
        }
    }

    const fn shape(self) -> PatternShape {
        match self {
            Self::Seq4k | Self::Seq64k | Self::Seq1m => PatternShape::Streams(1),
            Self::Inter2 | Self::Inter2By64k => PatternShape::Streams(2),
            Self::Inter8 => PatternShape::Streams(8),
            Self::Inter200 => PatternShape::Streams(200),
            Self::Coop8 => PatternShape::Shared,
            Self::Rand4k | Self::Rand16k | Self::Rand64k => PatternShape::Random,
            Self::Scans => PatternShape::Scans(10),
            Self::Stride => PatternShape::Stride(16),
            Self::Back => PatternShape::Back,
            Self::Hot4k | Self::Hot64k | Self::Hot1m | Self::HotPin => PatternShape::Hot(256 << 20),
            Self::HotSmall => PatternShape::Hot(1 << 20),
        }
    }

    /// Returns the number of sequential streams, each with a growing window.
    pub fn streams(self) -> u64 {
        match self.shape() {
            PatternShape::Streams(count) => count,
            PatternShape::Shared => 1,
            PatternShape::Random
            | PatternShape::Scans(_)
            | PatternShape::Stride(_)
            | PatternShape::Back
            | PatternShape::Hot(_) => 0,
        }
    }

    /// Returns the number of handles per thread; with many streams, one for each.
    pub fn handles(self) -> u32 {
        if self == Self::Inter200 { 200 } else { 1 }
    }

    /// Returns the number of threads, if the pattern fixes it.
    pub fn own_threads(self) -> Option<u32> {
        (self.shape() == PatternShape::Shared).then_some(8)
    }

    /// Returns true if all threads share one sequence of reads and one area.
    pub fn is_shared(self) -> bool {
        self.shape() == PatternShape::Shared
    }

    /// Returns the bytes to read beforehand, for patterns of cache hits.
    pub fn hot_set(self) -> Option<u64> {
        match self.shape() {
            PatternShape::Hot(bytes) => Some(bytes),
            PatternShape::Streams(_)
            | PatternShape::Shared
            | PatternShape::Random
            | PatternShape::Scans(_)
            | PatternShape::Stride(_)
            | PatternShape::Back => None,
        }
    }

    /// Returns true if pages are pinned and released instead of copied.
    pub fn is_pinned(self) -> bool {
        self == Self::HotPin
    }

    /// Returns the number of reads that fit an area.
    pub fn room(self, area: &PatternArea) -> u64 {
        let block = self.block();
        let len = area.len.saturating_sub(area.shift);
        match self.shape() {
            PatternShape::Streams(count) => {
                count * (part(area.len, count).saturating_sub(area.shift) / block)
            }
            PatternShape::Shared => len / block,
            PatternShape::Random => len / place(block),
            PatternShape::Scans(reads) => len / place(reads * block) * reads,
            PatternShape::Stride(pages) => len / (pages * PAGE),
            PatternShape::Back => len / PAGE,
            PatternShape::Hot(set) => {
                let set = area.hot_set.unwrap_or(set);
                if set >= block && set <= len { u64::MAX } else { 0 }
            }
        }
    }

    /// Returns the offset of read number `i`, which must be below [room](Self::room).
    ///
    /// ```text
    ///   two streams    |--shift--0 2 4 ..            |--shift--1 3 5 ..            |
    ///   random         |--shift--|   x   |   x   |   x   |   one read a place, in any order
    ///   backwards      |                               .. 2 1 0--shift--|
    /// ```
    #[inline]
    pub fn offset(self, area: &PatternArea, i: u64, seed: u64) -> u64 {
        let block = self.block();
        let start = area.start + area.shift;
        match self.shape() {
            PatternShape::Streams(count) => {
                start + i % count * part(area.len, count) + i / count * block
            }
            PatternShape::Shared => start + i * block,
            PatternShape::Random => {
                let places = (area.len - area.shift) / place(block);
                start + shuffled(i, seed, places) * place(block) + place(block) / 2
            }
            PatternShape::Scans(reads) => {
                let scan = reads * block;
                let places = (area.len - area.shift) / place(scan);
                let at = shuffled(i / reads, seed, places) * place(scan) + scan / 2;
                start + at + i % reads * block
            }
            PatternShape::Stride(pages) => start + i * pages * PAGE,
            PatternShape::Back => area.start + area.len - area.shift - (i + 1) * PAGE,
            PatternShape::Hot(set) => {
                let blocks = area.hot_set.unwrap_or(set) / block;
                start + mix(seed ^ i) % blocks * block
            }
        }
    }
}

impl Serialize for AccessPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Returns the bytes per stream, in whole pages.
const fn part(len: u64, count: u64) -> u64 {
    len / count / PAGE * PAGE
}

/// Returns the spacing of random reads. In a small file, reads would otherwise be adjacent by
/// chance, which both the kernel and foreread take for a stream.
const fn place(block: u64) -> u64 {
    if 2 * block > 8 * PAGE { 2 * block } else { 8 * PAGE }
}

/// Returns element `i` of a permutation of `places` numbers, so that no read hits the pages of
/// another.
///
/// Multiplying by an odd number and xor with a shift are bijections on numbers of a fixed bit
/// width; results out of range are permuted again until they are in range.
fn shuffled(mut i: u64, seed: u64, places: u64) -> u64 {
    let bits = u64::BITS - (places - 1).leading_zeros();
    let mask = u64::MAX >> (u64::BITS - bits.max(1));
    loop {
        for round in 0..3 {
            i = (i ^ (mix(seed + round) & mask)).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
            i ^= i >> bits.div_ceil(2);
        }
        if i < places {
            return i;
        }
    }
}

pub const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: PatternArea =
        PatternArea { start: 1 << 20, len: 512 << 20, shift: 3 * PAGE, hot_set: None };

    #[test]
    fn a_shuffled_file_has_each_page_once_and_few_where_they_were() {
        for pages in [1, 2, 3, 1000, 4096, 5000] {
            let mut order: Vec<u64> = (0..pages).map(|i| shuffled(i, 42, pages)).collect();
            let neighbours = order.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() as u64;
            assert!(neighbours <= 1 + pages / 100, "{neighbours} of {pages}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..pages));
        }
    }

    #[test]
    fn every_read_lies_in_its_area_and_on_a_page() {
        for pattern in AccessPattern::ALL {
            let room = pattern.room(&AREA);
            assert!(room > 0, "{pattern:?}");
            for i in (0..room.min(1000)).chain(room.min(1 << 40) - 1..room.min(1 << 40)) {
                let offset = pattern.offset(&AREA, i, 7);
                let end = AREA.start + AREA.len;
                assert!(offset >= AREA.start, "{pattern:?} {i}");
                assert!(offset + pattern.block() <= end, "{pattern:?} {i}: {offset}");
                assert_eq!(offset % PAGE, 0, "{pattern:?} {i}");
            }
        }
    }

    #[test]
    fn streams_take_turns_and_each_begins_where_it_was_asked_to() {
        let offset = |i| AccessPattern::Inter2.offset(&AREA, i, 0);
        let (first, second) = (AREA.start + 3 * PAGE, AREA.start + (256 << 20) + 3 * PAGE);
        assert_eq!([0, 1, 2, 3].map(offset), [first, second, first + PAGE, second + PAGE]);
        assert_eq!(AccessPattern::Back.offset(&AREA, 0, 0), AREA.start + AREA.len - 4 * PAGE);
        assert_eq!(AccessPattern::Stride.offset(&AREA, 2, 0), first + 32 * PAGE);
    }

    #[test]
    fn an_area_that_is_too_small_has_no_room() {
        let small = PatternArea { start: 0, len: 64 << 10, shift: 4096, hot_set: None };
        let without = AccessPattern::ALL.map(|pattern| (pattern.name(), pattern.room(&small)));
        let rooms: Vec<_> = without.into_iter().filter(|(_, room)| *room == 0).collect();
        let names: Vec<_> = rooms.into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "seq64k",
                "seq1m",
                "inter2-64k",
                "inter200",
                "coop8",
                "rand64k",
                "scans",
                "stride",
                "hot4k",
                "hot64k",
                "hot1m",
                "hot-small",
                "hot-pin"
            ]
        );
    }

    #[test]
    fn the_names_are_read_as_they_are_written() {
        for pattern in AccessPattern::ALL {
            assert_eq!(AccessPattern::from_name(pattern.name()), Some(pattern));
        }
    }
}
