//! A journal of original values, in a file that survives the process that wrote it.
//!
//! Each value is on disk in `/run/foreread/held-DEVICE.notes` before the setting changes. Two runs
//! never use one device, and a value that is not ours is never overwritten.
//!
//! Lines are only appended, so a run killed while writing a line has not made its change. A live
//! holder keeps the file locked; an unlocked file was left behind.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread_files::{journal, system};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::Restored;
use super::device_instance::instance_number;
use crate::clock::pause;
use crate::errno_text::errno_text;
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

/// The locked journal of one device.
pub(super) struct RestoreJournal {
    file: File,
    path: PathBuf,
    entries: Vec<JournalEntry>,
}

/// Journal of one attribute.
#[derive(Debug)]
struct JournalEntry {
    was: DeviceSetting,
    /// Identity of the disk with that name at the time.
    disk: Option<u64>,
    /// Last two values that we have set: the process may be killed between a note and its change.
    ours: Vec<String>,
    /// True if it changes as a side effect of another setting.
    follows: bool,
    /// True if the original value came from another process while we held the device.
    is_theirs: bool,
}

#[derive(Debug, Serialize, Deserialize)]
enum JournalLine {
    Was {
        setting: DeviceSetting,
        disk: Option<u64>,
        follows: bool,
    },
    Set(DeviceSetting),
    /// A value that another process has set between two of ours.
    Theirs(DeviceSetting),
}

/// Restores the settings of holders that are gone.
pub(super) fn restore_all(sys: &SystemRoot) -> Restored {
    let mut restored = Restored::default();
    let entries = fs::read_dir(sys.path(FOLDER)).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_notes = name.to_str().is_some_and(|name| name.ends_with(SUFFIX));
        let Ok(Some(notes)) =
            is_notes.then(|| RestoreJournal::open(&entry.path(), false)).transpose()
        else {
            continue;
        };
        notes.restore(sys, &mut restored);
    }
    restored
}

/// Returns the settings that killed runs have left changed, with their original values. It changes
/// nothing, and omits settings of live runs.
///
/// The result is empty without permission to read the journals.
#[must_use]
pub fn left_behind(sys: &SystemRoot) -> Vec<DeviceSetting> {
    let folder = fs::read_dir(sys.path(FOLDER)).into_iter().flatten().flatten();
    let paths = folder.map(|entry| entry.path());
    let is_notes = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(SUFFIX));
    let mut left = Vec::new();
    for path in paths.filter(is_notes) {
        let Ok(Some(mut file)) = system::open_trusted(&path) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            continue;
        }
        let mut text = String::new();
        if file.read_to_string(&mut text).is_err() {
            continue;
        }
        let is_left = |entry: &JournalEntry| {
            let is_same_disk = entry.disk == instance_number(sys, &entry.was);
            let now = entry.was.in_force(sys).filter(|_| is_same_disk);
            now.is_some_and(|now| now != entry.was.value && !entry.is_changed_by_others(&now))
        };
        left.extend(parse(&text).into_iter().filter(is_left).map(|entry| entry.was));
    }
    left
}

impl RestoreJournal {
    /// Creates a journal for a device, after restoring settings left behind there.
    pub(super) fn new(sys: &SystemRoot, device: &str) -> io::Result<Self> {
        let path = sys.path(FOLDER).join(format!("held-{device}{SUFFIX}"));
        let named = |error: io::Error| {
            if error.kind() != io::ErrorKind::WouldBlock {
                return unnoted(&path, &error);
            }
            let why = format!(
                "another run of foreread has changed settings of {device}; wait until it ends"
            );
            io::Error::new(error.kind(), why)
        };
        for _ in 0..LOCK_TRIES {
            let notes = Self::open(&path, true).map_err(named)?;
            if notes.entries.is_empty() {
                return Ok(notes);
            }
            let mut restored = Restored::default();
            notes.restore(sys, &mut restored);
            if let Some(failed) = restored.failed.first() {
                return Err(io::Error::other(format!(
                    "left by an earlier run, and cannot be \
                                                     restored: {failed}"
                )));
            }
        }
        Err(named(io::ErrorKind::WouldBlock.into()))
    }

    /// Locks the file and reads its contents.
    fn open(path: &Path, is_new: bool) -> io::Result<Self> {
        for _ in 0..LOCK_TRIES {
            let mut file = journal::open(path, is_new)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Another process may only be testing whether it was left behind; it unlocks soon.
                Err(Errno::WOULDBLOCK) if is_new => {
                    pause(LOOK_AGAIN);
                    continue;
                }
                locked => locked?,
            }
            // The previous owner of the lock may have removed the file; then the lock protects
            // nothing.
            if journal::is_at(&file, path) {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                return Ok(Self { file, path: path.to_owned(), entries: parse(&text) });
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Notes the value in force before a change, and those of attributes that change with it.
    pub(super) fn before(&mut self, sys: &SystemRoot, setting: &DeviceSetting) -> io::Result<()> {
        for follower in followers(sys, setting) {
            if !self.entries.iter().any(|entry| entry.follows && is_same(&entry.was, &follower)) {
                self.note(was(sys, follower, true))?;
            }
        }
        let value = setting.in_force(sys).ok_or_else(|| {
            io::Error::other(format!("{} cannot be read", setting.file().display()))
        })?;
        let now = DeviceSetting { value, ..setting.clone() };
        match self.entries.iter().find(|entry| is_same(&entry.was, setting)) {
            None => self.note(was(sys, now, false))?,
            Some(entry) if entry.disk != instance_number(sys, &entry.was) => {
                let name = &setting.device;
                return Err(io::Error::other(format!(
                    "{name} was removed; another device has its \
                                                     name"
                )));
            }
            Some(entry) if entry.is_changed_by_others(&now.value) => {
                self.note(JournalLine::Theirs(now))?;
            }
            Some(_) => {}
        }
        self.note(JournalLine::Set(setting.clone()))?;
        self.sync()
    }

    /// Notes the value in force after the system has refused or adjusted the setting.
    pub(super) fn after(&mut self, sys: &SystemRoot, setting: &DeviceSetting) -> io::Result<()> {
        let Some(value) = setting.in_force(sys) else { return Ok(()) };
        self.note(JournalLine::Set(DeviceSetting { value, ..setting.clone() }))?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| unnoted(&self.path, &error))
    }

    fn note(&mut self, line: JournalLine) -> io::Result<()> {
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let end = self.file.metadata()?.len();
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A partial line would hide later ones when there is space again.
            self.file.set_len(end)?;
            return Err(unnoted(&self.path, &error));
        }
        apply(&mut self.entries, line);
        Ok(())
    }

    /// Restores all values and removes the file, which stays if a value could not be restored.
    pub(super) fn restore(mut self, sys: &SystemRoot, restored: &mut Restored) {
        self.entries.sort_by_key(|entry| rank(&entry.was));
        let failed_before = restored.failed.len();
        for entry in &self.entries {
            let JournalEntry { was, disk, is_theirs, .. } = entry;
            // A removed disk took its settings along, and another one may have its name.
            let is_same_disk = *disk == instance_number(sys, was);
            let Some(now) = was.in_force(sys).filter(|_| is_same_disk) else { continue };
            if entry.is_changed_by_others(&now) || (now == was.value && *is_theirs) {
                restored.theirs.push(DeviceSetting { value: now, ..was.clone() });
                continue;
            }
            if now == was.value {
                continue;
            }
            match was.set(sys) {
                Ok(()) if *is_theirs => restored.theirs.push(was.clone()),
                Ok(()) => restored.back.push(was.clone()),
                Err(error) => {
                    let name = was.file();
                    let why = errno_text(&error);
                    restored.failed.push(format!("{} {}: {why}", name.display(), was.value));
                }
            }
        }
        if restored.failed.len() == failed_before {
            let _ = journal::remove(&self.file, &self.path);
        }
    }
}

impl JournalEntry {
    /// Returns whether this value is neither the original nor one of ours.
    fn is_changed_by_others(&self, now: &str) -> bool {
        !self.follows && now != self.was.value && !self.ours.iter().any(|ours| ours == now)
    }
}

fn unnoted(path: &Path, error: &io::Error) -> io::Error {
    let why =
        format!("cannot record the previous value in {}: {}", path.display(), errno_text(error));
    io::Error::new(error.kind(), why)
}

fn parse(text: &str) -> Vec<JournalEntry> {
    let mut entries = Vec::new();
    for line in text.lines().map_while(|line| serde_json::from_str(line).ok()) {
        apply(&mut entries, line);
    }
    entries
}

fn apply(entries: &mut Vec<JournalEntry>, line: JournalLine) {
    match line {
        JournalLine::Was { setting, disk, follows } => {
            match entries.iter_mut().find(|entry| is_same(&entry.was, &setting)) {
                Some(entry) => entry.follows |= follows,
                None => {
                    let (ours, is_theirs) = (Vec::new(), false);
                    entries.push(JournalEntry { was: setting, disk, ours, follows, is_theirs });
                }
            }
        }
        JournalLine::Theirs(setting) => {
            let entry = entries.iter_mut().find(|entry| is_same(&entry.was, &setting));
            let Some(entry) = entry else { return };
            (entry.was, entry.is_theirs) = (setting, true);
        }
        JournalLine::Set(setting) => {
            let entry = entries.iter_mut().find(|entry| is_same(&entry.was, &setting));
            let Some(entry) = entry else { return };
            let from = entry.ours.len().saturating_sub(1);
            entry.ours.drain(..from);
            entry.ours.push(setting.value);
        }
    }
}

fn was(sys: &SystemRoot, setting: DeviceSetting, follows: bool) -> JournalLine {
    let disk = instance_number(sys, &setting);
    JournalLine::Was { setting, disk, follows }
}

/// Returns the attributes that the kernel resets along with this one, with their current values: a
/// scheduler resets its tunables and depth, a depth resets its share for asynchronous requests.
fn followers(sys: &SystemRoot, setting: &DeviceSetting) -> Vec<DeviceSetting> {
    let mut attributes = Vec::new();
    if [SCHEDULER, NR_REQUESTS].contains(&setting.attribute.as_str()) {
        let folder = sys.path(Path::new("/sys/block").join(&setting.device).join(IOSCHED));
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        attributes.extend(names.map(|name| format!("{IOSCHED}/{name}")));
        attributes.extend([NR_REQUESTS, ASYNC_DEPTH].map(str::to_owned));
    }
    attributes.retain(|attribute| *attribute != setting.attribute);
    let of = |attribute| DeviceSetting { attribute, ..setting.clone() };
    let with_value =
        |setting: DeviceSetting| Some(DeviceSetting { value: setting.in_force(sys)?, ..setting });
    attributes.into_iter().map(of).filter_map(with_value).collect()
}

/// Returns the restore order: attributes that reset others come first.
fn rank(setting: &DeviceSetting) -> u32 {
    match setting.attribute.as_str() {
        SCHEDULER => 0,
        NR_REQUESTS => 1,
        _ => 2,
    }
}

fn is_same(a: &DeviceSetting, b: &DeviceSetting) -> bool {
    (&a.device, &a.attribute) == (&b.device, &b.attribute)
}

const SCHEDULER: &str = "queue/scheduler";
const NR_REQUESTS: &str = "queue/nr_requests";
const ASYNC_DEPTH: &str = "queue/async_depth";
const IOSCHED: &str = "queue/iosched";

/// Folder of the journals; a boot clears it together with the settings.
const FOLDER: &str = "/run/foreread";
const SUFFIX: &str = ".notes";

/// Tries to lock the journal; each failure coincides with another run's start or end.
const LOCK_TRIES: u32 = 10;
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
