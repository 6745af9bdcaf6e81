//! What happened in a run, as one number, and as lines on request.
//!
//! In:    events, in their order.
//! Out:   a hash: two runs with the same hash did the same. The lines, or the first that differs
//!        from those of another run.
//! Never: an event that is in the lines and not in the hash, or the other way round.

use std::fmt;

use foreread_core::prefetch::Decided;
use foreread_core::sched::Op;
use foreread_core::trace::{EventKind, TraceEvent};
use foreread_core::units::Nanos;

/// What is kept of a run beside its hash.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum RecordMode {
    /// Nothing.
    #[default]
    Hash,
    /// One line for each event.
    Lines,
    /// What another run said: the first line that differs.
    Compare(Vec<String>),
    /// What was done to the path and what it said: see
    /// [`RunOutcome::replay`](crate::run::RunOutcome::replay).
    Log,
}

/// Where two runs part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceDifference {
    /// Which event, from 1: the line of the file.
    pub line: usize,
    /// What the other run had; None if it was over.
    pub wanted: Option<String>,
    /// What this one had; None if it was over.
    pub got: Option<String>,
}

/// The events of a run.
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

    /// A process said something, or ended.
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

    /// The hash, the number of events, the lines, and where they part from the other run's.
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

/// FNV-1a's first state, as good as any.
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
