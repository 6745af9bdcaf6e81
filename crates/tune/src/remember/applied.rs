//! What `--apply` has set until the next boot, so that `forget` can undo it.
//!
//! In:    settings that were made, what was in force before; a device's name.
//! Out:   `/run/foreread/applied-DEVICE.json`, which the next boot takes away.
//! Never: a note that outlives its device: another one of this name has another `diskseq`.
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

/// What was set on one device until the next boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// The whole device, as the kernel calls it.
    pub device: String,
    /// The kernel's number of this very device (Linux 5.15), never given twice in one boot.
    pub diskseq: Option<u64>,
    /// When, as the caller wrote it.
    pub date: String,
    /// What was found.
    pub report: Report,
    /// What was set.
    pub settings: Vec<DeviceSetting>,
    /// What was in force before.
    pub before: Vec<DeviceSetting>,
}

/// Notes that these settings were made, which were `before` at these values.
///
/// Settings that an earlier note has, and that are still in force, keep what was before that.
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

/// What was set on this device until the next boot, if it is still the same device.
#[must_use]
pub fn applied_on(sys: &SystemRoot, device: &str) -> Option<Applied> {
    let name = device.strip_prefix("/dev/").unwrap_or(device);
    let whole = sys.whole(&sys.device(name)?)?.name;
    let applied: Applied = serde_json::from_str(&file::read(sys, &path(&whole)).ok()??).ok()?;
    (applied.device == whole && applied.diskseq == diskseq(sys, &whole)).then_some(applied)
}

/// All devices that have such a note, in the order of their names.
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

/// What was in force before the first `--apply` of this boot, where what is in force now is what
/// that has set; else what is in force now.
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

/// Takes the note away; whether it was there.
///
/// # Errors
///
/// If the system refuses to.
pub fn forget_applied(sys: &SystemRoot, device: &str) -> io::Result<bool> {
    file::remove(sys, &path(device))
}

/// Where the note of a device lies.
#[must_use]
pub(super) fn path(device: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{}.json", device))
}

fn diskseq(sys: &SystemRoot, device: &str) -> Option<u64> {
    sys.number(Path::new("/sys/block").join(device).join("diskseq"))
}

/// Gone with the next boot, as the settings are.
const FOLDER: &str = "/run/foreread";
const PREFIX: &str = "applied-";
