//! What writeback keeps of each file that was written: its dirty pages by flush, its waiting
//! flushes, what its device refused and lost.
//!
//! In:    pages that become dirty, are written, or fail.
//! Out:   how a flush stands.
//! Never: a page's state: that is in `dirty_page.rs`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::dirty_page::DirtyList;
use super::refusals::Refusals;
use crate::cache::FlushInterval;
use crate::driver_io::Fault;
use crate::ids::{FileId, WriteId};
use crate::units::ByteCount;

/// A list of a file's dirty pages, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirtyListEnds {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// What writeback keeps of one file.
#[derive(Debug, Default)]
pub(crate) struct FileDirtyPages {
    pub(super) lists: [DirtyListEnds; 5],
    /// How many pages are dirty, on all lists.
    pub(crate) dirty: u64,
    /// The flush sequence in which pages are dirtied now.
    pub(super) flush_seq: u64,
    /// Those with dirty pages, oldest first.
    pub(super) flush_seqs: VecDeque<FlushSeq>,
    /// What its device refused.
    pub(crate) refusals: Refusals,
    /// Flushes that wait, oldest first.
    pub(crate) flushes: VecDeque<WriteId>,
    /// Writes that work on pages, and those that wait for them, in their order.
    pub(crate) locks: VecDeque<WriteId>,
    /// Appends and other growing writes that have not ended, in their order.
    pub(super) appends: Vec<OngoingAppend>,
    /// Whether the flusher has it in its line.
    pub(crate) is_listed: bool,
    /// What was written in these intervals is durable.
    pub(crate) durable: FlushInterval,
    /// Some of its unstable pages are to be written again and have no budget yet.
    pub(crate) is_rewriting: bool,
    /// Acknowledged writes are lost, and the owner has not accepted that.
    pub(crate) lost: Option<Fault>,
    /// The last loss that was accepted, and how many were.
    pub(crate) accepted: Option<Fault>,
    pub(crate) accepts: u32,
    /// The number of failed flushes with which it lost writes.
    pub(crate) losses: u64,
}

/// An append, or another write that makes its file longer, that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OngoingAppend {
    /// The change of length that it began with.
    pub(super) id: WriteId,
    /// The lowest end that the file was cut to since.
    pub(super) limit: ByteCount,
    /// The end of what is filled: at first, the length before it.
    pub(super) written: ByteCount,
    /// The length with all of it.
    pub(super) end: ByteCount,
    /// Whether it waits for those before it to be filled.
    pub(super) is_waiting: bool,
    /// Whether the file has its length.
    pub(super) has_grown: bool,
    /// Whether all of it is filled, or it does not make the file longer: others need not wait.
    pub(super) is_over: bool,
    /// Whether its caller has left while the length was being changed.
    pub(super) is_left: bool,
}

/// The dirty pages of one flush sequence: the time between two flushes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushSeq {
    pub(super) number: u64,
    pub(super) dirty: u64,
    /// How many of those have failed.
    pub(super) failed: u64,
    /// How the last of those failed.
    pub(super) fault: Option<Fault>,
}

/// How a flush stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FlushState {
    /// Something is still on its way.
    Waits,
    /// All is written, or has failed: then how.
    Over(Option<Fault>),
}

/// What writeback keeps of each file that was written, by the file's slot: few files are.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    pub(super) files: Vec<Option<(FileId, Box<FileDirtyPages>)>>,
}

impl DirtyFiles {
    pub(super) fn get(&self, file: FileId) -> Option<&FileDirtyPages> {
        let (id, state) = self.files.get(file.index() as usize)?.as_ref()?;
        (*id == file).then_some(&**state)
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut FileDirtyPages> {
        let (id, state) = self.files.get_mut(file.index() as usize)?.as_mut()?;
        (*id == file).then_some(&mut **state)
    }

    /// What is kept of a file that is open.
    pub(super) fn get_or_insert(&mut self, file: FileId) -> &mut FileDirtyPages {
        let index = file.index() as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || None);
        }
        let (id, state) =
            self.files[index].get_or_insert_with(|| (file, Box::new(FileDirtyPages::new())));
        assert!(*id == file, "{id:?} has the slot of {file:?}");
        state
    }

    /// A file that was closed is forgotten.
    pub(super) fn remove(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(file.index() as usize)
            && state.as_ref().is_some_and(|(id, _)| *id == file)
        {
            let is_clean =
                state.as_ref().is_none_or(|(_, it)| it.dirty == 0 && it.locks.is_empty());
            assert!(is_clean, "{file:?} goes while something of it is dirty or written");
            *state = None;
        }
    }

    /// All of them, in the order of their slots.
    pub(super) fn ids(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().flatten().map(|(id, _)| *id)
    }
}

impl FileDirtyPages {
    /// Of a file of which nothing is dirty. Numbers begin with 1, so that a flush that comes first
    /// has one to wait for that no page will get.
    fn new() -> Self {
        Self { flush_seq: 1, ..Self::default() }
    }

    /// Notes a failed flush with which acknowledged writes were lost.
    pub(super) fn note_loss(&mut self, fault: Fault) {
        self.lost = Some(fault);
        self.losses += 1;
    }

    /// What a flush that comes now waits for; what is written from now on is of another flush
    /// sequence.
    ///
    /// While the present flush sequence has no dirty page it goes on, and the flush waits for those
    /// before.
    pub(crate) fn end_flush_seq(&mut self) -> u64 {
        if self.flush_seqs.back().is_some_and(|flush_seq| flush_seq.number == self.flush_seq) {
            self.flush_seq += 1;
        }
        debug_assert!(
            self.flush_seqs.back().is_none_or(|last| last.number < self.flush_seq),
            "what is dirty now is of an earlier flush"
        );
        self.flush_seq - 1
    }

    /// How a flush of this flush sequence stands.
    pub(crate) fn flush_state(&self, flush_seq: u64) -> FlushState {
        if self.is_rewriting {
            return FlushState::Waits;
        }
        let mut fault = None;
        for flush_seq in self.flush_seqs.iter().take_while(|each| each.number <= flush_seq) {
            if flush_seq.dirty > flush_seq.failed {
                return FlushState::Waits;
            }
            assert!(
                flush_seq.failed == 0 || flush_seq.fault.is_some(),
                "a page of it has failed, and no flush is told how"
            );
            fault = fault.or(flush_seq.fault);
        }
        FlushState::Over(fault)
    }

    /// How a page of this flush sequence failed, if one has.
    pub(crate) fn fault_of(&self, flush_seq: u64) -> Option<Fault> {
        let at = self.flush_seqs.binary_search_by_key(&flush_seq, |each| each.number);
        at.ok().and_then(|at| self.flush_seqs[at].fault)
    }

    /// Whether the flusher may find something here, now or later.
    pub(crate) fn has_work(&self) -> bool {
        [DirtyList::Aging, DirtyList::Urgent, DirtyList::Failed]
            .iter()
            .any(|on| self.lists[on.index()].head != 0)
    }

    pub(super) fn list_mut(&mut self, on: DirtyList) -> &mut DirtyListEnds {
        &mut self.lists[on.index()]
    }

    /// Changes the counts of a flush sequence; one without dirty pages is forgotten.
    pub(super) fn count(&mut self, number: u64, change: impl FnOnce(&mut FlushSeq)) {
        let at = match self.flush_seqs.binary_search_by_key(&number, |flush_seq| flush_seq.number) {
            Ok(at) => at,
            Err(at) => {
                self.flush_seqs.insert(at, FlushSeq { number, dirty: 0, failed: 0, fault: None });
                at
            }
        };
        debug_assert!(number <= self.flush_seq, "{number} has not begun");
        let flush_seq = &mut self.flush_seqs[at];
        change(flush_seq);
        assert!(flush_seq.failed <= flush_seq.dirty, "{flush_seq:?}: a page that failed is dirty");
        if flush_seq.failed == 0 {
            flush_seq.fault = None;
        }
        if flush_seq.dirty == 0 {
            self.flush_seqs.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_a_clean_file_does_not_wait_for_pages_that_are_dirtied_later() {
        let mut file = FileDirtyPages::new();
        // Unstable pages are to be written again, and have no budget yet: so it waits.
        file.is_rewriting = true;
        let flush = file.end_flush_seq();
        assert_eq!(file.flush_state(flush), FlushState::Waits);
        file.is_rewriting = false;
        file.count(file.flush_seq, |flush_seq| flush_seq.dirty += 1);
        assert_eq!(file.flush_state(flush), FlushState::Over(None));
        let next = file.end_flush_seq();
        assert_eq!((next > flush, file.flush_state(next)), (true, FlushState::Waits));
    }
}
