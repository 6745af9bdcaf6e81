//! A pid file, which exists exactly as long as its process.
//!
//! It holds the process id and a line feed, with mode 0644, and appears complete. Only a stale pid
//! file is replaced, never that of a running process, and only our own is removed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{Mode, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::draft::Draft;
use crate::entry::{CommandInput, DirectoryName, ExistingFile, FileIdentity};
use crate::{FileError, output};

/// A file with the id of this process. Dropping it removes the file if it is unchanged.
#[derive(Debug)]
pub struct PidFile {
    entry: DirectoryName,
    /// Stays open, so that its inode number is not reused.
    file: File,
    inode: FileIdentity,
    text: String,
}

impl PidFile {
    /// Creates the file, or replaces a stale pid file.
    ///
    /// # Errors
    ///
    /// If the path names anything else: an input of the command, a file that holds more than a
    /// number and a line feed, the pid file of a running process, a link, a file with several
    /// names, a directory, a device; or if the system refuses.
    pub fn create(path: &Path, inputs: &[CommandInput<'_>]) -> Result<Self, FileError> {
        let entry = DirectoryName::new(path)?;
        let stale = entry.look()?;
        if let Some(found) = &stale {
            is_stale(&entry, found, inputs)?;
        }
        let text = format!("{}\n", std::process::id());
        let readable = Mode::from_raw_mode(0o644);
        let draft = Draft::new(&entry, readable)?;
        let failed = |errno: Errno| entry.failed("write it", errno.into());
        draft.set_mode(readable).map_err(failed)?;
        let written = draft.file().write_all_at(text.as_bytes(), 0);
        written.map_err(|error| entry.failed("write it", error))?;
        let inode = FileIdentity::of(&fstat(draft.file()).map_err(failed)?);
        let file = draft.put(&entry, stale.as_ref().map(ExistingFile::inode))?;
        Ok(Self { entry, file, inode, text })
    }

    /// Returns whether it still has the original contents; a script may have written its own number
    /// into it.
    fn is_unchanged(&self) -> bool {
        let mut bytes = [0; LONGEST + 1];
        let read = self.file.read_at(&mut bytes, 0);
        read.is_ok_and(|len| bytes[..len] == *self.text.as_bytes())
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if self.is_unchanged() {
            let _ = self.entry.remove(self.inode);
        }
    }
}

/// Refuses anything but the pid file of a process that has ended.
fn is_stale(
    entry: &DirectoryName,
    found: &ExistingFile,
    inputs: &[CommandInput<'_>],
) -> Result<(), FileError> {
    entry.only_regular(found, inputs)?;
    let bytes = entry.head(found, LONGEST as u64 + 1)?;
    let Some(pid) = number(&bytes) else {
        return Err(FileError::NotOurs {
            path: entry.path().to_owned(),
            what: "exists and is not a pid file (a number and a line feed)".to_owned(),
            advice: output::ADVICE,
        });
    };
    // In a container the server often gets the same number again.
    if pid.as_raw_nonzero().get().cast_unsigned() == std::process::id() {
        return Ok(());
    }
    // EPERM: it is running, as another user.
    if !matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)) {
        return Ok(());
    }
    let pid = pid.as_raw_nonzero();
    let name = fs::read(format!("/proc/{pid}/comm"));
    let name = name.map(|name| String::from_utf8_lossy(&name).into_owned());
    let name = name.map_or(String::new(), |name| format!(" ({})", name.trim_end().escape_debug()));
    Err(FileError::InUse {
        path: entry.path().to_owned(),
        what: format!("is the pid file of process {pid}{name}, which is running"),
        advice: "if that process is not a foreread server, the file is stale: remove it; otherwise \
                 give another path, or stop that server",
    })
}

/// Returns the process id in a pid file; None for any other contents.
fn number(bytes: &[u8]) -> Option<Pid> {
    let digits = bytes.strip_suffix(b"\n")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Pid::from_raw(std::str::from_utf8(digits).ok()?.parse().ok()?)
}

/// Longest pid file: the digits of the largest number, and a line feed.
const LONGEST: usize = 11;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn create(path: &Path) -> Result<PidFile, FileError> {
        PidFile::create(path, &[])
    }

    /// A process id that no process has: its process has ended and was waited for.
    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("it ends");
        child.id()
    }

    #[test]
    fn it_holds_the_number_and_goes_with_its_owner() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pid");
        let pid_file = create(&path).expect("it is written");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        drop(pid_file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_stale_pid_file_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pid");
        for text in [format!("{}\n", ended()), format!("{}\n", std::process::id())] {
            fs::write(&path, &text).unwrap();
            drop(create(&path).expect(&text));
            assert!(!path.exists(), "{text}");
        }
        let running = format!("{}\n", std::os::unix::process::parent_id());
        for text in ["", "\n", "0\n", "-1\n", "12", "12\n\n", " 12\n", "12 13\n", "+5\n", &running]
            .into_iter()
            .chain(["99999999999\n", "12345678901234567890\n", "[service]\n"])
        {
            fs::write(&path, text).unwrap();
            create(&path).expect_err(text);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::write(&path, &running).unwrap();
        let line = create(&path).expect_err("it runs").to_string();
        assert!(line.contains(&format!("process {}", running.trim_end())), "{line}");
        assert!(line.contains("not a foreread server, the file is stale: remove it"), "{line}");
    }

    #[test]
    fn whatever_is_no_regular_file_with_one_name_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name| directory.path().join(name);
        let stale = format!("{}\n", ended());
        fs::write(at("stale"), &stale).unwrap();
        symlink(at("stale"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, mode, 0).unwrap();
        for (name, what) in [
            ("link", "is a symbolic link"),
            ("dangling", "is a symbolic link"),
            ("directory", "is a directory"),
            ("socket", "is a socket"),
            ("fifo", "is a FIFO"),
        ] {
            let line = create(&at(name)).expect_err(name).to_string();
            assert!(line.contains(what), "{line}");
            assert!(at(name).symlink_metadata().is_ok(), "{name} was removed");
        }
        fs::hard_link(at("stale"), at("second")).unwrap();
        let line = create(&at("stale")).expect_err("two names").to_string();
        assert!(line.contains("has 2 names"), "{line}");
        assert_eq!(fs::read_to_string(at("second")).unwrap(), stale);
        assert!(!at("nothing").exists());
        for path in ["", "/", "..", "nowhere/pid"] {
            create(Path::new(path)).expect_err(path);
        }
        create(&directory.path().join("new/")).expect_err("the name of a directory");
    }

    /// A target may hold just a number.
    #[test]
    fn an_input_is_left_by_whatever_path() {
        let directory = tempfile::tempdir().expect("a directory");
        let (target, link) = (directory.path().join("disk"), directory.path().join("link"));
        fs::write(&target, format!("{}\n", ended())).unwrap();
        symlink(&target, &link).unwrap();
        let inputs = [CommandInput { name: "TARGET", path: &link }];
        let line = PidFile::create(&target, &inputs).expect_err("it is the target").to_string();
        assert!(line.contains("would replace TARGET"), "{line}");
        assert!(target.exists());
    }

    #[test]
    fn what_came_into_its_place_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pid");
        let text = format!("{}\n", std::process::id());
        // Another file with the same text.
        let pid_file = create(&path).expect("it is written");
        fs::remove_file(&path).unwrap();
        fs::write(&path, &text).unwrap();
        drop(pid_file);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::remove_file(&path).unwrap();
        // The same file with another text.
        let pid_file = create(&path).expect("it is written");
        fs::write(&path, "1\n").unwrap();
        drop(pid_file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
    }
}
