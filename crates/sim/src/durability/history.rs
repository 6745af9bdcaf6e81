//! History of a file: the versions of each sector, its lengths, and which of these a read or a
//! power cut may find.
//!
//! In:    writes and lengths as they become visible; promises; losses reported to the owner or
//! accepted.
//! Out:   whether the content of a sector, or a length, is allowed.
//! Never: a guess about the time at which data reaches the device.
//!
//! ```text
//!   versions    1    5    9    12
//!                    ^floor    ^newest
//!   a power cut may find 5, 9 or 12; a read has to find 12
//! ```

use std::ops::Range;

use super::append_order::AppendOrder;
use super::cached_disk::{ABSENT, Stamp, TORN, ZEROS};

/// Sectors of one file, existing ones and ones that it may grow into.
#[derive(Debug)]
pub(super) struct History {
    sectors: Vec<SectorHistory>,
    /// Lengths of the file in sectors, with versions like those of a sector.
    lens: SectorHistory,
    /// A length being set by the driver; the file may have it already.
    being_set: Option<usize>,
    pub(super) appends: AppendOrder,
}

/// Promise of a flush: these versions or newer ones.
#[derive(Clone, Debug)]
pub(super) struct FlushPromise {
    sectors: Vec<usize>,
    len: usize,
    /// Sectors below the end of complete appends that an earlier append has not written.
    unwritten: Vec<usize>,
}

/// State of a sector when a read began.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectorView {
    /// Oldest version that the read may find.
    since: usize,
    /// Oldest version if the device drops some during the read.
    floor: usize,
    had_reverted: bool,
    reverts: u32,
}

#[derive(Debug)]
struct SectorHistory {
    versions: Vec<Stamp>,
    /// Oldest version that may be found.
    floor: usize,
    /// True if the device has dropped the newest version, so that a read may find an older one.
    /// Flushes must not succeed then, unless the page was written again.
    has_reverted: bool,
    /// Number of such drops.
    reverts: u32,
    /// True if the owner knows that this sector may hold anything (a discard, a failed zero, an
    /// accepted loss): nothing is checked until it is written again.
    is_undefined: bool,
    /// Below this version the medium may hold anything, for the same reason.
    defined_from: usize,
}

impl History {
    /// Creates the history of a file with these sectors and this maximum length.
    pub(super) fn new(stamps: impl Iterator<Item = Stamp>, most: usize) -> Self {
        let mut sectors: Vec<_> = stamps.map(SectorHistory::new).collect();
        let lens = SectorHistory::new(sectors.len() as Stamp);
        sectors.resize_with(most, || SectorHistory::new(ABSENT));
        Self { sectors, lens, being_set: None, appends: AppendOrder::default() }
    }

    /// Returns the maximum length in sectors.
    pub(super) fn space(&self) -> usize {
        self.sectors.len()
    }

    /// Returns the current length in sectors.
    pub(super) fn len(&self) -> usize {
        self.lens.newest() as usize
    }

    /// Records that the driver starts to set a length.
    pub(super) fn begin_set_len(&mut self, len: usize) {
        self.being_set = Some(len);
    }

    /// Records whether the driver has set the length.
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

    /// Records that the owner has accepted the loss of lengths: the file has this length now, and
    /// the sectors in between may hold anything.
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

    /// Records a write that has become visible.
    pub(super) fn write(&mut self, at: usize, stamp: Stamp) {
        self.appends.settle(at);
        self.sectors[at].write(stamp);
    }

    pub(super) fn set_undefined(&mut self, sectors: Range<usize>) {
        sectors.clone().for_each(|at| self.appends.settle(at));
        self.sectors[sectors].iter_mut().for_each(SectorHistory::set_undefined);
    }

    /// Records that a version of this sector has reached the device.
    pub(super) fn landed(&mut self, at: usize, stamp: Stamp) {
        if self.newest(at) == stamp {
            self.sectors[at].has_reverted = false;
        }
    }

    /// Records that the device has dropped its cached version of this sector.
    pub(super) fn revert(&mut self, at: usize) {
        self.sectors[at].has_reverted = true;
        self.sectors[at].reverts += 1;
    }

    /// Records that the device has dropped cached lengths.
    pub(super) fn revert_len(&mut self) {
        self.lens.has_reverted = true;
    }

    /// Records that the owner has accepted lost writes.
    pub(super) fn accept_lost(&mut self) {
        self.appends.forget_all();
        let all = self.sectors.iter_mut().chain([&mut self.lens]);
        all.filter(|it| it.has_reverted).for_each(SectorHistory::set_undefined);
    }

    /// Returns the promise of a flush that begins now.
    pub(super) fn snapshot(&self) -> FlushPromise {
        let version = |it: &SectorHistory| it.versions.len() - 1;
        let unwritten = self.appends.below_complete();
        FlushPromise { sectors: self.versions(), len: version(&self.lens), unwritten }
    }

    /// Returns the newest version of each sector.
    pub(super) fn versions(&self) -> Vec<usize> {
        self.sectors.iter().map(|sector| sector.versions.len() - 1).collect()
    }

    /// Returns the state of a sector for a read that begins now.
    pub(super) fn view(&self) -> Vec<SectorView> {
        (0..self.space()).map(|at| self.view_of(at)).collect()
    }

    pub(super) fn view_of(&self, at: usize) -> SectorView {
        let SectorHistory { versions, floor, has_reverted, reverts, .. } = &self.sectors[at];
        let since = if *has_reverted { *floor } else { versions.len() - 1 };
        SectorView { since, floor: *floor, had_reverted: *has_reverted, reverts: *reverts }
    }

    /// Checks an acknowledged flush: the sectors and the length on the medium are of these versions
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

    /// Returns true if a length that is being set may have produced this content.
    fn is_being_set(&self, at: usize, found: Stamp) -> bool {
        self.being_set.is_some_and(|len| {
            let is_cut = len <= at && found == ABSENT;
            is_cut || at >= self.len() && at < len && found == ZEROS
        })
    }

    /// Records a promise: these versions or newer ones are on the medium, as `durable` reports.
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

    /// Returns true if a read that began at `view` may have found this.
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

    /// Returns true if a sector may have this content after the end of the process. A device that
    /// tears sectors may damage any sector of a page that was being written.
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
    /// Returns true if a file may have this length after the end of the process.
    pub(super) fn check_len(&self, found: usize) -> Result<(), String> {
        let lens = &self.lens;
        let is_one = lens.is_loose() || lens.is_since(lens.floor, found as Stamp);
        if is_one || self.being_set_is(found) {
            return Ok(());
        }
        let (floor, lens) = (lens.floor, &lens.versions);
        Err(format!("a length of {found}: version {floor} of {lens:?} was promised"))
    }

    /// Returns true if any sector of this page was written after `version`, or after its own
    /// promise: a device that tears sectors may then have damaged the whole page.
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

    /// Returns true if the medium may hold anything.
    fn is_loose(&self) -> bool {
        self.floor < self.defined_from
    }

    fn is_since(&self, version: usize, found: Stamp) -> bool {
        self.versions[version.min(self.versions.len() - 1)..].contains(&found)
    }
}
