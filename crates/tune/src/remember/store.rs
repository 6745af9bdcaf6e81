//! Reads and writes the records in `/var/lib/foreread/*.json`. A damaged record is reported, and
//! the others are still read.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Remembered, file};
use crate::sysfs::SystemRoot;

const FOLDER: &str = "/var/lib/foreread";

/// All records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// Readable records, sorted by id.
    pub remembered: Vec<Remembered>,
    /// Unreadable records.
    pub unreadable: Vec<Unreadable>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unreadable {
    /// File, as an absolute path of its system.
    pub file: PathBuf,
    /// Id, taken from the file name.
    pub id: String,
    /// Reason.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, id, why } = self;
        write!(f, "{}: {why}; measure again, or foreread tune forget {id}", file.display())
    }
}

/// Returns the path of the record with this id.
#[must_use]
pub fn store_path(id: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{id}.json"))
}

/// Returns all records.
#[must_use]
pub fn list(sys: &SystemRoot) -> Listed {
    let entries = fs::read_dir(sys.path(FOLDER)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<_> = names
        .filter(|name| !name.starts_with('.'))
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    ids.sort();
    let mut listed = Listed::default();
    for id in ids {
        let file = store_path(&id);
        match read(sys, &id, &file) {
            Ok(remembered) => listed.remembered.push(remembered),
            Err(why) => listed.unreadable.push(Unreadable { file, id, why }),
        }
    }
    listed
}

/// Returns the record of a device that is present, by its kernel name; for a partition, its disk's.
#[must_use]
pub fn recall(sys: &SystemRoot, device: &str) -> Option<Remembered> {
    let whole = sys.whole(&sys.device(device)?)?;
    let is_it = |known: &Remembered| {
        known.identity.devices(sys).iter().any(|device| device.name == whole.name)
    };
    list(sys).remembered.into_iter().find(is_it)
}

fn read(sys: &SystemRoot, id: &str, path: &Path) -> Result<Remembered, String> {
    let text = file::read(sys, path).map_err(|error| error.to_string())?;
    let text = text.ok_or("it cannot be read")?;
    let remembered: Remembered = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    if remembered.identity.id != id {
        return Err(format!("it is the record of {}", remembered.identity.id));
    }
    Ok(remembered)
}

/// Returns the bytes of a record, if there is one.
pub(super) fn text(sys: &SystemRoot, id: &str) -> Option<Vec<u8>> {
    sys.bytes(store_path(id))
}

pub(super) fn write(sys: &SystemRoot, remembered: &Remembered) -> Result<(), (PathBuf, io::Error)> {
    let path = store_path(&remembered.identity.id);
    written(remembered)
        .and_then(|text| file::write_whole(sys, &path, &text, is_record))
        .map_err(|error| (path, error))
}

/// Serialises a record and checks that it can be read again: JSON cannot represent NaN or infinity.
fn written(remembered: &Remembered) -> io::Result<String> {
    let text = serde_json::to_string_pretty(remembered).map_err(io::Error::other)?;
    serde_json::from_str::<Remembered>(&text).map_err(io::Error::other)?;
    Ok(format!("{text}\n"))
}

/// Accepts any file of this name: the folder belongs to foreread, and measuring again repairs a
/// damaged record.
pub(super) fn is_record(_: &[u8]) -> bool {
    true
}

/// Restores the state before [`write()`]. Its own failure is ignored in favour of the original
/// error.
pub(super) fn put_back(sys: &SystemRoot, id: &str, before: Option<Vec<u8>>) {
    let path = store_path(id);
    let _ = match before.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => file::write_whole(sys, &path, &text, is_record),
        None => file::remove(sys, &path).map(drop),
    };
}
