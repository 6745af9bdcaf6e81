//! Checks after each step, at the end, and after a power cut.

use foreread_core::path::{Fault, IoPath, WriteId, WriteStep};
use foreread_core::replay::replay;
use foreread_core::sched;
use foreread_core::units::{PageIndex, Pages};

use super::{Answer, Io, SECTOR, Told, What, World};

impl World {
    /// Polls everything that the path returns.
    pub(super) fn pump(&mut self) {
        let now = self.tick();
        while let Some(io) = self.path.poll_dispatch(now) {
            let device = self.devices.iter().position(|device| device.id == io.device).unwrap();
            let frames: Vec<_> = self.path.io_frames(io.tag).collect();
            let (offset, len) = (io.offset.0 as usize, io.len.0 as usize);
            assert_eq!(self.path.io_len(io.tag), io.len);
            assert_eq!(frames.len(), len.div_ceil(4096), "a frame a page");
            assert!(frames.len() as u64 <= self.geometry.max_io.0);
            let early = match io.op {
                sched::Op::Read => {
                    // A page that is being read must not be used yet.
                    for frame in &frames {
                        self.memory[frame.0 as usize].fill(0xbb);
                    }
                    self.devices[device].disk.read(offset, len)
                }
                sched::Op::Write => self.gather(&frames, len),
            };
            let (tag, op, fua) = (io.tag, io.op, io.fua);
            let mut io = Io { device, op, fua, offset, len, frames, early };
            match op {
                sched::Op::Read => io.early.truncate(self.readable(&io)),
                sched::Op::Write => self.may_be_written(&io),
            }
            self.in_flight.insert(tag, io);
        }
        while let Some(ready) = self.path.poll_write() {
            match ready.step {
                WriteStep::Fill { len } => {
                    for fill in self.path.fills(ready.id) {
                        self.memory[fill.new.0 as usize].fill(0xee);
                    }
                    self.writes.get_mut(&ready.id).unwrap().told = Some(Told::Fill(len.0));
                }
                WriteStep::Act => {
                    let write = self.writes.get_mut(&ready.id).unwrap();
                    write.told = Some(Told::Act);
                    if let What::Zero { pages } = &mut write.what {
                        let range = self.path.act_range(ready.id);
                        let end = range.end.0.div_ceil(4096);
                        assert!(range.start.0 == pages.start * 4096 && end <= pages.end);
                        pages.end = end;
                    }
                    self.may_act(ready.id);
                }
                WriteStep::SetLen { len } => {
                    let len = len.0 as usize;
                    self.writes.get_mut(&ready.id).unwrap().told = Some(Told::SetLen(len));
                    self.may_set_len(ready.id, len);
                }
                WriteStep::Done { len, fault } => self.done(ready.id, len.0, fault),
            }
        }
        self.pump_reads();
    }

    /// Checks that ready reads have bytes that were the file's, up to an end that it had.
    fn pump_reads(&mut self) {
        while let Some(ready) = self.path.poll_ready() {
            let reading = self.reads.remove(&ready.id).expect("a read ends once");
            self.ready.push(ready.id);
            if let Some(fault) = ready.fault {
                assert!(self.faults > 0, "an error out of nothing");
                assert!(matches!(fault, Fault::Io(5) | Fault::Short));
                let may_be_short = reading.was_short || !self.is_open(reading.file, reading.id);
                assert!(fault != Fault::Short || may_be_short, "a read of a cut file that failed");
            } else if self.is_open(reading.file, reading.id) {
                let frames = self.path.frames(ready.id).to_vec();
                let (least, most) = self.files[reading.file].history.lens_since(reading.since);
                assert!(reading.pos + ready.len.0 as usize <= most, "a read behind the end");
                // A read covers at most an eighth of the frames.
                let pages = self.path.frame_count() as usize / 8;
                let end = (reading.pos + reading.len).min((reading.pos / 4096 + pages) * 4096);
                let has_all = reading.pos + ready.len.0 as usize >= end.min(least);
                assert!(has_all || reading.was_short, "a read that ends before its file did");
                let skip = reading.pos % 4096;
                let bytes = self.gather(&frames, skip + ready.len.0 as usize);
                let history = &self.files[reading.file].history;
                let was =
                    history.was(reading.since, reading.pos, bytes.get(skip..).unwrap_or_default());
                assert!(was, "a read of bytes that were not the file's meanwhile");
            }
        }
    }

    /// Checks that no page of this write is in another one, and that no zero acts on any.
    fn may_be_written(&self, io: &Io) {
        let overlaps = |start: usize, end: usize| io.offset < end && start < io.offset + io.len;
        let others = self
            .in_flight
            .values()
            .filter(|other| other.op == sched::Op::Write && other.device == io.device);
        for other in others {
            assert!(!overlaps(other.offset, other.offset + other.len), "two writes of a page");
        }
        for (_, zeroed) in self.acting() {
            let (device, start, end) = zeroed;
            assert!(device != io.device || !overlaps(start, end), "a write under a zero");
        }
        self.may_reach(io);
    }

    /// Checks that no write is in flight where a zero begins to act.
    fn may_act(&self, id: WriteId) {
        for (zero, (device, start, end)) in self.acting() {
            let writes = self.in_flight.values().filter(|io| io.op == sched::Op::Write);
            let is_there =
                |io: &Io| io.device == device && io.offset < end && start < io.offset + io.len;
            assert!(zero != id || !writes.clone().any(is_there), "a zero beside a write");
        }
    }

    /// Returns the zeroes that may be acting, with their byte range and disk.
    fn acting(&self) -> Vec<(WriteId, (usize, usize, usize))> {
        let acting = self.writes.iter().filter(|(_, write)| write.told == Some(Told::Act));
        let zeroes = acting.filter_map(|(&id, write)| match &write.what {
            What::Zero { pages } if self.is_open(write.file, write.id) => {
                let file = &self.files[write.file];
                let start = file.start + pages.start as usize * 4096;
                let end = (pages.end as usize * 4096).min(file.history.len);
                Some((id, (file.device, start, file.start + end)))
            }
            What::Zero { .. } | What::Write { .. } | What::Flush { .. } | What::ChangeLen => None,
        });
        zeroes.collect()
    }

    pub(super) fn check(&mut self) {
        self.path.assert_consistent();
        self.check_counts();
        self.check_waiting();
        // All pages of all files, so not after each step.
        if self.random.once_in(8) {
            self.check_pages();
        }
    }

    fn check_counts(&self) {
        let limit: u64 = self.setting("dirty_limit") / 4096;
        let dirty = self.path.dirty();
        assert!(dirty.0 <= u64::from(self.path.frame_count()) / 4, "{dirty} pages are dirty");
        assert!(dirty.0 <= limit || self.has_lowered_limit, "{dirty} of {limit} pages are dirty");
        for pin in &self.pins {
            let now = &self.memory[pin.frame.0 as usize];
            assert!(*now == pin.bytes, "a pinned page changed");
        }
        for file in &self.files {
            assert!(self.path.dirty_pages(file.id) <= dirty);
        }
    }

    /// With nothing in flight and no caller active, no request waits, and dirty pages have a
    /// deadline: otherwise the driver would sleep indefinitely.
    fn check_waiting(&self) {
        let is_told = self.writes.values().any(|write| write.told.is_some());
        let is_held = !self.ready.is_empty() || !self.pins.is_empty() || !self.unpinned.is_empty();
        if !self.in_flight.is_empty() || is_told || is_held {
            return;
        }
        assert!(self.reads.is_empty(), "{} reads wait for nothing", self.reads.len());
        assert!(self.writes.is_empty(), "{} writes wait for nothing", self.writes.len());
        let is_due = self.path.poll_timeout().is_some();
        assert!(is_due || self.path.dirty() == Pages(0), "what is dirty is never written");
    }

    fn check_pages(&self) {
        for file in &self.files {
            for page in 0..file.history.len.div_ceil(4096) {
                let table = self.path.table();
                let page_ = PageIndex(page as u64);
                let Some(found) = table.look_up(IoPath::slot(file.id), page_) else { continue };
                if found.entry().is_up_to_date() {
                    let now = file.history.now(page * 4096, 4096);
                    let bytes = &self.memory[found.entry().frame().0 as usize];
                    assert!(bytes.starts_with(&now), "a page with bytes that are not its newest");
                }
            }
            let table = self.path.table();
            for page in file.history.len.div_ceil(4096)..file.room.div_ceil(4096) {
                let found = table.look_up(IoPath::slot(file.id), PageIndex(page as u64));
                assert!(found.is_none(), "page {page} lies behind the end");
            }
        }
    }

    fn setting(&self, name: &str) -> u64 {
        let all = self.path.settings();
        all.iter().find(|(it, _)| *it == name).unwrap().1.parse().unwrap()
    }

    /// Checks that the disk has these versions of a file's sectors, or newer ones.
    pub(super) fn on_disk(&self, file: usize, pos: usize, len: usize, versions: &[usize]) {
        let file = &self.files[file];
        let touched = pos / SECTOR..(pos + len).div_ceil(SECTOR);
        for (sector, version) in touched.clone().zip(&versions[touched]) {
            let found = self.devices[file.device].disk.sector(file.start / SECTOR + sector);
            let fits = file.history.is_since(sector, *version, found);
            assert!(fits, "sector {sector} is not on the disk");
        }
    }

    /// Completes everything successfully, and checks that no read or write hangs, no frame is lost,
    /// and the disk has all bytes.
    pub(crate) fn finish(&mut self) {
        self.bad.clear();
        self.settle();
        for file in 0..self.files.len() {
            self.flush(file, false);
            self.pump();
        }
        self.settle();
        assert!(self.reads.is_empty(), "{} reads hang", self.reads.len());
        assert!(self.writes.is_empty(), "{} writes hang", self.writes.len());
        while !self.pins.is_empty() {
            self.unpin(0);
        }
        while !self.unpinned.is_empty() {
            self.report();
        }
        self.check_counts();
        self.check_pages();
        assert_eq!(self.path.dirty(), Pages(0));
        assert_eq!(self.path.idle_frames(), u64::from(self.path.frame_count()), "a frame is lost");
        for device in &mut self.devices {
            device.disk.cut(|| false);
        }
        for file in &self.files {
            let latest = file.history.snapshot();
            assert_eq!(self.path.dirty_pages(file.id), Pages(0));
            for (sector, version) in latest.into_iter().enumerate() {
                let found = self.devices[file.device].disk.sector(file.start / SECTOR + sector);
                assert!(file.history.is_since(sector, version, found), "sector {sector} is lost");
            }
        }
        self.log.append(&mut self.path.take_log());
        if let Err(mismatch) = replay(self.path.config(), &self.log) {
            panic!("{mismatch}");
        }
    }

    /// Each round ends something, so the loop terminates unless something hangs.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let told = self.writes.iter().find(|(_, write)| write.told.is_some());
            if let Some((&id, _)) = told {
                self.drive(id, false);
            } else if let Some(tag) = self.in_flight.keys().next().copied() {
                self.complete(tag, Answer::Good);
            } else if !self.ready.is_empty() {
                self.release(0);
            } else if let Some(at) = self.path.poll_timeout() {
                self.pass(at.0.saturating_sub(self.now));
            } else {
                return;
            }
            self.pump();
            self.check_waiting();
        }
        panic!("it does not end");
    }

    /// Cuts the power. Returns an error for a wrong sector on the disks.
    pub(crate) fn cut(mut self) -> Result<(), String> {
        // Each sector in flight may have been written or not.
        let flying: Vec<_> = std::mem::take(&mut self.in_flight).into_values().collect();
        for io in flying.iter().filter(|io| io.op == sched::Op::Write) {
            for at in (0..io.len).step_by(SECTOR) {
                let end = (at + SECTOR).min(io.len);
                let bytes = self.outgoing(io, at, end);
                if self.random.once_in(2) {
                    self.devices[io.device].disk.write((io.offset + at) / SECTOR, &bytes, false);
                }
            }
        }
        let Self { devices, random, .. } = &mut self;
        for device in devices {
            device.disk.cut(|| random.once_in(2));
        }
        for (index, file) in self.files.iter().enumerate() {
            let disk = &self.devices[file.device].disk;
            for sector in 0..file.history.sectors() {
                let found = disk.sector(file.start / SECTOR + sector);
                file.history.check(sector, found).map_err(|why| format!("file {index}: {why}"))?;
            }
        }
        Ok(())
    }
}
