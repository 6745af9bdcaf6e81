//! The sweep: chooses the next window to try, and ends once the plateau is known.
//!
//! In:    a [`Probe`]; a time budget.
//! Out:   [`SweepOutcome`]: rows, the plateau, latencies, notes; partial if it was stopped early.
//! Never: a clock or a device, which are the probe's; a step that would end too late.
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

/// A sweep before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    settings: SweepSettings,
}

/// Progress of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepProgress {
    /// Seconds so far.
    pub seconds: f64,
    /// Upper limit in seconds; it often needs fewer.
    pub of: f64,
    /// Current activity.
    pub doing: SweepActivity,
}

/// Activity of a sweep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SweepActivity {
    /// Finding the device's speed with growing windows.
    Climbing(ByteCount),
    /// Testing whether the device sustains its initial speed.
    DetectingThrottle,
    /// Draining the device's burst credit.
    Draining,
    /// Reading a stream with this window.
    Window(ByteCount),
    /// Reading at random offsets, this size at a time.
    Random(ByteCount),
}

impl Sweep {
    /// Creates a sweep within these bounds.
    #[must_use]
    pub fn new(settings: SweepSettings) -> Self {
        Self { settings }
    }

    /// Runs the sweep.
    pub fn run(&self, probe: &mut dyn Probe, tell: &mut dyn FnMut(SweepProgress)) -> SweepOutcome {
        let mut run = SweepRun::new(&self.settings, probe, tell);
        let stopped = run.all().err();
        run.outcome(stopped)
    }
}

/// A running sweep.
struct SweepRun<'r> {
    settings: &'r SweepSettings,
    probe: &'r mut dyn Probe,
    tell: &'r mut dyn FnMut(SweepProgress),
    began: Nanos,
    /// Participating windows, in ascending order.
    windows: Vec<ByteCount>,
    /// Largest of them, except the window in force, which may be larger.
    largest: Option<ByteCount>,
    /// Best window so far, the reference for all others.
    best: Option<ByteCount>,
    /// Reason for the end of the rounds.
    ended: SweepEnd,
    /// Readings that count.
    taken: Vec<StepReading>,
    /// Speed and cost of each window when it was last read.
    known: BTreeMap<ByteCount, WindowEstimate>,
    round: u32,
    /// Burst behaviour, if the device is fast only at first.
    burst: Option<Burst>,
    /// True if no slow window was read since the credit was drained.
    is_drained: bool,
    /// Number of times that the device was fast again regardless.
    fast_again: u32,
    latencies: BTreeMap<ByteCount, Vec<u64>>,
    notes: Vec<String>,
    /// Streams so far.
    streams: u128,
    rng: Rng,
}

/// Reading from one step.
#[derive(Clone, Copy, Debug)]
struct StepReading {
    window: ByteCount,
    round: u32,
    mb_per_s: f64,
    at: Nanos,
    /// True if most of it had been read from the device before.
    is_again: bool,
}

#[derive(Clone, Copy, Debug)]
struct WindowEstimate {
    mb_per_s: f64,
    /// Duration of the step, including the parts that do not count.
    cost_ns: f64,
}

/// A device that is fast only at first.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// MB/s during the burst.
    fast: f64,
    /// MB/s afterwards.
    slow: f64,
    /// Duration of the burst.
    seconds: f64,
    /// True if the device was fast again after a pause: it had exhausted its credit, and no other
    /// process had slowed it down.
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
        // On a small device this test would read everything and leave no fresh ranges.
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
