//! Rules and records: files that are there whole or not at all.
//!
//! In:    a path of the system and a text.
//! Out:   the file, with mode 0644, on the disk.
//! Never: half a file under its name; a file replaced that foreread did not write.

use std::io;
use std::path::Path;

use foreread_files::system;

use crate::sysfs::SystemRoot;

/// Writes a file whole. `is_ours` gets the first bytes of the file that is there.
pub(super) fn write_whole(
    sys: &SystemRoot,
    path: &Path,
    text: &str,
    is_ours: fn(&[u8]) -> bool,
) -> io::Result<()> {
    Ok(system::write_whole(&sys.path(path), text, is_ours)?)
}

/// Removes a file; whether it was there.
pub(super) fn remove(sys: &SystemRoot, path: &Path) -> io::Result<bool> {
    Ok(system::remove(&sys.path(path))?)
}

/// The text of a record; None if it is not there. Root believes only what root alone could write:
/// a record says which files are set to which values.
pub(super) fn read(sys: &SystemRoot, path: &Path) -> io::Result<Option<String>> {
    let bytes = if sys.is_here() { system::read_trusted(path)? } else { sys.bytes(path) };
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| io::Error::other("it is no text"))
}
