//! What each sector of a file ever held, how long the file was, and which of that may be found.
//!
//! In:    writes and lengths as they become visible; promises; what the owner was told or has
//!        accepted.
//! Out:   whether a sector, or a length, may be as it is.
//! Never: a guess about when the device gets what.
//!
//! ```text
//!   versions    1    5    9    12
//!                    ^floor    ^newest
//!   a power cut may find 5, 9 or 12; a read has to find 12
//! ```

use std::ops::Range;

use super::append_order::AppendOrder;
use super::cached_disk::{ABSENT, Stamp, TORN, ZEROS};

/// The sectors of one file: those that it has, and those that it may get.
#[derive(Debug)]
pub(super) struct History {
    sectors: Vec<SectorHistory>,
    /// Its lengths, in sectors, as a sector's versions.
    lens: SectorHistory,
    /// A length that the driver is giving to it: it may have it already.
    being_set: Option<usize>,
    pub(super) appends: AppendOrder,
}

/// What a flush promises: these versions, or newer ones.
#[derive(Clone, Debug)]
pub(super) struct FlushPromise {
    sectors: Vec<usize>,
    len: usize,
    /// Sectors below the end of complete appends that an earlier one has not written.
    unwritten: Vec<usize>,
}

/// A sector as a read found it when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorView {
    /// The oldest version that it may find.
    since: usize,
    /// The oldest if the device drops some meanwhile.
    floor: usize,
    had_reverted: bool,
    reverts: u32,
}

#[derive(Debug)]
struct SectorHistory {
    versions: Vec<Stamp>,
    /// The oldest version that may be found.
    floor: usize,
    /// The device has dropped the newest version, so that a read may find an older one. Flushes
    /// must not succeed then, unless the page was written again.
    has_reverted: bool,
    /// How often that happened.
    reverts: u32,
    /// The owner was told that this may hold anything (a discard, a zero that failed, an accepted
    /// loss): nothing is checked until it is written again.
    is_undefined: bool,
    /// Below this version the medium may hold anything, for that reason.
    defined_from: usize,
}

impl History {
    /// Of a file with these sectors, which may get so many.
    pub(super) fn new(stamps: impl Iterator<Item = Stamp>, most: usize) -> Self {
        let mut sectors: Vec<_> = stamps.map(SectorHistory::new).collect();
        let lens = SectorHistory::new(sectors.len() as Stamp);
        sectors.resize_with(most, || SectorHistory::new(ABSENT));
        Self { sectors, lens, being_set: None, appends: AppendOrder::default() }
    }

    /// How many sectors it may have.
    pub(super) fn space(&self) -> usize {
        self.sectors.len()
    }

    /// How many sectors it has.
    pub(super) fn len(&self) -> usize {
        self.lens.newest() as usize
    }

    /// The driver is told to give it a length.
    pub(super) fn begin_set_len(&mut self, len: usize) {
        self.being_set = Some(len);
    }

    /// The driver has, or has not.
    pub(super) fn end_set_len(&mut self, is_set: bool) {
        let len = self.being_set.take().expect("its driver was told to");
        if is_set {
            self.set_len(len);
        }
    }

    fn set_len(&mut self, len: usize) {
        let before = self.len();
        self.lens.write(len as Stamp);
        self.appends.cut(len);
        (len..before).for_each(|at| self.write(at, ABSENT));
        (before..len).for_each(|at| self.write(at, ZEROS));
    }

    /// Its owner has accepted that it is lost what length it had: it has this one now, and anything
    /// in between.
    pub(super) fn adopt_len(&mut self, len: usize) {
        let before = self.len();
        if before != len {
            self.set_len(len);
            self.set_undefined(before.min(len)..before.max(len));
        }
    }

    pub(super) fn newest(&self, at: usize) -> Stamp {
        self.sectors[at].newest()
    }

    /// A write became visible.
    pub(super) fn write(&mut self, at: usize, stamp: Stamp) {
        self.appends.settle(at);
        self.sectors[at].write(stamp);
    }

    pub(super) fn set_undefined(&mut self, sectors: Range<usize>) {
        sectors.clone().for_each(|at| self.appends.settle(at));
        self.sectors[sectors].iter_mut().for_each(SectorHistory::set_undefined);
    }

    /// The device has got a version of this sector.
    pub(super) fn landed(&mut self, at: usize, stamp: Stamp) {
        if self.newest(at) == stamp {
            self.sectors[at].has_reverted = false;
        }
    }

    /// The device dropped what it had cached of this sector.
    pub(super) fn revert(&mut self, at: usize) {
        self.sectors[at].has_reverted = true;
        self.sectors[at].reverts += 1;
    }

    /// The device dropped lengths that it had cached.
    pub(super) fn revert_len(&mut self) {
        self.lens.has_reverted = true;
    }

    /// The owner has accepted that writes are lost.
    pub(super) fn accept_lost(&mut self) {
        self.appends.forget_all();
        let all = self.sectors.iter_mut().chain([&mut self.lens]);
        all.filter(|it| it.has_reverted).for_each(SectorHistory::set_undefined);
    }

    /// What a flush that begins now will promise.
    pub(super) fn snapshot(&self) -> FlushPromise {
        let version = |it: &SectorHistory| it.versions.len() - 1;
        let unwritten = self.appends.below_complete();
        FlushPromise { sectors: self.versions(), len: version(&self.lens), unwritten }
    }

    /// The newest version of each sector.
    pub(super) fn versions(&self) -> Vec<usize> {
        self.sectors.iter().map(|sector| sector.versions.len() - 1).collect()
    }

    /// What a read that begins now may find.
    pub(super) fn view(&self) -> Vec<SectorView> {
        (0..self.space()).map(|at| self.view_of(at)).collect()
    }

    pub(super) fn view_of(&self, at: usize) -> SectorView {
        let SectorHistory { versions, floor, has_reverted, reverts, .. } = &self.sectors[at];
        let since = if *has_reverted { *floor } else { versions.len() - 1 };
        SectorView { since, floor: *floor, had_reverted: *has_reverted, reverts: *reverts }
    }

    /// A flush is acknowledged: what the medium holds, and the length there, are of these versions
    /// or newer ones.
    pub(super) fn promise_flush(
        &mut self,
        promised: FlushPromise,
        durable_len: usize,
        durable: impl Fn(usize) -> Stamp,
    ) -> Result<(), String> {
        if let Some(at) = promised.unwritten.iter().find(|at| durable(**at) == ZEROS) {
            return Err(format!(
                "promised all bytes below the end of an append, but sector {at} is unwritten"
            ));
        }
        let lens = &mut self.lens;
        if !lens.is_undefined && promised.len >= lens.defined_from {
            if !self.being_set_is(durable_len)
                && !self.lens.is_since(promised.len, durable_len as Stamp)
            {
                let lens = &self.lens.versions;
                return Err(format!(
                    "promised length {} of {lens:?}, but the medium has {durable_len}",
                    promised.len
                ));
            }
            self.lens.floor = self.lens.floor.max(promised.len);
        }
        self.promise(promised.sectors.into_iter().enumerate(), durable)
    }

    fn being_set_is(&self, len: usize) -> bool {
        self.being_set == Some(len)
    }

    /// Whether this is what a length that is being set may have done to a sector.
    fn is_being_set(&self, at: usize, found: Stamp) -> bool {
        self.being_set.is_some_and(|len| {
            let is_cut = len <= at && found == ABSENT;
            is_cut || at >= self.len() && at < len && found == ZEROS
        })
    }

    /// A promise is given: these versions, or newer ones, are on the medium as `durable` says.
    pub(super) fn promise(
        &mut self,
        promised: impl Iterator<Item = (usize, usize)>,
        durable: impl Fn(usize) -> Stamp,
    ) -> Result<(), String> {
        for (at, version) in promised {
            let sector = &self.sectors[at];
            if sector.is_undefined || version < sector.defined_from {
                continue;
            }
            let found = durable(at);
            if found == TORN && self.page_has_newer(at, version) || self.is_being_set(at, found) {
                continue;
            }
            let sector = &mut self.sectors[at];
            if !sector.is_since(version, found) {
                let versions = &sector.versions;
                return Err(format!(
                    "promised version {version} of sector {at}, but the medium holds {found}, of \
                     {versions:?}"
                ));
            }
            sector.floor = sector.floor.max(version);
        }
        Ok(())
    }

    /// Whether a read that began at `view` may have found this.
    pub(super) fn check_read(
        &self,
        at: usize,
        found: Stamp,
        view: SectorView,
    ) -> Result<(), String> {
        let sector = &self.sectors[at];
        let was_defined = !sector.is_undefined && view.since >= sector.defined_from;
        if !was_defined || sector.is_since(view.since, found) || self.is_being_set(at, found) {
            return Ok(());
        }
        let was_dropped =
            view.had_reverted || sector.has_reverted || sector.reverts != view.reverts;
        let is_older =
            found == TORN || view.floor < sector.defined_from || sector.is_since(view.floor, found);
        if was_dropped && is_older {
            return Ok(());
        }
        Err(format!("a read found {found} in sector {at}, of {:?}", sector.versions))
    }

    /// Whether a sector may be found so after the end of the process. A device that tears sectors
    /// may damage any sector of a page that was being written.
    pub(super) fn check_survivor(&self, at: usize, found: Stamp) -> Result<(), String> {
        let sector = &self.sectors[at];
        let is_one = sector.is_loose() || sector.is_since(sector.floor, found);
        if is_one || self.is_being_set(at, found) {
            return Ok(());
        }
        if found == TORN && self.page_has_newer(at, sector.floor) {
            return Ok(());
        }
        let (floor, versions) = (sector.floor, &sector.versions);
        Err(format!("sector {at} holds {found}: version {floor} of {versions:?} was promised"))
    }
}

impl History {
    /// Whether a file may be found with this length after the end of the process.
    pub(super) fn check_len(&self, found: usize) -> Result<(), String> {
        let lens = &self.lens;
        let is_one = lens.is_loose() || lens.is_since(lens.floor, found as Stamp);
        if is_one || self.being_set_is(found) {
            return Ok(());
        }
        let (floor, lens) = (lens.floor, &lens.versions);
        Err(format!("a length of {found}: version {floor} of {lens:?} was promised"))
    }

    /// Whether anything in the page of this sector was written after `version` of the sector, or
    /// after its own promise: then a device that tears sectors may have damaged any of the page.
    fn page_has_newer(&self, at: usize, version: usize) -> bool {
        let page = at / 8 * 8..(at / 8 * 8 + 8).min(self.sectors.len());
        let has_newer = |it: &SectorHistory| it.is_loose() || it.floor + 1 < it.versions.len();
        version + 1 < self.sectors[at].versions.len() || self.sectors[page].iter().any(has_newer)
    }
}

impl SectorHistory {
    fn new(stamp: Stamp) -> Self {
        Self {
            versions: vec![stamp],
            floor: 0,
            has_reverted: false,
            reverts: 0,
            is_undefined: false,
            defined_from: 0,
        }
    }

    fn newest(&self) -> Stamp {
        *self.versions.last().expect("a sector begins with a version")
    }

    fn write(&mut self, stamp: Stamp) {
        self.versions.push(stamp);
        (self.has_reverted, self.is_undefined) = (false, false);
    }

    fn set_undefined(&mut self) {
        self.is_undefined = true;
        self.defined_from = self.versions.len();
    }

    /// Whether the medium may hold anything.
    fn is_loose(&self) -> bool {
        self.floor < self.defined_from
    }

    fn is_since(&self, version: usize, found: Stamp) -> bool {
        self.versions[version.min(self.versions.len() - 1)..].contains(&found)
    }
}
