//! Invariants between writes, dirty pages, their budget and their files, which hold after each
//! call.

use super::Writeback;
use super::command::{WriteKind, WriteState};
use super::dirty_file::FileDirtyPages;
use super::dirty_page::DirtyList;
use crate::ids::{FileId, Waiter};
use crate::read_path::ReadPath;

impl Writeback {
    /// Checks that the budget in use matches the writes and dirty pages, in one step for each
    /// write.
    pub(crate) fn assert_budget(&self) {
        let writes = self.writes.iter().map(|(_, write)| write.budget).sum::<u64>();
        let (used, dirty) = (self.budget.used(), self.dirty.count_all());
        assert!(used == writes + dirty, "{used} used: {writes} by writes, {dirty} by dirty pages");
        let listed = self.dirty.unsent + self.dirty.writing + self.dirty.failed;
        assert!(listed <= dirty, "{listed} pages are on lists, and {dirty} are there");
        assert!(self.dirty.urgent <= self.dirty.unsent, "a page that is urgent is not sent yet");
    }

    /// Returns the number of frames that writes wait for.
    pub(crate) fn frame_waits(&self) -> usize {
        let of_frames = self.writes.iter().filter(|(_, write)| write.kind == WriteKind::Write);
        of_frames.map(|(_, write)| write.outstanding as usize).sum()
    }

    /// Checks each write, file and flush domain.
    pub(crate) fn assert_consistent(&self, path: &ReadPath) {
        self.assert_budget();
        self.assert_writes(path);
        let (mut unsent, mut urgent, mut writing, mut failed) = (0, 0, 0, 0);
        for file in self.files.ids() {
            let dirty_file = self.files.get(file).expect("a file that is listed is there");
            self.assert_file(path, file, dirty_file);
            let count = |on| self.dirty.list(dirty_file, on).count() as u64;
            unsent += count(DirtyList::Aging) + count(DirtyList::Urgent) + count(DirtyList::Held);
            urgent += count(DirtyList::Urgent);
            writing += count(DirtyList::Writing);
            failed += count(DirtyList::Failed);
        }
        let dirty = &self.dirty;
        let counted = (dirty.unsent, dirty.urgent, dirty.writing, dirty.failed);
        let listed = (unsent, urgent, writing, failed);
        assert!(counted == listed, "{counted:?} are counted, and {listed:?} on lists");
        for (_, domain) in self.domains.iter() {
            domain.assert_consistent();
        }
    }

    /// Checks that each write is in the line of its state, and is counted by its file.
    fn assert_writes(&self, path: &ReadPath) {
        for (id, write) in self.writes.iter() {
            let (kind, state) = (write.kind, write.state);
            assert!(kind.may_be(state), "{id:?}: {kind:?} is never {state:?}");
            let in_budget_line = self.budget.line.contains(&id);
            assert!(in_budget_line == (state == WriteState::Budget), "{id:?} in {state:?}");
            let in_frame_line = path.reads.frame_line.contains(&Waiter::Write(id));
            assert!(in_frame_line == (state == WriteState::Frames), "{id:?} in {state:?}");
            let has_frames = matches!(state, WriteState::Reading | WriteState::Filling);
            assert!(has_frames != write.fresh.is_empty(), "{id:?} in {state:?} has frames");
            let has_budget = has_frames || state == WriteState::Frames;
            assert!(has_budget == (write.budget > 0), "{id:?} in {state:?} has budget");
            let is_holder = matches!(kind, WriteKind::Zeroes | WriteKind::SetLen);
            let waits = state == WriteState::Reading || is_holder && state == WriteState::Device;
            assert!(!waits || write.outstanding > 0, "{id:?} in {state:?} waits for nothing");
            let mut waiting =
                self.files.get(write.file).into_iter().flat_map(|it| it.waiting_appends());
            let is_blocked = write.blockers > 0 || waiting.any(|waiting| waiting == id);
            assert!(state != WriteState::Locked || is_blocked, "{id:?} has its pages");
            let acts = state == WriteState::Acting;
            assert!(!acts || write.command.is_some(), "{id:?} acts in no domain");
            let file = path.files.used(write.file);
            let count = self.writes.iter().filter(|(_, other)| other.file == write.file).count();
            assert!(file.writes as usize == count, "{:?} counts its writes", write.file);
        }
    }

    /// Checks the lists, flushes and locks of a file.
    fn assert_file(&self, path: &ReadPath, file: FileId, dirty_file: &FileDirtyPages) {
        let mut listed = 0;
        for on in DirtyList::ALL {
            for id in self.dirty.list(dirty_file, on) {
                let dirty = self.dirty.get(id);
                listed += 1;
                assert!(
                    dirty.on == on && dirty.file == file,
                    "{id:?} is on another list: {dirty:?}"
                );
                assert!(self.dirty.of(dirty.frame) == Some(id), "{:?} names {id:?}", dirty.frame);
                assert!(path.page_in.cache.is_held(dirty.frame), "{:?} is held", dirty.frame);
                let other = dirty.other.map(|other| self.dirty.get(other));
                let is_mutual = other.is_none_or(|other| other.other == Some(id));
                assert!(is_mutual, "newer and older bytes of {id:?} name each other");
                let waits = dirty.is_locked || other.is_some_and(|it| it.on == DirtyList::Writing);
                assert!(on != DirtyList::Held || waits, "{id:?} is held for nothing");
            }
        }
        assert!(listed == dirty_file.dirty, "{listed} pages are on lists of {}", dirty_file.dirty);
        let seqs = &dirty_file.flush_seqs;
        let counted = seqs.iter().map(|seq| seq.dirty).sum::<u64>();
        assert!(counted == listed, "flushes wait for {counted} pages of {listed}");
        assert!(seqs.iter().is_sorted_by_key(|seq| seq.number), "{seqs:?} are out of order");
        let failed = self.dirty.list(dirty_file, DirtyList::Failed).count() as u64;
        let counted = seqs.iter().map(|seq| seq.failed).sum::<u64>();
        assert!(counted == failed, "{counted} failures are counted of {failed}");
        let is_in_line = self.flusher_line.contains(&file);
        assert!(is_in_line == dirty_file.is_listed, "{file:?} is in the flusher's line once");
        assert!(is_in_line || !dirty_file.has_work(), "{file:?} is forgotten by the flusher");
        let waits = |id| self.writes.get(id).expect("a flush that waits is not over").flush_seq;
        let flushes = dirty_file.flushes.iter().map(|&id| waits(id));
        assert!(flushes.is_sorted(), "flushes of {file:?} are out of order");
        self.assert_locks(dirty_file);
    }

    /// Checks that each write with a lock counts the earlier ones that overlap its pages.
    fn assert_locks(&self, dirty_file: &FileDirtyPages) {
        for (at, &id) in dirty_file.locks.iter().enumerate() {
            let write = self.writes.get(id).expect("a write with a lock is not over");
            let before =
                dirty_file.locks.iter().take(at).filter_map(|&other| self.writes.get(other));
            let overlaps = |other: &&super::WriteCommand| {
                other.pages.start < write.pages.end && write.pages.start < other.pages.end
            };
            let blockers = before.filter(overlaps).count();
            assert!(write.blockers as usize == blockers, "{id:?} has {blockers} writes before it");
        }
    }
}
