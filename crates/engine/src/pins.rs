//! Pinned frames, and the permits to pin that a stream has in hand, of the engine's budget.
//!
//! In:    pins that begin and end.
//! Out:   whether one more page may be pinned.
//! Never: more pins than the budget has; a permit kept by a stream that has ended.

use std::cell::Cell;

use foreread_core::table::{Frame, Generation, PageTable};

use crate::driver_queue::DriverEvent;
use crate::engine_state::EngineState;

/// A frame that is pinned, and the life in which it was.
#[derive(Clone, Copy, Debug)]
#[must_use = "a pin without an owner never ends"]
pub(crate) struct PinnedFrame {
    pub(crate) frame: Frame,
    pub(crate) generation: Generation,
}

impl PinnedFrame {
    /// Ends the pin. Its permit goes back after this, not before.
    #[inline]
    pub(crate) fn unpin(self, engine: &EngineState) {
        if engine.table.unpin(self.frame, self.generation) {
            engine.post([DriverEvent::Unpinned(self.frame)]);
        }
    }
}

/// Pins that a stream has in hand.
///
/// They are taken from the engine's budget a batch at a time, because that is shared by all
/// threads and a pin costs no more than ten nanoseconds. A stream whose last pin has ended keeps
/// one, so that streams which pin a page at a time ask once, and idle ones do not use the budget
/// up.
#[derive(Debug, Default)]
pub(crate) struct PinsInHand {
    left: Cell<u64>,
    /// How many are pins at the moment.
    used: Cell<u64>,
}

impl PinsInHand {
    #[inline]
    pub(crate) fn take_one(&self, table: &PageTable) -> bool {
        if self.left.get() == 0 {
            self.left.set(table.pin_budget().try_take(BATCH));
        }
        let Some(left) = self.left.get().checked_sub(1) else { return false };
        self.left.set(left);
        self.used.set(self.used.get() + 1);
        debug_assert!(self.left.get() < 2 * BATCH + 1, "a stream has few pins in hand");
        true
    }

    #[inline]
    pub(crate) fn put_back(&self, table: &PageTable) {
        self.left.set(self.left.get() + 1);
        self.used.set(self.used.get() - 1);
        self.keep_few(table);
    }

    /// The permit of a pin goes to an owner that is not of this stream, and gives it back to the
    /// budget itself.
    pub(crate) fn hand_over(&self, table: &PageTable) {
        self.used.set(self.used.get() - 1);
        self.keep_few(table);
    }

    #[inline]
    fn keep_few(&self, table: &PageTable) {
        let keep = if self.used.get() == 0 { 1 } else { 2 * BATCH };
        if self.left.get() > keep {
            let keep = keep.min(BATCH);
            table.pin_budget().give_back(self.left.get() - keep);
            self.left.set(keep);
        }
    }

    /// The permit of a pin comes from such an owner.
    pub(crate) fn take_over(&self) {
        self.used.set(self.used.get() + 1);
    }

    /// The stream ends, and so have its pins.
    pub(crate) fn give_back(&self, table: &PageTable) {
        debug_assert_eq!(self.used.get(), 0, "a pin borrows its stream");
        table.pin_budget().give_back(self.left.take());
    }
}

/// How many pins a stream takes at a time: sixteen pages, a reply of 64 KiB.
const BATCH: u64 = 16;
