//! Writes of tasks that borrow their bytes. Dropping one abandons the write, which therefore never
//! outlives its bytes.

use std::fmt;
use std::task::{Context, Poll};

use crate::write::{WriteBytes, WriteEnd, WriteProgress};

/// A write of borrowed bytes.
pub(crate) struct BorrowedWrite<'a> {
    from: &'a [u8],
    pub(crate) progress: WriteProgress,
}

impl<'a> BorrowedWrite<'a> {
    pub(crate) fn new(from: &'a [u8], progress: WriteProgress) -> Self {
        Self { from, progress }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<WriteEnd> {
        self.progress.poll(WriteBytes::Borrowed(self.from), context)
    }
}

impl Drop for BorrowedWrite<'_> {
    fn drop(&mut self) {
        self.progress.abandon(WriteBytes::Borrowed(self.from));
    }
}

impl fmt::Debug for BorrowedWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedWrite").field("progress", &self.progress).finish_non_exhaustive()
    }
}
