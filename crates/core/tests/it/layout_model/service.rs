//! The devices of the world: they complete requests, and drain them at the end.

use super::*;

impl World {
    /// Polls everything that the path returns.
    pub(super) fn pump(&mut self) {
        let now = self.tick();
        while let Some(io) = self.path.poll_dispatch(now) {
            assert_eq!((io.offset.0 % 512, io.len.0 % 512), (0, 0));
            assert!(io.len > ByteCount(0) && io.len <= MAX_IO.bytes());
            let (start, count) = (io.offset.0 / 512, io.len.0 / 512);
            let is_named = |sector| self.named.contains(&sector);
            assert!((start..start + count).all(is_named), "a sector of no extent");
            self.asked.push((io.offset, io.len));
            self.in_flight.push((io.tag, start, count));
            assert!(self.in_flight.len() <= 4, "too many at a time");
        }
        while let Some(ready) = self.path.poll_ready() {
            let read = self.pending.remove(&ready.id).expect("a read ends once");
            self.ended += 1;
            assert!(ready.len.0 > 0 || read.is_closed);
            match ready.fault {
                None => {
                    let frames = self.path.frames(ready.id);
                    self.check(read.file, read.pos..read.pos + ready.len.0, frames);
                }
                Some(fault) => self.faults.push(fault),
            }
            self.ready.push((ready.id, read.stream));
        }
        assert!(self.faults.is_empty() || self.failures > 0, "an error out of nothing");
    }

    /// Completes everything in flight successfully.
    pub(crate) fn settle(&mut self) {
        while !(self.in_flight.is_empty() && self.ready.is_empty()) || self.path.has_holes() {
            if self.in_flight.is_empty() {
                self.fill_holes();
            } else {
                self.complete(0, Answer::Good);
            }
            self.pump();
            while !self.ready.is_empty() {
                self.release(0);
                self.pump();
            }
        }
    }

    /// Checks at the end that no read hangs and no frame is lost.
    pub(crate) fn finish(&mut self) {
        self.settle();
        assert!(self.pending.is_empty(), "{} reads hang", self.pending.len());
        assert_eq!(self.path.idle_frames(), u64::from(self.path.frame_count()), "a frame is lost");
        for file in 0..self.files.len() {
            for page in 0..self.files[file].len.div_ceil(4096) {
                let (table, slot) = (self.path.table(), IoPath::slot(self.files[file].id));
                let Some(found) = table.look_up(slot, PageIndex(page)) else { continue };
                assert!(found.entry().is_up_to_date(), "a page is left on its way");
                let end = ((page + 1) * 4096).min(self.files[file].len);
                self.check(file, page * 4096..end, &[found.entry().frame()]);
            }
        }
        let log = self.path.take_log();
        if let Err(mismatch) = replay(self.path.config(), &log) {
            panic!("{mismatch}");
        }
    }
}
