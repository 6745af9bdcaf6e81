//! What each sector of an overlaid disk ever held, and which of that a power cut may leave.
//!
//! In:    writes, flushes and losses as clients see them. Each sector has one client that writes.
//! Out:   whether a sector may be found as it is.
//! Never: a look at bits or blocks.

use std::ops::Range;

use foreread_sim::durability::SteppedFile;

/// The sectors of the disk.
#[derive(Debug)]
pub(super) struct Oracle {
    sectors: Vec<SectorVersions>,
    /// Losses and reverts so far.
    changes: u64,
    /// How often the device has dropped what it had cached.
    drops: u64,
    /// Writes are lost, and no block has reverted since.
    pending_loss: bool,
}

#[derive(Debug)]
struct SectorVersions {
    versions: Vec<u32>,
    /// The oldest one that may be found.
    floor: usize,
    /// The one that a flush makes durable.
    flushable: usize,
    /// While the floor is below this, nothing is promised: a discard, or a zero that failed.
    defined_from: usize,
    /// Until the floor has this version, the device may have torn the sector with its page.
    torn_from: usize,
    /// Its client knows what it holds.
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

    /// A write is over; if it is `durable`, so are its bytes.
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

    /// These sectors may hold anything until they are written again.
    pub(super) fn set_undefined(&mut self, sectors: Range<usize>) {
        for sector in &mut self.sectors[sectors] {
            sector.is_exact = false;
            sector.defined_from = sector.versions.len();
        }
    }

    pub(super) fn begin_flush(&self) -> Vec<usize> {
        self.sectors.iter().map(|it| it.flushable).collect()
    }

    /// A flush was answered.
    pub(super) fn end_flush(&mut self, flushed: &[usize]) {
        for (sector, flushed) in self.sectors.iter_mut().zip(flushed) {
            // Unless it was lost meanwhile, and the owner was told.
            if sector.flushable >= *flushed {
                sector.floor = sector.floor.max(*flushed);
            }
        }
    }

    /// Writes are lost, or blocks have reverted: what no flush covers may be anything that was
    /// written since.
    pub(super) fn lose(&mut self, is_reverted: bool) {
        self.pending_loss = !is_reverted;
        self.changes += 1;
        for sector in &mut self.sectors {
            sector.flushable = sector.flushable.min(sector.floor);
            sector.is_exact = false;
        }
    }

    /// The device has dropped what it had cached: what is not in memory is older there, until the
    /// engine hears of it.
    ///
    /// A page that was being written may be torn, all of it: if it is not in memory any more, the
    /// owner is told that writes are lost.
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

    /// Whether the client of a sector may have read this.
    pub(super) fn check_read(&self, at: usize, found: u32) -> Result<(), String> {
        let SectorVersions { versions, is_exact, .. } = &self.sectors[at];
        let newest = *versions.last().expect("it begins with a version");
        if *is_exact && normal(found) != newest {
            return Err(format!("a read found {found} in sector {at}, of {versions:?}"));
        }
        Ok(())
    }

    /// Whether a power cut may leave this.
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

    /// Another server has opened the file, and finds these sectors; `base` has those of the base.
    ///
    /// Until it has repaired the bits ([`Self::open`]), a sector that it finds as the base has it
    /// may still become what the server before had written and not saved: a repair that a cut
    /// tears may complete the copy of the bits that was torn before.
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

    /// The server has repaired the bits: whatever it found is what the disk holds from now on.
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

    /// Whether anything was written that no flush covers.
    fn is_new(&self) -> bool {
        self.is_loose() || self.floor + 1 < self.versions.len()
    }
}

fn normal(stamp: u32) -> u32 {
    if SteppedFile::is_zeroed(stamp) { 0 } else { stamp }
}
