//! Cancels writes whose caller has gone or whose file was closed. A write that is being filled
//! cannot be cancelled, because its page would contain bytes that were not copied.

use alloc::vec::Vec;

use super::Writeback;
use super::command::{WriteKind, WriteState};
use crate::driver_io::Fault;
use crate::ids::{FileId, Waiter, WriteId};
use crate::read_path::ReadPath;
use crate::units::ByteCount;

impl Writeback {
    /// Cancels a write whose caller has gone and will not copy.
    pub(crate) fn cancel_write(&mut self, path: &mut ReadPath, id: WriteId) {
        let Some(write) = self.writes.get_mut(id) else { return };
        match write.state {
            WriteState::Locked | WriteState::Budget | WriteState::Frames => {
                self.cancel_waiting(path, id);
            }
            WriteState::Reading => write.fault = write.fault.or(Some(Fault::Short)),
            WriteState::Filling => {
                assert!(
                    write.kind != WriteKind::Write,
                    "{id:?} is being filled, and is not cancelled"
                );
            }
            WriteState::Device | WriteState::Acting => {}
        }
    }

    /// Cancels the writes of a closed file that have no frames yet, or have not begun to act.
    pub(crate) fn end_waiting_writes(&mut self, path: &mut ReadPath, file: FileId) {
        let dirty_file = self.files.get(file);
        let waiting = dirty_file.map_or_else(Vec::new, |it| it.waiting_appends().collect());
        waiting.into_iter().for_each(|id| self.cancel_waiting(path, id));
        let locks =
            self.files.get(file).map_or_else(Vec::new, |it| it.locks.iter().copied().collect());
        // Last first, so that no remaining write proceeds with resources that another one releases.
        for id in locks.into_iter().rev() {
            let write = self.writes.get(id).expect("a write with a lock is not over");
            let has_begun = match write.state {
                WriteState::Locked | WriteState::Budget | WriteState::Frames => false,
                WriteState::Device => !matches!(write.kind, WriteKind::Zeroes | WriteKind::SetLen),
                WriteState::Reading | WriteState::Filling | WriteState::Acting => true,
            };
            if !has_begun {
                self.cancel_waiting(path, id);
            }
        }
    }

    /// Cancels a write that waits in a line.
    fn cancel_waiting(&mut self, path: &mut ReadPath, id: WriteId) {
        let write = self.writes.get(id).expect("a write is cancelled before it is over");
        let has_frames = !write.fresh.is_empty() || !write.fills.is_empty();
        let file = write.file;
        assert!(!has_frames, "{id:?} has frames, and is abandoned instead");
        self.unlocked.retain(|&other| other != id);
        self.budget.leave_line(id);
        path.reads.frame_line.retain(|&other| other != Waiter::Write(id));
        self.release_budget(id);
        if !self.leave_append_line(file, id) {
            self.unlock(id);
        }
        self.end_write(path, id, ByteCount::ZERO, Some(Fault::Short));
    }
}
