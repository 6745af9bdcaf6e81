//! Files that are there whole or not at all.
//!
//! In:    a path of the system and a text.
//! Out:   the file, with mode 0644, on the disk.
//! Never: half a file under its name; anything left behind after an error.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::sysfs::Sys;

/// Writes a file beside its place and moves it there.
pub(super) fn write_whole(sys: &Sys, path: &Path, text: &str) -> io::Result<()> {
    let here = sys.path(path);
    let folder = here.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let name = here.file_name().unwrap_or_default().to_string_lossy();
    // udev reads only what ends in .rules, and we only what ends in .json.
    let aside = folder.join(format!(".{name}.{}", std::process::id()));
    let written = write_new(&aside, text).and_then(|()| fs::rename(&aside, &here));
    if let Err(error) = written {
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    // It is there; whether its name is on the disk already, a crash would show.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // Of a process that had this number and was killed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes a file; whether it was there.
pub(super) fn remove(sys: &Sys, path: &Path) -> io::Result<bool> {
    match fs::remove_file(sys.path(path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
