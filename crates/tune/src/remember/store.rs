//! The records of what is remembered.
//!
//! In:    `/var/lib/foreread/*.json`.
//! Out:   [`Listed`].
//! Never: an end because one of them is broken: it is named, and the others are read.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Remembered, file};
use crate::sysfs::SystemRoot;

const FOLDER: &str = "/var/lib/foreread";

/// All that is remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// What can be read, in the order of ids.
    pub remembered: Vec<Remembered>,
    /// What cannot.
    pub unreadable: Vec<Unreadable>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unreadable {
    /// Its file, an absolute path of its system.
    pub file: PathBuf,
    /// Of what its name says that it is.
    pub id: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, id, why } = self;
        write!(f, "{}: {why}; measure again, or foreread tune forget {id}", file.display())
    }
}

/// Where the record of this id lies.
#[must_use]
pub fn store_path(id: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{id}.json"))
}

/// All that is remembered.
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

/// What is remembered of a device that is here, by its kernel name; of a partition, its disk's.
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

/// The bytes of a record, if there is one.
pub(super) fn text(sys: &SystemRoot, id: &str) -> Option<Vec<u8>> {
    fs::read(sys.path(store_path(id))).ok()
}

pub(super) fn write(sys: &SystemRoot, remembered: &Remembered) -> Result<(), (PathBuf, io::Error)> {
    let path = store_path(&remembered.identity.id);
    written(remembered)
        .and_then(|text| file::write_whole(sys, &path, &text, is_record))
        .map_err(|error| (path, error))
}

/// The text of a record that can be read again: JSON has no word for a figure that is no number.
fn written(remembered: &Remembered) -> io::Result<String> {
    let text = serde_json::to_string_pretty(remembered).map_err(io::Error::other)?;
    serde_json::from_str::<Remembered>(&text).map_err(io::Error::other)?;
    Ok(format!("{text}\n"))
}

/// Any file of this name: the folder is foreread's own, and measuring again is how a damaged record
/// is mended.
pub(super) fn is_record(_: &[u8]) -> bool {
    true
}

/// As it was before [`write()`]: the error that led here is the one to tell.
pub(super) fn put_back(sys: &SystemRoot, id: &str, before: Option<Vec<u8>>) {
    let path = store_path(id);
    let _ = match before.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => file::write_whole(sys, &path, &text, is_record),
        None => file::remove(sys, &path).map(drop),
    };
}
