//! The operations of a program, one step each.
//!
//! In:    one operation after the other.
//! Out:   calls of the path; steps of its driver and its devices.
//! Never: two actions in one step that a real driver takes at separate times.

use std::ops::Range;

use foreread_core::path::{IoPath, LenChange, WriteId, WriteMode};
use foreread_core::sched::Submitter;
use foreread_core::units::{ByteCount, Nanos, PageIndex};

use super::program::{Effect, ProgramOp};
use super::world::{
    Call, CallKind, CommandKind, DurabilityWorld, HistoryFile, IssuedCommand, PAGE, SECTOR,
    WrittenStamps, index,
};

impl DurabilityWorld {
    pub(super) fn apply(&mut self, op: &ProgramOp) -> Result<(), String> {
        match *op {
            ProgramOp::Write { file, sector, sectors, mode } => {
                self.write(file, sector, sectors, mode);
            }
            ProgramOp::Read { file, sector, sectors } => self.read(file, sector, sectors)?,
            ProgramOp::Flush { file } => _ = self.flush(index(file, self.files.len())),
            ProgramOp::Zero { file, page, pages, is_discard } => {
                self.zero(file, page, pages, is_discard);
            }
            ProgramOp::ChangeLen { file, how, sectors } => {
                self.change_len(index(file, self.files.len()), how, sectors);
            }
            ProgramOp::Append { file, behind, sectors, mode } => {
                self.append(index(file, self.files.len()), behind, sectors, mode);
            }
            ProgramOp::GoOn { which, sectors } => self.go_on(which, sectors),
            ProgramOp::Leave { which, fills_first } => self.leave_append(which, fills_first),
            ProgramOp::Fill { which } => {
                if !self.to_fill.is_empty() {
                    let id = self.to_fill.swap_remove(index(which, self.to_fill.len()));
                    self.fill(id);
                }
            }
            ProgramOp::Effect { which, how } => {
                if let Some(at) = self.pick(which, |command| command.result.is_none()) {
                    self.take_effect(at, how);
                }
            }
            ProgramOp::Report { which } => {
                if let Some(at) = self.pick(which, |command| command.result.is_some()) {
                    self.report(at);
                }
            }
            ProgramOp::Skip { which } => self.skip(which),
            ProgramOp::Destage => {
                let Self { disks, rng, .. } = self;
                disks.iter_mut().for_each(|disk| disk.destage(rng));
            }
            ProgramOp::Invalidate { file } => {
                let file = self.files[index(file, self.files.len())].id;
                let now = self.tick();
                self.path.invalidate(now, file, PageIndex(0)..PageIndex(1 << 20));
            }
            ProgramOp::Refuse { requests, errno } => self.refuse(requests, errno)?,
            ProgramOp::Scan => self.scan()?,
            ProgramOp::AcceptLost { file } => self.accept_lost(index(file, self.files.len())),
            ProgramOp::Set { name, value } => {
                self.path.set(name, &value.to_string()).expect("programs draw settings that exist");
                self.pass(0);
            }
            ProgramOp::Wait { ms } => self.pass(ms * 1_000_000),
        }
        self.pump()
    }

    fn write(&mut self, file: u64, sector: u64, sectors: u64, mode: WriteMode) {
        let file = index(file, self.files.len());
        let HistoryFile { id, ref history, .. } = self.files[file];
        let first = index(sector, history.len().max(1));
        let stamps = WrittenStamps::Same(self.next_stamp);
        self.next_stamp += 1;
        let now = self.tick();
        let (pos, len) = (ByteCount(first as u64 * SECTOR), ByteCount(sectors * SECTOR));
        let write = self.path.write(now, id, pos, len, mode, Submitter::default());
        let kind =
            CallKind::Write { sectors: first..first, stamps, mode, filled: None, append: None };
        self.calls.insert(write, Call { file, kind });
    }

    pub(super) fn flush(&mut self, file: usize) -> WriteId {
        let promise = self.files[file].history.snapshot();
        let now = self.tick();
        let id = self.path.flush(now, self.files[file].id);
        self.calls.insert(id, Call { file, kind: CallKind::Flush { promise } });
        id
    }

    /// Grows or cuts a file.
    fn change_len(&mut self, file: usize, how: u64, sectors: u64) {
        let history = &self.files[file].history;
        let (len, space) = (history.len() as u64, history.space() as u64);
        let bytes = |sectors: u64| ByteCount(sectors.min(space) * SECTOR);
        self.begin_change_len(
            file,
            match how {
                0 => LenChange::Exact(bytes(sectors % (space + 1))),
                1 => LenChange::Exact(bytes(len.saturating_sub(sectors % 40))),
                _ => LenChange::AtLeast(bytes(len + sectors % 24)),
            },
        );
    }

    pub(super) fn begin_change_len(&mut self, file: usize, change: LenChange) {
        let now = self.tick();
        let change = self.path.change_len(now, self.files[file].id, change);
        let kind = CallKind::ChangeLen { before: None, cut_of: None };
        self.calls.insert(change, Call { file, kind });
    }

    fn zero(&mut self, file: u64, page: u64, pages: u64, is_discard: bool) {
        let file = index(file, self.files.len());
        let end = self.files[file].history.len();
        let first = index(page, end.div_ceil(PAGE).max(1));
        let range = PageIndex(first as u64)..PageIndex(first as u64 + pages);
        self.zero_pages(file, range, is_discard);
    }

    pub(super) fn zero_pages(
        &mut self,
        file: usize,
        range: Range<PageIndex>,
        is_discard: bool,
    ) -> WriteId {
        let (first, end) = (range.start.0 as usize, self.files[file].history.len());
        let after = (range.end.0 as usize * PAGE).min(end).max(first * PAGE);
        let (now, id) = (self.tick(), self.files[file].id);
        let id = if is_discard {
            self.path.discard(now, id, range)
        } else {
            self.path.write_zeroes(now, id, range)
        };
        let kind = CallKind::Zero { sectors: first * PAGE..after, is_discard, stamp: None };
        self.calls.insert(id, Call { file, kind });
        id
    }

    /// Uses cached pages directly; other pages go through the path.
    fn read(&mut self, file: u64, sector: u64, sectors: u64) -> Result<(), String> {
        let file = index(file, self.files.len());
        let HistoryFile { id, stream, ref history, .. } = self.files[file];
        let first = index(sector, history.len().max(1));
        let end = (first + index(sectors, history.len().max(1))).min(history.len());
        let table = self.path.table();
        for at in first..end {
            let found = table.look_up(IoPath::slot(id), PageIndex((at / PAGE) as u64));
            let Some(found) = found.filter(|found| found.entry().is_up_to_date()) else {
                let view = self.files[file].history.view();
                let (pos, len) =
                    (ByteCount(at as u64 * SECTOR), ByteCount((end - at) as u64 * SECTOR));
                let now = self.tick();
                let read = self.path.read(now, stream, pos, len, None);
                self.reads.insert(read, (file, at, view));
                return Ok(());
            };
            let stamp = self.memory[found.entry().frame().0 as usize][at % PAGE];
            let history = &self.files[file].history;
            history.check_read(at, stamp, history.view_of(at))?;
        }
        Ok(())
    }

    /// Refuses this many writes before they have any effect.
    fn refuse(&mut self, requests: u64, errno: i32) -> Result<(), String> {
        for _ in 0..requests {
            let is_new = |it: &IssuedCommand| {
                it.result.is_none()
                    && !it.is_written
                    && matches!(it.what, CommandKind::Write { .. })
            };
            let Some(at) = self.commands.iter().position(is_new) else { return Ok(()) };
            self.commands[at].result = Some(Err(errno));
            self.tally.injected += 1;
            self.report(at);
            self.pass(0);
            self.pump()?;
        }
        Ok(())
    }

    /// Reads the largest file once, with nothing else in progress.
    fn scan(&mut self) -> Result<(), String> {
        let file = self.files.len() - 1;
        let sectors = self.files[file].history.len() as u64;
        for first in (0..sectors).step_by(SCAN_SECTORS as usize) {
            self.read(file as u64, first, SCAN_SECTORS)?;
            self.pump()?;
            let is_read = |it: &IssuedCommand| matches!(it.what, CommandKind::Read { .. });
            while let Some(at) = self.commands.iter().position(is_read) {
                if self.commands[at].result.is_none() {
                    self.take_effect(at, Effect::Good);
                }
                self.report(at);
                self.pump()?;
            }
        }
        Ok(())
    }

    pub(super) fn may_accept_lost(&self, file: usize) -> bool {
        let changes = |it: &Call| it.file == file && !matches!(it.kind, CallKind::Flush { .. });
        let is_busy = self.commands.iter().any(|it| it.file == file);
        !is_busy && !self.is_appending(file) && !self.calls.values().any(changes)
    }

    /// Reloads the state of a file that has no I/O in progress.
    pub(super) fn accept_lost(&mut self, file: usize) {
        if !self.may_accept_lost(file) {
            return;
        }
        let HistoryFile { id, disk, base, ref mut history, .. } = self.files[file];
        if self.path.lost(id).is_some() {
            history.accept_lost();
            let len = self.disks[disk].live_len(base);
            if history.len() != len {
                history.adopt_len(len);
                let now = Nanos(self.now + 1);
                self.path.set_len(now, id, ByteCount(len as u64 * SECTOR));
            }
        }
        self.path.accept_lost(id);
    }

    fn pick(&self, which: u64, fits: impl Fn(&IssuedCommand) -> bool) -> Option<usize> {
        let count = self.commands.iter().filter(|it| fits(it)).count();
        let mut fitting = (0..self.commands.len()).filter(|&at| fits(&self.commands[at]));
        fitting.nth(index(which, count.max(1)))
    }
}

/// Starts a read of the scan.
const SCAN_SECTORS: u64 = 128;
