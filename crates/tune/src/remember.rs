//! Keeps measured settings: applies them at each boot, and undoes them on request.
//!
//! In:    a device, a report, new and previous settings; the date.
//! Out:   a udev rule for this one device, and a record that allows undoing it.
//! Never: a rule without a record, half a file, or a rule that could match another device.
//!
//! ```text
//!   remember --> /var/lib/foreread/ID.json           report, settings, previous settings
//!           '--> /etc/udev/rules.d/99-foreread-ID.rules    sets it when the device appears
//!   verify   --- both, sysfs, and other files that set it (conflict)
//!   note_applied --> /run/foreread/applied-DEVICE.json   the same until the next boot (--apply)
//!   forget   --> sysfs as it was; all of these files are gone
//! ```
//!
//! It does not apply anything now: [`crate::setting::DeviceSetting::set`] does.

mod applied;
pub mod conflict;
mod file;
mod forget;
mod mounted;
mod record;
mod rule;
mod store;
mod verify;

use std::fmt;
use std::path::PathBuf;

use crate::identity::{NoIdentity, identity};
use crate::report::Report;
use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

pub use applied::{Applied, applied, applied_on, forget_applied, note_applied, original};
pub use forget::{Forgotten, NotForgotten, forget};
pub use mounted::{
    FollowedMount, ForgottenMount, ListedMounts, MOUNT_RULE, MountVerification, RememberedMount,
    follow, forget_mount, is_plain_path, mounts_remembered, remember_mount, replaceable_program,
    verify_mounts,
};
pub use record::Remembered;
pub use rule::{rule_path, rule_text};
pub use store::{Listed, Unreadable, list, recall, store_path};
pub use verify::{Verification, VerifyFinding, verify};

/// Reason why a device is not remembered. No file is left behind.
#[derive(Debug)]
pub enum NotRemembered {
    /// No stable identity.
    NoIdentity(NoIdentity),
    /// None of the settings can be made by a rule.
    NothingToKeep {
        /// Device name.
        device: String,
    },
    /// A setting that a rule cannot express.
    InvalidSetting(DeviceSetting),
    /// A file operation failed.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

/// Remembers a device: its `settings` are applied whenever it appears.
///
/// The original `before` values are kept, and so are earlier settings that are not replaced:
/// undoing restores the state before the first call.
///
/// # Errors
///
/// If the device has no identity or a file operation fails; then nothing has changed.
pub fn remember(
    sys: &SystemRoot,
    device: &str,
    report: &Report,
    settings: &[DeviceSetting],
    before: &[DeviceSetting],
    date: &str,
) -> Result<Remembered, NotRemembered> {
    let identity = identity(sys, device).map_err(NotRemembered::NoIdentity)?;
    let (left_out, kept): (Vec<_>, Vec<_>) =
        settings.iter().cloned().partition(|setting| setting.attribute.starts_with('/'));
    if let Some(bad) = kept.iter().find(|setting| !rule::can_stand_in_a_rule(setting)) {
        return Err(NotRemembered::InvalidSetting(bad.clone()));
    }
    let is_it = |known: &Remembered| known.identity.id == identity.id;
    let known = list(sys).remembered.into_iter().find(is_it);
    let (old_settings, old_before, old_left_out) =
        known.map(|known| (known.settings, known.before, known.left_out)).unwrap_or_default();
    let mut kept = added(device, kept, &old_settings);
    let left_out = added(device, left_out, &old_left_out);
    if kept.is_empty() {
        return Err(NotRemembered::NothingToKeep { device: device.to_owned() });
    }
    kept.sort_by_key(rule::order);
    let mut before = added(device, old_before, before);
    let ours = || kept.iter().chain(&left_out);
    before.retain(|was| ours().any(|setting| setting.attribute == was.attribute));
    let mut remembered = Remembered {
        identity,
        device: device.to_owned(),
        date: date.to_owned(),
        report: report.clone(),
        settings: kept,
        before,
        left_out,
        rule: String::new(),
    };
    remembered.rule = rule_text(&remembered);
    let refused = |(path, source)| NotRemembered::File { path, source };
    // The record is written first: a record without its rule is found and undone, a rule without a
    // record is not.
    let record_before = store::text(sys, &remembered.identity.id);
    store::write(sys, &remembered).map_err(refused)?;
    if let Err(error) = rule::write(sys, &remembered) {
        store::put_back(sys, &remembered.identity.id, record_before);
        return Err(refused(error));
    }
    Ok(remembered)
}

/// Merges `first` with the settings in `second` of other attributes, all under the device's current
/// name.
fn added(device: &str, first: Vec<DeviceSetting>, second: &[DeviceSetting]) -> Vec<DeviceSetting> {
    let mut all = first;
    for setting in second {
        if all.iter().all(|known| known.attribute != setting.attribute) {
            all.push(setting.clone());
        }
    }
    for setting in &mut all {
        device.clone_into(&mut setting.device);
    }
    all
}

impl fmt::Display for NotRemembered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIdentity(why) => why.fmt(f),
            Self::NothingToKeep { device } => {
                write!(f, "{device}: nothing to remember that a udev rule could set")
            }
            Self::InvalidSetting(setting) => write!(
                f,
                "{} = {:?} cannot be written in a udev rule; nothing was remembered",
                setting.attribute, setting.value
            ),
            Self::File { path, source } => write!(
                f,
                "{}: {source}; nothing was remembered; --apply sets it until the next boot",
                path.display()
            ),
        }
    }
}

impl std::error::Error for NotRemembered {}
