//! Opens files for reading if they are regular, and opens nothing else.
//!
//! Opening a pipe blocks, and opening a device can start it (a watchdog). Checking the path before
//! the open is not enough: in between, the owner of its directory can put another file there.
//!
//! ```text
//!   path --> a descriptor that cannot read --> regular? --> the same file, opened for reading
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// A regular file, not yet opened for reading.
#[derive(Debug)]
struct PinnedFile(OwnedFd);

impl PinnedFile {
    fn new(path: &Path) -> io::Result<Self> {
        let pinned = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let kind = FileType::from_raw_mode(fstat(&pinned)?.st_mode);
        if kind != FileType::RegularFile {
            return Err(io::Error::other("is not a regular file"));
        }
        Ok(Self(pinned))
    }

    fn open(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Opens a regular file for reading. Links are followed.
///
/// # Errors
///
/// If the path names something else, or if the system refuses.
pub fn open(path: &Path) -> io::Result<File> {
    PinnedFile::new(path)?.open()
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
///
/// If the path names something else, if the file is longer (`FileTooLarge`), or if the system
/// refuses.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let line = format!("is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, line));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use rustix::fs::mknodat;

    use super::*;

    fn make_pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    }

    /// The path was checked and then opened: a pipe put there in between blocked root for ever.
    #[test]
    fn the_checked_file_is_the_one_that_is_read() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("script");
        fs::write(&path, "first").unwrap();
        let pinned = PinnedFile::new(&path).expect("a regular file");
        fs::remove_file(&path).unwrap();
        make_pipe(&path);
        let (done, text) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            pinned.open().unwrap().read_to_string(&mut text).unwrap();
            done.send(text).unwrap();
        });
        let text = text.recv_timeout(Duration::from_secs(60)).expect("the open does not block");
        assert_eq!(text, "first");
    }

    #[test]
    fn pipes_devices_and_folders_are_refused_and_links_followed() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        make_pipe(&at("pipe"));
        symlink(at("pipe"), at("to-pipe")).unwrap();
        fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        for path in [at("pipe"), at("to-pipe"), "/dev/null".into(), root.path().into()] {
            let error = open(&path).expect_err("not regular").to_string();
            assert_eq!(error, "is not a regular file", "{}", path.display());
        }
        assert_eq!(read(&at("link"), 5).expect("a file"), b"12345");
        let error = read(&at("link"), 4).expect_err("one byte more");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(open(&at("none")).expect_err("missing").kind(), io::ErrorKind::NotFound);
    }
}
