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
mod planned_work;
mod report;
mod saved;

use std::io;

pub(crate) use self::args::BenchArgs;
use self::plan::{BenchPlan, ReadPlan, ReadTarget};
use self::planned_work::planned_work;
use self::saved::{created, inputs_of, save};
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::measure::figures::BenchRow;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::rounds::{Rounds, measure};
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::measure::testbed::Testbed;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::progress;
use foreread_cli::store::{asked_so_far, set_said};

pub(crate) fn run(args: BenchArgs, out: &mut Printer) -> Result<(), Failure> {
    match args.plan()? {
        BenchPlan::Read(plan) => read(&plan, out),
        BenchPlan::Flood(plan) => flood::run(&plan, out),
    }
}

fn read(plan: &ReadPlan, out: &mut Printer) -> Result<(), Failure> {
    let target = match &plan.target {
        ReadTarget::File(path) => BenchTarget::existing(path)?,
        ReadTarget::Object { url, store } => BenchTarget::object(url, *store)?,
    };
    let inputs = inputs_of(plan.target.path());
    let mut outputs = CommandOutputs::beside(&inputs);
    let saved = created(&plan.output, &mut outputs)?;
    let page = HtmlFile::prepare(plan.output.html.as_deref(), plan.output.is_json, &mut outputs)?;
    let mut notes = Vec::new();
    let mut testbed = testbed(plan, &target)?;
    let planned = planned_work(plan, &testbed)?;
    notes.extend(planned.notes);
    if plan.methods.contains(&AccessMethod::Buffered) {
        notes.extend(testbed.notes());
        if let Some(MaxWindow::Size(window)) = plan.window
            && let Err(error) = testbed.hold_kernel_window(window.0)
        {
            notes.push(kernel_window_stays(&testbed, &error));
        }
    }

    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let bar =
        progress(planned.works.len() as u64 * u64::from(plan.runs) * plan.methods.len() as u64);
    if plan.delay.is_none() {
        target.read_once().map_err(failed)?;
    }
    let mut rows: Vec<BenchRow> = Vec::new();
    for work in &planned.works {
        bar.set_message(work.pattern.name());
        let rounds = Rounds {
            methods: &plan.methods,
            runs: plan.runs,
            // An uncounted warm-up run: in a virtual machine the first use of memory is slow, for
            // the kernel's page cache and for foreread's.
            warm_ups: u32::from(plan.delay.is_none() && rows.is_empty()),
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
    if plan.output.is_json {
        out.json("bench", &rows)?;
    } else {
        report::print(out, &target, plan, &rows)?;
    }
    out.notes(&notes)?;
    let shown = |page: HtmlFile| page.write(html::page(&target.name, &rows, &notes));
    written.and(page.map_or(Ok(()), shown))
}

/// Returns a note on all requests to the store.
fn asked_note() -> Option<String> {
    let asked = asked_so_far()?;
    set_said();
    Some(format!("the store was sent, by all runs and methods, {}", asked.text()))
}

fn testbed<'t>(plan: &ReadPlan, target: &'t BenchTarget) -> Result<Testbed<'t>, Failure> {
    // Only the kernel needs the mount.
    let testbed = Testbed::new(target, plan.delay, plan.policy, plan.window, plan.memory.0);
    let mut testbed = testbed.map_err(|error| Failure::WrongUse(error.to_string()))?;
    testbed.prefault = plan.prefault;
    testbed.remember.clone_from(&plan.remember);
    Ok(testbed)
}

fn kernel_window_stays(testbed: &Testbed<'_>, error: &io::Error) -> String {
    match testbed.kernel_window {
        Some(window) => format!("the kernel's window stays {} KiB: {error}", window / 1024),
        None => format!("the kernel's window is not known: {error}"),
    }
}
