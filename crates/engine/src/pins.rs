//! Pinned frames, and the permits that a stream holds from the engine's pin budget.

use std::cell::Cell;

use foreread_core::table::{Frame, Generation, PageTable};

use crate::driver_queue::DriverEvent;
use crate::engine_state::EngineState;

/// A pinned frame, and the generation in which it was pinned.
#[derive(Clone, Copy, Debug)]
#[must_use = "a pin without an owner never ends"]
pub(crate) struct PinnedFrame {
    pub(crate) frame: Frame,
    pub(crate) generation: Generation,
}

impl PinnedFrame {
    /// Ends the pin. Return its permit after this call, not before.
    #[inline]
    pub(crate) fn unpin(self, engine: &EngineState) {
        if engine.table.unpin(self.frame, self.generation) {
            engine.post([DriverEvent::Unpinned(self.frame)]);
        }
    }
}

/// Permits that a stream holds.
///
/// A stream takes permits in batches, because all threads share the engine's budget and a pin costs
/// at most ten nanoseconds. A stream without pins keeps one permit, so that a stream that pins
/// single pages touches the budget only once, and idle streams do not exhaust it.
#[derive(Debug, Default)]
pub(crate) struct PinsInHand {
    left: Cell<u64>,
    /// Number of permits in use.
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

    /// Hands the permit of a pin to an owner outside this stream, which returns it to the budget.
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

    /// Takes over the permit of a pin from an owner outside this stream.
    pub(crate) fn take_over(&self) {
        self.used.set(self.used.get() + 1);
    }

    /// Returns all permits when the stream ends; its pins have ended before.
    pub(crate) fn give_back(&self, table: &PageTable) {
        debug_assert_eq!(self.used.get(), 0, "a pin borrows its stream");
        table.pin_budget().give_back(self.left.take());
    }
}

/// Permits per batch: sixteen pages, a reply of 64 KiB.
const BATCH: u64 = 16;
