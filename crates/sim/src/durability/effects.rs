//! The effects of commands at their devices.
//!
//! In:    a command in flight, and its fate at the device.
//! Out:   sectors on the disk or in memory; the command's result, which the driver reports later.
//! Never: a report to the path.

use std::ops::Range;

use super::cached_disk::{CachedDisk, Dropped, Stamp, ZEROS};
use super::history::History;
use super::program::{EIO, ENOSPC, Effect, Sabotage};
use super::world::{
    CallKind, CommandKind, DurabilityWorld, HistoryFile, IssuedCommand, PAGE, SECTOR,
};
use crate::rng::Rng;

/// Handling of a durable write to a file.
#[derive(Clone, Copy, Eq, PartialEq)]
enum FuaMethod {
    /// The file system honours the flag.
    Flag,
    /// The file system ignores the flag, and the driver trusts it: deliberately wrong.
    Ignored,
    /// The file system ignores the flag: the driver flushes after the write, in the same command.
    WriteThenFlush,
}

/// The sectors of one file while a command takes effect there.
struct DiskRange<'w> {
    disk: &'w mut CachedDisk,
    base: usize,
    history: &'w mut History,
    rng: &'w mut Rng,
    sabotage: Sabotage,
    fua: FuaMethod,
    /// Sectors that the disk has dropped.
    dropped: Dropped,
}

impl DurabilityWorld {
    /// Applies a command to its device.
    pub(super) fn take_effect(&mut self, at: usize, how: Effect) {
        let Self {
            commands, calls, disks, files, memory, rng, sabotage, next_stamp, tally, ..
        } = self;
        let IssuedCommand { what, file, result, is_written } = &mut commands[at];
        assert!(result.is_none(), "a command takes effect once");
        tally.injected += u64::from(how != Effect::Good);
        let HistoryFile { disk, base, ref mut history, ignores_fua, .. } = files[*file];
        let mut range = DiskRange {
            disk: &mut disks[disk],
            base,
            history,
            rng,
            sabotage: *sabotage,
            fua: match ignores_fua {
                false => FuaMethod::Flag,
                true if *sabotage == Sabotage::TrustFua => FuaMethod::Ignored,
                true => FuaMethod::WriteThenFlush,
            },
            dropped: Dropped::default(),
        };
        *result = Some(match what {
            // The flush of a durable write is a separate step, because much may happen before it.
            CommandKind::Write { len, .. } if *is_written => range.flush_command(how).map(|_| *len),
            CommandKind::Write { at, stamps, len, fua, .. } => {
                let flushes_next = *fua && range.fua == FuaMethod::WriteThenFlush;
                let is_flagged = *fua && range.fua == FuaMethod::Flag;
                let written = range.write(*at, stamps, *len, is_flagged, how);
                if flushes_next && written == Ok(*len) {
                    *is_written = true;
                    return;
                }
                written
            }
            CommandKind::Read { at, frames, len, .. } => {
                let len = range.read(*at, frames, *len, memory);
                if matches!(how, Effect::Error(_)) { Err(EIO) } else { Ok(len) }
            }
            CommandKind::SetLen { len, .. } => range.set_len(*len, how),
            CommandKind::Flush { .. } => range.flush_command(how),
            CommandKind::Zero { id, sectors, is_discard } => {
                if range.zero(sectors, *is_discard, *next_stamp, how) {
                    let call = calls.get_mut(id).expect("a call ends after its command");
                    let CallKind::Zero { stamp, .. } = &mut call.kind else {
                        unreachable!("the call of a zero command is a zero")
                    };
                    *stamp = Some(*next_stamp);
                    *next_stamp += 1;
                }
                if matches!(how, Effect::Error(_)) { Err(EIO) } else { Ok(0) }
            }
        });
        let dropped = range.dropped;
        self.note_dropped(disk, &dropped);
    }

    /// Records that readers may find the old versions of sectors that a disk has dropped.
    fn note_dropped(&mut self, disk: usize, dropped: &Dropped) {
        self.drops += u64::from(!dropped.sectors.is_empty());
        for file in self.files.iter_mut().filter(|file| file.disk == disk) {
            let here = file.base..file.base + file.history.space();
            for at in dropped.sectors.iter().filter(|at| here.contains(at)) {
                file.history.revert(at - file.base);
            }
            if dropped.lens.contains(&file.base) {
                file.history.revert_len();
            }
        }
    }
}

impl DiskRange<'_> {
    fn write(
        &mut self,
        at: usize,
        stamps: &[Stamp],
        len: u64,
        fua: bool,
        how: Effect,
    ) -> Result<u64, i32> {
        // A file that lost a length ends earlier.
        let left = self.disk.live_len(self.base).saturating_sub(at) as u64 * SECTOR;
        let is_cut = left < len.next_multiple_of(SECTOR);
        let part = |part: u64| (len * part / 64 / SECTOR * SECTOR).min(left);
        let (done, result) = match how {
            _ if is_cut => (left, Ok(left)),
            Effect::Short(of) => (part(of), Ok(part(of))),
            Effect::Error(of) => (part(of), Err(EIO)),
            Effect::FlushError if fua => (len, Err(EIO)),
            Effect::Good | Effect::FlushError => (len, Ok(len)),
        };
        let is_good = result == Ok(len);
        let is_durable = fua && is_good && self.sabotage != Sabotage::NoFua;
        for (at, &stamp) in (at..).zip(stamps).take(done.div_ceil(SECTOR) as usize) {
            if is_durable {
                self.disk.write_durably(self.base, self.base + at, stamp);
            } else {
                self.disk.write(self.base + at, stamp);
            }
            self.history.landed(at, stamp);
        }
        if fua && self.disk.fua_flushes && is_good {
            self.flush();
        }
        // A refused command is not flushed.
        if fua && how == Effect::FlushError && !is_cut {
            self.dropped = self.disk.fail_flush(self.rng);
            if self.sabotage == Sabotage::RepairedFua {
                // The flush may have dropped the length, too.
                for (at, &stamp) in (at..self.disk.live_len(self.base)).zip(stamps) {
                    self.disk.write(self.base + at, stamp);
                }
                self.flush();
                return Ok(len);
            }
        }
        result
    }

    /// Returns the number of sectors read: the file may end earlier. The rest of a page is zeros.
    fn read(&self, at: usize, frames: &[usize], len: u64, memory: &mut [[Stamp; PAGE]]) -> u64 {
        let last = (at + len.div_ceil(SECTOR) as usize).min(self.disk.live_len(self.base)).max(at);
        for sector in at..last.next_multiple_of(PAGE).min(at + frames.len() * PAGE) {
            let frame = frames[(sector - at) / PAGE];
            let found = if sector < last { self.disk.sector(self.base + sector) } else { ZEROS };
            memory[frame][sector % PAGE] = found;
        }
        len.min((last - at) as u64 * SECTOR)
    }

    /// Sets the length of the file, or refuses to.
    fn set_len(&mut self, len: usize, how: Effect) -> Result<u64, i32> {
        let is_refused = matches!(how, Effect::Error(_) | Effect::FlushError);
        if is_refused || len > self.history.space() {
            return Err(ENOSPC);
        }
        self.disk.set_len(self.base, len);
        Ok(0)
    }

    fn flush_command(&mut self, how: Effect) -> Result<u64, i32> {
        match how {
            _ if self.sabotage == Sabotage::NoFlush => Ok(0),
            Effect::FlushError => {
                self.dropped = self.disk.fail_flush(self.rng);
                if self.sabotage == Sabotage::HiddenFailure { Ok(0) } else { Err(EIO) }
            }
            // It fails before it reaches the device.
            Effect::Error(_) => Err(EIO),
            Effect::Good | Effect::Short(_) => {
                self.flush();
                Ok(0)
            }
        }
    }

    /// Zeroes sectors with `stamp`, or fails. Returns true if it has zeroed them.
    fn zero(
        &mut self,
        sectors: &Range<usize>,
        is_discard: bool,
        stamp: Stamp,
        how: Effect,
    ) -> bool {
        // Until the caller gets the result, readers may find either.
        self.history.set_undefined(sectors.clone());
        let fails_first = matches!(how, Effect::Error(of) if of < 32);
        if fails_first || (is_discard && self.rng.below(2) == 0) {
            return false;
        }
        // A file that lost a length ends before.
        let end = sectors.end.min(self.disk.live_len(self.base));
        (sectors.start..end).for_each(|at| self.disk.write(self.base + at, stamp));
        true
    }

    fn flush(&mut self) {
        self.disk.flush(self.base);
    }
}
