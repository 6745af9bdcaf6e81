//! `std::os::unix::fs::FileExt` for [`File`], for code that is generic over files. Its errors are
//! [`std::io::Error`]; the methods of [`File`] itself report more detail.

use std::io;
use std::os::unix::fs::FileExt;

use crate::file::File;

/// Reads and writes at offsets, for code that is generic over files.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::os::unix::fs::FileExt;
///
/// fn header(file: &impl FileExt) -> std::io::Result<[u8; 64]> {
///     let mut header = [0; 64];
///     file.read_exact_at(&mut header, 0)?;
///     Ok(header)
/// }
///
/// # let engine = foreread::Engine::builder().build()?;
/// header(&engine.open("/var/lib/db/table")?)?;
/// header(&std::fs::File::open("/var/lib/db/table")?)?;
/// # Ok(()) }
/// ```
impl FileExt for File {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(Self::read_at(self, to, offset)?)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        Ok(Self::write_at(self, from, offset)?)
    }
}
