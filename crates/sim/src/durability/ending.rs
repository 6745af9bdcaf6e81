//! The end of a run by a power cut, a kill or a settling phase, and the check of the surviving
//! data.
//!
//! In:    the world after the last operation.
//! Out:   the first sector, call or frame that breaks an invariant.
//! Never: a change to a device, except by a power cut and by commands that were in flight.

use foreread_core::units::Pages;

use super::cached_disk::CachedDisk;
use super::program::{Effect, RunEnd};
use super::world::{CommandKind, DurabilityWorld, HistoryFile, IssuedCommand};

impl DurabilityWorld {
    /// Ends the run and checks the surviving data.
    pub(super) fn end(mut self, end: RunEnd) -> Result<(), String> {
        match end {
            RunEnd::PowerCut => {
                self.leave_commands();
                let Self { disks, rng, .. } = &mut self;
                disks.iter_mut().for_each(|disk| disk.cut(rng));
                self.check_survivors(CachedDisk::durable, CachedDisk::durable_len)
            }
            RunEnd::Kill => {
                self.leave_commands();
                self.check_survivors(CachedDisk::sector, CachedDisk::live_len)
            }
            RunEnd::Settle => self.settle_all(),
        }
    }

    /// Lets each sector and length of the writes in flight reach the device or not.
    pub(super) fn leave_commands(&mut self) {
        for IssuedCommand { what, file, result, is_written } in std::mem::take(&mut self.commands) {
            if is_written {
                continue;
            }
            let HistoryFile { disk, base, .. } = self.files[file];
            let disk = &mut self.disks[disk];
            match (what, result) {
                (CommandKind::Write { at, stamps, .. }, None) => {
                    for (at, stamp) in (at..disk.live_len(base)).zip(stamps) {
                        if self.rng.below(2) == 0 {
                            disk.write(base + at, stamp);
                        }
                    }
                }
                (CommandKind::SetLen { len, .. }, None)
                    if len <= self.files[file].history.space() && self.rng.below(2) == 0 =>
                {
                    disk.set_len(base, len);
                }
                _ => {}
            }
        }
    }

    fn check_survivors(
        &self,
        found: impl Fn(&CachedDisk, usize) -> u32,
        found_len: impl Fn(&CachedDisk, usize) -> usize,
    ) -> Result<(), String> {
        for (number, file) in self.files.iter().enumerate() {
            let len = found_len(&self.disks[file.disk], file.base);
            file.history.check_len(len).map_err(|why| format!("file {number}: {why}"))?;
            for at in 0..file.history.space() {
                let found = found(&self.disks[file.disk], file.base + at);
                let check = file.history.check_survivor(at, found);
                check.map_err(|why| format!("file {number}: {why}"))?;
            }
        }
        Ok(())
    }

    /// Completes everything successfully: no call hangs, and in the end all data is durable.
    fn settle_all(&mut self) -> Result<(), String> {
        self.drain()?;
        for round in 0..3 {
            for file in 0..self.files.len() {
                let _ = self.flush(file);
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
                    self.accept_lost(file);
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
            let durable = |at| disk.durable(base + at);
            let checked = file.history.promise_flush(newest, disk.durable_len(base), durable);
            checked.map_err(|why| format!("file {number}, in the end: {why}"))?;
        }
        Ok(())
    }

    /// Accepts the loss of a file whose device has dropped its length; until then the device
    /// refuses pages past its end.
    fn lost_length(&self) -> Option<usize> {
        (0..self.files.len()).find(|&file| {
            let HistoryFile { id, disk, base, ref history, .. } = self.files[file];
            let is_other = self.disks[disk].live_len(base) != history.len();
            is_other && self.path.lost(id).is_some() && self.may_accept_lost(file)
        })
    }

    /// Each turn completes a command, so the loop ends unless a call hangs.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if let Some(id) = self.to_fill.pop() {
                self.fill(id);
            } else if let Some(at) = self.commands.iter().position(|it| it.result.is_some()) {
                self.report(at);
            } else if !self.commands.is_empty() {
                // The oldest first, so that two that are resent again and again cannot starve
                // others.
                self.commands.rotate_left(1);
                self.take_effect(self.commands.len() - 1, Effect::Good);
            } else if self.has_idle_append() {
                self.go_on(0, usize::MAX);
            } else if let Some(file) = self.lost_length() {
                self.accept_lost(file);
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
