//! Deterministic fault injection for tests. Requests are matched against the rules in the order in
//! which they start; neither chance nor a clock plays a part.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use foreread_core::sched::Op;
use foreread_core::units::PAGE_SIZE;

/// A fault injected into a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mishap {
    /// Fails the request with this error number. The engine retries EAGAIN and EINTR, and the retry
    /// counts as another match.
    Errno(i32),
    /// Transfers this number of bytes less. (A write continues with the rest, which counts as
    /// another match.)
    Short(u32),
    /// Delays the start until [`Faults::let_go`]: the request is late, or never completes.
    Hold,
}

/// Rules that make requests of a file fail. Passed to
/// [`OpenOptions::faults`](crate::OpenOptions::faults); rules may be added at any time.
///
/// ```text
///   inject(3..5, 1..2, Errno(EIO))     requests that touch page 3 or 4:   0th   1st   2nd
///                                                                         fine  EIO   fine
/// ```
///
/// Each rule counts the requests that it matches. If several rules strike the same request, the
/// first decides the result, and a hold applies in addition. Bytes that a mishap removes from a
/// read are overwritten in memory, and those removed from a write never reach the device, so that
/// no test passes by luck.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<FaultState>,
    has_held: Condvar,
}

#[derive(Debug, Default)]
struct FaultState {
    rules: Vec<FaultRule>,
    /// Dropping the writer ends the pipe, which releases the held requests. A ring can wait for a
    /// pipe as it waits for any device.
    gate: Option<(Arc<PipeReader>, PipeWriter)>,
    struck: u64,
    held: u64,
}

#[derive(Debug)]
struct FaultRule {
    what: FaultedOp,
    pages: Range<u64>,
    times: Range<u32>,
    mishap: Mishap,
    matched: u32,
}

/// Operation that a rule matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FaultedOp {
    Moves(Op),
    Syncs,
    Lengths,
}

/// Faults of one request.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// The request starts once this pipe has ended.
    pub(crate) gate: Option<Arc<PipeReader>>,
    mishap: Option<Mishap>,
}

/// First attempt at a request, or a retry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Attempt {
    First,
    /// Never held, so that a ring that shuts down is not blocked a second time.
    Again,
}

impl Faults {
    /// Injects `mishap` into reads that touch one of `pages`. `times` selects among the matching
    /// reads, counted from 0.
    pub fn inject(&self, pages: Range<u64>, times: Range<u32>, mishap: Mishap) {
        self.add(FaultedOp::Moves(Op::Read), pages, times, mishap);
    }

    /// Injects `mishap` into writes that touch one of `pages`, like [`Self::inject`].
    pub fn inject_writes(&self, pages: Range<u64>, times: Range<u32>, mishap: Mishap) {
        self.add(FaultedOp::Moves(Op::Write), pages, times, mishap);
    }

    /// Injects `mishap` into calls of `fdatasync(2)`. A call that fails this way never reaches the
    /// kernel, even if there is data to flush.
    pub fn inject_syncs(&self, times: Range<u32>, mishap: Mishap) {
        self.add(FaultedOp::Syncs, 0..1, times, mishap);
    }

    /// Injects `mishap` into changes of the file's length, which then stays the same. This covers
    /// explicit changes, appends, and the truncation after a failed append.
    pub fn inject_lengths(&self, times: Range<u32>, mishap: Mishap) {
        self.add(FaultedOp::Lengths, 0..1, times, mishap);
    }

    fn add(&self, what: FaultedOp, pages: Range<u64>, times: Range<u32>, mishap: Mishap) {
        self.state().rules.push(FaultRule { what, pages, times, mishap, matched: 0 });
    }

    /// Removes all rules. Held requests stay held.
    pub fn clear(&self) {
        self.state().rules.clear();
    }

    /// Starts all held requests.
    pub fn let_go(&self) {
        self.state().gate = None;
    }

    /// Blocks until `count` requests have been held in total, including those released since.
    ///
    /// # Panics
    ///
    /// If another thread panicked while it matched a request.
    pub fn wait_held(&self, count: u64) {
        let few = |state: &mut FaultState| state.held < count;
        drop(self.has_held.wait_while(self.state(), few).expect(NO_PANIC));
    }

    /// Returns the number of requests that met a mishap.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.state().struck
    }

    /// Returns the faults of a transfer of `len` bytes at `offset`.
    pub(crate) fn judge(&self, op: Op, offset: u64, len: u64, which: Attempt) -> Fate {
        let pages = offset / PAGE_SIZE..offset.saturating_add(len).div_ceil(PAGE_SIZE);
        self.judge_any(FaultedOp::Moves(op), &pages, which)
    }

    /// Returns the faults of an `fdatasync(2)`.
    pub(crate) fn judge_sync(&self) -> Fate {
        self.judge_any(FaultedOp::Syncs, &(0..1), Attempt::First)
    }

    /// Applies the faults of an `fdatasync(2)` and blocks while it is held. After an error the
    /// caller must not call `fdatasync(2)`.
    pub(crate) fn meet_sync(&self) -> Result<(), i32> {
        Self::meet(self.judge_sync())
    }

    /// Applies the faults of a change of the file's length, like [`Self::meet_sync`].
    pub(crate) fn meet_len_change(&self) -> Result<(), i32> {
        Self::meet(self.judge_any(FaultedOp::Lengths, &(0..1), Attempt::First))
    }

    fn meet(mut fate: Fate) -> Result<(), i32> {
        fate.pass_gate();
        fate.befall_write(Ok(0)).map(drop)
    }

    fn judge_any(&self, what: FaultedOp, pages: &Range<u64>, which: Attempt) -> Fate {
        let mut state = self.state();
        let mut fate = Fate::default();
        let mut is_held = false;
        for rule in &mut state.rules {
            let is_there = rule.pages.start < pages.end && pages.start < rule.pages.end;
            if rule.what == what && is_there {
                let time = rule.matched;
                rule.matched += 1;
                match rule.mishap {
                    _ if !rule.times.contains(&time) => {}
                    Mishap::Hold => is_held |= which == Attempt::First,
                    Mishap::Errno(_) | Mishap::Short(_) => {
                        fate.mishap = fate.mishap.or(Some(rule.mishap));
                    }
                }
            }
        }
        state.struck += u64::from(is_held || fate.mishap.is_some());
        if is_held {
            let (gate, _) = state.gate.get_or_insert_with(|| {
                let (gate, writer) = io::pipe().expect("a test has descriptors left");
                (Arc::new(gate), writer)
            });
            fate.gate = Some(Arc::clone(gate));
            state.held += 1;
            self.has_held.notify_all();
        }
        fate
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().expect(NO_PANIC)
    }
}

impl Fate {
    /// Blocks while the request is held.
    pub(crate) fn pass_gate(&mut self) {
        if let Some(gate) = self.gate.take() {
            // Nothing is ever written, so the read returns at the end of the pipe.
            let ended = (&*gate).read(&mut [0]);
            assert!(matches!(ended, Ok(0)), "{ended:?}");
        }
    }

    pub(crate) fn gate_fd(&self) -> Option<RawFd> {
        self.gate.as_ref().map(|gate| gate.as_raw_fd())
    }

    /// Returns the number of bytes that a write of `bytes` may transfer, rounded down to whole
    /// sectors if the write is cut short.
    pub(crate) fn of_write(&self, bytes: u32) -> u32 {
        match self.mishap {
            Some(Mishap::Errno(_)) => 0,
            Some(Mishap::Short(less)) => bytes.saturating_sub(less) / 512 * 512,
            Some(Mishap::Hold) | None => bytes,
        }
    }

    /// Applies the mishap to the result of a write or a sync.
    pub(crate) fn befall_write(&self, result: Result<u32, i32>) -> Result<u32, i32> {
        match self.mishap {
            Some(Mishap::Errno(errno)) => Err(errno),
            Some(Mishap::Short(_) | Mishap::Hold) | None => result,
        }
    }

    /// Applies the mishap to the result of a read. `overwrite` receives the index of the first byte
    /// that was not transferred.
    pub(crate) fn befall_read(
        &self,
        result: Result<u32, i32>,
        overwrite: impl FnOnce(usize),
    ) -> Result<u32, i32> {
        let (came, result) = match (self.mishap, result) {
            (Some(Mishap::Errno(errno)), _) => (0, Err(errno)),
            (Some(Mishap::Short(less)), Ok(bytes)) => {
                let came = bytes.saturating_sub(less);
                (came, Ok(came))
            }
            (Some(Mishap::Short(_) | Mishap::Hold) | None, result) => return result,
        };
        overwrite(
            usize::try_from(came).expect("a request's frames are in memory, and so is its length"),
        );
        result
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
            Self::Short(less) => write!(f, "{less} bytes fewer"),
            Self::Hold => write!(f, "held back"),
        }
    }
}

const NO_PANIC: &str = "a test that panicked in here says so itself";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_strikes_the_requests_it_names_the_times_it_names() {
        let faults = Faults::default();
        faults.inject(3..5, 1..3, Mishap::Errno(5));
        let page = |first: u64, count: u64| {
            let fate = faults.judge(Op::Read, first * 4096, count * 4096, Attempt::First);
            fate.befall_read(Ok(4096), |_| ()).is_err()
        };
        assert!(!page(4, 1), "the 0th time");
        assert!(!page(5, 9), "behind it");
        assert!(!page(0, 3), "before it");
        assert!(page(0, 4), "the last page touches it");
        assert!(page(4, 9), "the first page touches it");
        assert!(!page(3, 1), "the third time");
        assert_eq!(faults.struck(), 2);
    }

    #[test]
    fn only_missing_bytes_are_overwritten() {
        let faults = Faults::default();
        faults.inject(0..1, 0..1, Mishap::Short(100));
        faults.inject(0..1, 0..2, Mishap::Errno(5));
        let meet = |result| {
            let mut from = None;
            let fate = faults.judge(Op::Read, 0, 4096, Attempt::First);
            (fate.befall_read(result, |byte| from = Some(byte)), from)
        };
        assert_eq!(meet(Ok(4096)), (Ok(3996), Some(3996)), "the first rule decides");
        assert_eq!(meet(Ok(4096)), (Err(5), Some(0)));
        assert_eq!(meet(Ok(4096)), (Ok(4096), None));
    }

    #[test]
    fn rules_of_each_operation_are_apart() {
        let faults = Faults::default();
        faults.inject_writes(0..1, 0..1, Mishap::Short(100));
        faults.inject_writes(0..1, 1..2, Mishap::Errno(5));
        faults.inject_syncs(0..1, Mishap::Errno(6));
        let read = faults.judge(Op::Read, 0, 4096, Attempt::First);
        assert_eq!(read.befall_read(Ok(4096), |_| ()), Ok(4096));
        let write = faults.judge(Op::Write, 0, 4096, Attempt::First);
        assert_eq!((write.of_write(4096), write.befall_write(Ok(3584))), (3584, Ok(3584)));
        let write = faults.judge(Op::Write, 0, 4096, Attempt::First);
        assert_eq!((write.of_write(4096), write.befall_write(Ok(0))), (0, Err(5)));
        faults.inject_lengths(1..2, Mishap::Errno(7));
        assert_eq!((faults.meet_sync(), faults.meet_len_change()), (Err(6), Ok(())));
        assert_eq!((faults.meet_sync(), faults.meet_len_change()), (Ok(()), Err(7)));
    }
}
