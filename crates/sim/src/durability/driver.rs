//! The driver of the path: executes the outputs of the path and reports the ends of commands.
//!
//! In:    outputs of the path; the commands that have taken effect.
//! Out:   commands for devices; the first output that breaks an invariant.
//! Never: a change to a device.

use foreread_core::path::{Fault, WriteId, WriteMode, WriteStep};
use foreread_core::sched;
use foreread_core::units::ByteCount;

use super::cached_disk::ZEROS;
use super::history::History;
use super::program::Sabotage;
use super::world::{
    Call, CallKind, CommandKind, DurabilityWorld, HistoryFile, IssuedCommand, PAGE, SECTOR, index,
    sectors_of,
};

impl DurabilityWorld {
    /// Executes all pending outputs of the path.
    pub(super) fn pump(&mut self) -> Result<(), String> {
        self.dispatch()?;
        while let Some(ready) = self.path.poll_write() {
            match ready.step {
                WriteStep::Fill { len } => self.is_told_to_fill(ready.id, len),
                WriteStep::Act => self.is_told_to_act(ready.id),
                WriteStep::SetLen { len } => self.is_told_to_set_len(ready.id, len)?,
                WriteStep::Done { len, fault } => self.done(ready.id, len, fault)?,
            }
        }
        while let Some(ready) = self.path.poll_ready() {
            let (file, first, view) = self.reads.remove(&ready.id).expect("a read ends once");
            if ready.fault.is_none() {
                let frames = self.path.frames(ready.id).to_vec();
                for at in first..first + ready.len.0.div_ceil(SECTOR) as usize {
                    let frame = frames[at / PAGE - first / PAGE].0 as usize;
                    self.files[file].history.check_read(
                        at,
                        self.memory[frame][at % PAGE],
                        view[at],
                    )?;
                }
            }
            if let Some(ends) = &mut self.ends {
                let frames = self.path.frames(ready.id);
                let last = first + ready.len.0.div_ceil(SECTOR) as usize;
                let found = (first..last)
                    .map(|at| self.memory[frames[at / PAGE - first / PAGE].0 as usize][at % PAGE]);
                let found = if ready.fault.is_none() { found.collect() } else { Vec::new() };
                ends.reads.insert(ready.id, (found, ready.fault));
            }
            let now = self.tick();
            self.path.release(now, ready.id);
        }
        self.dispatch()
    }

    fn dispatch(&mut self) -> Result<(), String> {
        let now = self.tick();
        while let Some(io) = self.path.poll_dispatch(now) {
            let frames: Vec<_> = match io.op {
                sched::Op::Read => self.path.io_parts(io.tag).map(|(frame, _)| frame).collect(),
                sched::Op::Write => self.path.io_frames(io.tag).collect(),
            };
            let frames: Vec<_> = frames.into_iter().map(|frame| frame.0 as usize).collect();
            let (tag, at, len) = (io.tag, (io.offset.0 / SECTOR) as usize, io.len.0);
            let what = match io.op {
                sched::Op::Read => CommandKind::Read { tag, at, frames, len },
                sched::Op::Write => {
                    let stamps = frames.iter().flat_map(|&frame| self.memory[frame]);
                    let stamps = stamps.take(len.div_ceil(SECTOR) as usize).collect();
                    CommandKind::Write { tag, at, stamps, len, fua: io.fua }
                }
            };
            let file = self.file_of(io.device);
            let block = self.files[file].write_block;
            let is_aligned = (io.offset.0 + io.len.0).is_multiple_of(block);
            if io.op == sched::Op::Write && !io.fua && !is_aligned {
                return Err(format!("a write of {} bytes ends off its block, not durably", io.len));
            }
            self.commands.push(IssuedCommand::new(file, what));
        }
        Ok(())
    }

    fn is_told_to_fill(&mut self, id: WriteId, len: ByteCount) {
        let call = self.calls.get_mut(&id).expect("the path names calls that have not ended");
        let CallKind::Write { sectors, .. } = &mut call.kind else { panic!("only writes are") };
        sectors.end = sectors.start + len.0.div_ceil(SECTOR) as usize;
        self.to_fill.push(id);
    }

    fn is_told_to_act(&mut self, id: WriteId) {
        let Call { file, kind } = self.calls.get_mut(&id).expect("a call ends after its act");
        let what = match kind {
            CallKind::Write { .. } | CallKind::ChangeLen { .. } | CallKind::Grow { .. } => {
                panic!("it does not act")
            }
            CallKind::Flush { .. } => CommandKind::Flush { id },
            CallKind::Zero { sectors, is_discard, .. } => {
                let bytes = self.path.act_range(id);
                *sectors = sectors_of(bytes.start.0)..sectors_of(bytes.end.0);
                CommandKind::Zero { id, sectors: sectors.clone(), is_discard: *is_discard }
            }
        };
        self.commands.push(IssuedCommand::new(*file, what));
    }

    /// Checks that no write past the new end is in flight: it could grow the file again.
    fn is_told_to_set_len(&mut self, id: WriteId, len: ByteCount) -> Result<(), String> {
        let file = self.calls[&id].file;
        let len = sectors_of(len.0);
        let before = self.files[file].history.len();
        let kept = if len < before { len / PAGE * PAGE } else { usize::MAX };
        let reaches = |it: &IssuedCommand| match &it.what {
            CommandKind::Write { at, stamps, .. } => {
                it.result.is_none() && at + stamps.len() > kept
            }
            CommandKind::Read { .. }
            | CommandKind::Flush { .. }
            | CommandKind::Zero { .. }
            | CommandKind::SetLen { .. } => false,
        };
        if self.commands.iter().any(|it| it.file == file && reaches(it)) {
            return Err(format!("a cut to {len} sectors beside a write behind"));
        }
        self.check_append_order(file, id)?;
        self.files[file].history.begin_set_len(len);
        self.commands.push(IssuedCommand::new(file, CommandKind::SetLen { id, len }));
        Ok(())
    }

    /// Checks that the bytes of all earlier appends are in memory when an append begins.
    fn check_append_order(&self, file: usize, id: WriteId) -> Result<(), String> {
        let HistoryFile { id: path_file, ref history, .. } = self.files[file];
        let is_append = matches!(self.calls[&id].kind, CallKind::Grow { .. });
        let is_checked = self.sabotage != Sabotage::LengthFirst && is_append;
        match history.appends.first_unwritten() {
            Some(at) if is_checked && self.path.lost(path_file).is_none() => {
                Err(format!("an append begins while sector {at}, of one before it, is unwritten"))
            }
            _ => Ok(()),
        }
    }

    /// Reports the end of a command to the path.
    pub(super) fn report(&mut self, at: usize) {
        let IssuedCommand { what, file, result, .. } = self.commands.swap_remove(at);
        let result = result.expect("only commands with a result are reported");
        let now = self.tick();
        match what {
            CommandKind::Write { tag, .. } | CommandKind::Read { tag, .. } => {
                self.path.complete(now, tag, result.map(ByteCount));
            }
            CommandKind::Flush { id } | CommandKind::Zero { id, .. } => {
                self.path.acted(now, id, result.map(drop));
            }
            CommandKind::SetLen { id, .. } => {
                self.end_set_len(file, id, result.is_ok());
                self.path.acted(now, id, result.map(drop));
            }
        }
    }

    fn end_set_len(&mut self, file: usize, id: WriteId, is_set: bool) {
        let HistoryFile { disk, base, ref mut history, .. } = self.files[file];
        let disk = &self.disks[disk];
        let call = self.calls.get_mut(&id).expect("a call ends after its act");
        let len = history.len();
        self.tally.length_changes += u64::from(is_set);
        history.end_set_len(is_set);
        match &mut call.kind {
            CallKind::ChangeLen { before, .. } => *before = Some(len),
            CallKind::Grow { at, before } => {
                *before = Some(len);
                if is_set {
                    history.appends.grow(id, at.unwrap_or(len).max(len)..history.len());
                }
            }
            CallKind::Write { .. } | CallKind::Flush { .. } | CallKind::Zero { .. } => {
                panic!("the call of a change of length is one")
            }
        }
        // The device may have dropped it already.
        let now = history.len();
        let is_dropped = |at: &usize| disk.sector(base + at) != history.newest(*at);
        let dropped: Vec<_> = (len.min(now)..len.max(now)).filter(is_dropped).collect();
        dropped.into_iter().for_each(|at| history.revert(at));
        if disk.live_len(base) != now {
            history.revert_len();
        }
    }

    /// Completes a flush or a zero without effect: its caller has left.
    pub(super) fn skip(&mut self, which: u64) {
        let may_skip = |command: &IssuedCommand| {
            let is_act = matches!(
                command.what,
                CommandKind::Flush { .. } | CommandKind::Zero { .. } | CommandKind::SetLen { .. }
            );
            is_act && command.result.is_none()
        };
        let all: Vec<_> =
            (0..self.commands.len()).filter(|&at| may_skip(&self.commands[at])).collect();
        if all.is_empty() {
            return;
        }
        let command = self.commands.swap_remove(all[index(which, all.len())]);
        let id = match command.what {
            CommandKind::Flush { id } | CommandKind::Zero { id, .. } => id,
            CommandKind::SetLen { id, .. } => {
                self.end_set_len(command.file, id, false);
                id
            }
            CommandKind::Write { .. } | CommandKind::Read { .. } => return,
        };
        let now = self.tick();
        self.path.not_acted(now, id, ETIMEDOUT);
    }

    /// Ends a call and tells its caller the result.
    fn done(&mut self, id: WriteId, len: ByteCount, fault: Option<Fault>) -> Result<(), String> {
        let Call { file, kind } = self.calls.remove(&id).expect("a call ends once");
        if let Some(ends) = &mut self.ends {
            ends.writes.insert(id, (len, fault));
        }
        let HistoryFile { disk, base, ref mut history, ignores_fua, .. } = self.files[file];
        let disk = &self.disks[disk];
        let durable = |at: usize| disk.durable(base + at);
        match kind {
            CallKind::Write { mode, filled, append, .. } => {
                if let (WriteMode::Fua, Some(filled), None) = (mode, filled, fault) {
                    self.tally.acknowledged += 1;
                    self.tally.fuse_acknowledged += u64::from(ignores_fua);
                    history.promise(filled.into_iter(), durable)?;
                }
                if let Some(append) = append {
                    self.piece_ended(append, sectors_of(len.0), fault);
                }
            }
            CallKind::Flush { promise } => match fault {
                None => {
                    self.tally.acknowledged += 1;
                    history.promise_flush(promise, disk.durable_len(base), durable)?;
                }
                Some(Fault::Lost(_)) => self.tally.lost += 1,
                Some(_) => {}
            },
            CallKind::ChangeLen { before, cut_of } => {
                check_before(history, len, before, fault)?;
                if let (Some(append), None) = (cut_of, fault) {
                    history.appends.forget(append);
                }
            }
            CallKind::Grow { before, .. } => {
                check_before(history, len, before, fault)?;
                self.grown((file, id), sectors_of(len.0), fault);
            }
            CallKind::Zero { sectors, is_discard, stamp } => {
                if let (None, false, Some(stamp)) = (fault, is_discard, stamp) {
                    for at in sectors {
                        history.write(at, stamp);
                        if disk.sector(base + at) != stamp {
                            history.revert(at);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies the bytes of a write; from here on readers see them.
    pub(super) fn fill(&mut self, id: WriteId) {
        let Call { file, kind } =
            self.calls.get_mut(&id).expect("the path names calls that have not ended");
        let CallKind::Write { sectors, stamps, filled, .. } = kind else {
            panic!("only a write is filled")
        };
        let (file, sectors) = (*file, sectors.clone());
        let stamp_of = |at: usize| stamps.at(at - sectors.start);
        for fill in self.path.fills(id).to_vec() {
            let mut page = fill.old.map_or([0; PAGE], |old| self.memory[old.0 as usize]);
            page[sectors_of(u64::from(fill.old_len))..].fill(ZEROS);
            for (at, word) in (fill.page.0 as usize * PAGE..).zip(&mut page) {
                if sectors.contains(&at) {
                    *word = stamp_of(at);
                }
            }
            self.memory[fill.new.0 as usize] = page;
        }
        let history = &mut self.files[file].history;
        sectors.clone().for_each(|at| history.write(at, stamp_of(at)));
        let versions = history.versions();
        *filled = Some(sectors.map(|at| (at, versions[at])).collect());
        let now = self.tick();
        self.path.filled(now, id);
    }
}

/// Checks the old length of a file that the path reports with a change of length.
fn check_before(
    history: &History,
    len: ByteCount,
    before: Option<usize>,
    fault: Option<Fault>,
) -> Result<(), String> {
    if fault.is_none() && sectors_of(len.0) != before.unwrap_or(history.len()) {
        return Err(format!("a length of {len} before it was changed, from nowhere"));
    }
    Ok(())
}

const ETIMEDOUT: i32 = 110;
