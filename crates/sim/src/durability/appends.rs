//! Callers that append to a file or write past its end, piece by piece, several at a time.
//!
//! In:    appends that begin, go on, and are left; the ends of their calls.
//! Out:   calls of the path, in the order in which the engine makes them.
//! Never: a piece begun before the one in front of it has ended.
//!
//! ```text
//!   Growing --> Idle --> Writing, a piece --> Idle --> .. --> end_append, and the cut, if any
//!      '---------'------------'-- left by its caller, or failed --^
//! ```

use foreread_core::path::{Fault, LenChange, WriteId, WriteMode, WriteRange};
use foreread_core::sched::Submitter;
use foreread_core::units::ByteCount;

use super::program::Sabotage;
use super::world::{
    Append, AppendStage, Call, CallKind, DurabilityWorld, SECTOR, WrittenStamps, index,
};

impl DurabilityWorld {
    /// Starts an append, or a write at this many sectors past the end.
    pub(super) fn append(
        &mut self,
        file: usize,
        behind: Option<usize>,
        sectors: usize,
        mode: WriteMode,
    ) {
        let history = &self.files[file].history;
        let (len, space) = (history.len(), history.space());
        if len + 200 > space {
            self.begin_change_len(file, LenChange::Exact(bytes(len.saturating_sub(200))));
            return;
        }
        let at = behind.map(|gap| len + gap);
        let change = match at {
            None => LenChange::Append(bytes(sectors)),
            Some(at) => LenChange::AtLeast(bytes(at + sectors)),
        };
        let (now, id) = (self.tick(), self.files[file].id);
        let id = if self.sabotage == Sabotage::LengthFirst {
            self.path.change_len(now, id, change)
        } else {
            self.path.begin_append(now, id, change)
        };
        self.tally.appends += 1;
        self.calls.insert(id, Call { file, kind: CallKind::Grow { at, before: None } });
        let stage = AppendStage::Growing;
        self.appends.push(Append { file, id, at, left: sectors, mode, stage });
    }

    /// Starts the next piece of an append.
    pub(super) fn go_on(&mut self, which: u64, sectors: usize) {
        let idle: Vec<_> = (0..self.appends.len())
            .filter(|&at| self.appends[at].stage == AppendStage::Idle)
            .collect();
        if idle.is_empty() {
            return;
        }
        let number = idle[index(which, idle.len())];
        let Append { file, id, at, left, mode, .. } = self.appends[number];
        let at = at.expect("the file has grown");
        let (pos, len) = (bytes(at), bytes(left.min(sectors)));
        let range = WriteRange { file: self.files[file].id, pos, len };
        let (now, stamps) = (self.tick(), WrittenStamps::Same(self.next_stamp));
        self.next_stamp += 1;
        let write = if self.sabotage == Sabotage::LengthFirst {
            self.path.write(now, range.file, pos, len, mode, Submitter::default())
        } else {
            self.path.write_appended(now, id, range, mode, Submitter::default())
        };
        let kind =
            CallKind::Write { sectors: at..at, stamps, mode, filled: None, append: Some(id) };
        self.calls.insert(write, Call { file, kind });
        self.appends[number].stage = AppendStage::Writing(write);
    }

    /// Abandons an append. A piece whose frames are being filled may end before or after that;
    /// calls that have not begun are cancelled.
    pub(super) fn leave_append(&mut self, which: u64, fills_first: bool) {
        if self.appends.is_empty() {
            return;
        }
        let number = index(which, self.appends.len());
        let Append { id, stage, .. } = self.appends[number];
        self.tally.dropped_appends += 1;
        match stage {
            AppendStage::Growing => self.cancel(id),
            AppendStage::Idle => {}
            AppendStage::Writing(piece) => match self.to_fill.iter().position(|it| *it == piece) {
                Some(at) if fills_first => {
                    self.to_fill.swap_remove(at);
                    self.fill(piece);
                }
                Some(_) => {}
                None => self.cancel(piece),
            },
        }
        self.end_append(number, false);
    }

    fn cancel(&mut self, id: WriteId) {
        let now = self.tick();
        self.path.cancel_write(now, id);
    }

    /// Handles the end of a change of length for an append.
    pub(super) fn grown(
        &mut self,
        (file, id): (usize, WriteId),
        before: usize,
        fault: Option<Fault>,
    ) {
        let Some(number) = self.appends.iter().position(|it| it.id == id) else {
            // The caller has left.
            let now = self.tick();
            if self.sabotage != Sabotage::LengthFirst {
                let cut = self.path.end_left_append(now, self.files[file].id, id);
                self.cut_back(file, id, cut, fault.is_none());
            }
            return;
        };
        if fault.is_some() {
            self.end_append(number, false);
            return;
        }
        let append = &mut self.appends[number];
        append.at = append.at.or(Some(before));
        append.stage = AppendStage::Idle;
    }

    /// Handles the end of a piece of an append.
    pub(super) fn piece_ended(&mut self, id: WriteId, len: usize, fault: Option<Fault>) {
        let Some(number) = self.appends.iter().position(|it| it.id == id) else { return };
        let append = &mut self.appends[number];
        append.stage = AppendStage::Idle;
        append.left -= len;
        append.at = append.at.map(|at| at + len);
        let is_complete = append.left == 0;
        // A file that has become shorter gets no more writes, as if the append had come first.
        if fault.is_some() || len == 0 || is_complete {
            self.end_append(number, fault.is_none() && is_complete);
        }
    }

    fn end_append(&mut self, number: usize, is_complete: bool) {
        let Append { file, id, at, .. } = self.appends.swap_remove(number);
        if is_complete {
            let end = at.expect("what is complete has begun");
            self.files[file].history.appends.complete(id, end);
        }
        if self.sabotage != Sabotage::LengthFirst {
            let now = self.tick();
            let cut = self.path.end_append(now, self.files[file].id, id);
            let is_changing = self.calls.contains_key(&id);
            self.cut_back(file, id, cut, !is_changing);
        }
    }

    /// Handles the end of an append, including the cut of its unwritten part.
    fn cut_back(&mut self, file: usize, append: WriteId, cut: Option<WriteId>, has_ended: bool) {
        match cut {
            Some(cut) => {
                let kind = CallKind::ChangeLen { before: None, cut_of: Some(append) };
                self.calls.insert(cut, Call { file, kind });
            }
            // The remaining zeros belong to another change of length.
            None if has_ended => self.files[file].history.appends.forget(append),
            None => {}
        }
    }

    pub(super) fn has_idle_append(&self) -> bool {
        self.appends.iter().any(|it| it.stage == AppendStage::Idle)
    }

    /// Returns true if an append to this file is in progress.
    pub(super) fn is_appending(&self, file: usize) -> bool {
        self.appends.iter().any(|it| it.file == file)
    }
}

fn bytes(sectors: usize) -> ByteCount {
    ByteCount(sectors as u64 * SECTOR)
}
