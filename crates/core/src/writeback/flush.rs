//! Flushes wait for all earlier writes of their file, but for no later ones. A page whose write
//! failed stays dirty, and each flush retries it.
//!
//! ```text
//!   sequence       0        |     1       |      2
//!   dirtied    a  b     |  c     a    |   b
//!   flush               F0           F1
//!                       waits for     waits for c and the second a too;
//!                       a and b       for the second b neither
//! ```
//!
//! A page dirtied again before it was sent keeps the older flush sequence, because the older flush
//! writes its newer bytes. A page dirtied again while it is being written belongs to both.

use alloc::vec::Vec;

use super::Writeback;
use super::command::{WriteCommand, WriteKind, WriteState};
use super::dirty_file::{FileDirtyPages, FlushState};
use super::dirty_page::DirtyList;
use crate::driver_io::{Fault, WriteStep};
use crate::ids::{FileId, WriteId, WriteIdKind};
use crate::read_path::ReadPath;
use crate::slab::Slab;
use crate::units::ByteCount;

impl Writeback {
    /// Begins a flush; `with_device` if it ends with a device flush.
    pub(crate) fn begin_flush(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        with_device: bool,
    ) -> WriteId {
        let kind = if with_device { WriteKind::Flush } else { WriteKind::WriteBack };
        path.telemetry.stats.flushes += 1;
        self.make_urgent(path, file);
        let dirty_file = self.files.get_mut(file);
        let (flush_seq, flush_state, accepts) = match dirty_file {
            Some(dirty_file) => {
                let flush_seq = dirty_file.end_flush_seq();
                (flush_seq, dirty_file.flush_state(flush_seq), dirty_file.accepts)
            }
            None => (0, FlushState::Over(None), 0),
        };
        let id = self
            .add_write(path, WriteCommand { flush_seq, accepts, ..WriteCommand::new(file, kind) });
        match flush_state {
            FlushState::Over(_) => self.end_flush(path, id, flush_state),
            FlushState::Waits => {
                let dirty_file =
                    self.files.get_mut(file).expect("a flush that waits has dirty pages");
                let last = dirty_file.flushes.back().and_then(|&last| self.writes.get(last));
                assert!(
                    last.is_none_or(|last| last.flush_seq <= flush_seq),
                    "flushes are in order"
                );
                dirty_file.flushes.push_back(id);
                self.wait(path, id, WriteState::Device);
            }
        }
        id
    }

    /// Makes all dirty pages of the file urgent, and sends failed ones again.
    pub(super) fn make_urgent(&mut self, path: &mut ReadPath, file: FileId) {
        path.files.open_file(file);
        self.make_unsent_urgent(file);
        self.resend_all_failed(file);
        debug_assert!(
            self.files
                .get(file)
                .is_none_or(|it| self.dirty.oldest(it, DirtyList::Failed).is_none()),
            "all that failed is sent again"
        );
    }

    /// Makes all dirty pages of the file urgent, but for failed ones.
    pub(super) fn make_unsent_urgent(&mut self, file: FileId) {
        let Some(dirty_file) = self.files.get_mut(file) else { return };
        while let Some(id) = self.dirty.oldest(dirty_file, DirtyList::Aging) {
            self.dirty.put(dirty_file, id, DirtyList::Urgent);
        }
        for id in self.dirty.list(dirty_file, DirtyList::Held).collect::<Vec<_>>() {
            self.dirty.get_mut(id).is_urgent = true;
        }
        self.list_file(file);
    }

    /// Fails the waiting flushes of this sequence or later ones, although the failed page is sent
    /// again for others.
    pub(super) fn fail_waiting_flushes(
        writes: &mut Slab<WriteIdKind, WriteCommand>,
        dirty_file: &FileDirtyPages,
        flush_seq: u64,
        fault: Fault,
    ) {
        for &id in &dirty_file.flushes {
            let flush = writes.get_mut(id).expect("a flush that waits is not over");
            if flush.flush_seq >= flush_seq {
                flush.fault = flush.fault.or(Some(fault));
            }
        }
    }

    /// Ends the flushes that waited only for a page which is now clean or failed.
    pub(crate) fn check_flushes(&mut self, path: &mut ReadPath, file: FileId) {
        loop {
            let Some(dirty_file) = self.files.get_mut(file) else {
                return;
            };
            let Some(&id) = dirty_file.flushes.front() else { return };
            let flush_state = dirty_file.flush_state(
                self.writes.get(id).expect("a flush that waits is not over").flush_seq,
            );
            if flush_state == FlushState::Waits {
                return;
            }
            dirty_file.flushes.pop_front();
            self.end_flush(path, id, flush_state);
        }
    }

    /// Ends the flushes of a closed file, whose pages will not be written.
    pub(crate) fn end_waiting_flushes(&mut self, path: &mut ReadPath, file: FileId) {
        let dirty_file = self.files.get_mut(file);
        let Some(dirty_file) = dirty_file else { return };
        for id in core::mem::take(&mut dirty_file.flushes) {
            self.end_write(path, id, ByteCount::ZERO, Some(Fault::Short));
        }
    }

    fn end_flush(&mut self, path: &mut ReadPath, id: WriteId, flush_state: FlushState) {
        let WriteCommand { kind, fault: told, .. } =
            *self.writes.get(id).expect("a flush ends once");
        debug_assert!(
            kind.may_be(WriteState::Device) && kind != WriteKind::Write,
            "{id:?}: a flush"
        );
        match flush_state {
            FlushState::Over(None) if told.is_none() && kind == WriteKind::Flush => {
                self.start_device_flush(path, id);
                self.post(path, id, WriteState::Acting, WriteStep::Act);
            }
            FlushState::Over(fault) => self.end_write(path, id, ByteCount::ZERO, told.or(fault)),
            FlushState::Waits => panic!("{id:?} still waits"),
        }
    }
}
