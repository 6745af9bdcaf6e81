//! What becomes of a recommendation: nothing, in force now, or remembered.
//!
//! In:    a device measured; `--apply`, `--remember`, `--force`.
//! Out:   settings in force, a udev rule, a record; notes of what else sets them.
//! Never: a setting from a measurement that does not carry it, unless that is forced; a setting
//!        without a note from which `forget` can undo it.
//!
//! ```text
//!   measured --> ended by Ctrl-C? --> refused? (--force: go on) --> rule and record, or a note
//!                     | yes               | yes                        of what was in force
//!                     v                   v                             |
//!                  nothing is set       nothing is set                  '--> set, one by one
//! ```

use foreread_tune::probe::Stopped;
use foreread_tune::remember::{self, Applied};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;

use super::args::TuneArgs;
use super::measured::{MeasuredDevice, ended};
use super::{date, mounted, remembered};
use crate::output::{Failure, Printer};

/// What `--apply` and `--remember` ask for, and what else sets the same.
pub(super) fn keep(
    sys: &SystemRoot,
    args: &TuneArgs,
    one: &MeasuredDevice,
    out: &mut Printer,
) -> Result<(), Failure> {
    let settings = one.recommended();
    let device = &one.report.device;
    if !args.sets() {
        ended(one)?;
        return out.notes(&others(sys, device, &settings));
    }
    refuse(args, one, &settings)?;
    if let Some(mount) = &one.mount {
        let mut notes = mounted::keep(sys, args, one, mount, &settings)?;
        notes.extend(undo(one, &settings));
        out.notes(&notes)?;
        return ended(one);
    }
    let mut notes = others(sys, device, &settings);
    let earlier = remember::applied_on(sys, device);
    if args.remember {
        // To undo is to go back to before the first of all, also if that lasted until a boot only.
        let before = remember::original(earlier.as_ref(), &one.before);
        let done = remember::remember(sys, device, &one.report, &settings, &before, &date::today());
        let known = done.map_err(|error| Failure::Check(error.to_string()))?;
        remember::forget_applied(sys, device)?;
        let rule = remember::rule_path(&known.identity.id);
        notes.push(format!("remembered in {}", rule.display()));
        notes.extend((!known.left_out.is_empty()).then(|| {
            let options = remembered::words(&known.left_out);
            format!(
                "{options} lasts until the file system is mounted anew, since no udev rule can set \
                 it: put it into the mount options"
            )
        }));
    } else if changed(one, &settings).next().is_some() {
        let applied = Applied {
            device: device.clone(),
            diskseq: None,
            date: date::today(),
            report: one.report.clone(),
            settings: settings.clone(),
            before: one.before.clone(),
        };
        remember::note_applied(sys, applied)
            .map_err(|error| Failure::Check(format!("{device}: nothing is set: {error}")))?;
    }
    for setting in &settings {
        setting.set(sys).map_err(|error| {
            Failure::Check(format!("{} cannot be set: {error}", setting.file().display()))
        })?;
    }
    notes.extend(undo(one, &settings));
    out.notes(&notes)?;
    ended(one)
}

/// An error if these settings are not to be made.
fn refuse(
    args: &TuneArgs,
    one: &MeasuredDevice,
    settings: &[DeviceSetting],
) -> Result<(), Failure> {
    let device = &one.report.device;
    // Ctrl-C is the newer order, whatever was forced before.
    if one.stopped == Some(Stopped::Interrupted) || settings.is_empty() {
        ended(one)?;
        return Err(Failure::Check(format!("{device}: nothing is recommended, nothing is set")));
    }
    if !one.report.restored {
        // What was there before is not known, and could never be set again.
        return Err(Failure::Check(format!(
            "{device}: not all settings are as they were, nothing is set; run it again"
        )));
    }
    let against = against(args, one);
    // What is in force already is no change that a measurement would have to carry.
    let is_in_force = !args.remember && changed(one, settings).next().is_none();
    if args.force || against.is_empty() || is_in_force {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "{device}: nothing is set: {}; --force sets read_ahead_kb={} all the same",
        against.join("; "),
        settings.first().map_or("", |window| window.value.as_str())
    )))
}

/// What stands against what was asked for.
pub(super) fn against(args: &TuneArgs, one: &MeasuredDevice) -> Vec<String> {
    let counts = one.report.refusals.iter().filter(|it| args.remember || it.is_of_apply());
    counts.map(ToString::to_string).collect()
}

/// Other places that set the same.
fn others(sys: &SystemRoot, device: &str, settings: &[DeviceSetting]) -> Vec<String> {
    let attributes: Vec<_> = settings.iter().map(|setting| setting.attribute.as_str()).collect();
    let others = remember::conflict::conflicts(sys, device, &attributes);
    others.iter().map(|other| format!("it is also set elsewhere: {other}")).collect()
}

/// The settings that have another value now, and which.
pub(super) fn changed<'o>(
    one: &'o MeasuredDevice,
    settings: &'o [DeviceSetting],
) -> impl Iterator<Item = (&'o DeviceSetting, &'o DeviceSetting)> {
    let was = |to: &DeviceSetting| one.before.iter().find(|was| was.attribute == to.attribute);
    let pairs = settings.iter().filter_map(move |to| Some((to, was(to)?)));
    pairs.filter(|(to, was)| to.value != was.value)
}

/// What was set, what was in force before, and how to go back.
fn undo(one: &MeasuredDevice, settings: &[DeviceSetting]) -> Vec<String> {
    let device = &one.report.device;
    let name = |setting: &DeviceSetting| remembered::words(std::slice::from_ref(setting));
    let mut notes: Vec<String> = changed(one, settings)
        .map(|(to, was)| {
            let (to, file) = (name(to), was.file());
            let undo = format!("echo {} > {}", was.value, file.display());
            format!(
                "set: {to}, before {}; undo: foreread tune forget {device} (or {undo})",
                was.value
            )
        })
        .collect();
    if notes.is_empty() {
        notes.push(format!(
            "{} is in force already; nothing was changed",
            remembered::words(settings)
        ));
    }
    notes
}
