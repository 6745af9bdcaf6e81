//! Pages that do not come with one request: holes, and pages whose parts lie in several places.
//!
//! In:    the parts that a page is made of; what became of each.
//! Out:   zeros for the driver to write; the page, when all of it is there.
//! Never: a page that is partly there. More than there are frames: each page here is being filled.
//!
//! ```text
//!   page     |== b ==|== c ==|....... 0 .......|        three parts, of which two are read
//!   left        3       2            1       0          it is up to date, or it failed
//! ```

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::job::{PageFill, PageRun};
use super::{DeviceId, Fault, IoPath};
use crate::cache::Filling;
use crate::replay::{PathCall, PathOutput};
use crate::sched::Origin;
use crate::table::Frame;
use crate::units::{Nanos, Sector};

#[derive(Debug, Default)]
pub(super) struct PartialFills {
    /// Pages of which more than one part is to come.
    pages: BTreeMap<Frame, PartialFill>,
    /// What is to be zeros.
    holes: VecDeque<PageFill>,
}

/// A page of which some parts are on their way.
#[derive(Debug)]
struct PartialFill {
    left: usize,
    /// The fault of a part that is not tried again: a caller waited, or its device is gone.
    fault: Option<Fault>,
    /// Parts that failed while no caller waited.
    failed: Vec<FailedPart>,
}

#[derive(Debug)]
struct FailedPart {
    device: DeviceId,
    origin: Origin,
    run: PageRun,
    fault: Fault,
}

impl PartialFills {
    /// A page comes in so many parts; the last that ends gives the fill back.
    pub(super) fn begin(&mut self, filling: &Filling, parts: usize) {
        assert!(parts > 0, "a page has something");
        if parts > 1 {
            let coming = PartialFill { left: parts, fault: None, failed: Vec::new() };
            let before = self.pages.insert(filling.frame(), coming);
            assert!(before.is_none(), "a frame is filled by one page at a time");
        }
    }

    pub(super) fn add_hole(&mut self, fill: PageFill) {
        self.holes.push_back(fill);
    }
}

impl IoPath {
    /// Whether [`Self::fill_holes`] has anything to do.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        !self.parts.holes.is_empty()
    }

    /// Has the driver write zeros into all that is to be zeros: the bytes of a frame that a file
    /// [in pieces](Self::open_layout) has nowhere. No device is asked for them. Reads may be ready
    /// afterwards.
    ///
    /// To be called after whatever may begin to read, wherever there are such files; without them
    /// it does nothing.
    pub fn fill_holes(&mut self, now: Nanos, mut zero: impl FnMut(Frame, Range<usize>)) {
        if !self.has_holes() {
            return;
        }
        self.log().did(|| PathCall::FillHoles { now });
        while self.has_holes() {
            while let Some(fill) = self.parts.holes.pop_front() {
                let (frame, bytes) = (fill.filling.frame(), fill.part.bytes());
                zero(frame, bytes.clone());
                self.log().gave(|| PathOutput::Hole { frame, bytes });
                self.end_fill(now, fill);
            }
            // What waited for frames may want more of it.
            self.admit(now);
        }
    }

    /// A page, or a part of one, is there.
    pub(super) fn end_fill(&mut self, now: Nanos, fill: PageFill) {
        let PageFill { filling, part, .. } = fill;
        if part.is_whole() {
            self.have_page(filling);
        } else {
            self.end_part(now, filling, |_| {});
        }
    }

    /// A page, or a part of one, has failed.
    ///
    /// ```text
    ///   whole        its waiters get the fault
    ///   a part       a caller waits      it gets the fault, once all other parts have ended
    ///                no caller waits     ... and then one does: this part is asked for again
    ///                                    ... and still none does: the page is dropped
    /// ```
    pub(super) fn fail_fill(
        &mut self,
        now: Nanos,
        (device, origin, start): (DeviceId, Origin, Sector),
        fill: PageFill,
        fault: Fault,
    ) {
        let frame = fill.filling.frame();
        if !self.parts.pages.contains_key(&frame) {
            self.fail(fill.filling, fault);
            return;
        }
        let is_last_word = self.waiters.is_waited_for(frame) || self.devices.get(device).is_none();
        self.end_part(now, fill.filling.part(), |coming| {
            if is_last_word {
                coming.fault = coming.fault.or(Some(fault));
            } else {
                coming.failed.push(FailedPart {
                    device,
                    origin,
                    run: PageRun::again(start, fill),
                    fault,
                });
            }
        });
    }

    /// One more part of a page has ended; one that comes alone is all that its page has.
    fn end_part(&mut self, now: Nanos, filling: Filling, note: impl FnOnce(&mut PartialFill)) {
        let frame = filling.frame();
        let Some(coming) = self.parts.pages.get_mut(&frame) else {
            self.have_page(filling);
            return;
        };
        note(coming);
        coming.left -= 1;
        if coming.left > 0 {
            return;
        }
        let PartialFill { fault, failed, .. } =
            self.parts.pages.remove(&frame).expect("it was just there");
        let is_there = |failed: &FailedPart| self.devices.get(failed.device).is_some();
        let may_try_again = self.waiters.is_waited_for(frame) && failed.iter().all(is_there);
        match fault.or(failed.first().map(|failed| failed.fault)) {
            None => self.have_page(filling),
            Some(_) if fault.is_none() && may_try_again => {
                self.parts.begin(&filling, failed.len());
                for FailedPart { device, origin, run, .. } in failed {
                    self.try_again(now, device, origin, run);
                    // The last part may be a hole, whose end puts no device in line.
                    self.note_busy(device);
                }
            }
            Some(fault) => self.fail(filling, fault),
        }
    }

    fn have_page(&mut self, filling: Filling) {
        let frame = filling.frame();
        self.cache.filled(filling);
        self.wake(frame, None);
    }
}
