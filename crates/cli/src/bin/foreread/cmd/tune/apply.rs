//! Applies or remembers a recommendation: settings, udev rule and record. An unreliable result is
//! only set with `--force`, and `forget` can undo every setting.
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

use super::outcome::{MeasuredDevice, ended};
use super::plan::{SetPlan, TuneAction};
use super::{date, mounted, remembered};
use foreread_cli::output::{Failure, Printer};

/// Uses the recommendation as requested, and notes other places that set the same.
pub(super) fn apply(
    sys: &SystemRoot,
    action: TuneAction,
    one: &MeasuredDevice,
    out: &mut Printer,
) -> Result<(), Failure> {
    let settings = one.recommended();
    let device = &one.report.device;
    let TuneAction::Set(set) = action else {
        ended(one)?;
        return out.notes(&others(sys, device, &settings));
    };
    refuse_replaced(sys, one)?;
    refuse(set, one, &settings)?;
    if let Some(mount) = &one.mount {
        let mut notes = mounted::apply(sys, set, one, mount, &settings)?;
        notes.extend(undo(one, &settings));
        out.notes(&notes)?;
        return ended(one);
    }
    let mut notes = others(sys, device, &settings);
    let earlier = remember::applied_on(sys, device);
    if set.remembers() {
        // Undo restores the state before the first change, even if that only lasted until a boot.
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

/// Refuses to set a device that is not the measured one, also with `--force`.
fn refuse_replaced(sys: &SystemRoot, one: &MeasuredDevice) -> Result<(), Failure> {
    if one.stopped == Some(Stopped::Interrupted) || one.is_here(sys) {
        return Ok(());
    }
    let device = &one.report.device;
    Err(Failure::Check(format!(
        "{device}: nothing is set: it was removed, or another one has its name now; run it again"
    )))
}

/// Refuses settings that must not be made.
fn refuse(set: SetPlan, one: &MeasuredDevice, settings: &[DeviceSetting]) -> Result<(), Failure> {
    let device = &one.report.device;
    // Ctrl-C overrides --force.
    if one.stopped == Some(Stopped::Interrupted) || settings.is_empty() {
        ended(one)?;
        return Err(Failure::Check(format!("{device}: nothing is recommended, nothing is set")));
    }
    if !one.report.restored {
        // The earlier value is unknown, and could not be restored.
        return Err(Failure::Check(format!(
            "{device}: not all settings are as they were, nothing is set; run it again"
        )));
    }
    let against = against(set, one);
    // Settings already in force need no evidence.
    let is_in_force = !set.remembers() && changed(one, settings).next().is_none();
    if set.is_forced || against.is_empty() || is_in_force {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "{device}: nothing is set: {}; --force sets read_ahead_kb={} all the same",
        against.join("; "),
        settings.first().map_or("", |window| window.value.as_str())
    )))
}

/// Returns the reasons against the requested change.
pub(super) fn against(set: SetPlan, one: &MeasuredDevice) -> Vec<String> {
    let counts = one.report.refusals.iter().filter(|it| set.remembers() || it.is_of_apply());
    counts.map(ToString::to_string).collect()
}

/// Returns other places that set the same.
fn others(sys: &SystemRoot, device: &str, settings: &[DeviceSetting]) -> Vec<String> {
    let attributes: Vec<_> = settings.iter().map(|setting| setting.attribute.as_str()).collect();
    let others = remember::conflict::conflicts(sys, device, &attributes);
    others.iter().map(|other| format!("it is also set elsewhere: {other}")).collect()
}

/// Returns the settings whose current value differs, with that value.
pub(super) fn changed<'o>(
    one: &'o MeasuredDevice,
    settings: &'o [DeviceSetting],
) -> impl Iterator<Item = (&'o DeviceSetting, &'o DeviceSetting)> {
    let was = |to: &DeviceSetting| one.before.iter().find(|was| was.attribute == to.attribute);
    let pairs = settings.iter().filter_map(move |to| Some((to, was(to)?)));
    pairs.filter(|(to, was)| to.value != was.value)
}

/// Returns lines with the new and the earlier settings and the command to undo them.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use foreread_core::units::ByteCount;
    use foreread_tune::device_fit::DeviceLimits;
    use foreread_tune::report::{Compared, Method, Report};
    use foreread_tune::temporary_settings::DeviceInstance;

    use super::*;

    fn measured(sys: &SystemRoot) -> MeasuredDevice {
        let window = DeviceSetting::read_ahead_kb("loop0", 0);
        let report = Report {
            device: "loop0".to_owned(),
            seconds: 20.0,
            method: Method::Kernel,
            sweep: Vec::new(),
            random: Vec::new(),
            parallel: Vec::new(),
            plateau_kib: None,
            best_kib: None,
            plateau_between_kib: None,
            recommended: None,
            refusals: Vec::new(),
            compared: Compared::default(),
            notes: Vec::new(),
            restored: true,
        };
        MeasuredDevice {
            report,
            flood: None,
            device_model: None,
            limits: DeviceLimits::new(ByteCount(1 << 20), None, None),
            ext4: Vec::new(),
            before: Vec::new(),
            stopped: None,
            instance: Some(DeviceInstance::of(sys, &window)),
            window,
            mount: None,
        }
    }

    /// A loop device that was detached in a measurement, and attached to another file, got the
    /// window of the first one.
    #[test]
    fn a_device_that_took_the_name_of_the_measured_one_is_not_set() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let queue = sys.path("/sys/block/loop0/queue");
        fs::create_dir_all(&queue).expect("it is made");
        fs::write(queue.join("read_ahead_kb"), "128\n").expect("it is written");
        fs::write(sys.path("/sys/block/loop0/diskseq"), "7\n").expect("it is written");
        let one = measured(&sys);
        refuse_replaced(&sys, &one).expect("it is the same device");
        fs::write(sys.path("/sys/block/loop0/diskseq"), "8\n").expect("it is written");
        let refused = refuse_replaced(&sys, &one).expect_err("it is another device");
        let Failure::Check(line) = refused else { panic!("{refused:?}") };
        assert!(line.starts_with("loop0: nothing is set: it was removed, or another"), "{line}");
    }
}
