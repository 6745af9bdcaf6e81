//! Appends that are written in several pieces, and cuts of the file between two of them.
//!
//! In:    an append that begins and ends; its pieces; lengths that the file gets meanwhile.
//! Out:   where a piece ends.
//! Never: a byte of an append behind an end that the file was cut to after the append began: what
//!        the file has there by now is another's.
//!
//! ```text
//!   append     |=== piece ===|=== piece ===|=== piece ===|
//!   cut to here        ^                                      the file is made longer again
//!   written    |=======|                                      as if it had all been there, and
//!                      limit                                  then the cut had come
//! ```

use super::Writeback;
use super::dirty_file::OngoingAppend;
use crate::driver_io::LenChange;
use crate::ids::{FileId, WriteId};
use crate::read_path::ReadPath;
use crate::units::ByteCount;

impl Writeback {
    /// Begins an append of so many bytes with its change of length.
    pub(crate) fn begin_append(
        &mut self,
        path: &mut ReadPath,
        file: FileId,
        len: ByteCount,
    ) -> WriteId {
        let id = self.begin_change_len(path, file, LenChange::Append(len));
        self.files.get_or_insert(file).appends.push(OngoingAppend { id, limit: ANY });
        id
    }

    /// All of an append is written, or will not be.
    pub(crate) fn end_append(&mut self, file: FileId, append: WriteId) {
        if let Some(dirty_file) = self.files.get_mut(file) {
            dirty_file.appends.retain(|each| each.id != append);
        }
    }

    /// The file is as long as its appends say: what was cut before this one is not its own.
    pub(super) fn has_appended(&mut self, file: FileId, append: WriteId) {
        let appends = self.files.get_mut(file).map(|dirty_file| &mut dirty_file.appends);
        for each in appends.into_iter().flatten().filter(|each| each.id == append) {
            each.limit = ANY;
        }
    }

    /// The file was cut.
    pub(super) fn cut_appends(&mut self, file: FileId, len: ByteCount) {
        let appends = self.files.get_mut(file).map(|dirty_file| &mut dirty_file.appends);
        for each in appends.into_iter().flatten() {
            each.limit = each.limit.min(len);
        }
    }

    /// Where a piece of this append ends at the latest.
    pub(super) fn append_limit(&self, file: FileId, append: Option<WriteId>) -> ByteCount {
        let of = |append: &WriteId| {
            let appends = &self.files.get(file)?.appends;
            appends.iter().find(|each| each.id == *append).map(|each| each.limit)
        };
        append.as_ref().and_then(of).unwrap_or(ANY)
    }
}

/// The file was not cut.
const ANY: ByteCount = ByteCount(u64::MAX);
