//! Invariants of the world, after each step and at its end: frames, pins and reads, and the replay
//! of the log.

use super::*;

impl World {
    pub(crate) fn check(&self) {
        self.path.assert_consistent();
        self.check_budget();
        assert_eq!(self.started, self.ended + self.pending.len());
        assert!(self.faults == 0 || self.failures + self.cuts > 0, "an error out of nothing");
        for (frame, _, page) in &self.pins {
            assert_eq!(self.written.get(frame), Some(page), "a pinned page changed");
        }
        for file in &self.files {
            let slot = IoPath::slot(file.id);
            for page in 0..file.longest.div_ceil(4096) {
                let table = self.path.table();
                let Some(found) = table.look_up(slot, PageIndex(page)) else { continue };
                assert!(page * 4096 < file.len, "a page behind the end");
                if found.entry().is_up_to_date() {
                    assert_eq!(self.written[&found.entry().frame()], (file.id, page));
                }
            }
        }
    }

    /// Completes everything successfully, and checks that no read hangs and no frame is lost.
    pub(crate) fn finish(&mut self) {
        // Each round ends a request or a read, so the loop terminates unless a read hangs.
        while let Some(tag) = self.in_flight.keys().next().copied() {
            self.complete(tag, Answer::Good);
            self.pump();
            while !self.ready.is_empty() {
                self.release(0);
                self.pump();
            }
        }
        while !self.ready.is_empty() {
            self.release(0);
            self.pump();
        }
        if !self.in_flight.is_empty() {
            return self.finish();
        }
        assert!(self.pending.is_empty(), "{} reads hang", self.pending.len());
        self.check_log();
        while !self.pins.is_empty() {
            self.unpin(0);
        }
        while !self.unpinned.is_empty() {
            self.report();
        }
        assert_eq!(self.path.table().pin_budget().granted(), 0);
        assert_eq!(self.path.idle_frames(), u64::from(self.path.frame_count()), "a frame is lost");
        self.check();
    }

    /// Checks that all outputs of the path follow from its inputs.
    pub(super) fn check_log(&mut self) {
        self.log.extend(self.path.take_log());
        if let Err(mismatch) = replay(self.path.config(), &self.log) {
            panic!("{mismatch}");
        }
    }
}
