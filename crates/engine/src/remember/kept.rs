//! The records of a directory, for programs that list and remove them. Only valid records are
//! removed, and a broken record does not stop the listing.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use foreread_core::prefetch::LearntDevice;
use foreread_files::{FileError, system};

use super::record::{HEAD, Record};
use super::{path_of, plain};

/// The record of a device, as returned by [`device_records`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeptRecord {
    /// The device name, as encoded in the file name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The measurements and the time at which they were written; or the reason that the record is
    /// unusable.
    pub learnt: Result<(LearntDevice, SystemTime), String>,
}

/// Reads the records of a directory of [`EngineBuilder::remember`](crate::EngineBuilder::remember),
/// sorted by name.
///
/// ```
/// use foreread::LearntDevice;
/// use foreread::Pages;
///
/// # fn main() -> std::io::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// let learnt = LearntDevice { window: Pages(512), cost: None };
/// foreread::write_device_record(directory.path(), "disk-7", learnt)?;
/// let records = foreread::device_records(directory.path())?;
/// assert_eq!((records.len(), &*records[0].name), (1, "disk-7"));
/// assert!(foreread::forget_device_record(directory.path(), "disk-7")?.is_some());
/// assert!(foreread::device_records(directory.path())?.is_empty());
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// If the directory cannot be read. A missing directory has no records.
pub fn device_records(directory: impl AsRef<Path>) -> io::Result<Vec<KeptRecord>> {
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let name = name.strip_suffix(".learnt").filter(|name| plain(name) == *name);
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    let record = |name: String| {
        let path = path_of(directory.as_ref(), &name);
        // It may have been removed in the meantime.
        let read = Record::read(&path, &name).transpose()?;
        let saved = |saved| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(saved));
        let learnt = read.map(|Record { learnt, saved: seconds }| {
            (learnt, saved(seconds).unwrap_or(SystemTime::UNIX_EPOCH))
        });
        Some(KeptRecord { name, path, learnt })
    };
    Ok(names.into_iter().filter_map(record).collect())
}

/// Removes the record of the device with this [name](crate::OpenOptions::device_name), and returns
/// its path, or None if there is none. Engines that have the device open write a new one when they
/// end.
///
/// # Errors
///
/// If the file is not foreread's, or cannot be removed.
pub fn forget_device_record(
    directory: impl AsRef<Path>,
    name: &str,
) -> io::Result<Option<PathBuf>> {
    let path = path_of(directory.as_ref(), &plain(name));
    let removed = system::remove_ours(&path, |head| head.starts_with(HEAD.as_bytes()));
    let is_removed = removed.map_err(|error: FileError| {
        let line = error.to_string();
        io::Error::new(io::Error::from(error).kind(), line)
    })?;
    Ok(is_removed.then_some(path))
}

#[cfg(test)]
mod tests {
    use foreread_core::units::Pages;

    use super::*;
    use crate::remember::write_device_record;

    #[test]
    fn records_are_listed_by_name_and_broken_ones_with_a_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let absent = directory.path().join("absent");
        assert_eq!(device_records(absent).expect("there are none"), []);
        let learnt = LearntDevice { window: Pages(512), cost: None };
        for name in ["store-s3://b", "disk-7"] {
            write_device_record(directory.path(), name, learnt).expect("it is written");
        }
        let path = |name: &str| directory.path().join(name);
        fs::write(path("cut.learnt"), "version = 1\n").expect("it is written");
        fs::write(path(".hidden.learnt"), "").expect("it is written");
        fs::write(path("notes.txt"), "").expect("it is written");
        let records = device_records(directory.path()).expect("it can be read");
        let names: Vec<_> = records.iter().map(|record| &*record.name).collect();
        assert_eq!(names, ["cut", "disk-7", "store-s3---b"]);
        assert!(records[0].learnt.as_ref().is_err_and(|why| why.contains("no device")));
        assert!(records[1..].iter().all(|it| it.learnt.as_ref().is_ok_and(|it| it.0 == learnt)));
    }

    #[test]
    fn only_a_record_is_forgotten() {
        let directory = tempfile::tempdir().expect("a directory");
        let learnt = LearntDevice { window: Pages(512), cost: None };
        let path = write_device_record(directory.path(), "store-s3://b", learnt).expect("written");
        let forget = |name| forget_device_record(directory.path(), name);
        assert_eq!(forget("store-s3://c").expect("there is none"), None);
        assert_eq!(forget("store-s3://b").expect("it is ours"), Some(path.clone()));
        assert!(!path.exists());
        fs::write(&path, "mine\n").expect("it is written");
        let error = forget("store-s3://b").expect_err("it is not ours").to_string();
        assert!(error.contains("not written by foreread") && path.exists(), "{error}");
    }
}
