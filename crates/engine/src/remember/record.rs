//! The record of a device: a small text file. A reader accepts only whole records of at most 4 KiB,
//! follows no link and waits for no FIFO.
//!
//! It is TOML, restricted to lines of the form `name = value`:
//!
//! ```text
//!   # Written by foreread: what it learnt of a device. ...
//!   version = 1
//!   device = "nvme-eui-0025385b-6f1d20c3b5a49e87"
//!   window_kib = 2048
//!   per_request_ns = 4012345.0     these four together, or none of them;
//!   per_kib_ns = 5690.25           `parallel` only if it is known
//!   parallel = 1
//!   min_parallel = 1
//!   saved = 1795370000             seconds since 1970
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;

use foreread_core::prefetch::{LearntCost, LearntDevice};
use foreread_core::units::{PAGE_SIZE, Pages};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) learnt: LearntDevice,
    /// Time at which it was written, in seconds since 1970.
    pub(super) saved: u64,
}

/// The first bytes of each record.
pub(super) const HEAD: &str = "# Written by foreread: its model of a device. Remove the file to \
                               learn the device again (docs/design/devices.md).\n";

impl Record {
    /// Returns the text of this device's record.
    pub(super) fn text(&self, device: &str) -> String {
        let Self { learnt: LearntDevice { window, cost }, saved } = self;
        let window_kib = window.0 * (PAGE_SIZE / 1024);
        let mut text = format!(
            "{HEAD}version = {VERSION}\ndevice = \"{device}\"\nwindow_kib = {window_kib}\n"
        );
        if let Some(LearntCost { per_request_ns, per_kib_ns, parallel, min_parallel }) = cost {
            text += &format!("per_request_ns = {per_request_ns:?}\nper_kib_ns = {per_kib_ns:?}\n");
            if let Some(parallel) = parallel {
                text += &format!("parallel = {parallel}\n");
            }
            text += &format!("min_parallel = {min_parallel}\n");
        }
        // Comes last, because a truncated record lacks it.
        text + &format!("saved = {saved}\n")
    }

    /// Reads this device's record. Returns None if there is none.
    pub(super) fn read(path: &Path, device: &str) -> Result<Option<Self>, String> {
        let bad = |why: String| format!("{why}; move the file away, or remove it");
        match text_of(path) {
            Ok(text) => Self::parse(&text, device).map(Some).map_err(bad),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The file is not to blame.
            Err(error) if lacks_means(&error) => Err(error.to_string()),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    fn parse(text: &str, device: &str) -> Result<Self, String> {
        let fields = Fields::parse(text)?;
        let version: u64 = fields.number("version")?;
        if version != VERSION {
            return Err(format!("it has version {version}, but this program reads {VERSION}"));
        }
        let of: String = fields.number("device")?;
        if of.trim_matches('"') != device {
            return Err(format!("it is the record of {of}"));
        }
        let window_kib: u64 = fields.number("window_kib")?;
        let window = Pages(window_kib / (PAGE_SIZE / 1024));
        let has_cost = fields.text("per_request_ns").is_some();
        let cost = has_cost.then(|| fields.cost()).transpose()?;
        let learnt = LearntDevice { window, cost };
        if !learnt.is_plausible() || !window_kib.is_multiple_of(PAGE_SIZE / 1024) {
            return Err("its window and times are implausible".to_owned());
        }
        Ok(Self { learnt, saved: fields.number("saved")? })
    }
}

/// The lines of a record.
struct Fields<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Fields<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        if !text.ends_with('\n') {
            return Err("it is truncated".to_owned());
        }
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once(" = ");
            let (name, value) =
                pair.ok_or_else(|| format!("line {} is not `name = value`", number + 1))?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(format!("it has {name} twice"));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    fn text(&self, name: &str) -> Option<&'t str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let text = self.text(name).ok_or_else(|| format!("it has no {name}"))?;
        text.parse().map_err(|_| format!("{name} cannot be {text}"))
    }

    fn cost(&self) -> Result<LearntCost, String> {
        let parallel = self.text("parallel").map(|_| self.number("parallel"));
        Ok(LearntCost {
            per_request_ns: self.number("per_request_ns")?,
            per_kib_ns: self.number("per_kib_ns")?,
            parallel: parallel.transpose()?,
            min_parallel: self.number("min_parallel")?,
        })
    }
}

/// Returns true for an error of a process or machine without descriptors or memory.
fn lacks_means(error: &io::Error) -> bool {
    let means = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| means.contains(&errno))
}

fn text_of(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(SIZE_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SIZE_MAX {
        return Err(io::Error::other("it is too large for a record"));
    }
    Ok(text)
}

/// Version of the record's format.
const VERSION: u64 = 1;

/// Ten times the size of a record.
const SIZE_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const COST: LearntCost =
        LearntCost { per_request_ns: 4.1e6, per_kib_ns: 0.1, parallel: None, min_parallel: 3 };

    fn record(cost: Option<LearntCost>) -> Record {
        Record { learnt: LearntDevice { window: Pages(512), cost }, saved: 1_795_370_000 }
    }

    #[test]
    fn a_read_returns_the_written_bytes() {
        let many = LearntCost { parallel: Some(48), per_request_ns: 1.0 / 3.0, ..COST };
        for record in [record(None), record(Some(COST)), record(Some(many))] {
            let text = record.text("disk-7");
            assert_eq!(Record::parse(&text, "disk-7"), Ok(record), "{text}");
            assert!(text.is_ascii() && (text.len() as u64) < SIZE_MAX / 8);
        }
    }

    #[test]
    fn each_line_that_is_missing_or_wrong_is_named() {
        let text = record(Some(COST)).text("disk-7");
        let with = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            Record::parse(&text.replace(from, to), "disk-7").expect_err(to)
        };
        assert!(with("version = 1", "version = 2").contains("version 2"));
        assert!(with("saved = ", "saved: ").contains("line 8"));
        assert!(with("window_kib = 2048\n", "").contains("no window_kib"));
        assert!(with("min_parallel = 3\n", "").contains("no min_parallel"));
        assert!(with("\"disk-7\"", "\"disk-8\"").contains("record of \"disk-8\""));
        assert!(with("version = 1\n", "version = 1\nversion = 1\n").contains("twice"));
        for lie in ["0", "3", "2049", "99999999999999999999", "-1", "4611686018427387904"] {
            with("window_kib = 2048", &format!("window_kib = {lie}"));
        }
        for lie in ["NaN", "inf", "-1.0", "1e300", "x"] {
            with("per_request_ns = 4100000.0", &format!("per_request_ns = {lie}"));
        }
        // Truncated at any byte, it is no record.
        for end in 0..text.len() {
            Record::parse(&text[..end], "disk-7").expect_err("a part of a record");
        }
    }

    #[test]
    fn only_a_small_regular_file_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk-7.learnt");
        let read = || Record::read(&path, "disk-7");
        assert_eq!(read(), Ok(None));
        std::fs::write(&path, record(None).text("disk-7")).expect("it is written");
        assert_eq!(read(), Ok(Some(record(None))));
        std::fs::write(&path, vec![b'#'; 1 << 20]).expect("it is written");
        assert!(read().expect_err("it is large").contains("too large"));
        std::fs::write(&path, [0xff; 64]).expect("it is written");
        read().expect_err("it is no text");
        std::fs::remove_file(&path).expect("it is there");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).expect("a pipe");
        assert!(read().expect_err("it is a pipe").contains("not a regular file"));
        std::fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("a link");
        read().expect_err("it is a link");
    }
}
