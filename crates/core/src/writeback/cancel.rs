//! Writes whose caller has left, or whose file was closed.
//!
//! In:    a write that is not wanted any more.
//! Out:   the write is over, now or soon; its budget, its frames and its pages are free.
//! Never: a page with bytes that were not copied.

use alloc::vec::Vec;

use super::Writeback;
use super::command::{WriteKind, WriteState};
use crate::driver_io::Fault;
use crate::ids::{FileId, Waiter, WriteId};
use crate::read_path::ReadPath;
use crate::units::ByteCount;

impl Writeback {
    /// The caller of this write has left, and will not copy.
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

    /// The file is closed: writes of it that have no frames yet, or have not begun to act, are
    /// over.
    pub(crate) fn end_waiting_writes(&mut self, path: &mut ReadPath, file: FileId) {
        let dirty_file = self.files.get(file);
        let waiting = dirty_file.map_or_else(Vec::new, |it| it.waiting_appends().collect());
        waiting.into_iter().for_each(|id| self.cancel_waiting(path, id));
        let locks =
            self.files.get(file).map_or_else(Vec::new, |it| it.locks.iter().copied().collect());
        // The last first: so no write is left to go on with what another one gives back.
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

    /// Ends a write that waits in some line.
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
