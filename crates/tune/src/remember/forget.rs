//! Forgets a device: restores its earlier settings and removes our files.
//!
//! A setting that another program or the user has changed since stays. Another device that has the
//! name today is not affected.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::{
    Applied, Remembered, applied, applied_on, file, list, recall, rule, rule_path, store_path,
};
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

/// Result of forgetting a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forgotten {
    /// Id of the record.
    pub id: String,
    /// Matching devices that are present.
    pub devices: Vec<String>,
    /// Restored settings, with their original values.
    pub restored: Vec<DeviceSetting>,
    /// Settings that were not restored, with the reason.
    pub left: Vec<(DeviceSetting, String)>,
    /// Removed files, as absolute paths of their system.
    pub removed: Vec<PathBuf>,
}

/// Reason why nothing was forgotten.
#[derive(Debug)]
pub enum NotForgotten {
    /// No record under this name.
    Unknown {
        /// Requested name.
        name: String,
        /// Candidates, if the name belonged to a recorded device and now belongs to another, or to
        /// several recorded devices.
        meant: Vec<String>,
    },
    /// A file could not be removed.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

/// Forgets a device, given by its name, its id, or its old name if it is absent: first the settings
/// applied until the next boot, then the remembered ones.
///
/// # Errors
///
/// If nothing is remembered under this name, or a file cannot be removed.
pub fn forget(sys: &SystemRoot, name: &str) -> Result<Forgotten, NotForgotten> {
    let name = name.strip_prefix("/dev/").unwrap_or(name);
    let found = find(sys, name);
    let device = match &found {
        Ok(id) => here(sys, id).unwrap_or_else(|| name.to_owned()),
        Err(_) => name.to_owned(),
    };
    // The latest settings are undone first: they may override remembered ones.
    let undone = applied_on(sys, &device).map(|applied| unapply(sys, &applied)).transpose()?;
    let remembered = match (found, undone) {
        (Ok(id), undone) => (id, undone.unwrap_or_default()),
        (Err(_), Some(undone)) => return Ok(undone),
        (Err(why), None) => return Err(why),
    };
    forget_remembered(sys, remembered)
}

/// Restores the settings that `--apply` changed.
fn unapply(sys: &SystemRoot, applied: &Applied) -> Result<Forgotten, NotForgotten> {
    let device = applied.device.clone();
    let mut forgotten =
        Forgotten { id: device.clone(), devices: vec![device], ..Forgotten::default() };
    let now: Vec<_> = applied.settings.iter().map(|ours| ours.in_force(sys)).collect();
    for (ours, now) in applied.settings.iter().zip(now) {
        let was = applied.before.iter().find(|was| was.attribute == ours.attribute);
        match undo(sys, ours, now, was.cloned()) {
            Ok(was) => forgotten.restored.push(was),
            Err(why) => forgotten.left.push((ours.clone(), why)),
        }
    }
    let path = applied::path(&applied.device);
    match file::remove(sys, &path) {
        Ok(is_there) => forgotten.removed.extend(is_there.then_some(path)),
        Err(source) => return Err(NotForgotten::File { path, source }),
    }
    Ok(forgotten)
}

/// Returns the current name of the device with this id.
fn here(sys: &SystemRoot, id: &str) -> Option<String> {
    let known = list(sys).remembered.into_iter().find(|known| known.identity.id == id)?;
    Some(known.identity.devices(sys).first()?.name.clone())
}

fn forget_remembered(
    sys: &SystemRoot,
    (id, mut before): (String, Forgotten),
) -> Result<Forgotten, NotForgotten> {
    let known = list(sys).remembered.into_iter().find(|known| known.identity.id == id);
    let mut removed = Vec::new();
    let mut remove = |path: PathBuf| match file::remove(sys, &path) {
        Ok(is_there) => {
            removed.extend(is_there.then_some(path));
            Ok(())
        }
        Err(source) => Err(NotForgotten::File { path, source }),
    };
    // The rule goes first: while it exists, the next event would set the value again. The record
    // goes last, so that a failed attempt can be repeated.
    remove(rule_path(&id))?;
    let mut undone = known.map(|known| restore(sys, &known)).unwrap_or_default();
    remove(store_path(&id))?;
    undone.restored.splice(0..0, before.restored);
    undone.left.splice(0..0, before.left);
    before.removed.append(&mut removed);
    Ok(Forgotten { id, removed: before.removed, ..undone })
}

fn find(sys: &SystemRoot, name: &str) -> Result<String, NotForgotten> {
    let listed = list(sys);
    let ids: Vec<_> = listed.remembered.iter().map(|known| known.identity.id.clone()).collect();
    let broken = listed.unreadable.iter().map(|broken| broken.id.clone());
    if let Some(id) = ids.into_iter().chain(broken).chain(orphans(sys)).find(|id| id == name) {
        return Ok(id);
    }
    let device = sys.device(name);
    if let Some(known) = recall(sys, name) {
        return Ok(known.identity.id);
    }
    let then = listed.remembered.iter().filter(|known| known.device == name);
    let meant: Vec<_> = then.map(|known| known.identity.id.clone()).collect();
    match (meant.as_slice(), device) {
        ([id], None) => Ok(id.clone()),
        _ => Err(NotForgotten::Unknown { name: name.to_owned(), meant }),
    }
}

/// Returns the ids of rules without a record.
pub(super) fn orphans(sys: &SystemRoot) -> Vec<String> {
    let path = rule_path("");
    let folder = path.parent().map(|folder| sys.path(folder)).unwrap_or_default();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter_map(|name| {
        Some(name.strip_prefix(rule::PREFIX)?.strip_suffix(".rules")?.to_owned())
    });
    let mut ids: Vec<_> = ids.filter(|id| !sys.path(store_path(id)).exists()).collect();
    ids.sort();
    ids
}

fn restore(sys: &SystemRoot, known: &Remembered) -> Forgotten {
    let mut forgotten = Forgotten::default();
    for device in known.identity.devices(sys) {
        let here = |setting: &DeviceSetting| DeviceSetting {
            device: device.name.clone(),
            ..setting.clone()
        };
        // All values are read before any is set: changing the scheduler also changes the number of
        // requests.
        let now = |ours: DeviceSetting| (ours.in_force(sys), ours);
        let all: Vec<_> = known.settings.iter().map(here).map(now).collect();
        for (now, ours) in all {
            let was = known.before.iter().find(|was| was.attribute == ours.attribute).map(here);
            match undo(sys, &ours, now, was) {
                Ok(was) => forgotten.restored.push(was),
                Err(why) => forgotten.left.push((ours, why)),
            }
        }
        // A file system's attribute has the old device name in its path. If it was mounted again,
        // it is back at its default already.
        let left_out = known.left_out.iter().filter(|_| device.name == known.device);
        for ours in left_out {
            let was = known.before.iter().find(|was| was.attribute == ours.attribute).cloned();
            forgotten.restored.extend(undo(sys, ours, ours.in_force(sys), was));
        }
        forgotten.devices.push(device.name);
    }
    forgotten
}

/// Restores the original value, or returns the reason why not.
fn undo(
    sys: &SystemRoot,
    ours: &DeviceSetting,
    now: Option<String>,
    was: Option<DeviceSetting>,
) -> Result<DeviceSetting, String> {
    let now = now.ok_or("the device does not have it now")?;
    if now != ours.value {
        return Err(format!("it is {now} now, a value that foreread did not set"));
    }
    let was = was.ok_or("the previous value is unknown")?;
    was.set(sys).map_err(|error| format!("{} was refused: {error}", was.value))?;
    Ok(was)
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.removed {
            writeln!(f, "removed  {}", path.display())?;
        }
        for setting in &self.restored {
            writeln!(f, "restored {} = {}", setting.file().display(), setting.value)?;
        }
        for (setting, why) in &self.left {
            writeln!(f, "left     {}: {why}", setting.file().display())?;
        }
        if self.devices.is_empty() {
            writeln!(f, "its device is not attached: it will return with the kernel's default")?;
        }
        Ok(())
    }
}

impl fmt::Display for NotForgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, meant } if meant.is_empty() => {
                write!(f, "{name}: not remembered; see foreread tune --list")
            }
            Self::Unknown { name, meant } => write!(
                f,
                "{name}: the device with this name is not remembered; the one that had it then is \
                 {}: foreread tune forget {}",
                meant.join(" or "),
                meant[0]
            ),
            Self::File { path, source } => {
                write!(f, "{}: {source}; it is still remembered", path.display())
            }
        }
    }
}

impl std::error::Error for NotForgotten {}
