//! Appends and other writes that extend their file are serialised, each with its bytes: the file's
//! length never includes one append while bytes of an earlier one are missing. If the file is cut
//! after an append began, no byte of it is written behind that end.
//!
//! ```text
//!   one append     |=== filled ===|=== filled ===|. . . . |
//!   the next one   waits  ...............................  begins here, when all is filled
//!   if its caller leaves           the file ends here ^     and the next one begins there
//! ```
//!
//! An append precedes the next one until its last piece is filled, not until the device has it.
//! Appends of many threads therefore wait for copies, but never for each other's device writes.

use super::Writeback;
use super::command::{WriteCommand, WriteKind, WriteState};
use super::dirty_file::{AppendStage, FileDirtyPages, OngoingAppend};
use crate::driver_io::LenChange;
use crate::ids::{FileId, WriteId};
use crate::read_path::ReadPath;
use crate::units::ByteCount;

impl Writeback {
    /// Begins an append with its change of length, once all earlier ones are filled.
    pub(crate) fn begin_append(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        change: LenChange,
    ) -> WriteId {
        let dirty_file = self.files.get_or_insert(file);
        let is_waiting = dirty_file.appends.iter().any(OngoingAppend::blocks_later_ones);
        let (id, stage) = if is_waiting {
            let write = WriteCommand::new(file, WriteKind::SetLen);
            let id = self.add_write(path, WriteCommand { change: Some(change), ..write });
            path.telemetry.stats.writes_waited_for_pages += 1;
            self.wait(path, id, WriteState::Locked);
            (id, AppendStage::Waiting)
        } else {
            (self.begin_change_len(path, file, change), AppendStage::Extending)
        };
        self.files.get_or_insert(file).appends.push(OngoingAppend::new(id, stage));
        id
    }

    /// Ends an append; no more pieces follow. If the file still ends with bytes of it that were
    /// never written, begins the cut that removes them, and returns it.
    pub(crate) fn end_append(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        append: WriteId,
    ) -> Option<WriteId> {
        let is_changing = self.is_known(append);
        let dirty_file = self.files.get_mut(file)?;
        let at = dirty_file.appends.iter().position(|each| each.id == append)?;
        if is_changing {
            // The driver may be changing the length; the outcome determines what has to be removed.
            dirty_file.appends[at].is_left = true;
            return None;
        }
        let ended = dirty_file.appends.remove(at);
        let open = path.files.used(file);
        let is_last = !open.is_closing && ended.limit == ANY && open.len == ended.end;
        let cut = (ended.blocks_later_ones() && is_last && ended.written < ended.end).then(|| {
            let id = self.begin_change_len(path, file, LenChange::Exact(ended.written));
            let write = self.writes.get_mut(id).expect("a cut that waits is not over");
            write.only_from = Some(ended.end);
            id
        });
        self.start_next_append(path, file);
        cut
    }

    /// Returns true if the append's caller left before the length was changed.
    pub(crate) fn is_left_append(&self, file: FileId, append: WriteId) -> bool {
        let appends = self.files.get(file).map_or(&[][..], |dirty_file| &dirty_file.appends);
        appends.iter().any(|each| each.id == append && each.is_left)
    }

    /// Records that an append has extended the file; cuts before that do not affect it.
    pub(super) fn has_appended(
        &mut self,
        file: FileId,
        append: WriteId,
        before: ByteCount,
        end: ByteCount,
    ) {
        if let Some(each) = self.ongoing_append(file, append) {
            assert!(each.stage == AppendStage::Extending, "{append:?} extends the file once");
            each.stage = AppendStage::Filling;
            (each.limit, each.written, each.end) = (ANY, before, end);
        }
    }

    /// Ends an append's change of length. If it did not extend the file, the append is over.
    pub(super) fn end_append_len(&mut self, path: &mut ReadPath, file: FileId, id: WriteId) {
        if let Some(each) = self.ongoing_append(file, id)
            && each.stage != AppendStage::Filling
        {
            each.stage = AppendStage::Over;
            self.start_next_append(path, file);
        }
    }

    /// Records that an append is filled up to `end`.
    pub(super) fn has_filled_append(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        append: Option<WriteId>,
        end: ByteCount,
    ) {
        let Some(each) = append.and_then(|append| self.ongoing_append(file, append)) else {
            return;
        };
        each.written = each.written.max(end);
        if each.written >= each.end && each.blocks_later_ones() {
            each.stage = AppendStage::Over;
            self.start_next_append(path, file);
        }
    }

    /// Lets the first append that is not filled change the length.
    fn start_next_append(&mut self, path: &mut ReadPath, file: FileId) {
        let appends = self.files.get_mut(file).map(|dirty_file| &mut dirty_file.appends);
        let Some(next) = appends.into_iter().flatten().find(|each| each.blocks_later_ones()) else {
            return;
        };
        if next.stage == AppendStage::Waiting {
            next.stage = AppendStage::Extending;
            let id = next.id;
            let write = self.writes.get(id).expect("an append that waits is not over");
            let change = write.change.expect("a change says to what");
            let pages = self.pages_of_change(path, file, change);
            self.writes.get_mut(id).expect("an append that waits is not over").pages = pages;
            self.lock(path, id);
        }
    }

    /// Removes an append from the line; returns true if it was waiting.
    pub(super) fn leave_append_line(&mut self, file: FileId, append: WriteId) -> bool {
        let each = self.ongoing_append(file, append);
        let Some(each) = each.filter(|each| each.stage == AppendStage::Waiting) else {
            return false;
        };
        each.stage = AppendStage::Over;
        true
    }

    /// Records a cut of the file in all its appends.
    pub(super) fn cut_appends(&mut self, file: FileId, len: ByteCount) {
        let appends = self.files.get_mut(file).map(|dirty_file| &mut dirty_file.appends);
        for each in appends.into_iter().flatten() {
            each.limit = each.limit.min(len);
        }
    }

    /// Returns the limit at which pieces of this append end.
    pub(super) fn append_limit(&self, file: FileId, append: Option<WriteId>) -> ByteCount {
        let of = |append: &WriteId| {
            let appends = &self.files.get(file)?.appends;
            appends.iter().find(|each| each.id == *append).map(|each| each.limit)
        };
        append.as_ref().and_then(of).unwrap_or(ANY)
    }

    fn ongoing_append(&mut self, file: FileId, append: WriteId) -> Option<&mut OngoingAppend> {
        let appends = &mut self.files.get_mut(file)?.appends;
        appends.iter_mut().find(|each| each.id == append)
    }
}

impl FileDirtyPages {
    /// Returns the appends that wait for others and have no pages yet.
    pub(super) fn waiting_appends(&self) -> impl Iterator<Item = WriteId> {
        let is_waiting = |each: &&OngoingAppend| each.stage == AppendStage::Waiting;
        self.appends.iter().filter(is_waiting).map(|each| each.id)
    }
}

impl OngoingAppend {
    const fn new(id: WriteId, stage: AppendStage) -> Self {
        let (limit, written, end) = (ANY, ByteCount::ZERO, ByteCount::ZERO);
        Self { id, limit, written, end, stage, is_left: false }
    }

    /// Returns true if later appends wait for this one.
    fn blocks_later_ones(&self) -> bool {
        self.stage != AppendStage::Over
    }
}

/// The file was not cut.
const ANY: ByteCount = ByteCount(u64::MAX);
