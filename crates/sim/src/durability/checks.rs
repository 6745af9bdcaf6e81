//! What the path says, held against what the devices have; and the end of a run.
//!
//! In:    the world as it is.
//! Out:   the first thing that is wrong.
//! Never: a change to a device, but for what a power cut does.

use foreread_core::path::{Fault, WriteId, WriteMode, WriteStep};
use foreread_core::sched;
use foreread_core::units::{ByteCount, Pages};

use super::device::CachedDisk;
use super::program::{Effect, RunEnd};
use super::world::{
    Call, CallKind, CommandKind, DurabilityWorld, HistoryFile, IssuedCommand, PAGE, SECTOR, index,
};

impl DurabilityWorld {
    /// Takes all that the path has to say.
    pub(super) fn pump(&mut self) -> Result<(), String> {
        self.dispatch()?;
        while let Some(ready) = self.path.poll_write() {
            match ready.step {
                WriteStep::Fill { len } => self.is_told_to_fill(ready.id, len),
                WriteStep::Act => self.is_told_to_act(ready.id),
                WriteStep::Done { fault, .. } => self.done(ready.id, fault)?,
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
            self.commands.push(IssuedCommand { what, file, result: None });
        }
        Ok(())
    }

    fn is_told_to_fill(&mut self, id: WriteId, len: ByteCount) {
        let call = self.calls.get_mut(&id).expect("it is not over");
        let CallKind::Write { sectors, .. } = &mut call.kind else { panic!("only writes are") };
        sectors.end = sectors.start + len.0.div_ceil(SECTOR) as usize;
        self.to_fill.push(id);
    }

    fn is_told_to_act(&mut self, id: WriteId) {
        let Call { file, kind } = &self.calls[&id];
        let what = match kind {
            CallKind::Write { .. } => panic!("a write does not act"),
            CallKind::Flush { .. } => CommandKind::Flush { id },
            CallKind::Zero { sectors, is_discard, .. } => {
                CommandKind::Zero { id, sectors: sectors.clone(), is_discard: *is_discard }
            }
        };
        self.commands.push(IssuedCommand { what, file: *file, result: None });
    }

    /// The driver reports the end of a command.
    pub(super) fn report(&mut self, at: usize) {
        let IssuedCommand { what, result, .. } = self.commands.swap_remove(at);
        let result = result.expect("it took effect");
        let now = self.tick();
        match what {
            CommandKind::Write { tag, .. } | CommandKind::Read { tag, .. } => {
                self.path.complete(now, tag, result.map(ByteCount));
            }
            CommandKind::Flush { id } | CommandKind::Zero { id, .. } => {
                self.path.acted(now, id, result.map(drop));
            }
        }
    }

    /// The caller of a flush or a zero has left, and its driver does nothing.
    pub(super) fn skip(&mut self, which: u64) {
        let may_skip = |command: &IssuedCommand| {
            let is_act =
                matches!(command.what, CommandKind::Flush { .. } | CommandKind::Zero { .. });
            is_act && command.result.is_none()
        };
        let all: Vec<_> =
            (0..self.commands.len()).filter(|&at| may_skip(&self.commands[at])).collect();
        if all.is_empty() {
            return;
        }
        let command = self.commands.swap_remove(all[index(which, all.len())]);
        let (CommandKind::Flush { id } | CommandKind::Zero { id, .. }) = command.what else {
            return;
        };
        let now = self.tick();
        self.path.not_acted(now, id, ETIMEDOUT);
    }

    /// A call is over, and its caller is told how.
    fn done(&mut self, id: WriteId, fault: Option<Fault>) -> Result<(), String> {
        let Call { file, kind } = self.calls.remove(&id).expect("a call ends once");
        let HistoryFile { disk, base, ref mut history, .. } = self.files[file];
        let disk = &self.disks[disk];
        let durable = |at: usize| disk.durable(base + at);
        match kind {
            CallKind::Write { mode: WriteMode::Fua, filled: Some(filled), .. } => {
                if fault.is_none() {
                    self.tally.acknowledged += 1;
                    history.promise(filled.into_iter(), durable)?;
                }
            }
            CallKind::Write { .. } => {}
            CallKind::Flush { promise } => match fault {
                None => {
                    self.tally.acknowledged += 1;
                    history.promise(promise.into_iter().enumerate(), durable)?;
                }
                Some(Fault::Lost(_)) => self.tally.lost += 1,
                Some(_) => {}
            },
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

    /// Ends the run, and looks at what survived.
    pub(super) fn end(mut self, end: RunEnd) -> Result<(), String> {
        match end {
            RunEnd::PowerCut => {
                self.leave_commands();
                let Self { disks, rng, .. } = &mut self;
                disks.iter_mut().for_each(|disk| disk.cut(rng));
                self.check_survivors(CachedDisk::durable)
            }
            RunEnd::Kill => {
                self.leave_commands();
                self.check_survivors(CachedDisk::sector)
            }
            RunEnd::Settle => self.settle_all(),
        }
    }

    /// Of writes in flight, each sector may get to the device or not.
    fn leave_commands(&mut self) {
        for IssuedCommand { what, file, result } in std::mem::take(&mut self.commands) {
            if let (CommandKind::Write { at, stamps, .. }, None) = (what, result) {
                let HistoryFile { disk, base, .. } = self.files[file];
                for (at, stamp) in (base + at..).zip(stamps) {
                    if self.rng.below(2) == 0 {
                        self.disks[disk].write(at, stamp);
                    }
                }
            }
        }
    }

    fn check_survivors(&self, found: impl Fn(&CachedDisk, usize) -> u32) -> Result<(), String> {
        for (number, file) in self.files.iter().enumerate() {
            for at in 0..file.history.len() {
                let found = found(&self.disks[file.disk], file.base + at);
                let check = file.history.check_survivor(at, found);
                check.map_err(|why| format!("file {number}: {why}"))?;
            }
        }
        Ok(())
    }

    /// Lets everything end well: nothing hangs, and in the end all is durable.
    fn settle_all(&mut self) -> Result<(), String> {
        self.drain()?;
        for round in 0..3 {
            for file in 0..self.files.len() {
                self.flush(file);
                self.pump()?;
            }
            self.drain()?;
            for file in 0..self.files.len() {
                let id = self.files[file].id;
                if self.path.lost(id).is_some() {
                    if round > 0 {
                        return Err(format!(
                            "file {file} has lost writes on a device that is fine"
                        ));
                    }
                    self.files[file].history.accept_lost();
                    self.path.accept_lost(id);
                }
            }
        }
        let dirty = self.path.dirty();
        if dirty != Pages(0) {
            return Err(format!("{dirty} pages are dirty in the end"));
        }
        if self.path.idle_frames() != u64::from(self.path.frame_count()) {
            return Err("a frame is lost".to_string());
        }
        for (number, file) in self.files.iter_mut().enumerate() {
            let (disk, base, newest) = (&self.disks[file.disk], file.base, file.history.snapshot());
            let promised = newest.into_iter().enumerate();
            let checked = file.history.promise(promised, |at| disk.durable(base + at));
            checked.map_err(|why| format!("file {number}, in the end: {why}"))?;
        }
        Ok(())
    }

    /// Each turn ends something, so this ends, or something hangs.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if let Some(id) = self.to_fill.pop() {
                self.fill(id);
            } else if let Some(at) = self.commands.iter().position(|it| it.result.is_some()) {
                self.report(at);
            } else if !self.commands.is_empty() {
                self.take_effect(0, Effect::Good);
            } else if let Some(at) = self.path.poll_timeout() {
                self.pass(at.0.saturating_sub(self.now));
            } else if self.calls.is_empty() && self.reads.is_empty() {
                return Ok(());
            } else {
                let (calls, reads) = (self.calls.len(), self.reads.len());
                return Err(format!("{calls} writes and flushes and {reads} reads hang"));
            }
            self.pump()?;
        }
        Err(format!("it does not end in {TURNS_MAX} turns"))
    }
}

const TURNS_MAX: u32 = 100_000;

const ETIMEDOUT: i32 = 110;
