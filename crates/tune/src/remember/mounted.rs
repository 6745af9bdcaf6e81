//! Remembers mounts: their window is set again whenever they are mounted.
//!
//! In:    a mount, its window, the previous window; the date; the path of this program.
//! Out:   a record for each mount, and one udev rule for all of them.
//! Never: a window set on another mount: type, source and mount point have to match.
//!
//! ```text
//!   mount appears --> the kernel adds bdi 0:57 --> udev's rule --> foreread tune follow 0:57
//!                                                                   '--> the record of this mount
//! ```
//!
//! The number of a backing device may change at each mount, so no rule can name it.

mod rule;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::file;
use super::store::is_record;
use crate::clock::pause;
use crate::identity::readable_id;
use crate::mounts::bdi_of;
use crate::report::Report;
use crate::setting::DeviceSetting;
use crate::sysfs::{SystemRoot, names_in};
use crate::target::TunedMount;

pub use rule::{MOUNT_RULE, is_plain_path, replaceable_program};

/// A mount with a measured and applied window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RememberedMount {
    /// Id for commands and files.
    pub id: String,
    /// Mount point.
    pub mount: String,
    /// File system type.
    pub fs: String,
    /// Mounted source.
    pub source: String,
    /// Date, as written by the caller.
    pub date: String,
    /// Report of the measurement.
    pub report: Report,
    /// Window in KiB.
    pub read_ahead_kb: u64,
    /// Window before the first change.
    pub before_kb: Option<u64>,
    /// True if it is set only until the file system is unmounted.
    pub is_until_unmount: bool,
    /// Backing device when it was set. Another mount at this point may have a different one.
    pub bdi: String,
}

/// All remembered or applied mounts, and unreadable files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedMounts {
    /// Readable records; for one mount, the setting until unmount follows the remembered one.
    pub mounts: Vec<RememberedMount>,
    /// Unreadable files, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Records a measured window, to be set at each mount or until this one is unmounted.
///
/// The window before the first change stays on record.
///
/// # Errors
///
/// If a file operation fails; then no new file is left.
pub fn remember_mount(
    sys: &SystemRoot,
    known: RememberedMount,
    program: &Path,
) -> Result<RememberedMount, (PathBuf, io::Error)> {
    let earlier = mounts_remembered(sys).mounts.into_iter().find(|earlier| {
        // A setting that lasted until another mount's end is unrelated to this mount.
        earlier.id == known.id && (!earlier.is_until_unmount || earlier.bdi == known.bdi)
    });
    let before_kb = earlier.and_then(|earlier| earlier.before_kb).or(known.before_kb);
    let known = RememberedMount { before_kb, ..known };
    let path = record_path(&known);
    let text =
        serde_json::to_string_pretty(&known).map_err(|error| (path.clone(), error.into()))?;
    let before_text = sys.whole_text(&path);
    // The record is written first, as for devices: a rule without a record does nothing.
    file::write_whole(sys, &path, &format!("{text}\n"), is_record)
        .map_err(|error| (path.clone(), error))?;
    if known.is_until_unmount {
        return Ok(known);
    }
    if let Err(error) = rule::write(sys, &known.date, program) {
        let _ = match before_text {
            Some(text) => file::write_whole(sys, &path, &text, is_record).map(|()| true),
            None => file::remove(sys, &path),
        };
        return Err((PathBuf::from(MOUNT_RULE), error));
    }
    let until_unmount = RememberedMount { is_until_unmount: true, ..known.clone() };
    let _ = file::remove(sys, &record_path(&until_unmount));
    Ok(known)
}

/// Returns all records of mounts.
#[must_use]
pub fn mounts_remembered(sys: &SystemRoot) -> ListedMounts {
    let mut listed = ListedMounts::default();
    for folder in [KEPT, UNTIL_BOOT] {
        let names = names_in(&sys.path(folder)).into_iter();
        for name in names.filter(|name| name.ends_with(".json") && !name.starts_with('.')) {
            let path = Path::new(folder).join(name);
            match read(sys, &path) {
                Ok(mount) => listed.mounts.push(mount),
                Err(why) => listed.unreadable.push((path, why)),
            }
        }
    }
    listed
}

fn read(sys: &SystemRoot, path: &Path) -> Result<RememberedMount, String> {
    let text = file::read(sys, path).map_err(|error| error.to_string())?.unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

impl RememberedMount {
    /// Returns the id of a mount for files and commands.
    #[must_use]
    pub fn id_of(mount: &TunedMount) -> String {
        let key = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let keys = [key("fs", &mount.fs), key("source", &mount.source), key("mount", &mount.point)];
        readable_id("mount", &keys)
    }

    /// Returns its setting, with the value in force; None if it is not mounted, or its backing
    /// device is ambiguous.
    #[must_use]
    pub fn setting(&self, sys: &SystemRoot) -> Option<DeviceSetting> {
        let mounts = sys.mounts();
        let last = mounts.iter().rfind(|mount| mount.point == self.mount)?;
        let is_it = last.kind == self.fs && last.source == self.source;
        let bdi = bdi_of(sys, &mounts, last).ok().filter(|_| is_it)?;
        let attribute = bdi.attribute();
        let setting = DeviceSetting { device: bdi.name, attribute, value: String::new() };
        let value = setting.in_force(sys)?;
        Some(DeviceSetting { value, ..setting })
    }
}

/// Result of `follow` for one mount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FollowedMount {
    /// Mount point.
    pub mount: String,
    /// Previous value.
    pub from_kb: String,
    /// New value, or the error.
    pub result: Result<u64, String>,
}

/// Sets the window of each remembered mount whose value differs. If a backing device is named, only
/// its mount is handled, after waiting for it: the kernel adds the device before the mount is
/// visible.
#[must_use]
pub fn follow(sys: &SystemRoot, bdi: Option<&str>) -> Vec<FollowedMount> {
    let kept = mounts_remembered(sys).mounts.into_iter().filter(|mount| !mount.is_until_unmount);
    let kept: Vec<_> = kept.collect();
    if kept.is_empty() {
        return Vec::new();
    }
    if let Some(bdi) = bdi {
        for _ in 0..LOOKS {
            if kept.iter().any(|mount| mount.setting(sys).is_some_and(|it| it.device == bdi)) {
                break;
            }
            pause(LOOK_AGAIN);
        }
    }
    let mut followed = Vec::new();
    for mount in kept {
        let Some(now) = mount.setting(sys) else { continue };
        let is_meant = bdi.is_none_or(|bdi| bdi == now.device);
        if !is_meant || now.value == mount.read_ahead_kb.to_string() {
            continue;
        }
        let to = DeviceSetting { value: mount.read_ahead_kb.to_string(), ..now.clone() };
        let result = to.set(sys).map(|()| mount.read_ahead_kb).map_err(|error| error.to_string());
        followed.push(FollowedMount { mount: mount.mount, from_kb: now.value, result });
    }
    followed
}

/// Verification of a remembered mount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountVerification {
    /// Id of the record.
    pub id: String,
    /// Mount point.
    pub mount: String,
    /// True if it is mounted now.
    pub is_mounted: bool,
    /// Deviations.
    pub findings: Vec<String>,
}

/// Verifies all remembered mounts.
#[must_use]
pub fn verify_mounts(sys: &SystemRoot) -> Vec<MountVerification> {
    let listed = mounts_remembered(sys);
    let kept = listed.mounts.into_iter().filter(|mount| !mount.is_until_unmount);
    let of_rule = rule::finding(sys);
    let mut verdicts: Vec<_> = kept
        .map(|mount| {
            let setting = mount.setting(sys);
            let drift = setting.as_ref().filter(|now| now.value != mount.read_ahead_kb.to_string());
            let mut findings: Vec<String> = of_rule.iter().cloned().collect();
            findings.extend(drift.map(|now| {
                format!(
                    "{} is {} instead of the remembered {}; foreread tune follow sets it",
                    now.attribute, now.value, mount.read_ahead_kb
                )
            }));
            let is_mounted = setting.is_some();
            MountVerification { id: mount.id, mount: mount.mount, is_mounted, findings }
        })
        .collect();
    verdicts.extend(listed.unreadable.into_iter().map(|(path, why)| MountVerification {
        id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        mount: String::new(),
        is_mounted: false,
        findings: vec![format!("{}: {why}; remove it, and measure again", path.display())],
    }));
    verdicts
}

/// Result of forgetting a mount.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForgottenMount {
    /// Restored window.
    pub restored: Option<DeviceSetting>,
    /// Setting that was not restored, with the reason.
    pub left: Option<String>,
    /// Removed files.
    pub removed: Vec<PathBuf>,
}

/// Forgets a mount, by its mount point or id, and restores the window from before the first change
/// if the remembered one is still in force. None if there is no record.
///
/// # Errors
///
/// If the system refuses to remove a file.
pub fn forget_mount(
    sys: &SystemRoot,
    name: &str,
) -> Result<Option<ForgottenMount>, (PathBuf, io::Error)> {
    let listed = mounts_remembered(sys).mounts;
    let is_it = |mount: &&RememberedMount| mount.id == name || mount.mount == name;
    let meant: Vec<_> = listed.iter().filter(is_it).cloned().collect();
    if meant.is_empty() {
        return Ok(None);
    }
    let mut forgotten = ForgottenMount::default();
    // With the last mount, the rule goes first: an event in between would set the value again.
    let is_kept = |mount: &&RememberedMount| !mount.is_until_unmount && !is_it(mount);
    let mut gone: Vec<PathBuf> = Vec::new();
    if !listed.iter().any(|mount| is_kept(&mount)) {
        gone.push(PathBuf::from(MOUNT_RULE));
    }
    gone.extend(meant.iter().map(record_path));
    for path in gone {
        if file::remove(sys, &path).map_err(|error| (path.clone(), error))? {
            forgotten.removed.push(path);
        }
    }
    // The latest setting is the one in force.
    let Some(last) = meant.last() else { return Ok(Some(forgotten)) };
    match last.setting(sys) {
        None => forgotten.left = Some("it is not mounted".to_owned()),
        Some(now) if now.value != last.read_ahead_kb.to_string() => {
            forgotten.left =
                Some(format!("it is {} now, a value that foreread did not set", now.value));
        }
        Some(now) => restore(sys, &meant, now, &mut forgotten),
    }
    Ok(Some(forgotten))
}

/// Restores the window from before the first of these settings.
fn restore(
    sys: &SystemRoot,
    meant: &[RememberedMount],
    now: DeviceSetting,
    forgotten: &mut ForgottenMount,
) {
    let Some(before_kb) = meant.iter().find_map(|mount| mount.before_kb) else {
        forgotten.left = Some("the previous value is unknown".to_owned());
        return;
    };
    let back = DeviceSetting { value: before_kb.to_string(), ..now };
    match back.set(sys) {
        Ok(()) => forgotten.restored = Some(back),
        Err(error) => forgotten.left = Some(format!("{before_kb} was refused: {error}")),
    }
}

impl fmt::Display for ForgottenMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.removed {
            writeln!(f, "removed  {}", path.display())?;
        }
        if let Some(setting) = &self.restored {
            writeln!(f, "restored {} = {}", setting.attribute, setting.value)?;
        }
        if let Some(why) = &self.left {
            writeln!(f, "left     its window: {why}")?;
        }
        Ok(())
    }
}

/// Returns the path of a mount's record.
fn record_path(mount: &RememberedMount) -> PathBuf {
    let folder = if mount.is_until_unmount { UNTIL_BOOT } else { KEPT };
    Path::new(folder).join(format!("{}.json", mount.id))
}

/// Folder below that of device records.
const KEPT: &str = "/var/lib/foreread/mounts";

/// Cleared at the next boot, as the mounts are.
const UNTIL_BOOT: &str = "/run/foreread/mounts";

/// A mount becomes visible some milliseconds after its backing device. A slow server takes longer;
/// `follow` without a name handles it later. The polls take 2 s together.
const LOOKS: u32 = 40;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
