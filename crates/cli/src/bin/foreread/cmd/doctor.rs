//! `foreread doctor`: finds settings and sizes of block devices that slow I/O, with fixes.
//!
//! Nothing is changed; only `--measure` writes, to its own scratch file.
//!
//! docs/guide/doctor.md describes the checks and their sources.

mod args;
mod fleet;
mod html;
mod json;
mod mounts;
mod plan;
mod prometheus;
mod report;
mod selection;
#[cfg(feature = "objects")]
mod store;

use std::path::Path;

use foreread_files::ResultFile;
use foreread_tune::capture;
use foreread_tune::doctor::write_cost::{self, WriteCost};
use foreread_tune::doctor::{Examination, ExaminationInput, RememberedWindow, examine};
use foreread_tune::remember;
use foreread_tune::setting::READ_AHEAD_KB;
use foreread_tune::sysfs::SystemRoot;

pub(crate) use self::args::DoctorArgs;
use self::plan::{DoctorPlan, FindingsForm, SystemPlan};
use self::selection::{Selection, SystemCopy};
use foreread_cli::clock::clock;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;

pub(crate) fn run(args: DoctorArgs, out: &mut Printer) -> Result<(), Failure> {
    match args.plan()? {
        DoctorPlan::System(plan) => examine_system(&plan, out),
        #[cfg(feature = "objects")]
        DoctorPlan::Stores { urls, form } => store::examine_stores(&urls, form, out),
        DoctorPlan::Capture { root, file } => record(&SystemCopy::open(&root)?.sys, &file),
        DoctorPlan::Merge(plan) => fleet::merge(&plan, out),
    }
}

fn examine_system(plan: &SystemPlan, out: &mut Printer) -> Result<(), Failure> {
    let copy = SystemCopy::open(&plan.root)?;
    let sys = &copy.sys;
    let is_json = plan.form == FindingsForm::Json;
    let mut outputs = CommandOutputs::beside(&[]);
    let textfile = plan.prometheus.as_deref();
    let textfile = textfile.map(|path| prometheus::created(path, &mut outputs)).transpose()?;
    let page = HtmlFile::prepare(plan.html.as_deref(), is_json, &mut outputs)?;
    let selection = Selection::of(sys, &plan.targets)?;
    let measured = plan.measure_in.as_deref().map(measure).transpose()?;
    let remembered = remembered(sys);
    let facts = ExaminationInput {
        remembered: &remembered,
        measured: measured.as_ref(),
        only: &selection.devices,
        only_mounts: &selection.mounts,
    };
    let examination = examine(sys, &facts);
    if let Some(file) = textfile {
        prometheus::write(file, &examination)?;
    }
    let page = page.map(|file| (file, html::page(&examination)));
    match plan.form {
        FindingsForm::Json => {
            out.json_beside("doctor", &examination.findings, &json::beside(&examination)?)?;
            let figures = measured.as_ref().map(report::measured_in_one_line);
            out.notes(&Vec::from_iter(figures))?;
        }
        FindingsForm::Lines => report::check(out, &examination.findings)?,
        FindingsForm::Report => report::print(out, &examination, measured.as_ref(), false)?,
        FindingsForm::ReportWithStacks => {
            report::print(out, &examination, measured.as_ref(), true)?;
        }
    }
    notes_of_skipped(&examination, &selection, out)?;
    if let Some((file, page)) = page {
        file.write(page)?;
    }
    report::exit(&examination.findings)
}

/// Returns notes on skipped devices, if devices were named: otherwise every empty slot would be
/// listed.
fn notes_of_skipped(
    examination: &Examination,
    selection: &Selection,
    out: &mut Printer,
) -> Result<(), Failure> {
    let skipped = examination.skipped.iter().filter(|_| !selection.devices.is_empty());
    let skipped = skipped.map(|one| format!("{}: not examined: {}", one.device, one.why));
    out.notes(&skipped.collect::<Vec<_>>())
}

/// Captures a system in one file.
fn record(sys: &SystemRoot, file: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::WrongUse(format!("--capture {error}"));
    let is_ours = |head: &[u8]| head.starts_with(capture::FIRST_LINE.as_bytes());
    let result = ResultFile::create(file, &[], is_ours).map_err(failed)?;
    let text = capture::record(sys);
    result.write_whole(|file| file.write_all(text.as_bytes())).map_err(failed)
}

/// Returns the remembered windows, which should be in force.
fn remembered(sys: &SystemRoot) -> Vec<RememberedWindow> {
    let mut windows = Vec::new();
    for known in remember::list(sys).remembered {
        let window = known.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB);
        let Some(read_ahead_kb) = window.and_then(|setting| setting.value.parse().ok()) else {
            continue;
        };
        windows.extend(known.identity.devices(sys).into_iter().map(|device| RememberedWindow {
            device: device.name,
            read_ahead_kb,
            date: known.date.clone(),
            is_until_boot: false,
            rows: known.report.sweep.clone(),
        }));
    }
    windows.extend(remember::applied(sys).into_iter().filter_map(applied));
    windows.extend(remember::mounts_remembered(sys).mounts.into_iter().map(of_mount));
    windows
}

/// Returns the remembered window of a mount.
fn of_mount(known: remember::RememberedMount) -> RememberedWindow {
    RememberedWindow {
        device: known.mount,
        read_ahead_kb: known.read_ahead_kb,
        date: known.date,
        is_until_boot: known.is_until_unmount,
        rows: known.report.sweep,
    }
}

/// Returns the window set by `tune --apply`.
fn applied(applied: remember::Applied) -> Option<RememberedWindow> {
    let window = applied.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB)?;
    Some(RememberedWindow {
        read_ahead_kb: window.value.parse().ok()?,
        device: applied.device,
        date: applied.date,
        is_until_boot: true,
        rows: applied.report.sweep,
    })
}

/// Measures the cost of an odd size on a scratch file in `directory`.
fn measure(directory: &Path) -> Result<WriteCost, Failure> {
    let bar = spinner();
    bar.set_message("writing to two scratch loop devices");
    let measured = write_cost::measure(directory, &clock);
    bar.finish_and_clear();
    measured.map_err(|error| Failure::WrongUse(format!("--measure: {error}")))
}
