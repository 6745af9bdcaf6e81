//! Notes the settings made by `--apply` until the next boot, so that `forget` can undo them.
//!
//! The notes are in `/run/foreread/applied-DEVICE.json`, which does not survive a boot. A note is
//! ignored once another device has the name: its `diskseq` differs.
//!
//! ```text
//!   --apply    sda 128 --> 1024    applied-sda.json: was 128
//!   --apply    sda 1024 -> 2048    applied-sda.json: was 128, still
//!   --remember                     the record in /var/lib takes over: was 128; the note is gone
//!   forget     sda 2048 -> 128     the note is gone
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file;
use super::store::is_record;
use crate::report::Report;
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

/// Settings made on one device until the next boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Kernel name of the whole device.
    pub device: String,
    /// The kernel's sequence number of this device (Linux 5.15), unique within a boot.
    pub diskseq: Option<u64>,
    /// Date, as written by the caller.
    pub date: String,
    /// Report of the measurement.
    pub report: Report,
    /// New settings.
    pub settings: Vec<DeviceSetting>,
    /// Previous settings.
    pub before: Vec<DeviceSetting>,
}

/// Notes that these settings were made, with their values `before`.
///
/// If an earlier note's settings are still in force, its previous values are kept.
///
/// # Errors
///
/// If the note cannot be written.
pub fn note_applied(sys: &SystemRoot, mut applied: Applied) -> io::Result<()> {
    if let Some(earlier) = applied_on(sys, &applied.device) {
        applied.before = original(Some(&earlier), &applied.before);
        let is_new = |setting: &DeviceSetting, all: &[DeviceSetting]| {
            all.iter().all(|other| other.attribute != setting.attribute)
        };
        let settings = earlier.settings.iter().filter(|it| is_new(it, &applied.settings));
        let before = earlier.before.iter().filter(|it| is_new(it, &applied.settings));
        let (settings, before): (Vec<_>, Vec<_>) =
            (settings.cloned().collect(), before.cloned().collect());
        applied.settings.extend(settings);
        applied.before.extend(before);
    }
    applied.diskseq = diskseq(sys, &applied.device);
    let text = serde_json::to_string_pretty(&applied).map_err(io::Error::other)?;
    file::write_whole(sys, &path(&applied.device), &format!("{text}\n"), is_record)
}

/// Returns the note of this device, if it is still the same device.
#[must_use]
pub fn applied_on(sys: &SystemRoot, device: &str) -> Option<Applied> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let whole = sys.whole(&sys.device(name)?)?.name;
    let applied: Applied = serde_json::from_str(&file::read(sys, &path(&whole)).ok()??).ok()?;
    (applied.device == whole && applied.diskseq == diskseq(sys, &whole)).then_some(applied)
}

/// Returns all devices with such a note, sorted by name.
#[must_use]
pub fn applied(sys: &SystemRoot) -> Vec<Applied> {
    let entries = fs::read_dir(sys.path(FOLDER)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut devices: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix(PREFIX)?.strip_suffix(".json")?.to_owned()))
        .collect();
    devices.sort();
    devices.iter().filter_map(|device| applied_on(sys, device)).collect()
}

/// Returns the values before the first `--apply` of this boot for settings that are still in force
/// as applied; for others, the values in force now.
#[must_use]
pub fn original(earlier: Option<&Applied>, now: &[DeviceSetting]) -> Vec<DeviceSetting> {
    let first = |setting: &DeviceSetting| {
        let earlier = earlier?;
        let same = |other: &&DeviceSetting| other.attribute == setting.attribute;
        let ours = earlier.settings.iter().find(same)?;
        let is_ours = ours.value == setting.value;
        is_ours.then(|| earlier.before.iter().find(same).cloned()).flatten()
    };
    now.iter().map(|setting| first(setting).unwrap_or_else(|| setting.clone())).collect()
}

/// Removes the note. Returns whether there was one.
///
/// # Errors
///
/// If the system refuses to.
pub fn forget_applied(sys: &SystemRoot, device: &str) -> io::Result<bool> {
    file::remove(sys, &path(device))
}

/// Returns the path of a device's note.
#[must_use]
pub(super) fn path(device: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{}.json", device))
}

fn diskseq(sys: &SystemRoot, device: &str) -> Option<u64> {
    sys.number(Path::new("/sys/block").join(device).join("diskseq"))
}

/// Cleared at the next boot, as the settings are.
const FOLDER: &str = "/run/foreread";
const PREFIX: &str = "applied-";
