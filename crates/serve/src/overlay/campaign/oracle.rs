//! Model of an overlaid disk: all versions of each sector, and the versions that a power cut may
//! leave. It sees the calls of clients, never bits or blocks. One client writes each sector.

use std::ops::Range;

use foreread_sim::durability::SteppedFile;

/// The sectors of the disk.
#[derive(Debug)]
pub(super) struct Oracle {
    sectors: Vec<SectorVersions>,
    /// Losses and reverts so far.
    changes: u64,
    /// Number of times that the device has dropped its cache.
    drops: u64,
    /// Writes were lost, and no block has reverted since.
    pending_loss: bool,
}

#[derive(Debug)]
struct SectorVersions {
    versions: Vec<u32>,
    /// Oldest version that may be found.
    floor: usize,
    /// Version that a flush makes durable.
    flushable: usize,
    /// While the floor is below it, contents are undefined: after a discard or a failed zero.
    defined_from: usize,
    /// Number of versions when the power failed: while the floor is below it, the sector may be
    /// torn.
    torn_from: usize,
    /// Reads must return the newest version.
    is_exact: bool,
}

/// A write that has begun.
#[derive(Debug)]
pub(super) struct BegunWrite {
    sectors: Range<usize>,
    is_stable: bool,
    changes: u64,
    drops: u64,
}

impl Oracle {
    pub(super) fn new(sectors: impl Iterator<Item = u32>) -> Self {
        Self {
            sectors: sectors.map(SectorVersions::new).collect(),
            changes: 0,
            drops: 0,
            pending_loss: false,
        }
    }

    pub(super) fn begin_write(&mut self, first: usize, stamps: &[u32]) -> BegunWrite {
        for (sector, stamp) in self.sectors[first..].iter_mut().zip(stamps) {
            sector.versions.push(*stamp);
            sector.is_exact = false;
        }
        let Self { changes, drops, .. } = *self;
        let sectors = first..first + stamps.len();
        BegunWrite { sectors, is_stable: !self.pending_loss, changes, drops }
    }

    /// Notes the end of a write, which may be durable.
    pub(super) fn end_write(&mut self, write: &BegunWrite, is_done: bool, is_durable: bool) {
        let is_stable = write.is_stable && self.changes == write.changes;
        for sector in &mut self.sectors[write.sectors.clone()] {
            let newest = sector.versions.len() - 1;
            sector.is_exact = is_done && is_stable && self.drops == write.drops;
            if is_done && is_stable {
                sector.flushable = newest;
            }
            if is_done && is_durable {
                (sector.floor, sector.flushable) = (newest, newest);
            }
        }
    }

    /// Makes the contents of sectors undefined until they are written again.
    pub(super) fn set_undefined(&mut self, sectors: Range<usize>) {
        for sector in &mut self.sectors[sectors] {
            sector.is_exact = false;
            sector.defined_from = sector.versions.len();
        }
    }

    pub(super) fn begin_flush(&self) -> Vec<usize> {
        self.sectors.iter().map(|it| it.flushable).collect()
    }

    /// Notes that a flush was acknowledged.
    pub(super) fn end_flush(&mut self, flushed: &[usize]) {
        for (sector, flushed) in self.sectors.iter_mut().zip(flushed) {
            // A smaller count means a loss during the flush that was reported to the owner.
            if sector.flushable >= *flushed {
                sector.floor = sector.floor.max(*flushed);
            }
        }
    }

    /// Notes that writes are lost, or blocks have reverted: sectors that no flush covers may hold
    /// any version since their last durable one.
    pub(super) fn lose(&mut self, is_reverted: bool) {
        self.pending_loss = !is_reverted;
        self.changes += 1;
        for sector in &mut self.sectors {
            sector.flushable = sector.flushable.min(sector.floor);
            sector.is_exact = false;
        }
    }

    /// Notes that the device has dropped its cache: reads of sectors that are not in memory may
    /// find older versions until the engine hears of it.
    ///
    /// All sectors of a page that was being written may be torn. If the page is no longer in
    /// memory, the engine reports lost writes.
    pub(super) fn drop_cached(&mut self) {
        self.drops += 1;
        for page in self.sectors.chunks_mut(8) {
            let is_new = page.iter().any(SectorVersions::is_new);
            for sector in page {
                sector.is_exact = false;
                if is_new {
                    sector.torn_from = sector.versions.len();
                }
            }
        }
    }

    /// Checks the result of a read.
    pub(super) fn check_read(&self, at: usize, found: u32) -> Result<(), String> {
        let SectorVersions { versions, is_exact, .. } = &self.sectors[at];
        let newest = *versions.last().expect("it begins with a version");
        if *is_exact && normal(found) != newest {
            return Err(format!("a read found {found} in sector {at}, of {versions:?}"));
        }
        Ok(())
    }

    /// Checks a sector that a power cut leaves.
    pub(super) fn check_survivor(&self, at: usize, found: u32) -> Result<(), String> {
        let sector = &self.sectors[at];
        let SectorVersions { versions, floor, .. } = sector;
        if sector.is_loose() || versions[*floor..].contains(&normal(found)) {
            return Ok(());
        }
        let page = at / 8 * 8..(at / 8 * 8 + 8).min(self.sectors.len());
        let may_be_torn =
            *floor < sector.torn_from || self.sectors[page].iter().any(SectorVersions::is_new);
        if found == SteppedFile::TORN && may_be_torn {
            return Ok(());
        }
        Err(format!("sector {at} holds {found}: version {floor} of {versions:?} was acknowledged"))
    }

    /// Starts over with the sectors that another server finds; `base` returns those of the base.
    ///
    /// Until that server has repaired the bits ([`Self::open`]), a sector found as in the base may
    /// still turn into an unsaved version from before: a torn repair may complete the copy of the
    /// bits that was torn.
    pub(super) fn restart(
        &mut self,
        found: impl Iterator<Item = u32>,
        base: impl Fn(usize) -> u32,
    ) {
        let before = std::mem::replace(self, Self::new(found.map(normal)));
        for (at, (sector, before)) in self.sectors.iter_mut().zip(before.sectors).enumerate() {
            if sector.versions == [base(at)] && !before.is_loose() {
                sector.versions.splice(0..0, before.versions[before.floor..].iter().copied());
                sector.flushable = sector.versions.len() - 1;
            } else if sector.versions == [base(at)] {
                (sector.defined_from, sector.is_exact) = (1, false);
            }
        }
        for sector in self.sectors.iter_mut().filter(|it| it.versions == [SteppedFile::TORN]) {
            (sector.defined_from, sector.is_exact) = (1, false);
        }
    }

    /// Records that the server has opened the overlay and repaired its bits: a sector whose newest
    /// version equals the base must read as the base from now on.
    pub(super) fn open(&mut self, base: impl Fn(usize) -> u32) {
        for (at, sector) in self.sectors.iter_mut().enumerate() {
            if sector.versions.last() == Some(&base(at)) {
                *sector = SectorVersions::new(base(at));
            }
        }
    }
}

impl SectorVersions {
    fn new(stamp: u32) -> Self {
        let versions = vec![stamp];
        Self { versions, floor: 0, flushable: 0, defined_from: 0, torn_from: 0, is_exact: true }
    }

    fn is_loose(&self) -> bool {
        self.floor < self.defined_from
    }

    /// Returns true if a version is newer than the durable one.
    fn is_new(&self) -> bool {
        self.is_loose() || self.floor + 1 < self.versions.len()
    }
}

fn normal(stamp: u32) -> u32 {
    if SteppedFile::is_zeroed(stamp) { 0 } else { stamp }
}
