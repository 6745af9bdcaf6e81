//! The steps on the path, and the actions of its drivers and disks. Bytes move only between the
//! frames that the path names.

use foreread_core::path::{Fault, FileId, IoPath, WriteId, WriteMode};
use foreread_core::sched::{self, Submitter};
use foreread_core::table::Frame;
use foreread_core::units::{ByteCount, PageIndex};

use super::{Answer, Io, OpenFile, Pin, Reading, SECTOR, Sabotage, Told, What, World, Writing};

impl World {
    pub(super) fn write(&mut self, file: usize, pos: u64, len: u64, mode: WriteMode) {
        let end = self.files[file].history.len as u64;
        if end == 0 {
            return;
        }
        let (pos, stamp) = (pos % end, self.random.next());
        let data = (0..len).map(|at| (stamp >> (at % 7 * 8)) as u8 ^ at as u8).collect();
        let now = self.tick();
        let (pos_, submitter) = (ByteCount(pos), Submitter(file as u32));
        let id = self.path.write(now, self.files[file].id, pos_, ByteCount(len), mode, submitter);
        let what = What::Write { pos: pos as usize, data, mode, promise: None };
        self.begin(file, id, what);
    }

    pub(super) fn flush(&mut self, file: usize, back: bool) {
        let now = self.tick();
        let id = self.files[file].id;
        let snapshot = self.files[file].history.snapshot();
        let id = if back { self.path.write_back(now, id) } else { self.path.flush(now, id) };
        self.begin(file, id, What::Flush { back, snapshot });
    }

    pub(super) fn zero(&mut self, file: usize, start: u64, pages: u64) {
        let end = self.files[file].history.len.div_ceil(4096) as u64;
        let start = start % end.max(1);
        let now = self.tick();
        let range = PageIndex(start)..PageIndex(start + pages);
        let id = self.path.write_zeroes(now, self.files[file].id, range);
        self.begin(file, id, What::Zero { pages: start..(start + pages).min(end) });
    }

    pub(super) fn begin(&mut self, file: usize, write: WriteId, what: What) {
        let id = self.files[file].id;
        let before = self.writes.insert(write, Writing { file, id, what, told: None });
        assert!(before.is_none(), "an id is used once");
    }

    /// Returns true if the file of a write is still the one it was begun on.
    pub(super) fn is_open(&self, file: usize, id: FileId) -> bool {
        self.files[file].id == id
    }

    pub(super) fn drive(&mut self, id: WriteId, fails: bool) {
        let told = self.writes.get_mut(&id).unwrap().told.take().expect("it was told something");
        match told {
            Told::Fill(len) => self.fill(id, len),
            Told::Act => self.do_act(id, fails),
            Told::SetLen(len) => self.do_set_len(id, len, fails),
        }
    }

    fn fill(&mut self, id: WriteId, len: u64) {
        let Writing { file, id: file_id, ref what, .. } = self.writes[&id];
        let What::Write { pos, ref data, .. } = *what else { panic!("only a write is filled") };
        let data = data[..len as usize].to_vec();
        let is_open = self.is_open(file, file_id);
        let file_len = self.files[file].history.len;
        for fill in self.path.fills(id).to_vec() {
            let start = fill.page.0 as usize * 4096;
            let mut bytes = vec![0; 4096];
            if let Some(old) = fill.old {
                bytes.clone_from(&self.memory[old.0 as usize]);
                let kept = self.files[file].history.now(start, 4096);
                assert!(!is_open || bytes.starts_with(&kept), "old bytes that are not the newest");
                let old_len = fill.old_len as usize;
                assert!(!is_open || old_len == kept.len(), "{old_len} bytes that are the file's");
                bytes[old_len..].fill(0);
            } else {
                let end = (start + 4096).min(file_len);
                let is_whole = pos <= start && pos + data.len() >= end;
                assert!(is_whole || !is_open, "a partial page without its old bytes");
            }
            let (from, to) = (start.max(pos), (start + 4096).min(pos + data.len()));
            bytes[from - start..to - start].copy_from_slice(&data[from - pos..to - pos]);
            match fill.old.filter(|_| self.sabotage == Sabotage::InPlace) {
                Some(old) => {
                    // A disk that reads in the middle of the copy sees half of it.
                    for half in (0..4096).step_by(SECTOR) {
                        self.memory[old.0 as usize][half..half + SECTOR / 2]
                            .copy_from_slice(&bytes[half..half + SECTOR / 2]);
                    }
                    self.memory[fill.new.0 as usize] = bytes;
                }
                None => self.memory[fill.new.0 as usize] = bytes,
            }
        }
        let now = self.tick();
        self.path.filled(now, id);
        if is_open {
            let history = &mut self.files[file].history;
            history.write(self.now, pos, &data);
            // All sectors count, but only its own will have been changed since.
            let mut done = vec![0; history.sectors()];
            let latest = history.snapshot();
            let own = pos / SECTOR..(pos + data.len()).div_ceil(SECTOR);
            done[own.clone()].copy_from_slice(&latest[own]);
            if let What::Write { promise, .. } = &mut self.writes.get_mut(&id).unwrap().what {
                *promise = Some(done);
            }
        }
    }

    fn do_act(&mut self, id: WriteId, fails: bool) {
        let Writing { file, id: file_id, ref what, .. } = self.writes[&id];
        let (device, start) = (self.files[file].device, self.files[file].start);
        let result = if fails { Err(5) } else { Ok(()) };
        self.faults += usize::from(fails);
        match what {
            // The driver knows if the file has been closed in the meantime.
            What::Zero { .. } if !fails && self.is_open(file, file_id) => {
                let range = self.path.act_range(id);
                let (from, end) = (range.start.0 as usize, range.end.0 as usize);
                assert!(end <= self.files[file].history.len, "zeros behind the end");
                self.files[file].history.write(self.now + 1, from, &vec![0; end - from]);
                let disk = &mut self.devices[device].disk;
                for at in (from..end).step_by(SECTOR) {
                    let zeros = vec![0; (end - at).min(SECTOR)];
                    disk.write((start + at) / SECTOR, &zeros, false);
                }
            }
            What::Flush { .. } if !fails && self.sabotage != Sabotage::NoFlush => {
                self.devices[device].disk.flush();
            }
            What::Zero { .. } | What::Flush { .. } => {}
            What::Write { .. } | What::ChangeLen => panic!("it does not act"),
        }
        let now = self.tick();
        self.path.acted(now, id, result);
    }

    /// A reader reads: hits from the table, the rest through the path.
    pub(super) fn read(&mut self, file: usize, pos: u64, len: u64) {
        let OpenFile { id, stream, ref history, .. } = self.files[file];
        if history.len == 0 {
            return;
        }
        let mut at = pos as usize % history.len;
        let end = (at + len as usize).min(history.len);
        while at < end {
            let table = self.path.table();
            let page = PageIndex(at as u64 / 4096);
            let Some(found) = table.look_up(IoPath::slot(id), page) else { break };
            if !found.entry().is_up_to_date() {
                break;
            }
            let next = ((page.0 as usize + 1) * 4096).min(end);
            let bytes = &self.memory[found.entry().frame().0 as usize];
            let hit = &bytes[at % 4096..][..next - at];
            assert!(self.files[file].history.now(at, next - at) == hit, "a hit with old bytes");
            found.touch(false);
            at = next;
        }
        if at < end {
            let now = self.tick();
            let len = end - at;
            let (pos_, len_) = (ByteCount(at as u64), ByteCount(len as u64));
            let read = self.path.read(now, stream, pos_, len_, None);
            let (since, was_short) = (self.now, false);
            self.reads.insert(read, Reading { file, id, pos: at, len, since, was_short });
        }
    }

    pub(super) fn release(&mut self, which: usize) {
        let id = self.ready.swap_remove(which);
        let now = self.tick();
        self.path.release(now, id);
    }

    pub(super) fn complete(&mut self, tag: foreread_core::path::Tag, answer: Answer) {
        let io = self.in_flight.remove(&tag).unwrap();
        let is_bad = |page: &(usize, usize)| {
            page.0 == io.device && io.offset < page.1 + 4096 && page.1 < io.offset + io.len
        };
        let answer = if self.bad.iter().any(is_bad) { Answer::Failed } else { answer };
        // A kernel checks the length of the file when the read begins.
        let readable = match io.op {
            sched::Op::Read => self.readable(&io).min(io.early.len()),
            sched::Op::Write => io.len,
        };
        let moved = match answer {
            Answer::Good => readable,
            Answer::Short(part) => {
                for read in self.reads.values_mut() {
                    read.was_short |= self.files[read.file].device == io.device;
                }
                ((io.len as u64 * (part % 64) / 64) as usize / SECTOR * SECTOR).min(readable)
            }
            // A failed write may have been partly done.
            Answer::Failed => {
                (self.random.below(io.len as u64 + 1) as usize / SECTOR * SECTOR).min(readable)
            }
        };
        self.faults += usize::from(!matches!(answer, Answer::Good));
        match io.op {
            sched::Op::Read => self.move_in(&io, moved),
            sched::Op::Write => self.move_out(&io, moved),
        }
        let result = match answer {
            Answer::Failed => Err(5),
            Answer::Good | Answer::Short(_) => Ok(ByteCount(moved as u64)),
        };
        let now = self.tick();
        self.path.complete(now, tag, result);
    }

    /// Copies from the disk to the frames: each sector as it was at some time. The rest of the last
    /// page is zeroed.
    fn move_in(&mut self, io: &Io, moved: usize) {
        if !moved.is_multiple_of(4096) {
            self.memory[io.frames[moved / 4096].0 as usize][moved % 4096..].fill(0);
        }
        let late = self.devices[io.device].disk.read(io.offset, io.len);
        for at in (0..moved).step_by(SECTOR) {
            let end = (at + SECTOR).min(moved);
            let from = if self.random.once_in(2) { &late } else { &io.early };
            self.memory[io.frames[at / 4096].0 as usize][at % 4096..][..end - at]
                .copy_from_slice(&from[at..end]);
        }
    }

    /// Copies from the frames to the disk in the same way.
    fn move_out(&mut self, io: &Io, moved: usize) {
        for at in (0..moved).step_by(SECTOR) {
            let end = (at + SECTOR).min(moved);
            let bytes = self.outgoing(io, at, end);
            let fua = io.fua && self.sabotage != Sabotage::NoFua;
            self.devices[io.device].disk.write((io.offset + at) / SECTOR, &bytes, fua);
        }
    }

    /// Returns a sector of a write in flight.
    pub(super) fn outgoing(&mut self, io: &Io, at: usize, end: usize) -> Vec<u8> {
        if self.random.once_in(2) {
            return io.early[at..end].to_vec();
        }
        self.memory[io.frames[at / 4096].0 as usize][at % 4096..][..end - at].to_vec()
    }

    /// Returns the contents of a write's frames, in order.
    pub(super) fn gather(&self, frames: &[Frame], len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            frames.iter().flat_map(|frame| self.memory[frame.0 as usize].iter().copied()).collect();
        bytes.truncate(len);
        bytes
    }

    pub(super) fn invalidate(&mut self, file: usize, start: u64, pages: u64) {
        let OpenFile { id, history, .. } = &self.files[file];
        let start = start % (history.len as u64 / 4096 + 1);
        let id = *id;
        let now = self.tick();
        self.path.invalidate(now, id, PageIndex(start)..PageIndex(start + pages));
    }

    /// Closes a file, even under reads and writes, and opens it again with the contents of its
    /// disk.
    pub(super) fn reopen(&mut self, file: usize) {
        let OpenFile { id, device, start, room, ref history, .. } = self.files[file];
        let len = history.len;
        // Requests in flight to the disk have to end before it is read again.
        while let Some(tag) = self.flying_to(device) {
            self.complete(tag, Answer::Good);
            self.pump();
        }
        let now = self.tick();
        self.path.close(now, id);
        while let Some(tag) = self.flying_to(device) {
            self.complete(tag, Answer::Good);
            self.pump();
        }
        self.faults += 1;
        self.files[file] = self.open(device, start, len, room);
    }

    fn flying_to(&self, device: usize) -> Option<foreread_core::path::Tag> {
        self.in_flight.iter().find(|(_, io)| io.device == device).map(|(tag, _)| *tag)
    }

    pub(super) fn pin(&mut self, file: usize, page: u64) {
        let OpenFile { id, history, .. } = &self.files[file];
        let page = PageIndex(page % (history.len as u64 / 4096 + 1));
        let table = self.path.table();
        let Some(found) = table.look_up(IoPath::slot(*id), page) else { return };
        if table.pin_budget().try_take(1) == 1 {
            if table.pin(&found) {
                let (frame, generation) = (found.entry().frame(), found.entry().generation());
                let bytes = self.memory[frame.0 as usize].clone();
                self.pins.push(Pin { frame, generation, bytes });
            } else {
                table.pin_budget().give_back(1);
            }
        }
    }

    pub(super) fn unpin(&mut self, which: usize) {
        let Pin { frame, generation, .. } = self.pins.swap_remove(which);
        let table = self.path.table();
        if table.unpin(frame, generation) {
            self.unpinned.push(frame);
        } else {
            table.pin_budget().give_back(1);
        }
        if self.random.once_in(2) {
            self.report();
        }
    }

    pub(super) fn report(&mut self) {
        if let Some(frame) = self.unpinned.pop() {
            let now = self.tick();
            self.path.unpinned(now, frame);
            self.path.table().pin_budget().give_back(1);
        }
    }

    /// A failed zero may have been partly done: takes these pages as they are now.
    fn observe(&mut self, file: usize, pages: std::ops::Range<u64>) {
        for page in pages {
            let OpenFile { id, device, start, ref history, .. } = self.files[file];
            let at = page as usize * 4096;
            let len = 4096.min(history.len.saturating_sub(at));
            let table = self.path.table();
            let found = table.look_up(IoPath::slot(id), PageIndex(page));
            let bytes = match found.filter(|found| found.entry().is_up_to_date()) {
                Some(found) => self.memory[found.entry().frame().0 as usize][..len].to_vec(),
                None => self.devices[device].disk.read(start + at, len),
            };
            if len > 0 && history.now(at, len) != bytes {
                self.files[file].history.write(self.now + 1, at, &bytes);
            }
        }
    }

    /// Checks the end of a write and its result.
    pub(super) fn done(&mut self, id: WriteId, len: u64, fault: Option<Fault>) {
        let Writing { file, id: file_id, what, told } = self.writes.remove(&id).expect("once");
        assert!(told.is_none(), "over before its driver was");
        assert!(fault.is_none() || self.faults > 0, "an error out of nothing");
        if let (Some(_), What::Zero { pages }) = (fault, &what)
            && self.is_open(file, file_id)
        {
            self.observe(file, pages.clone());
        }
        if fault.is_some() || !self.is_open(file, file_id) {
            return;
        }
        match what {
            What::Write { pos, mode, promise, .. } => {
                if len == 0 {
                    // The file was cut while it waited.
                    assert!(promise.is_none(), "what was filled is written");
                    return;
                }
                let promise = promise.expect("what is written was filled");
                if mode == WriteMode::Fua {
                    self.files[file].history.promise(&promise);
                }
                if mode != WriteMode::WriteBack {
                    self.on_disk(file, pos, len as usize, &promise);
                }
            }
            What::Zero { .. } => {}
            What::ChangeLen => {
                let was = self.files[file].history.had_just(len as usize);
                assert!(was, "{len} is not the length before");
            }
            What::Flush { back, snapshot } => {
                self.on_disk(file, 0, self.files[file].history.len, &snapshot);
                if !back {
                    self.files[file].history.promise(&snapshot);
                }
            }
        }
    }
}
