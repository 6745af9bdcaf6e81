//! The state of a [`super::VolatileDisk`]: the versions of each sector and length that a power cut
//! may leave. Once the length of a regrown file is durable, no earlier bytes reappear there.
//!
//! ```text
//!   set_len(700)   lengths [2048, 700]    sector 1: [old, old up to 700]   2, 3: [old, zeros]
//!   a flush        lengths [700]          what a cut has made is durable with its length
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Debug)]
pub(super) struct DiskState {
    /// Contents that survive any power cut; zeros past the end of a file.
    pub(super) durable: Vec<u8>,
    /// Later versions by sector, in the order in which their writes ended.
    pub(super) cached: BTreeMap<usize, Vec<Version>>,
    /// Writes in progress, by number.
    pub(super) begun: BTreeMap<u64, (usize, Vec<Sector>)>,
    pub(super) next_write: u64,
    pub(super) sectors_written: u64,
    pub(super) syncs: u64,
    pub(super) failures: Failures,
    /// The durable length, followed by all later ones.
    lengths: Vec<usize>,
    pub(super) is_file: bool,
}

/// One version of a sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) bytes: Sector,
    /// A truncation created this version, not a write.
    pub(super) is_cut: bool,
}

/// Failing device flushes, including the ones in FUA writes.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// One flush in this many fails; 0 for none.
    pub(super) one_in: u64,
    pub(super) seed: u64,
    pub(super) failed: u64,
}

pub(super) type Sector = [u8; SECTOR];

impl DiskState {
    pub(super) fn new(mut bytes: Vec<u8>, is_file: bool) -> Self {
        let lengths = vec![bytes.len()];
        bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        Self {
            durable: bytes,
            cached: BTreeMap::new(),
            begun: BTreeMap::new(),
            next_write: 0,
            sectors_written: 0,
            syncs: 0,
            failures: Failures::default(),
            lengths,
            is_file,
        }
    }

    /// Returns the newest length.
    pub(super) fn len(&self) -> usize {
        *self.lengths.last().expect("one length is durable")
    }

    /// Returns one of the lengths that a power cut may leave, chosen by `seed`.
    pub(super) fn any_len(&self, seed: u64) -> usize {
        let word = mix(!seed);
        let which = usize::try_from(word % self.lengths.len() as u64)
            .expect("a draw is below a length in memory");
        self.lengths[which]
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let before = self.len();
        for at in len / SECTOR..before.div_ceil(SECTOR) {
            let there = range_of(at);
            let mut bytes = self.newest(at);
            bytes[len.clamp(there.start, there.end) - there.start..].fill(0);
            self.cached.entry(at).or_default().push(Version { bytes, is_cut: true });
        }
        let sectors = len.next_multiple_of(SECTOR);
        if sectors > self.durable.len() {
            self.durable.resize(sectors, 0);
        }
        self.lengths.push(len);
    }

    /// Makes the newest length durable, and with it the effect of earlier truncations.
    pub(super) fn commit_lengths(&mut self) {
        self.lengths = vec![self.len()];
        let durable = &mut self.durable;
        self.cached.retain(|&at, versions| {
            if let Some(last) = versions.iter().rposition(|version| version.is_cut) {
                durable[range_of(at)].copy_from_slice(&versions[last].bytes);
                versions.drain(..=last);
            }
            !versions.is_empty()
        });
    }

    /// Returns the sectors that a write of these bytes produces. The end of the file may cut the
    /// last one.
    pub(super) fn sectors_of(&self, first: usize, bytes: &[u8]) -> Vec<Sector> {
        let (whole, rest) = bytes.as_chunks::<SECTOR>();
        let mut sectors = whole.to_vec();
        if !rest.is_empty() {
            let mut last = self.newest(first + whole.len());
            last[..rest.len()].copy_from_slice(rest);
            sectors.push(last);
        }
        sectors
    }

    fn newest(&self, at: usize) -> Sector {
        let versions = self.cached.get(&at).and_then(|versions| versions.last());
        versions.map_or_else(
            || self.durable[range_of(at)].try_into().expect("a sector is as long as a sector"),
            |version| version.bytes,
        )
    }

    pub(super) fn flush_fails(&mut self) -> bool {
        let Failures { one_in, seed, failed } = &mut self.failures;
        if *one_in == 0 {
            return false;
        }
        *seed = mix(*seed);
        let fails = *seed % *one_in == 0;
        *failed += u64::from(fails);
        fails
    }

    /// Applies the effect of a failed flush to the cache. The file keeps its length while the disk
    /// runs.
    pub(super) fn drop_some(&mut self) {
        for (at, mut versions) in std::mem::take(&mut self.cached) {
            let word = mix(self.failures.seed ^ mix(at as u64));
            let survives = usize::try_from(word % (versions.len() as u64 + 1))
                .expect("a draw is below a length in memory");
            let newer = versions.split_off(survives);
            if let Some(survivor) = versions.last() {
                self.durable[range_of(at)].copy_from_slice(&survivor.bytes);
            }
            if !newer.is_empty() && word >> 32 & 1 == 0 {
                self.cached.insert(at, newer);
            }
        }
    }
}

pub(super) fn range_of(sector: usize) -> Range<usize> {
    sector * SECTOR..(sector + 1) * SECTOR
}

/// Mixes the bits of a number to a pseudo-random one.
pub(super) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Size of the unit that a device writes atomically.
pub(super) const SECTOR: usize = 512;
