//! Writes that a device refuses: which pages are sent again, how many at a time, and when.
//!
//! In:    a request that a device did not take, or took in part; a flush; the time.
//! Out:   smaller requests for its pages, or their failure; a probe now and then.
//! Never: a flush that waits for more than a stated number of refused requests.
//!
//! ```text
//!   a request is refused
//!     |-- some of it was taken                the rest is sent again, as one request
//!     |-- several pages, and fewer than       its halves are sent again; of four pages or fewer
//!     |   REFUSALS_MAX refused in a row       each page, so that only the bad ones fail
//!     '-- one page, or as many in a row       its pages fail; with as many in a row, so do those
//!                                             that were to be sent next: the device takes nothing
//!
//!   a failed page is sent again by     a flush, a write of the same page, or a probe
//! ```
//!
//! A full file system can take milliseconds to refuse a request, because it commits its journal in
//! search of free blocks. So a refusal is an answer for more than one page, and a flush of any size
//! ends after REFUSALS_MAX of them and what the device had been sent before.

use alloc::vec::Vec;

use super::debts::{DirtyId, DirtyList};
use crate::path::{Fault, FileId, IoPath, OpenFile};
use crate::units::Nanos;

/// Whether a refused write may succeed later although its user changes nothing.
///
/// ```text
///   kind        errors                                  the flusher's first probe   then
///   transient   EIO, a short write, all others          after dirty_age, 100 ms     twice as
///                                                       at least                    long each
///   no space    ENOSPC, EDQUOT                          after dirty_age, 1 s        time, up to
///                                                       at least                    a minute
///   permanent   EROFS, EFBIG, ENODEV, ENXIO, EPERM,     never: a flush or a write of the page
///               EACCES, EBADF, ENOMEDIUM                tries again
/// ```
///
/// EIO is transient because most devices report it for one bad sector, or for a path that is being
/// replaced. The numbers are those of Linux on x86 and ARM; an unknown one is transient.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum RefusalKind {
    #[default]
    Transient,
    NoSpace,
    Permanent,
}

/// What a file's device refused, and when it is asked again.
#[derive(Debug, Default)]
pub(in crate::path) struct Refusals {
    /// How many requests in a row.
    in_a_row: u32,
    /// What kind the last one was.
    kind: RefusalKind,
    /// How many probes were sent since the device took anything.
    probes: u32,
    /// When the next probe is due; None if none is.
    probe_at: Option<Nanos>,
    /// The page of the last probe.
    probe: Option<DirtyId>,
}

/// What becomes of the pages of a request that were not written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RefusalVerdict {
    /// They are sent again, at most so many in one request.
    Resend(u8),
    /// They fail.
    Fail,
}

impl RefusalKind {
    pub(super) fn of(fault: Fault) -> Self {
        match fault {
            Fault::Io(ENOSPC | EDQUOT) => Self::NoSpace,
            Fault::Io(EPERM | ENXIO | EBADF | EACCES | ENODEV | EFBIG | EROFS | ENOMEDIUM) => {
                Self::Permanent
            }
            Fault::Io(_) | Fault::Short | Fault::Lost(_) => Self::Transient,
        }
    }

    /// How long after a failure the next probe is due, if so many came before; None for never.
    fn probe_after_ns(self, retry_ns: u64, probes: u32) -> Option<u64> {
        let first = match self {
            Self::Transient => retry_ns,
            Self::NoSpace => retry_ns.max(LEAST_PROBE_NS),
            Self::Permanent => return None,
        };
        let later = first.saturating_mul(1 << probes.min(MOST_DOUBLINGS));
        Some(later.min(first.max(MOST_PROBE_NS)))
    }
}

impl Refusals {
    /// A request of `pages` was refused, but for the first `taken` of them.
    fn judge(&mut self, pages: usize, taken: usize) -> RefusalVerdict {
        let rest = pages - taken;
        if taken > 0 {
            return RefusalVerdict::Resend(limit(rest));
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if rest == 1 || self.takes_nothing() {
            RefusalVerdict::Fail
        } else if rest <= FEW_PAGES {
            RefusalVerdict::Resend(1)
        } else {
            RefusalVerdict::Resend(limit(rest.div_ceil(2)))
        }
    }

    fn plan(&mut self, now: Nanos, retry_ns: u64) {
        let after = self.kind.probe_after_ns(retry_ns, self.probes);
        self.probe_at = after.map(|ns| Nanos(now.0.saturating_add(ns)));
    }

    fn takes_nothing(&self) -> bool {
        self.in_a_row >= REFUSALS_MAX
    }
}

impl IoPath {
    /// The device took a page: whether that was the probe.
    pub(super) fn note_taken(&mut self, file: FileId, id: DirtyId) -> bool {
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else {
            return false;
        };
        let refusals = &mut books.refusals;
        (refusals.in_a_row, refusals.probes) = (0, 0);
        refusals.probe.take_if(|probe| *probe == id).is_some()
    }

    /// What becomes of those pages of a request that its device did not take.
    pub(super) fn judge_refusal(
        &mut self,
        file: FileId,
        pages: usize,
        taken: usize,
    ) -> RefusalVerdict {
        match self.files.get_mut(file) {
            Some(OpenFile { debts: Some(books), .. }) => books.refusals.judge(pages, taken),
            // It is closed, and nothing is sent again.
            Some(OpenFile { debts: None, .. }) | None => RefusalVerdict::Fail,
        }
    }

    /// A page failed: says when the next probe is due, unless that is known.
    pub(super) fn plan_probe(&mut self, now: Nanos, file: FileId, fault: Fault) {
        let retry_ns = self.limits.retry_ns();
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        let refusals = &mut books.refusals;
        let kind = RefusalKind::of(fault);
        let is_known = kind == refusals.kind && refusals.probe_at.is_some_and(|at| at > now);
        refusals.kind = kind;
        if !is_known {
            refusals.plan(now, retry_ns);
        }
    }

    /// When the file's next probe is due, if one is.
    pub(super) fn next_probe(&self, file: FileId) -> Option<Nanos> {
        let books = self.files.get(file)?.debts.as_ref()?;
        self.debts.oldest(books, DirtyList::Failed)?;
        books.refusals.probe_at
    }

    /// Sends the page again that failed first, and it alone, if that is due: if the device takes
    /// it, all that failed follow.
    pub(super) fn probe(&mut self, now: Nanos, file: FileId) {
        if self.next_probe(file).is_none_or(|at| at > now) {
            return;
        }
        let retry_ns = self.limits.retry_ns();
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        let Some(id) = self.debts.oldest(books, DirtyList::Failed) else { return };
        let refusals = &mut books.refusals;
        refusals.probes = refusals.probes.saturating_add(1);
        refusals.probe = Some(id);
        // If this one does not come back, because its page is dropped, the next one goes then.
        refusals.plan(now, retry_ns);
        self.send_again(file, id);
        self.debts.get_mut(id).most_pages = 1;
    }

    /// A writer was refused because failed pages hold all room: the next probes come soon, so that
    /// writers find out in a second, and not in a minute, that the device takes pages again.
    pub(super) fn probe_soon(&mut self, now: Nanos) {
        let soon = Nanos(now.0.saturating_add(LEAST_PROBE_NS));
        for &file in &self.owing {
            let books = self.files.get_mut(file).and_then(|file| file.debts.as_mut());
            if let Some(at) = books.and_then(|books| books.refusals.probe_at.as_mut()) {
                *at = soon.min(*at);
                self.next_due = self.next_due.min(*at);
            }
        }
    }

    /// All pages of the file that failed are sent again. If no flush waits, refusals are counted
    /// anew; otherwise flushes that overlap would put off each other's end.
    pub(super) fn send_all_again(&mut self, file: FileId) {
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        books.refusals.probe_at = None;
        if books.flushes.is_empty() {
            books.refusals.in_a_row = 0;
        }
        while let Some(OpenFile { debts: Some(books), .. }) = self.files.get(file)
            && let Some(id) = self.debts.oldest(books, DirtyList::Failed)
        {
            self.send_again(file, id);
        }
        self.list_file(file);
    }

    /// A page that failed is sent again.
    ///
    /// Flushes that wait have had their answer of this page, and need not wait for another one:
    /// else a client that flushes, or that writes the page, over and over would keep them waiting.
    ///
    /// ```text
    ///   flush F0      waits for a, b, c             is told of b's failure when c is done
    ///   flush F1                  waits for b, and what is dirtied later
    ///                       ^-- b has failed, and is sent again for F1
    /// ```
    pub(super) fn send_again(&mut self, file: FileId, id: DirtyId) {
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        let epoch = self.debts.get(id).epoch;
        if let Some(fault) = books.fault_of(epoch) {
            Self::tell_flushes(&mut self.writes, books, epoch, fault);
        }
        self.debts.get_mut(id).most_pages = 0;
        self.debts.put(books, id, DirtyList::Urgent);
        self.debts.move_to_this_epoch(books, id);
    }

    /// After so many refusals in a row, what was to be sent next fails as well, unsent.
    ///
    /// Not what a FUA write waits for: that write is to have an answer of its own. The unsent pages
    /// go before the refused ones, so that the next flush begins with them.
    pub(super) fn fail_unsent(&mut self, now: Nanos, file: FileId, fault: Fault) {
        let (wants_aging, age_ns) = (self.wants_aging(), self.limits.age_ns);
        let Some(OpenFile { debts: Some(books), .. }) = self.files.get_mut(file) else { return };
        if !books.refusals.takes_nothing() {
            return;
        }
        let is_next = |id: &DirtyId| {
            let debt = self.debts.get(*id);
            let is_old = debt.since.0.saturating_add(age_ns) <= now.0;
            let is_due = debt.on == DirtyList::Urgent || wants_aging || is_old;
            is_due && !self.waiters.is_waited_for(debt.frame)
        };
        let lists = [DirtyList::Urgent, DirtyList::Aging].into_iter();
        let unsent = lists.flat_map(|on| self.debts.list(books, on)).filter(is_next);
        let unsent: Vec<_> = unsent.collect();
        if unsent.is_empty() {
            return;
        }
        let refused: Vec<_> = self.debts.list(books, DirtyList::Failed).collect();
        self.stats.pages_write_failed += unsent.len() as u64;
        for id in unsent {
            self.debts.put_failed(books, id, fault);
        }
        for id in refused {
            // Only its place changes: what its flushes are told does not.
            let own = books.fault_of(self.debts.get(id).epoch);
            self.debts.put_failed(books, id, own.unwrap_or(fault));
        }
        self.plan_probe(now, file, fault);
        self.list_file(file);
    }
}

/// As the number that a page keeps.
fn limit(pages: usize) -> u8 {
    u8::try_from(pages).unwrap_or(u8::MAX)
}

/// After so many refusals in a row the device takes nothing at present. More than the halvings of
/// the largest request, so that one bad page never costs others their writes.
const REFUSALS_MAX: u32 = 32;

/// Of so few pages each is sent alone: halves would be no fewer requests.
const FEW_PAGES: usize = 4;

/// On a full file system a refusal costs its journal a commit.
const LEAST_PROBE_NS: u64 = 1_000_000_000;
/// Space that was freed is found after a minute at the latest.
const MOST_PROBE_NS: u64 = 60_000_000_000;
/// From 100 ms, the shortest pause, to more than the longest.
const MOST_DOUBLINGS: u32 = 10;

const EPERM: i32 = 1;
const ENXIO: i32 = 6;
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
pub(super) const EFBIG: i32 = 27;
pub(super) const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
pub(super) const EDQUOT: i32 = 122;
const ENOMEDIUM: i32 = 123;
