//! Record of a run: a hash over its events, and their lines on request. Two runs with the same hash
//! had the same events; an event is in the hash exactly if it is in the lines.

use std::fmt;

use foreread_core::prefetch::Decided;
use foreread_core::sched::Op;
use foreread_core::trace::{EventKind, TraceEvent};
use foreread_core::units::Nanos;

/// Data recorded of a run in addition to its hash.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum RecordMode {
    /// The hash only.
    #[default]
    Hash,
    /// One line for each event.
    Lines,
    /// The first line that differs from these lines of another run.
    Compare(Vec<String>),
    /// The path's calls and outputs: see [`RunOutcome::replay`](crate::run::RunOutcome::replay).
    Log,
}

/// First difference between two runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceDifference {
    /// Number of the event, from 1: the line of the file.
    pub line: usize,
    /// Line of the other run; None if it had ended.
    pub wanted: Option<String>,
    /// Line of this run; None if it had ended.
    pub got: Option<String>,
}

/// Events of a run.
#[derive(Debug)]
pub(crate) struct RunRecord {
    hash: u64,
    events: u64,
    keep: RecordMode,
    lines: Vec<String>,
    difference: Option<TraceDifference>,
}

impl RunRecord {
    pub(crate) fn new(keep: RecordMode) -> Self {
        Self { hash: FIRST, events: 0, keep, lines: Vec::new(), difference: None }
    }

    pub(crate) fn path(&mut self, event: &TraceEvent) {
        let at = event.at;
        match event.what {
            EventKind::Decided { stream, decided } => {
                let stream = stream.index();
                self.add(at, &decision_words(stream, &decided), || format!("s{stream} {decided}"));
            }
            EventKind::Dispatched { device, op, start, sectors } => {
                let (device, op) = (device.index(), letter(op));
                let words = [2, u64::from(device), u64::from(u32::from(op)), start.0, sectors.0];
                self.add(at, &words, || format!("d{device} {op}{start}+{sectors}"));
            }
            EventKind::Arrived { device, start, pages } => {
                let device = device.index();
                let words = [5, u64::from(device), start.0, pages.0];
                self.add(at, &words, || format!("d{device} arrived {start}: {pages} pages"));
            }
            EventKind::Completed { device, start, good, pages } => {
                let device = device.index();
                let words = [3, u64::from(device), start.0, good.0, pages.0];
                self.add(at, &words, || format!("d{device} done {start}: {good} of {pages} pages"));
            }
        }
    }

    /// Records an event or the end of a process.
    pub(crate) fn process(&mut self, at: Nanos, name: &str, what: &str, number: u64) {
        let words = [4, of_text(name), of_text(what), number];
        self.add(at, &words, || format!("{name} {what} {number}"));
    }

    fn add(&mut self, at: Nanos, words: &[u64], line: impl FnOnce() -> String) {
        self.hash = words.iter().fold(mix(self.hash, at.0), |hash, word| mix(hash, *word));
        self.events += 1;
        match &self.keep {
            RecordMode::Hash | RecordMode::Log => {}
            RecordMode::Lines => self.lines.push(format!("{} {}", Seconds(at), line())),
            RecordMode::Compare(other) if self.difference.is_none() => {
                let index =
                    usize::try_from(self.events - 1).expect("the lines of a trace fit memory");
                let got = format!("{} {}", Seconds(at), line());
                let wanted = other.get(index);
                if wanted != Some(&got) {
                    let wanted = wanted.cloned();
                    self.difference =
                        Some(TraceDifference { line: index + 1, wanted, got: Some(got) });
                }
            }
            RecordMode::Compare(_) => {}
        }
    }

    /// Returns the hash, the number of events, the lines, and the first difference from the other
    /// run.
    pub(crate) fn end(mut self) -> (u64, u64, Vec<String>, Option<TraceDifference>) {
        let events = usize::try_from(self.events).unwrap_or(usize::MAX);
        if let RecordMode::Compare(other) = &self.keep
            && self.difference.is_none()
            && let Some(wanted) = other.get(events)
        {
            let wanted = Some(wanted.clone());
            self.difference = Some(TraceDifference { line: events + 1, wanted, got: None });
        }
        (self.hash, self.events, self.lines, self.difference)
    }
}

fn decision_words(stream: u32, decided: &Decided) -> [u64; 9] {
    let window = decided.decision.window;
    [
        1,
        u64::from(stream),
        of_text(decided.decision.pattern.name()),
        decided.ask.page.0,
        decided.ask.count.0,
        window.start.0,
        window.size.0,
        window.async_size.0,
        decided.submitted.0,
    ]
}

fn letter(op: Op) -> char {
    match op {
        Op::Read => 'R',
        Op::Write => 'W',
    }
}

/// Initial state of FNV-1a; the choice is arbitrary.
const FIRST: u64 = 0xCBF2_9CE4_8422_2325;

const fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 29)
}

fn of_text(text: &str) -> u64 {
    text.bytes().fold(FIRST, |hash, byte| mix(hash, u64::from(byte)))
}

/// A time in seconds, to the nanosecond.
struct Seconds(Nanos);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nanos(ns) = self.0;
        write!(f, "{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

impl fmt::Display for TraceDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |line: &Option<String>| line.clone().unwrap_or_else(|| "(the end)".into());
        let (wanted, got) = (side(&self.wanted), side(&self.got));
        write!(f, "event {}: there {wanted:?}, here {got:?}", self.line)
    }
}
