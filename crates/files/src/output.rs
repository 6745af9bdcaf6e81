//! Result files of commands: `--save`, `--trace`.
//!
//! The result appears complete; until then, and after an error, the previous file stays. A
//! recording cut short by a full disk keeps the part that fits. Only files written by foreread are
//! replaced, no link is followed, and no device is written to.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::Mode;

use crate::FileError;
use crate::destination::{is_null, stream};
use crate::draft::Draft;
use crate::entry::{CommandInput, DirectoryName, ExistingFile};

/// A result file that does not exist before [`ResultFile::write_whole`].
#[derive(Debug)]
pub struct ResultFile {
    to: OutputTarget,
}

#[derive(Debug)]
enum OutputTarget {
    /// /dev/null.
    Nothing(DirectoryName),
    /// A stream that the user has opened.
    Stream(DirectoryName, File),
    File {
        entry: DirectoryName,
        draft: Draft,
        /// The file to be replaced. It stays open, so that its inode number is not reused.
        before: Option<ExistingFile>,
    },
}

impl ResultFile {
    /// Prepares the file, so that a wrong path is reported before the work is done.
    ///
    /// `is_ours` receives the first 4 KiB of an existing file, and returns true for an earlier
    /// result. An empty file is replaced, too.
    ///
    /// Streams are written to directly: `-` and `/dev/stdout` (stdout), `/dev/stderr`, a pipe
    /// opened by the shell (`/dev/fd/N`), and `/dev/null`.
    ///
    /// # Errors
    ///
    /// If the path names an input of the command, a file that is no earlier result, a link, a file
    /// with several names, a directory, a FIFO or a device; or if the system refuses.
    pub fn create(
        path: &Path,
        inputs: &[CommandInput<'_>],
        is_ours: fn(&[u8]) -> bool,
    ) -> Result<Self, FileError> {
        if let Some(stream) = stream(path) {
            let entry = DirectoryName::new(path)?;
            let file = stream.map_err(|error| entry.failed("open it", error))?;
            return Ok(Self { to: OutputTarget::Stream(entry, file) });
        }
        let entry = DirectoryName::new(path)?;
        let before = entry.look()?;
        if before.as_ref().is_some_and(is_null) {
            return Ok(Self { to: OutputTarget::Nothing(entry) });
        }
        if let Some(found) = &before {
            is_earlier(&entry, found, inputs, is_ours)?;
        }
        let draft = Draft::new(&entry, Mode::from_raw_mode(0o666))?;
        keep_mode(&draft, before.as_ref());
        Ok(Self { to: OutputTarget::File { entry, draft, before } })
    }

    /// Writes the whole result with `write`, and moves the file into place. For /dev/null `write`
    /// is called, too, because it may have side effects.
    ///
    /// # Errors
    ///
    /// If the disk is full, or another file has taken the path; the previous file is then
    /// unchanged.
    pub fn write_whole(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), FileError> {
        match self.to {
            OutputTarget::Nothing(entry) => {
                write(&mut io::sink()).map_err(|error| entry.failed("write it", error))
            }
            OutputTarget::Stream(entry, file) => {
                buffered(&file, write).map_err(|error| entry.failed("write it", error))
            }
            OutputTarget::File { entry, draft, before } => {
                buffered(draft.file(), write).map_err(|error| entry.failed("write it", error))?;
                draft.put(&entry, before.as_ref().map(ExistingFile::inode)).map(drop)
            }
        }
    }

    /// Writes with `write`, and moves the file into place even if the disk is full: it then holds
    /// the part that fits. Returns the error that ended it there, which `write` must return, too.
    ///
    /// The writes are not buffered: large ones are cheaper.
    ///
    /// # Errors
    ///
    /// If nothing fits, if `write` failed for another reason, or if another file has taken the
    /// path; the previous file is then unchanged. If a stream accepts no more data.
    pub fn write_what_fits(
        self,
        kept: KeptPart,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Option<io::Error>, FileError> {
        let OutputTarget::File { entry, draft, before } = self.to else {
            return self.write_whole(write).map(|()| None);
        };
        let mut file = WatchedFile { file: draft.file(), taken: 0, lines: 0, has_failed: false };
        let ended = match write(&mut file) {
            Ok(()) => None,
            Err(error) if file.has_failed && file.len_of(kept) > 0 => Some(error),
            Err(error) => return Err(entry.failed("write it", error)),
        };
        if ended.is_some() {
            let cut = draft.file().set_len(file.len_of(kept));
            cut.map_err(|error| entry.failed("cut it", error))?;
        }
        draft.put(&entry, before.as_ref().map(ExistingFile::inode))?;
        Ok(ended)
    }
}

fn buffered(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    write(&mut writer)?;
    writer.flush()
}

/// Part to keep of a result that does not fit on the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeptPart {
    /// Every byte: readers accept a result that is cut anywhere.
    Bytes,
    /// Whole lines.
    Lines,
}

/// A result file under construction, with the error of its first failed write.
struct WatchedFile<'f> {
    file: &'f File,
    /// Bytes written.
    taken: u64,
    /// Bytes up to the last end of a line.
    lines: u64,
    has_failed: bool,
}

impl WatchedFile<'_> {
    /// Returns the number of bytes to keep.
    fn len_of(&self, kept: KeptPart) -> u64 {
        match kept {
            KeptPart::Bytes => self.taken,
            KeptPart::Lines => self.lines,
        }
    }
}

impl Write for WatchedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.file.write(bytes);
        match &taken {
            Ok(count) => {
                let line_end = bytes[..*count].iter().rposition(|byte| *byte == b'\n');
                self.lines = line_end.map_or(self.lines, |at| self.taken + at as u64 + 1);
                self.taken += *count as u64;
            }
            Err(error) => self.has_failed |= error.kind() != io::ErrorKind::Interrupted,
        }
        taken
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn is_earlier(
    entry: &DirectoryName,
    found: &ExistingFile,
    inputs: &[CommandInput<'_>],
    is_ours: fn(&[u8]) -> bool,
) -> Result<(), FileError> {
    entry.only_regular(found, inputs)?;
    let head = entry.head(found, HEAD)?;
    if head.is_empty() || is_ours(&head) {
        return Ok(());
    }
    Err(FileError::NotOurs {
        path: entry.path().to_owned(),
        what: "exists and was not written by this command".to_owned(),
        advice: ADVICE,
    })
}

/// Copies the mode of the replaced result if both have the same owner.
fn keep_mode(draft: &Draft, before: Option<&ExistingFile>) {
    let is_same = |uid| draft.file().metadata().is_ok_and(|ours| ours.uid() == uid);
    if let Some(before) = before.map(ExistingFile::stat).filter(|before| is_same(before.st_uid)) {
        let _ = draft.set_mode(Mode::from_raw_mode(before.st_mode & 0o777));
    }
}

/// Remedy for a file that is in the way.
pub(crate) const ADVICE: &str = "give another path, or remove the file first";

/// Remedy for a fixed path.
pub(crate) const REMOVE: &str = "move it away, or remove it";

/// Bytes inspected at the start of a file.
const HEAD: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

    use rustix::fs::FileType;

    use super::*;

    fn create(path: &Path) -> Result<ResultFile, FileError> {
        ResultFile::create(path, &[], |head| head.starts_with(b"ours "))
    }

    fn save(path: &Path, text: &str) -> Result<(), FileError> {
        create(path)?.write_whole(|to| to.write_all(text.as_bytes()))
    }

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_result_is_there_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("result");
        let output = create(&path).expect("there is nothing");
        assert!(!path.exists());
        output.write_whole(|to| to.write_all(b"ours 1")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours 1");

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        drop(create(&path).expect("it is an earlier one"));
        let failed = create(&path).unwrap().write_whole(|to| {
            to.write_all(b"ours 2")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().contains("cannot write it"));
        assert_eq!(fs::read(&path).unwrap(), b"ours 1");
        save(&path, "ours 3").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours 3");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), 1);
    }

    #[test]
    fn a_file_of_another_program_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name| directory.path().join(name);
        fs::write(at("theirs"), "theirs").unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::write(at("ours"), "ours 1").unwrap();
        symlink(at("ours"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let fifo = FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, 0o600.into(), 0).unwrap();
        for (name, what) in [
            ("theirs", "was not written by this command"),
            ("link", "is a symbolic link"),
            ("dangling", "is a symbolic link"),
            ("directory", "is a directory"),
            ("fifo", "is a FIFO"),
        ] {
            let line = save(&at(name), "ours 2").expect_err(name).to_string();
            assert!(line.contains(what) && line.contains("give another path"), "{line}");
        }
        assert_eq!(fs::read(at("theirs")).unwrap(), b"theirs");
        assert_eq!(fs::read(at("ours")).unwrap(), b"ours 1");
        save(&at("empty"), "ours 2").unwrap();
        assert_eq!(names(directory.path()), 7);

        let inputs = [CommandInput { name: "the scenario", path: &at("link") }];
        let line = ResultFile::create(&at("ours"), &inputs, |_| true).unwrap_err().to_string();
        assert!(line.contains("would replace the scenario"), "{line}");
    }

    #[test]
    fn what_came_into_its_place_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("result");
        for before in [None, Some("ours 1")] {
            if let Some(before) = before {
                fs::write(&path, before).unwrap();
            }
            let output = create(&path).expect("it can be written");
            fs::write(directory.path().join("other"), "theirs").unwrap();
            fs::rename(directory.path().join("other"), &path).unwrap();
            let error = output.write_whole(|to| to.write_all(b"ours 2")).unwrap_err();
            assert!(error.to_string().contains("replaced by another process"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
            assert_eq!(names(directory.path()), 1);
            fs::remove_file(&path).unwrap();
        }
    }

    /// The tests of `foreread record` fill a disk.
    #[test]
    fn only_an_error_of_the_output_keeps_what_was_written_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("result");
        let failed = create(&path).unwrap().write_what_fits(KeptPart::Bytes, |to| {
            to.write_all(b"ours 1")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(failed.unwrap_err().to_string().contains("cannot write it"));
        assert_eq!(names(directory.path()), 0);
        let whole = create(&path).unwrap();
        let ended = whole.write_what_fits(KeptPart::Lines, |to| to.write_all(b"ours 1\nours"));
        assert!(ended.unwrap().is_none());
        assert_eq!(fs::read(&path).unwrap(), b"ours 1\nours", "there was room for all");

        let (file, full) = (File::create(&path).unwrap(), "/dev/full");
        let full = File::options().write(true).open(full).unwrap();
        let mut watched = WatchedFile { file: &file, taken: 0, lines: 0, has_failed: false };
        watched.write_all(b"one\ntwo\nth").unwrap();
        watched.write_all(b"r").unwrap();
        watched.file = &full;
        watched.write_all(b"ee\n").unwrap_err();
        assert!(watched.has_failed);
        let len_of = |kept| watched.len_of(kept);
        assert_eq!([KeptPart::Bytes, KeptPart::Lines].map(len_of), [11, 8]);
    }

    #[test]
    fn a_result_can_be_discarded() {
        save(Path::new("/dev/null"), "ours 1").unwrap();
        let mut is_written = false;
        let discarded = create(Path::new("/dev/null")).unwrap();
        discarded
            .write_whole(|to| {
                is_written = true;
                to.write_all(b"ours 2")
            })
            .unwrap();
        assert!(is_written, "what is discarded is written, too: a program may run meanwhile");
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
