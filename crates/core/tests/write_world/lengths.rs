//! Changes of length: requested, executed by a driver as a file system would, and compared with a
//! plain model.

use foreread_core::path::{LenChange, WriteId};
use foreread_core::sched;
use foreread_core::units::ByteCount;

use super::{Io, OpenFile, SECTOR, Told, What, World, Writing};

impl World {
    pub(super) fn change_len(&mut self, file: usize, how: u64, len: u64) {
        let OpenFile { id, room, ref history, .. } = self.files[file];
        let any = ByteCount(len % (room as u64 + 1));
        let near = ByteCount((history.len as u64).saturating_sub(len % 9000));
        let change = match how % 5 {
            0 => LenChange::Exact(any),
            1 => LenChange::Exact(near),
            2 => LenChange::AtLeast(any),
            3 => LenChange::Append(ByteCount(len % 20_000)),
            _ => LenChange::Append(ByteCount(len)),
        };
        // This exceeds the largest file.
        self.faults += usize::from(matches!(change, LenChange::Append(more) if more.0 > 1 << 62));
        let now = self.tick();
        let id = self.path.change_len(now, id, change);
        self.begin(file, id, What::ChangeLen);
    }

    /// Cancels a change of length, if its driver has nothing to do.
    pub(super) fn cancel(&mut self, which: usize) {
        let waits = |it: &Writing| matches!(it.what, What::ChangeLen) && it.told.is_none();
        let waiting: Vec<_> =
            self.writes.iter().filter(|(_, it)| waits(it)).map(|(&id, _)| id).collect();
        if !waiting.is_empty() {
            self.faults += 1;
            let now = self.tick();
            self.path.cancel_write(now, waiting[which % waiting.len()]);
        }
    }

    /// Checks, when the driver is told to change a length, that no write is in flight behind the
    /// new end or to the page there.
    pub(super) fn may_set_len(&mut self, id: WriteId, len: usize) {
        let Writing { file, id: file_id, .. } = self.writes[&id];
        if !self.is_open(file, file_id) {
            return;
        }
        let OpenFile { device, start, room, ref history, .. } = self.files[file];
        assert!(len != history.len, "a length that is right is not changed");
        let behind = start + len / 4096 * 4096;
        let is_there = |io: &Io| {
            io.device == device && io.offset < start + room && behind < io.offset + io.len
        };
        let mut writes = self.in_flight.values().filter(|io| io.op == sched::Op::Write);
        assert!(len > history.len || !writes.any(is_there), "a cut beside a write");
        self.files[file].history.begin_set_len(len);
    }

    /// Checks that a write ends within its file, and before each end that is being set.
    pub(super) fn may_reach(&self, io: &Io) {
        let is_its = |file: &&OpenFile| {
            file.device == io.device && (file.start..file.start + file.room).contains(&io.offset)
        };
        let file = self.files.iter().find(is_its).expect("a write is of a file");
        let end = (io.offset + io.len).saturating_sub(file.start);
        assert!(end <= file.history.len, "a write behind the end");
        for write in self.writes.values().filter(|it| it.id == file.id) {
            if let Some(Told::SetLen(len)) = write.told {
                let kept = if len < file.history.len { len / 4096 * 4096 } else { usize::MAX };
                assert!(end <= kept, "a write behind an end that is being set");
            }
        }
    }

    pub(super) fn do_set_len(&mut self, id: WriteId, len: usize, fails: bool) {
        let Writing { file, id: file_id, .. } = self.writes[&id];
        let OpenFile { device, start, room, .. } = self.files[file];
        let before = self.files[file].history.len;
        let now = self.tick();
        let result = if fails {
            Err(5)
        } else if len > room {
            Err(28)
        } else {
            Ok(())
        };
        self.faults += usize::from(result.is_err());
        if self.is_open(file, file_id) {
            self.files[file].history.end_set_len(self.now);
        }
        if result.is_ok() && self.is_open(file, file_id) {
            self.files[file].history.set_len(self.now, len);
            // As in a file system: bytes cut off are gone, and added ones are zeros.
            let mut at = before.min(len);
            while at < before.max(len) {
                let end = (at / SECTOR * SECTOR + SECTOR).min(before.max(len));
                let sector = (start + at) / SECTOR;
                let disk = &mut self.devices[device].disk;
                let mut bytes = disk.sector(sector)[..at % SECTOR].to_vec();
                bytes.resize(at % SECTOR + end - at, 0);
                disk.write(sector, &bytes, false);
                at = end;
            }
        }
        if self.random.once_in(8) && result.is_err() {
            self.path.not_acted(now, id, 110);
        } else {
            self.path.acted(now, id, result);
        }
    }

    /// Returns the number of bytes of a read that its disk has now: a file cut in the meantime ends
    /// earlier.
    pub(super) fn readable(&self, io: &Io) -> usize {
        let end = |file: &OpenFile| file.start + file.history.len;
        let files = self.files.iter().filter(|file| file.device == io.device);
        let file = files.rev().find(|file| file.start <= io.offset).expect("the first starts at 0");
        end(file).saturating_sub(io.offset).min(io.len)
    }
}
