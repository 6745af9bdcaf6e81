//! Measures devices one by one: restores the settings of each, prints its report, and applies or
//! remembers it.
//!
//! Devices in use are only measured after consent. An error of one device does not stop the others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_files::CommandInput;
use foreread_tune::advice::{self, DeviceFacts};
use foreread_tune::flood::TunableQueue;
use foreread_tune::identity::identity;
use foreread_tune::probe::Stopped;
use foreread_tune::probe::real::{RealProbe, RealProbeOptions};
use foreread_tune::report::{Method, Report};
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sweep::Sweep;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::TuneTarget;
use foreread_tune::temporary_settings::{self, DeviceInstance, TemporarySettings};
use indicatif::ProgressBar;

use super::all::all;
use super::apply::{apply, changed};
use super::device_model::{self, ModelFile};
use super::outcome::MeasuredDevice;
use super::plan::{DeviceSelection, DevicesPlan, InUseConsent, SWEEP_SHARE, TuneAction};
use super::restore::{interrupts, left_as_is, restore_left_behind};
use super::sweep_progress::{progress, show, write_page};
use super::{confirm, mounted, remembered, scheduler_test};
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::settings_holder::holder;

/// Measures the devices of the plan one by one.
pub(super) fn measure_devices(
    sys: &SystemRoot,
    plan: &DevicesPlan,
    out: &mut Printer,
) -> Result<(), Failure> {
    let DevicesPlan { devices, action, output, .. } = plan;
    let target = match devices {
        DeviceSelection::One(path) => Some(path.as_path()),
        DeviceSelection::All => None,
    };
    let input = target.map(|path| CommandInput { name: "TARGET", path });
    let mut outputs = CommandOutputs::beside(input.as_slice());
    let page = HtmlFile::prepare(output.html.as_deref(), output.is_json, &mut outputs)?;
    let interrupted = interrupts()?;
    let mut model = ModelFile::prepare(output.model.as_deref(), &interrupted, &mut outputs)?;
    restore_left_behind(sys, out)?;
    let paths = match devices {
        DeviceSelection::One(path) => vec![path.clone()],
        DeviceSelection::All => all(sys, action.remembers(), out)?,
    };
    let mut measured = Vec::new();
    let (mut failed, mut set) = (Vec::new(), Vec::new());
    for path in &paths {
        let told = one(sys, path, plan, &interrupted).and_then(|mut one| {
            let modelled = one.write_model(model.take(), target);
            if !output.is_json {
                // Nothing is set on a device that has another one's name.
                let shown = if one.is_here(sys) { *action } else { TuneAction::Report };
                one.print(shown, out)?;
            }
            let done = apply(sys, *action, &one, out).and(modelled);
            if done.is_ok() && *action != TuneAction::Report {
                set.extend(words_of_set(&one));
            }
            measured.push(one);
            done
        });
        match told {
            Ok(()) => {}
            Err(Failure::WrongUse(line) | Failure::Check(line)) if target.is_none() => {
                failed.push(line);
            }
            Err(failure) if !output.is_json || measured.is_empty() => return Err(failure),
            Err(failure) => {
                out.json("tune", &measured)?;
                return Err(failure);
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    if output.is_json {
        out.json("tune", &measured)?;
    }
    write_page(page, *action, &measured, out)?;
    out.notes(&failed)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Check(interrupted_after(&set)));
    }
    match failed.len() {
        0 => Ok(()),
        n => Err(Failure::Check(format!("{n} of {} devices could not be done", paths.len()))),
    }
}

/// Names the settings changed on a device; None if all were in force before.
fn words_of_set(one: &MeasuredDevice) -> Option<String> {
    let settings = one.recommended();
    let mut changed = changed(one, &settings).peekable();
    changed.peek()?;
    let changed: Vec<DeviceSetting> = changed.map(|(to, _)| to.clone()).collect();
    Some(format!("{} ({})", one.report.device, remembered::words(&changed)))
}

/// Describes an interrupted run over several devices: earlier changes stay.
fn interrupted_after(set: &[String]) -> String {
    if set.is_empty() {
        return "interrupted; every setting is as it was".to_owned();
    }
    format!("interrupted; set before that, and still set: {}", set.join(", "))
}

fn one(
    sys: &SystemRoot,
    path: &Path,
    plan: &DevicesPlan,
    interrupted: &Arc<AtomicBool>,
) -> Result<MeasuredDevice, Failure> {
    // Errors are reported before the measurement.
    let offer =
        plan.scratch.as_ref().map(|folder| scheduler_test::offer(sys, folder)).transpose()?;
    let target = TuneTarget::resolve(path, sys).map_err(Failure::WrongUse)?;
    can_be_applied(sys, plan.action, &target)?;
    let instance = DeviceInstance::of(sys, &target.window(0));
    let held = holder().map_err(|error| Failure::WrongUse(error.to_string()))?;
    let options = RealProbeOptions {
        interrupted: Arc::clone(interrupted),
        seed: target.len.0,
        is_direct: false,
    };
    let mut probe =
        RealProbe::new(&target, Some(&held), sys, &options).map_err(Failure::WrongUse)?;
    let sets = probe.method() == Method::Kernel || plan.scratch.is_some();
    let is_slowed = !target.in_use.is_empty() && (target.is_device || sets);
    if is_slowed && plan.in_use == InUseConsent::Ask {
        confirm::may_measure(&path.display().to_string(), &target.in_use, plan.time.total)?;
    }
    let name = target.device.name.clone();
    let shown = target.mount.as_ref().map_or(&name, |mount| &mount.point).clone();
    let bar = progress();
    let (left_kib, now_kib) = window_in_force(sys, &target);
    let sweep = Sweep::new(plan.time.sweep_settings(target.len).beside(now_kib));
    let outcome = sweep.run(&mut probe, &mut |progress| show(&bar, &shown, progress));
    let facts = DeviceFacts { now_kib, ..DeviceFacts::of(sys, &target, probe.method()) };
    let mut report = advice::report(&facts, &outcome, plan.profile);
    report.notes.splice(0..0, target.notes.iter().cloned());
    report.notes.extend(left_kib.map(left_by_a_killed_run));
    if let Some(why) = probe.why_direct() {
        report.notes.push(format!("not by the kernel's own read-ahead: {why}"));
    }
    let (parallel, stopped) =
        device_model::at_once(plan.time.parallel, &mut probe, outcome.stopped);
    report.parallel = parallel;
    drop(probe);
    let mut one = MeasuredDevice {
        report,
        flood: None,
        device_model: None,
        limits: device_model::limits_of(&target),
        ext4: target.ext4.clone(),
        before: Vec::new(),
        stopped,
        window: target.window(0),
        mount: target.mount.clone(),
        instance: Some(instance),
    };
    let scratch = plan.scratch.as_deref().zip(offer.as_ref());
    if let Some(scratch) = scratch.filter(|_| one.stopped.is_none()) {
        test_scheduler(sys, (plan, scratch), &held, interrupted, &bar, &mut one);
    } else if plan.scratch.is_none() && one.mount.is_none() {
        one.report.notes.push(NO_SCRATCH.into());
    }
    bar.finish_and_clear();
    restore(&held, &mut one.report);
    drop(held);
    note_replaced(sys, &mut one);
    one.before = one.recommended().into_iter().filter_map(|to| in_force(sys, to)).collect();
    Ok(one)
}

/// Returns the window left by a killed run, if any, and the one in force. The former is not in
/// force, as it will be restored.
fn window_in_force(sys: &SystemRoot, target: &TuneTarget) -> (Option<u64>, Option<u64>) {
    let left = temporary_settings::left_behind(sys).into_iter();
    let is_window = |was: &DeviceSetting| was.attribute == target.window_attribute;
    let mut left = left.filter(|was| was.device == target.device.name && is_window(was));
    let left_kib = left.next().and_then(|was| was.value.parse().ok());
    (left_kib, left_kib.or(target.device.queue.read_ahead_kib))
}

fn left_by_a_killed_run(kib: u64) -> String {
    format!(
        "a foreread run that was killed has left another read_ahead_kb; the next `foreread tune` \
         of root sets {kib} back, and that is what is compared"
    )
}

/// Restores all settings, and notes failures in the report.
fn restore(held: &TemporarySettings, report: &mut Report) {
    match held.restore() {
        Ok(restored) => {
            report.restored = restored.theirs.is_empty();
            report.notes.extend(restored.theirs.iter().map(left_as_is));
        }
        Err(error) => {
            report.restored = false;
            report.notes.push(error.to_string());
        }
    }
}

/// Marks the measurement as failed if the device was removed or replaced during it.
fn note_replaced(sys: &SystemRoot, one: &mut MeasuredDevice) {
    if !one.is_here(sys) {
        let why = format!("{} was removed, or replaced, during the measurement", one.report.device);
        one.report.notes.push(why.clone());
        one.stopped.get_or_insert(Stopped::Failed(why));
    }
}

/// Refuses, before measuring, a change that is impossible for this target.
fn can_be_applied(
    sys: &SystemRoot,
    action: TuneAction,
    target: &TuneTarget,
) -> Result<(), Failure> {
    let TuneAction::Set(set) = action else { return Ok(()) };
    if let Err(why) = may_set(sys, target) {
        return Err(Failure::WrongUse(format!(
            "{}: {why}; without --apply and --remember it is measured only",
            target.device.name
        )));
    }
    if set.remembers() {
        match &target.mount {
            None => identity(sys, &target.device.name).map(drop).map_err(|why| why.to_string()),
            Some(_) => mounted::program().map(drop),
        }
        .map_err(Failure::WrongUse)?;
    }
    Ok(())
}

/// Returns an error if the window of the device cannot be set.
fn may_set(sys: &SystemRoot, target: &TuneTarget) -> std::io::Result<()> {
    temporary_settings::may_write(sys, &target.window(0))
}

fn in_force(sys: &SystemRoot, setting: DeviceSetting) -> Option<DeviceSetting> {
    Some(DeviceSetting { value: setting.in_force(sys)?, ..setting })
}

const NO_SCRATCH: &str = "the scheduler's settings were not tried, since that takes writes: \
    --scratch DIR (without --all) tries them on a file made there";

/// Tunes the scheduler on a scratch file. A failure keeps the results for windows.
fn test_scheduler(
    sys: &SystemRoot,
    (plan, scratch): (&DevicesPlan, (&Path, &TunableQueue)),
    held: &TemporarySettings,
    interrupted: &Arc<AtomicBool>,
    bar: &ProgressBar,
    one: &mut MeasuredDevice,
) {
    let (time, bar) = (plan.time.scheduler, (bar, SWEEP_SHARE));
    let outcome = match scheduler_test::run(sys, scratch, time, held, interrupted, bar) {
        Ok(outcome) => outcome,
        // Earlier results are kept, and printed.
        Err(stopped) => {
            one.stopped = Some(stopped);
            return;
        }
    };
    let (below, device) = (&outcome.report.device, &one.report.device);
    if below != device {
        one.report.notes.push(format!(
            "{} lies on {below}: what is recommended for its scheduler is not set with {device}",
            scratch.0.display()
        ));
    } else if let Some(recommended) = &mut one.report.recommended {
        recommended.scheduler.clone_from(&outcome.report.recommended);
    }
    one.stopped = outcome.stopped;
    one.flood = Some(outcome.report);
}
