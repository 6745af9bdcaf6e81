//! `foreread bench`: classic access patterns on a file or device, by several access methods.
//!
//! Kernel settings and cached pages are restored afterwards. Ratios only compare runs made side by
//! side. Nothing is written without --overwrite.
//!
//! docs/guide/bench.md describes the patterns and common pitfalls.

mod args;
mod flood;
mod html;
mod plan;
mod report;
mod saved;
mod selection;

use std::io;
use std::path::Path;

pub(crate) use self::args::BenchArgs;
use self::args::BenchPattern;
use self::saved::{created, inputs_of, save};
use self::selection::ReadSelection;
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::measure::figures::BenchRow;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::rounds::{Rounds, measure};
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::measure::testbed::Testbed;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::{CommandOutputs, OutputFile};
use foreread_cli::progress::progress;
use foreread_cli::store::{asked_so_far, set_said, url_of};

pub(crate) fn run(args: &BenchArgs, out: &mut Printer) -> Result<(), Failure> {
    if args.patterns.contains(&BenchPattern::Flood) {
        return flood::run(args, out);
    }
    read(&ReadSelection::of(args)?, out)
}

fn read(selection: &ReadSelection<'_>, out: &mut Printer) -> Result<(), Failure> {
    let args = selection.args;
    let target = match url_of(Path::new(&args.target)) {
        Some(url) => of_url(args, url)?,
        None => BenchTarget::existing(Path::new(&args.target))?,
    };
    let (saved, page) = output_files(args)?;
    let mut notes = Vec::new();
    let mut testbed = testbed(args, &target)?;
    let plan = plan::plan(selection, &testbed)?;
    notes.extend(plan.notes);
    if selection.methods.contains(&AccessMethod::Buffered) {
        notes.extend(testbed.notes());
        if let Some(MaxWindow::Size(window)) = args.max_window
            && let Err(error) = testbed.hold_kernel_window(window.0)
        {
            notes.push(kernel_window_stays(&testbed, &error));
        }
    }

    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let bar =
        progress(plan.works.len() as u64 * u64::from(args.runs) * selection.methods.len() as u64);
    if args.delay.is_none() {
        target.read_once().map_err(failed)?;
    }
    let mut rows: Vec<BenchRow> = Vec::new();
    for work in &plan.works {
        bar.set_message(work.pattern.name());
        let rounds = Rounds {
            methods: &selection.methods,
            runs: args.runs,
            // An uncounted warm-up run: in a virtual machine the first use of memory is slow, for
            // the kernel's page cache and for foreread's.
            warm_ups: u32::from(args.delay.is_none() && rows.is_empty()),
            own_pages: false,
            direct_time: plan.direct_time,
        };
        rows.extend(measure(&testbed, work, &rounds, &bar).map_err(failed)?);
    }
    bar.finish_and_clear();
    // Restores the kernel's window before the answer is printed.
    drop(testbed);

    if let Some(why) = target.buffered {
        notes.push(format!("{why}: there is no O_DIRECT, and foreread reads buffered"));
    }
    if target.stayed() > 0 {
        notes.push(format!(
            "up to {} pages of the target stayed in the kernel's page cache despite the \
             request to drop it (a tmpfs, a mounted device, or another process uses them): cold \
             reads were that much less cold",
            target.stayed()
        ));
    }
    if target.as_object().is_some() {
        notes.extend(asked_note());
    }
    let written = save(saved, &rows);
    if args.json {
        out.json("bench", &rows)?;
    } else {
        report::print(out, &target, args, &rows)?;
    }
    out.notes(&notes)?;
    let shown = |page: HtmlFile| page.write(html::page(&target.name, &rows, &notes));
    written.and(page.map_or(Ok(()), shown))
}

/// Prepares the files of --save and --html before the measurement.
fn output_files(args: &BenchArgs) -> Result<(Option<OutputFile>, Option<HtmlFile>), Failure> {
    let inputs = inputs_of(args);
    let mut outputs = CommandOutputs::beside(&inputs);
    let saved = created(args, &mut outputs)?;
    let page = HtmlFile::prepare(args.html.as_deref(), args.json, &mut outputs)?;
    Ok((saved, page))
}

/// Returns a note on all requests to the store.
fn asked_note() -> Option<String> {
    let asked = asked_so_far()?;
    set_said();
    Some(format!("the store was sent, by all runs and methods, {}", asked.text()))
}

/// Refuses options that do not apply to objects.
fn of_url(args: &BenchArgs, url: &str) -> Result<BenchTarget, Failure> {
    if args.delay.is_some() {
        let line = "--delay slows down files and devices; a store is slow by itself";
        return Err(Failure::WrongUse(line.to_owned()));
    }
    BenchTarget::object(url, &args.store)
}

fn testbed<'t>(args: &BenchArgs, target: &'t BenchTarget) -> Result<Testbed<'t>, Failure> {
    // Only the kernel needs the mount.
    let is_object = target.as_object().is_some();
    let window = args.max_window.or_else(|| is_object.then_some(MaxWindow::Auto));
    let testbed = Testbed::new(target, args.delay, args.policy, window, args.memory.0);
    let mut testbed = testbed.map_err(|error| Failure::WrongUse(error.to_string()))?;
    testbed.remember.clone_from(&args.remember);
    testbed.prefault = args.prefault;
    Ok(testbed)
}

fn kernel_window_stays(testbed: &Testbed<'_>, error: &io::Error) -> String {
    match testbed.kernel_window {
        Some(window) => format!("the kernel's window stays {} KiB: {error}", window / 1024),
        None => format!("the kernel's window is not known: {error}"),
    }
}
