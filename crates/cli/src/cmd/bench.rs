//! `foreread bench`: the classic patterns on a file or device of the user's, three ways.
//!
//! In:    a target, patterns, ways to read.
//! Out:   a table of medians and ratios, or every figure as JSON.
//! Never: a setting or a page that stays behind; a ratio of runs that were not made side by side;
//!        a write to what the user has not given up in so many words.
//!
//! What each pattern reads, and the traps: docs/bench.md.

mod args;
mod flood;
mod plan;
mod report;
mod saved;

use std::io;
use std::path::Path;

pub(crate) use self::args::BenchArgs;
use self::args::{BenchPattern, NamedMethod};
use self::saved::{created, save};
use crate::args::max_window::MaxWindow;
use crate::measure::figures::BenchRow;
use crate::measure::method::AccessMethod;
use crate::measure::rounds::{Rounds, measure};
use crate::measure::target::BenchTarget;
use crate::measure::testbed::Testbed;
use crate::output::{Failure, Printer};
use crate::progress::progress;

pub(crate) fn run(args: &BenchArgs, out: &mut Printer) -> Result<(), Failure> {
    if args.asked.contains(&BenchPattern::Flood) {
        return flood::run(args, out);
    }
    reads(&reading(args)?, out)
}

/// Patterns that read only, and the ways that they have.
fn reading(args: &BenchArgs) -> Result<BenchArgs, Failure> {
    let mut args = args.clone();
    let of_flood = [
        ("--overwrite", args.overwrite),
        ("--scheduler", args.scheduler != "deadline"),
        ("--set", !args.set.is_empty()),
    ];
    if let Some((flag, _)) = of_flood.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::WrongUse(format!(
            "{flag}: these patterns only read; leave it out, or give --pattern flood"
        )));
    }
    for asked in &args.asked {
        match asked {
            BenchPattern::Read(pattern) => args.patterns.push(*pattern),
            BenchPattern::Flood => unreachable!("it has a run of its own"),
        }
    }
    for way in &args.ways {
        match way {
            NamedMethod::AccessMethod(arm) => args.arms.push(*arm),
            NamedMethod::Scheduler(name) => {
                return Err(Failure::WrongUse(format!(
                    "--arm direct:{name}: only flood sets schedulers; give --pattern flood, or \
                     --arm direct"
                )));
            }
        }
    }
    if args.arms.is_empty() {
        args.arms.extend(AccessMethod::ALL);
    }
    Ok(args)
}

fn reads(args: &BenchArgs, out: &mut Printer) -> Result<(), Failure> {
    let target = BenchTarget::existing(Path::new(&args.target))?;
    // Before an hour has passed.
    let saved = created(args)?;
    let mut notes = Vec::new();
    let mut course = course(args, &target)?;
    let plan = plan::plan(args, &course)?;
    notes.extend(plan.notes);
    if args.arms.contains(&AccessMethod::Buffered) {
        notes.extend(course.notes());
        if let Some(MaxWindow::Size(window)) = args.max_window
            && let Err(error) = course.hold_kernel_window(window.0)
        {
            notes.push(kernel_window_stays(&course, &error));
        }
    }

    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let bar = progress(plan.works.len() as u64 * u64::from(args.runs) * args.arms.len() as u64);
    if args.delay.is_none() {
        target.read_once().map_err(failed)?;
    }
    let mut rows: Vec<BenchRow> = Vec::new();
    for work in &plan.works {
        bar.set_message(work.pattern.name());
        let rounds = Rounds {
            arms: &args.arms,
            runs: args.runs,
            // A first run that does not count: on a virtual machine the first touch of memory is
            // slow, for the kernel's page cache as for ours.
            warm_ups: u32::from(args.delay.is_none() && rows.is_empty()),
            own_pages: false,
            direct_time: plan.direct_time,
        };
        rows.extend(measure(&course, work, &rounds, &bar).map_err(failed)?);
    }
    bar.finish_and_clear();
    // This restores the kernel's window before the answer is printed.
    drop(course);

    if let Some(why) = target.buffered {
        notes.push(format!("{why}: there is no O_DIRECT, and foreread reads buffered"));
    }
    if target.stayed() > 0 {
        notes.push(format!(
            "up to {} pages of the target stayed in the kernel's page cache whatever it was asked \
             (a tmpfs, a mounted device, or another process uses them): cold reads were that much \
             less cold",
            target.stayed()
        ));
    }
    let written = save(saved, &rows);
    if args.json {
        out.json(&rows)?;
    } else {
        report::print(out, &target, args, &rows)?;
    }
    out.notes(&notes)?;
    written
}

fn course<'t>(args: &BenchArgs, target: &'t BenchTarget) -> Result<Testbed<'t>, Failure> {
    // The mount is for the kernel's sake.
    let course = Testbed::new(target, args.delay, args.policy, args.max_window, args.memory.0);
    course.map_err(|error| Failure::WrongUse(error.to_string()))
}

fn kernel_window_stays(course: &Testbed<'_>, error: &io::Error) -> String {
    match course.kernel_window {
        Some(window) => format!("the kernel's window stays {} KiB: {error}", window / 1024),
        None => format!("the kernel's window is not known: {error}"),
    }
}
