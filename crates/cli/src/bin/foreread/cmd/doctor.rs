//! `foreread doctor`: finds settings and sizes of block devices that slow I/O, with fixes.
//!
//! Nothing is changed; only `--measure` writes, to its own scratch file.
//!
//! docs/guide/doctor.md describes the checks and their sources.

mod args;
mod fleet;
mod fleet_html;
mod html;
mod json;
mod mounts;
mod prometheus;
mod report;
mod selection;
#[cfg(feature = "objects")]
mod store;

use std::path::Path;

use foreread_files::ResultFile;
use foreread_files::scratch::temporary_directory;
use foreread_tune::capture;
use foreread_tune::doctor::write_cost::{self, WriteCost};
use foreread_tune::doctor::{Examination, ExaminationInput, RememberedWindow, examine};
use foreread_tune::remember;
use foreread_tune::setting::READ_AHEAD_KB;
use foreread_tune::sysfs::SystemRoot;

pub(crate) use self::args::DoctorArgs;
use self::args::DoctorCommand;
use self::selection::{Selection, SystemCopy};
#[cfg(feature = "objects")]
use self::store::run as examine_stores;
use foreread_cli::clock::clock;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::spinner;
#[cfg(not(feature = "objects"))]
use foreread_cli::store::StoreArgs;
use foreread_cli::store::url_of as store_url;

pub(crate) fn run(args: &DoctorArgs, out: &mut Printer) -> Result<(), Failure> {
    if let Some(DoctorCommand::Merge(merge)) = &args.what {
        return fleet::run(merge, out);
    }
    if has_urls(args)? {
        return examine_stores(args, out);
    }
    let copy = SystemCopy::open(&args.root)?;
    let sys = &copy.sys;
    if let Some(file) = &args.capture {
        return record(sys, file);
    }
    let mut outputs = CommandOutputs::beside(&[]);
    let textfile = args.prometheus.as_deref();
    let textfile = textfile.map(|path| prometheus::created(path, &mut outputs)).transpose()?;
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &mut outputs)?;
    let selection = Selection::of(sys, &args.devices)?;
    let measured = if args.measure { Some(measure(args.scratch.as_deref())?) } else { None };
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
    if args.json {
        out.json_beside("doctor", &examination.findings, &json::beside(&examination)?)?;
        let figures = measured.as_ref().map(report::measured_in_one_line);
        out.notes(&Vec::from_iter(figures))?;
    } else if args.check {
        report::check(out, &examination.findings)?;
    } else {
        report::print(out, &examination, measured.as_ref(), args.stacks)?;
    }
    notes_of_skipped(&examination, &selection, out)?;
    if let Some((file, page)) = page {
        file.write(page)?;
    }
    report::exit(&examination.findings)
}

/// Returns true if the targets are URLs of objects, which are examined by requests.
fn has_urls(args: &DoctorArgs) -> Result<bool, Failure> {
    let is_url = |target: &String| store_url(Path::new(target)).is_some();
    let urls = args.devices.iter().filter(|target| is_url(target)).count();
    if urls == 0 {
        return Ok(false);
    }
    let wrong = |line: &str| Err(Failure::WrongUse(line.to_owned()));
    if urls < args.devices.len() {
        return wrong("name objects of stores, or devices and mounts, but not both at once");
    }
    let has_file = args.prometheus.is_some() || args.html.is_some();
    if args.stacks || args.measure || has_file || args.root != Path::new("/") {
        let flags = "--stacks, --measure, --prometheus, --html and --root";
        return Err(Failure::WrongUse(format!("{flags} are for devices and mounts")));
    }
    Ok(true)
}

#[cfg(not(feature = "objects"))]
fn examine_stores(_: &DoctorArgs, _: &mut Printer) -> Result<(), Failure> {
    match StoreArgs::default().client()? {}
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

fn measure(scratch: Option<&Path>) -> Result<WriteCost, Failure> {
    let temporary = || temporary_directory("/tmp").map_err(|error| error.to_string());
    let scratch = scratch.map_or_else(temporary, |scratch| Ok(scratch.to_owned()));
    let scratch = scratch.map_err(|why| Failure::WrongUse(format!("--measure: {why}")))?;
    let bar = spinner();
    bar.set_message("writing to two scratch loop devices");
    let measured = write_cost::measure(&scratch, &clock);
    bar.finish_and_clear();
    measured.map_err(|error| Failure::WrongUse(format!("--measure: {error}")))
}
