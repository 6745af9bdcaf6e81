//! The dirty budget: counts the frames that writes hold (dirty, being filled, being written), and
//! queues writes that exceed it.

use alloc::collections::VecDeque;

use super::dirty_pages::DIRTY_DENOM;
use crate::ids::WriteId;

/// Budget of the frames that writes may hold.
///
/// ```text
///   all frames   |-- pinned --|-- writes --|------------- reads ------------|
///                   a quarter   a quarter, or the configured limit
/// ```
#[derive(Debug)]
pub(crate) struct DirtyBudget {
    used: u64,
    limit: u64,
    most: u64,
    /// Writes that wait for budget, first come, first served.
    pub(super) line: VecDeque<WriteId>,
}

impl DirtyBudget {
    pub(crate) fn new(frames: u32) -> Self {
        let most = u64::from(frames) / DIRTY_DENOM;
        assert!(most >= LEAST_LIMIT, "a quarter of {frames} frames is too small for writes");
        Self { used: 0, limit: most, most, line: VecDeque::new() }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: u64) {
        self.limit = limit.clamp(LEAST_LIMIT, self.most.max(LEAST_LIMIT));
        assert!(self.limit >= LEAST_LIMIT, "a write of one page fits the limit");
    }

    /// Returns the first write in the line.
    pub(super) fn first(&self) -> Option<WriteId> {
        self.line.front().copied()
    }

    /// Removes a write from the line.
    pub(super) fn leave_line(&mut self, id: WriteId) {
        self.line.retain(|&other| other != id);
    }

    /// Takes budget for a page that becomes dirty again, ahead of the line, but for what is
    /// `reserved` for the line.
    pub(super) fn take_one(&mut self, reserved: u64) -> bool {
        let fits = self.used.saturating_add(reserved) < self.limit;
        self.used += u64::from(fits);
        assert!(!fits || self.used <= self.limit, "pages that are dirty again keep to the limit");
        fits
    }

    pub(super) fn take(&mut self, pages: u64) -> bool {
        assert!(pages > 0, "a write needs at least one frame");
        // The limit may have been lowered below the size of a write that was cut to the old one.
        let fits = self.used + pages <= self.limit || self.used == 0;
        if fits {
            self.used += pages;
        }
        fits
    }

    pub(super) fn release(&mut self, pages: u64) {
        self.used = self.used.checked_sub(pages).expect("budget that is given back was taken");
    }
}

/// The smallest limit: a write of one page, its old page, and some more in flight.
pub(super) const LEAST_LIMIT: u64 = 8;
