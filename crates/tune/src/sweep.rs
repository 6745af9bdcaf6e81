//! The sweep: which window is tried next, and when it is enough.
//!
//! In:    a [`Probe`]; how much time there is.
//! Out:   [`SweepOutcome`]: rows, the plateau, latencies, and what a reader of them has to know.
//!        Also of a sweep that was stopped in the middle: what is known by then.
//! Never: a clock or a device of its own: the probe has both. A step that would end too late.
//!
//! ```text
//!   climb ----> look ------------> rounds of all ----> random reads ----> rounds of those that
//!   how fast    is it fast only    windows, shuffled   by size            still matter
//!   is it?      at first?          ^                                         |
//!                                  '---- it fell: what was read before ------'
//!                                        does not count
//! ```

mod cache_filter;
mod outcome;
mod random;
mod rounds;
mod settings;
mod step;
mod throttle;
mod warm_up;

use std::collections::BTreeMap;
use std::fmt;

use foreread_core::units::{ByteCount, Nanos};

use crate::probe::{Probe, Stopped};
use crate::rng::Rng;

pub use outcome::{SweepEnd, SweepOutcome};
pub use settings::SweepSettings;

/// A sweep that has not begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    settings: SweepSettings,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepProgress {
    /// Seconds so far.
    pub seconds: f64,
    /// Seconds that it may take; often it needs fewer.
    pub of: f64,
    /// What it does now.
    pub doing: SweepActivity,
}

/// What a sweep does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SweepActivity {
    /// It looks how fast the device is.
    Climbing(ByteCount),
    /// It looks whether the device stays as fast as it begins.
    DetectingThrottle,
    /// It uses up what the device has saved.
    Draining,
    /// It reads a stream with this window.
    Window(ByteCount),
    /// It reads so much at a time, anywhere.
    Random(ByteCount),
}

impl Sweep {
    /// A sweep within these bounds.
    #[must_use]
    pub fn new(settings: SweepSettings) -> Self {
        Self { settings }
    }

    /// Measures.
    pub fn run(&self, probe: &mut dyn Probe, tell: &mut dyn FnMut(SweepProgress)) -> SweepOutcome {
        let mut run = SweepRun::new(&self.settings, probe, tell);
        let stopped = run.all().err();
        run.outcome(stopped)
    }
}

/// A sweep that is on its way.
struct SweepRun<'r> {
    settings: &'r SweepSettings,
    probe: &'r mut dyn Probe,
    tell: &'r mut dyn FnMut(SweepProgress),
    began: Nanos,
    /// Those that take part, the smallest first.
    windows: Vec<ByteCount>,
    /// The largest of them, but for the one in force, which may be larger.
    largest: Option<ByteCount>,
    /// The best window so far: all others are compared with it.
    best: Option<ByteCount>,
    /// How the rounds ended.
    ended: SweepEnd,
    /// What counts.
    taken: Vec<StepReading>,
    /// Speed and cost of each window when it was last read.
    known: BTreeMap<ByteCount, WindowEstimate>,
    round: u32,
    /// If it is fast only at first.
    burst: Option<Burst>,
    /// Nothing slow was read since the credit was used up.
    is_drained: bool,
    /// How often it was fast all the same.
    fast_again: u32,
    latencies: BTreeMap<ByteCount, Vec<u64>>,
    notes: Vec<String>,
    /// Streams so far.
    streams: u128,
    rng: Rng,
}

/// What one step found.
#[derive(Clone, Copy, Debug)]
struct StepReading {
    window: ByteCount,
    round: u32,
    mb_per_s: f64,
    at: Nanos,
    /// The device had been asked for most of it before.
    is_again: bool,
}

#[derive(Clone, Copy, Debug)]
struct WindowEstimate {
    mb_per_s: f64,
    /// How long a step took, with all that does not count.
    cost_ns: f64,
}

/// A device that is fast only at first.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// MB/s while it lasts.
    fast: f64,
    /// MB/s after.
    slow: f64,
    /// How long it lasts.
    seconds: f64,
    /// The device was fast again after a pause: it had used up its credit, and no other process had
    /// slowed it down.
    is_back: bool,
}

impl<'r> SweepRun<'r> {
    fn new(
        settings: &'r SweepSettings,
        probe: &'r mut dyn Probe,
        tell: &'r mut dyn FnMut(SweepProgress),
    ) -> Self {
        Self {
            settings,
            began: probe.now(),
            probe,
            tell,
            windows: Vec::new(),
            largest: None,
            best: None,
            ended: SweepEnd::Settled,
            taken: Vec::new(),
            known: BTreeMap::new(),
            round: 0,
            burst: None,
            is_drained: false,
            fast_again: 0,
            latencies: BTreeMap::new(),
            notes: Vec::new(),
            streams: 0,
            rng: Rng(settings.seed),
        }
    }

    fn all(&mut self) -> Result<(), Stopped> {
        let fastest = self.climb()?;
        // Of a small device the look would read all, and nothing would be left to read for the
        // first time.
        let would_read = fastest * self.settings.look().as_secs_f64() * 1e6;
        let is_small = 2.0 * would_read > self.settings.size.0 as f64;
        if is_small {
            self.first_rounds(1)?;
            self.look()?;
        } else {
            self.look()?;
        }
        self.first_rounds(self.least())?;
        self.random_reads()?;
        self.last_rounds()
    }

    fn is_quick(&self) -> bool {
        self.settings.is_quick
    }
}

impl fmt::Display for SweepActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |size: &ByteCount| size.0 / 1024;
        match self {
            Self::Climbing(window) => write!(f, "how fast it is ({} KiB)", kib(window)),
            Self::DetectingThrottle => f.write_str("whether it stays so fast"),
            Self::Draining => f.write_str("using up burst credit"),
            Self::Window(window) => write!(f, "window {} KiB", kib(window)),
            Self::Random(size) => write!(f, "random reads of {} KiB", kib(size)),
        }
    }
}
