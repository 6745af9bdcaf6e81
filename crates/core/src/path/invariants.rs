//! What holds between the parts of a path after each call.
//!
//! In:    a path.
//! Out:   a panic that names the first invariant that does not hold.
//! Never: a change.

use super::IoPath;

/// # Invariants
impl IoPath {
    /// Checks that the parts of the path agree: frames, reads, requests, dirty pages, shares of the
    /// memory. Looks at each frame; for tests.
    ///
    /// # Panics
    ///
    /// If they do not: then the path has a bug.
    pub fn assert_consistent(&self) {
        self.assert_in_flight();
        self.read_path.assert_consistent();
        self.writeback.assert_consistent(&self.read_path);
    }

    /// The part of it that takes as many steps as there are reads, writes and requests in flight:
    /// debug builds do it after each call that changes something.
    pub(super) fn assert_in_flight(&self) {
        self.read_path.devices.assert_in_flight();
        self.writeback.assert_budget();
        let waits = self.read_path.reads.waits() + self.writeback.frame_waits();
        let noted = self.read_path.page_in.waiters.count();
        assert!(waits == noted, "reads and writes wait for {waits} frames, and {noted} are noted");
    }
}
