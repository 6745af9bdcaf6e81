//! Refused writes of a file's device: decides whether pages are sent again or fail, and when the
//! next probe is due. `refused.rs` carries it out.

use crate::driver_io::Fault;
use crate::ids::DirtyId;
use crate::units::Nanos;

/// Determines whether a refused write may succeed later without any action of the user.
///
/// ```text
///   kind        errors                                  the flusher's first probe   then
///   transient   EIO, a short write, all others          after dirty_age, 100 ms     the interval
///                                                       at least                    doubles, up
///   no space    ENOSPC, EDQUOT                          after dirty_age, 1 s        to a minute
///                                                       at least
///   permanent   EROFS, EFBIG, ENODEV, ENXIO, EPERM,     never: a flush or a write of the page
///               EACCES, EBADF, ENOMEDIUM                retries it
/// ```
///
/// EIO is transient because most devices report it for a single bad sector or for a path that is
/// being replaced. The numbers are Linux's on x86 and ARM; an unknown one is transient.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum RefusalKind {
    #[default]
    Transient,
    NoSpace,
    Permanent,
}

/// Refused writes of a file's device, and the next retry.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Number of refused requests in a row.
    pub(super) in_a_row: u32,
    /// Kind of the last one.
    pub(super) kind: RefusalKind,
    /// Probes sent since the device accepted anything.
    pub(super) probes: u32,
    /// Time of the next probe; None if none is due.
    pub(super) probe_at: Option<Nanos>,
    /// Page of the last probe.
    pub(super) probe: Option<DirtyId>,
}

/// Verdict on the pages of a request that were not written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RefusalVerdict {
    /// Send them again, with at most this many in one request.
    Resend(u8),
    /// The pages fail.
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

    /// Returns the time from a failure to the next probe, after `probes` earlier ones; None for
    /// never.
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
    /// Returns the verdict on a refused request of `pages`, of which the first `taken` were
    /// written.
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

/// Converts a page limit to the type that a page keeps.
fn limit(pages: usize) -> u8 {
    assert!(pages > 0, "0 stands for no limit");
    u8::try_from(pages).unwrap_or(u8::MAX)
}

/// After this many refusals in a row, the device is considered to accept nothing at present.
/// Halving the largest request takes fewer, so one bad page never fails the others.
const REFUSALS_MAX: u32 = 32;

/// A refused request of at most this many pages is split into single pages: halving would not save
/// any request.
const FEW_PAGES: usize = 4;

/// Shortest pause between two probes, because on a full file system each refusal costs a journal
/// commit.
pub(super) const LEAST_PROBE_NS: u64 = 1_000_000_000;
/// Freed space is found after a minute at the latest.
const MOST_PROBE_NS: u64 = 60_000_000_000;
/// Largest number of doublings of the pause: from 100 ms, the shortest, to more than the longest.
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
