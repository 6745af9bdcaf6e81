//! Reads that fill the whole buffer or fail.

use crate::error::{ReadError, ReadErrorKind};
use crate::file::File;
use crate::handle::Handle;
use crate::stream::ReadStream;

impl File {
    /// Fills the whole of `to`, from `offset` on.
    ///
    /// ```no_run
    /// fn header(file: &foreread::File) -> Result<[u8; 512], foreread::ReadError> {
    ///     let mut header = [0; 512];
    ///     file.read_exact_at(&mut header, 0)?;
    ///     Ok(header)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::read_at`], and [`ReadErrorKind::UnexpectedEnd`] if the file ends first. The
    /// contents of `to` are then unspecified.
    pub fn read_exact_at(&self, to: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let read = self.read_at(to, offset);
        check(self.handle(), read, to.len(), offset)
    }
}

impl ReadStream {
    /// Fills the whole of `to`, from `offset` on, as [`File::read_exact_at`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::read_at`], and [`ReadErrorKind::UnexpectedEnd`] if the file ends first. The
    /// contents of `to` are then unspecified.
    pub fn read_exact_at(&self, to: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let read = self.read_at(to, offset);
        check(&self.handle, read, to.len(), offset)
    }
}

#[inline]
fn check(
    handle: &Handle,
    read: Result<usize, ReadError>,
    wanted: usize,
    offset: u64,
) -> Result<(), ReadError> {
    let len = match read {
        Ok(read) if read == wanted => return Ok(()),
        Ok(0) => offset.min(handle.file.len().0),
        Ok(read) => offset + read as u64,
        Err(error) => return Err(error),
    };
    Err(ReadErrorKind::UnexpectedEnd { offset, wanted, len }.of(handle.path.clone()))
}
