//! What a file's device refused, and when it is asked again.
//!
//! In:    refused requests; pages that the device took; the time.
//! Out:   whether the pages of a request are sent again or fail; when the next probe is due.
//! Never: a page, a request. `refused.rs` does what this says.

use crate::driver_io::Fault;
use crate::ids::DirtyId;
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
pub(crate) struct Refusals {
    /// How many requests in a row.
    pub(super) in_a_row: u32,
    /// What kind the last one was.
    pub(super) kind: RefusalKind,
    /// How many probes were sent since the device took anything.
    pub(super) probes: u32,
    /// When the next probe is due; None if none is.
    pub(super) probe_at: Option<Nanos>,
    /// The page of the last probe.
    pub(super) probe: Option<DirtyId>,
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
    pub(super) fn probe_after_ns(self, retry_ns: u64, probes: u32) -> Option<u64> {
        let first = match self {
            Self::Transient => retry_ns,
            Self::NoSpace => retry_ns.max(LEAST_PROBE_NS),
            Self::Permanent => return None,
        };
        debug_assert!(first > 0, "a probe is not due at once");
        let later = first.saturating_mul(1 << probes.min(MOST_DOUBLINGS));
        Some(later.min(first.max(MOST_PROBE_NS)))
    }
}

impl Refusals {
    /// A request of `pages` was refused, but for the first `taken` of them.
    pub(super) fn judge(&mut self, pages: usize, taken: usize) -> RefusalVerdict {
        assert!(taken < pages, "{taken} of {pages} pages were taken, so some were refused");
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

    pub(super) fn plan(&mut self, now: Nanos, retry_ns: u64) {
        let after = self.kind.probe_after_ns(retry_ns, self.probes);
        self.probe_at = after.map(|ns| Nanos(now.0.saturating_add(ns)));
    }

    pub(super) fn takes_nothing(&self) -> bool {
        self.in_a_row >= REFUSALS_MAX
    }
}

/// As the number that a page keeps.
fn limit(pages: usize) -> u8 {
    assert!(pages > 0, "0 stands for no limit");
    u8::try_from(pages).unwrap_or(u8::MAX)
}

/// After so many refusals in a row the device takes nothing at present. More than halving
/// the largest request takes, so that one bad page never costs others their writes.
const REFUSALS_MAX: u32 = 32;

/// Of so few pages each is sent alone: halves would be no fewer requests.
const FEW_PAGES: usize = 4;

/// On a full file system a refusal costs its journal a commit.
pub(super) const LEAST_PROBE_NS: u64 = 1_000_000_000;
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
