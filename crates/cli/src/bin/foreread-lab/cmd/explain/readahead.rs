//! `foreread-lab explain readahead`: feed a policy reads, see each decision as a line.

mod args;
mod picture;
mod read;

pub(crate) use args::ReadaheadArgs;

use std::collections::BTreeMap;
use std::io::Write as _;

use foreread_core::prefetch::walk::{PolicyMemory, ReadWalk};
use foreread_core::prefetch::{
    Advice, Decided, Policy, Rules, StreamState, Streams, Trigger, WindowLimits,
};
use foreread_core::units::{ByteCount, PageIndex};
use serde::Serialize;

use self::read::{ReadAction, ReadStep};
use super::pages::ResidentPages;
use foreread_cli::output::{Failure, Printer};

/// A policy, a file, and the reads that are made on it.
struct ReadaheadPlan {
    policy: Policy,
    limits: WindowLimits,
    /// Returns the length of the file.
    file_end: ByteCount,
    rules: Rules,
    /// Cache before the first read.
    resident: ResidentPages,
    reads: Vec<ReadStep>,
    format: ReadaheadFormat,
}

/// Printed form of the decisions.
#[derive(Eq, PartialEq)]
enum ReadaheadFormat {
    /// Lines, with a picture on a terminal.
    Lines,
    /// Lines and a picture.
    Picture,
    Json,
}

/// State of one reader's stream.
#[derive(Default)]
struct ExplainedStream {
    state: StreamState,
    advice: Advice,
}

/// A decision with its stream.
struct DecisionLine {
    stream: Option<String>,
    decided: Decided,
}

/// JSON of a decision.
#[derive(Serialize)]
struct DecisionJson<'line> {
    stream: Option<&'line str>,
    pattern: &'static str,
    req_page: u64,
    req_pages: u64,
    ra_start: u64,
    ra_size: u64,
    ra_async: u64,
    r#async: bool,
    submitted: u64,
}

pub(super) fn run(args: &ReadaheadArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve()?;
    let ReadaheadExplanation { lines, hints } = explain(&plan);
    if plan.format == ReadaheadFormat::Json {
        return out.json("explain readahead", lines.iter().map(explained));
    }
    for DecisionLine { stream, decided } in &lines {
        let pattern = decided.decision.pattern.name();
        match stream {
            Some(name) => writeln!(out, "{pattern}@{name}{}", decided.details())?,
            None => writeln!(out, "{decided}")?,
        }
    }
    if plan.format == ReadaheadFormat::Picture || out.is_terminal() {
        let end = PageIndex(plan.file_end.pages_up().0);
        let decided: Vec<_> = lines.iter().map(|line| line.decided).collect();
        picture::draw(out, plan.policy, end, plan.resident, &decided, &hints)?;
    }
    Ok(())
}

/// All that the readers did.
struct ReadaheadExplanation {
    lines: Vec<DecisionLine>,
    hints: Vec<picture::Hint>,
}

/// Makes all reads, and gives every decision in order.
fn explain(plan: &ReadaheadPlan) -> ReadaheadExplanation {
    let end = plan.file_end;
    let mut pages = plan.resident.clone();
    let mut streams: BTreeMap<Option<&str>, ExplainedStream> = BTreeMap::new();
    let mut remembered = Streams::default();
    let (mut lines, mut hints) = (Vec::new(), Vec::new());
    for ReadStep { stream: name, action } in &plan.reads {
        let stream = streams.entry(name.as_deref()).or_default();
        let (seeks, pos, read_end) = match action {
            ReadAction::Read { seeks, pos, end } => (*seeks, *pos, *end),
            ReadAction::Advise(advice) => {
                stream.advice = *advice;
                continue;
            }
            ReadAction::Hint(hinted) => {
                let file_end = PageIndex(end.pages_up().0);
                let hinted = hinted.start.min(file_end)..hinted.end.min(file_end);
                pages.insert(hinted.clone());
                hints.push(picture::Hint { before: lines.len(), pages: hinted });
                continue;
            }
        };
        stream.state.seeked |= seeks;
        // An empty read triggers no decision and does not move its stream.
        if pos >= end || pos == read_end {
            continue;
        }
        let reader = ReadWalk {
            policy: plan.policy,
            limits: plan.limits,
            end: PageIndex(end.pages_up().0),
            advice: stream.advice,
            rules: plan.rules,
        };
        let first = pos.page();
        let count = PageIndex(read_end.pages_up().0) - first;
        let memory = PolicyMemory { stream: &mut stream.state, file: &mut remembered };
        reader.read(memory, &mut pages, first, count, |decided| {
            lines.push(DecisionLine { stream: name.clone(), decided });
        });
        stream.state.prev_pos = Some(read_end.min(end));
    }
    ReadaheadExplanation { lines, hints }
}

fn explained(line: &DecisionLine) -> DecisionJson<'_> {
    let Decided { ask, decision, submitted } = line.decided;
    DecisionJson {
        stream: line.stream.as_deref(),
        pattern: decision.pattern.name(),
        req_page: ask.page.0,
        req_pages: ask.count.0,
        ra_start: decision.window.start.0,
        ra_size: decision.window.size.0,
        ra_async: decision.window.async_size.0,
        r#async: match ask.trigger {
            Trigger::Miss => false,
            Trigger::Marker => true,
        },
        submitted: submitted.0,
    }
}
