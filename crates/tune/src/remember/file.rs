//! Writes and removes rules and records atomically and durably, with mode 0644. It never replaces a
//! file that foreread did not write.

use std::io;
use std::path::Path;

use foreread_files::system;

use crate::sysfs::SystemRoot;

/// Writes a whole file. `is_ours` receives the first bytes of an existing file.
pub(super) fn write_whole(
    sys: &SystemRoot,
    path: &Path,
    text: &str,
    is_ours: fn(&[u8]) -> bool,
) -> io::Result<()> {
    Ok(system::write_whole(&sys.path(path), text, is_ours)?)
}

/// Removes a file. Returns whether it existed.
pub(super) fn remove(sys: &SystemRoot, path: &Path) -> io::Result<bool> {
    Ok(system::remove(&sys.path(path))?)
}

/// Returns the text of a record; None if it is missing. Root trusts only a file that root alone
/// could write, because a record determines which files are set to which values.
pub(super) fn read(sys: &SystemRoot, path: &Path) -> io::Result<Option<String>> {
    let bytes = if sys.is_here() { system::read_trusted(path)? } else { sys.bytes(path) };
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| io::Error::other("it is not UTF-8 text"))
}
