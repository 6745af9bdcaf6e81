//! Flushes: they wait for what was written before them, and for nothing that comes after.
//!
//! In:    a file.
//! Out:   [`WriteStep::Act`] when the device has all of it; or the fault, if it refused some.
//! Never: a page forgotten because its write failed: it stays dirty, and each flush tries again.
//!
//! ```text
//!   epoch      0        |     1       |      2
//!   dirtied    a  b     |  c     a    |   b
//!   flush               F0           F1
//!                       waits for     waits for c and the second a too;
//!                       a and b       for the second b neither
//! ```
//!
//! A page that is dirtied again before it was sent keeps the older epoch: its newer bytes are what
//! the older flush gets. One that is dirtied again while it is being written is of both.

use alloc::vec::Vec;

use super::debts::{DirtyList, FileDirtyPages, FlushState};
use super::{WriteCommand, WriteId, WriteKind, WriteState, WriteStep};
use crate::path::{Fault, FileId, IoPath};
use crate::replay::{PathCall, PathOutput};
use crate::slab::Slab;
use crate::units::{ByteCount, Nanos};

impl IoPath {
    /// Waits until the device has all that was written to the file before, and then wants
    /// [its own flush](WriteStep::Act). Writes that are not done yet are not waited for.
    ///
    /// If the device refused a page, this is done with its fault, without an act. The page stays
    /// dirty; each later flush tries it again, and says so again until it is written.
    pub fn flush(&mut self, now: Nanos, file: FileId) -> WriteId {
        self.log().did(|| PathCall::Flush { now, file });
        self.begin_flush(now, file, WriteKind::Flush)
    }

    /// The same without the device's own flush: it may have all in a cache that a power cut
    /// empties.
    pub fn write_back(&mut self, now: Nanos, file: FileId) -> WriteId {
        self.log().did(|| PathCall::WriteBack { now, file });
        self.begin_flush(now, file, WriteKind::WriteBack)
    }

    fn begin_flush(&mut self, now: Nanos, file: FileId, kind: WriteKind) -> WriteId {
        self.clock = now;
        self.stats.flushes += 1;
        self.urge(file);
        let books = self.files.get_mut(file).and_then(|file| file.debts.as_mut());
        let (epoch, standing, accepts) = match books {
            Some(books) => {
                let epoch = books.end_epoch();
                (epoch, books.standing(epoch), books.accepts)
            }
            None => (0, FlushState::Over(None), 0),
        };
        let id = self.add_write(WriteCommand { epoch, accepts, ..WriteCommand::new(file, kind) });
        match standing {
            FlushState::Over(_) => self.end_flush(id, standing),
            FlushState::Waits => {
                let file = self.files.get_mut(file).expect("the file is open");
                file.debts.as_mut().expect("it owes something").flushes.push_back(id);
                self.wait(id, WriteState::Device);
            }
        }
        self.admit(now);
        self.log().gave(|| PathOutput::Write(id));
        id
    }

    /// All that the file owes is to be written now, and what failed is tried again.
    pub(super) fn urge(&mut self, file: FileId) {
        let state = self.files.get_mut(file).expect("the file is open");
        assert!(!state.is_closing, "{file:?} is closed");
        let Some(books) = &mut state.debts else { return };
        while let Some(id) = self.debts.oldest(books, DirtyList::Aging) {
            self.debts.put(books, id, DirtyList::Urgent);
        }
        for id in self.debts.list(books, DirtyList::Held).collect::<Vec<_>>() {
            self.debts.get_mut(id).is_urgent = true;
        }
        self.send_all_again(file);
    }

    /// Flushes that wait for pages of this epoch end with the fault, although the page that failed
    /// is sent again for others.
    pub(super) fn tell_flushes(
        writes: &mut Slab<WriteCommand>,
        books: &FileDirtyPages,
        epoch: u64,
        fault: Fault,
    ) {
        for &id in &books.flushes {
            let flush = writes.get_mut(id).expect("it waits");
            if flush.epoch >= epoch {
                flush.fault = flush.fault.or(Some(fault));
            }
        }
    }

    /// A page is clean now, or has failed: flushes that waited for nothing else are over.
    pub(in crate::path) fn check_flushes(&mut self, file: FileId) {
        loop {
            let Some(books) = self.files.get_mut(file).and_then(|file| file.debts.as_mut()) else {
                return;
            };
            let Some(&id) = books.flushes.front() else { return };
            let standing = books.standing(self.writes.get(id).expect("it waits").epoch);
            if standing == FlushState::Waits {
                return;
            }
            books.flushes.pop_front();
            self.end_flush(id, standing);
        }
    }

    /// The file is closed: what they wait for will not be written.
    pub(in crate::path) fn end_waiting_flushes(&mut self, file: FileId) {
        let books = self.files.get_mut(file).and_then(|file| file.debts.as_mut());
        let Some(books) = books else { return };
        for id in core::mem::take(&mut books.flushes) {
            self.end_write(id, ByteCount::ZERO, Some(Fault::Short));
        }
    }

    fn end_flush(&mut self, id: WriteId, standing: FlushState) {
        let WriteCommand { kind, fault: told, .. } = *self.writes.get(id).expect("a flush");
        match standing {
            FlushState::Over(None) if told.is_none() && kind == WriteKind::Flush => {
                self.start_device_flush(id);
                self.post(id, WriteState::Acting, WriteStep::Act);
            }
            FlushState::Over(fault) => self.end_write(id, ByteCount::ZERO, told.or(fault)),
            FlushState::Waits => panic!("{id:?} still waits"),
        }
    }
}
