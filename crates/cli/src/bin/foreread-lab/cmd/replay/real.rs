//! `foreread-lab replay --real`: the reads of a trace on a real file, device or directory.
//!
//! Never writes, and keeps pages of the target that were cached before.
//!
//! docs/lab/replay.md explains the figures.

pub(in crate::cmd::replay) mod args;
mod figures;
mod html;
mod lane_reader;
pub(in crate::cmd::replay) mod opened_target;
mod pages_before;
mod play;
mod report;
mod schedule;
mod targets;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use foreread_sim::replay::ReplayPace;
use foreread_trace::{TraceFormat, TraceReader, TraceSummary};
use indicatif::ProgressBar;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::opened_target::{HandleLimits, OpenedTarget};
use self::pages_before::PagesBefore;
use self::play::RealRun;
use self::report::RealRow;
use self::schedule::{IssueSchedule, LaneChoice};
use self::targets::RealTargets;
use super::plan::{RealPlan, ReplayPlan};
use super::{html_file, notes_of, summary_of};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::output::{Failure, Printer, cannot};
use foreread_cli::progress::spinner;
use foreread_cli::signals::interrupt_flag;

pub(super) fn run(plan: &ReplayPlan, real: &RealPlan, out: &mut Printer) -> Result<(), Failure> {
    let file = html_file(plan)?;
    let interrupted = interrupt_flag().map_err(cannot("catch signals"))?;
    let bar = spinner();
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for trace in &plan.traces {
        bar.set_message(format!("{}: first pass", trace.display()));
        let replayed = RealTrace::new(plan, real, trace)?;
        notes.extend(notes_of(trace, &replayed.summary, replayed.pace));
        let of_trace = replayed.run_all(real, (&*interrupted, &bar), &mut notes)?;
        rows.extend(of_trace);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish_and_clear();
    notes.sort();
    notes.dedup();
    let page = file.map(|file| (file, html::page(&rows, &notes)));
    if plan.json {
        out.json("replay real", &rows)?;
    } else {
        report::print(out, &rows)?;
    }
    out.notes(&notes)?;
    page.map_or(Ok(()), |(file, page)| file.write(page))?;
    // Exit code of a shell for a program killed by SIGINT.
    if interrupted.load(Ordering::Relaxed) { Err(Failure::Command(130)) } else { Ok(()) }
}

/// A trace and its target.
struct RealTrace<'t> {
    trace: &'t Path,
    format: Option<TraceFormat>,
    summary: TraceSummary,
    pace: ReplayPace,
    targets: RealTargets,
    /// None: each thread of the trace has a lane.
    workers: Option<u32>,
    lanes: usize,
}

impl<'t> RealTrace<'t> {
    fn new(plan: &ReplayPlan, real: &RealPlan, trace: &'t Path) -> Result<Self, Failure> {
        let summary = summary_of(plan, trace)?;
        let pace = real.timing.pace(&summary);
        let targets = RealTargets::find(&real.target, &summary, real.wraps)?;
        let is_open = matches!(pace, ReplayPace::Open { .. });
        if real.workers.is_some() && !is_open {
            let line = "--workers: is for an open loop; think times belong to the trace's threads";
            return Err(Failure::WrongUse(line.to_owned()));
        }
        let names_none = !summary.format.has_threads() && is_open;
        let most = u32::try_from(LANES_MAX).expect("a small number");
        let workers = real.workers.or(names_none.then_some(most));
        let wanted = workers.map_or(summary.threads.len(), |workers| workers as usize);
        let reads = usize::try_from(summary.reads).unwrap_or(usize::MAX);
        let most = workers.map_or(LANES_MAX, |workers| workers as usize);
        let lanes = wanted.min(most).min(reads).max(1);
        Ok(Self { trace, format: plan.format, summary, pace, targets, workers, lanes })
    }

    fn schedule(&self, pace: ReplayPace) -> IssueSchedule {
        let takes_any = self.workers.is_some() && matches!(pace, ReplayPace::Open { .. });
        let choice = if takes_any {
            LaneChoice::FirstFree
        } else {
            LaneChoice::by_thread(self.summary.threads.keys().copied(), self.lanes)
        };
        IssueSchedule::new(pace, choice, self.lanes)
    }

    /// Runs one method after the other; Ctrl-C ends the series.
    fn run_all(
        &self,
        real: &RealPlan,
        (interrupted, bar): (&AtomicBool, &ProgressBar),
        notes: &mut Vec<String>,
    ) -> Result<Vec<RealRow>, Failure> {
        let files = &self.targets.files;
        let handles = HandleLimits {
            max: (raise_open_files(files.len()) / self.lanes).max(HANDLES_MIN),
            are_shared: self.workers.is_some(),
        };
        let before = PagesBefore::look(files);
        notes.extend(self.notes(&before));
        let mut rows = Vec::new();
        for how in &real.methods {
            let buffered = files.iter().find(|file| file.buffered.is_some());
            if let (AccessMethod::Direct, Some(file)) = (how.method, buffered) {
                let (path, why) = (file.path.display(), file.buffered.unwrap_or_default());
                notes.push(format!("{path}: not read with O_DIRECT alone: {why}"));
                continue;
            }
            bar.set_message(format!("{}: {}", self.trace.display(), how.label()));
            let opened = OpenedTarget::new(how, files, handles);
            let opened = opened.map_err(|error| Failure::WrongUse(error.to_string()))?;
            let run =
                RealRun { targets: &self.targets, opened: &opened, lanes: self.lanes, interrupted };
            if real.is_warmed {
                let at_once = ReplayPace::Closed { think: 0.0 };
                run.play(self.schedule(at_once), self.reader()?).map_err(Failure::Check)?;
            }
            let figures = run.play(self.schedule(self.pace), self.reader()?);
            let figures = figures.map_err(Failure::Check)?;
            drop(opened);
            before.drop_ours();
            notes.extend(report::notes(how, &figures));
            rows.push(RealRow::new(self.trace, &self.described(), how, figures));
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(rows)
    }

    fn reader(&self) -> Result<TraceReader<'static>, Failure> {
        let reader = TraceReader::open(self.trace, self.format);
        reader.map_err(|error| Failure::WrongUse(error.to_string()))
    }

    fn described(&self) -> report::RealSubject<'_> {
        report::RealSubject {
            summary: &self.summary,
            pace: self.pace,
            mapping: &self.targets.mapping,
            lanes: self.lanes,
        }
    }

    /// Returns notes on the target.
    fn notes(&self, before: &PagesBefore<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let bytes = before.bytes();
        if bytes > 0 {
            notes.push(format!(
                "{} KiB of the target were in the page cache before: they stay there, and are hits \
                 of buffered reads; `dd if=FILE iflag=nocache count=0` drops a file",
                bytes >> 10
            ));
        }
        if before.unknown() > 0 {
            notes.push(format!(
                "the kernel does not say which pages of {} files are cached, so what is read \
                 through the page cache stays there; run as their owner or root",
                before.unknown()
            ));
        }
        let threads = self.summary.threads.len();
        if self.workers.is_none() && threads > self.lanes {
            let (name, lanes) = (self.trace.display(), self.lanes);
            notes.push(format!(
                "{name}: {threads} threads of the trace share {lanes} threads: a read may be blocked \
                 by one of another"
            ));
        }
        notes
    }
}

/// Raises the limit of open files as far as it goes; returns how many the lanes may have together.
fn raise_open_files(files: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(OPEN_FILES_MAX, |most| most.min(OPEN_FILES_MAX));
    if limit.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(OPEN_FILES_MAX);
    // The engine keeps each file open, with up to two descriptors.
    let beside = OTHER_FILES.saturating_add(2 * files as u64);
    usize::try_from(now.saturating_sub(beside)).unwrap_or(usize::MAX)
}

/// Threads that read at a time, where --workers does not say another number.
const LANES_MAX: usize = 256;

/// Descriptors of all lanes.
const OPEN_FILES_MAX: u64 = 1 << 16;

/// File descriptors in addition to the target's.
const OTHER_FILES: u64 = 64;

/// Minimum of handles per lane, regardless of the limit.
const HANDLES_MIN: usize = 4;
