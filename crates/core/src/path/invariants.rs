//! Invariants between the parts of a path, which hold after each call.

use super::IoPath;

/// # Invariants
impl IoPath {
    /// Checks that the parts of the path agree: frames, reads, requests, dirty pages, memory
    /// shares. Visits every frame; for tests.
    ///
    /// # Panics
    ///
    /// If they do not agree, which is a bug of the path.
    pub fn assert_consistent(&self) {
        self.assert_in_flight();
        self.read_path.assert_consistent();
        self.writeback.assert_consistent(&self.read_path);
    }

    /// Checks the invariants whose cost is proportional to the reads, writes and requests in
    /// flight. Debug builds run it after each call that changes the path.
    pub(super) fn assert_in_flight(&self) {
        self.read_path.devices.assert_in_flight();
        self.writeback.assert_budget();
        let waits = self.read_path.reads.waits() + self.writeback.frame_waits();
        let noted = self.read_path.page_in.waiters.count();
        assert!(waits == noted, "reads and writes wait for {waits} frames, and {noted} are noted");
    }
}
