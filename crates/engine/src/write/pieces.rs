//! The pieces of a write, written one after another, each short enough to delay other writes only
//! briefly.

use foreread_core::path::{IoPath, WriteId, WriteMode, WriteRange};
use foreread_core::sched::Submitter;
use foreread_core::units::{ByteCount, Nanos};

use super::steps::StepWork;
use super::usize_of;
use crate::error::WriteError;
use crate::handle::Handle;

/// The kind of a write's pieces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces {
    Any,
    /// Only pieces that need no wait.
    Unwaited,
    /// Pieces of an append, which end where the file has been cut.
    OfAppend(WriteId),
}

/// Starts a piece of a write, or of an append.
pub(super) fn begin_piece(
    path: &mut IoPath,
    now: Nanos,
    range: WriteRange,
    mode: WriteMode,
    append: Option<WriteId>,
) -> WriteId {
    let submitter = Submitter::default();
    match append {
        Some(append) => path.write_appended(now, append, range, mode, submitter),
        None => {
            let WriteRange { file, pos, len } = range;
            path.write(now, file, pos, len, mode, submitter)
        }
    }
}

impl Handle {
    /// Writes piece by piece. Returns the number of bytes written, and the error that stopped it,
    /// if any.
    pub(super) fn write_pieces(
        &self,
        from: &[u8],
        offset: u64,
        mode: WriteMode,
        pieces: Pieces,
    ) -> (usize, Result<(), WriteError>) {
        let file = &self.file;
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            let piece = &rest[..rest.len().min(PIECE)];
            let pos = ByteCount(offset + done as u64);
            let len = ByteCount(piece.len() as u64);
            let append = if let Pieces::OfAppend(append) = pieces { Some(append) } else { None };
            let range = WriteRange { file: file.id, pos, len };
            let begin = |path: &mut IoPath, now: Nanos| begin_piece(path, now, range, mode, append);
            let is_try = matches!(pieces, Pieces::Unwaited);
            let doing =
                if is_try { StepWork::TryCopy(piece, pos) } else { StepWork::Copy(piece, pos) };
            let written = match self.run_to_end("write", pos.0, begin, &doing) {
                Ok(written) => written,
                Err(error) => return (done, Err(error)),
            };
            assert!(written <= len, "no more is written than was asked for");
            if written == ByteCount::ZERO {
                if !is_try {
                    // The file has shrunk: treat the write as if it came before the truncation.
                    done = from.len();
                }
                break;
            }
            done += usize_of(written);
        }
        (done, Ok(()))
    }
}

/// Bytes per piece: large enough to make the overhead of the core negligible.
pub(super) const PIECE: usize = 1 << 20;
