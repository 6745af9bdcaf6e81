//! A disk: reads in order cost their transfer, reads anywhere a seek and half a turn besides.
//!
//! In:    what was measured.
//! Out:   disks whose mean access takes as long; none where reads anywhere cost no more.
//! Never: a curve of seeks that was measured: one time says nothing of its parts, so they are those
//!        that are usual for a disk with such an access time.
//!
//! ```text
//!   access = t(S) - S / rate = overhead + mean seek + half a turn
//! ```

use super::least_squares::{Equation, solve};
use super::text::number;
use super::{DeviceLimits, MeasuredPoints};
use crate::plateau::robust::median;
use crate::report::{Latency, ParallelResult, WindowResult};

/// The parameters of a disk, with the names that a scenario has for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedHdd {
    /// What the device says of itself; `depth` is what was seen to help.
    pub limits: DeviceLimits,
    /// Revolutions a minute.
    pub rpm: f64,
    /// The rate of all tracks.
    pub mb_per_s: f64,
    /// The shortest seek.
    pub seek_min_ms: f64,
    /// The longest seek.
    pub seek_max_ms: f64,
    /// The fixed cost of a command.
    pub overhead_us: f64,
    /// Whether the drive chooses among the commands that it holds.
    pub is_nearest: bool,
    /// Whether a read that goes on where the last one ended needs no turn.
    pub reads_on: bool,
}

/// How a disk reads in order.
#[derive(Clone, Copy, Debug)]
struct InOrder {
    /// Bytes a microsecond.
    rate: f64,
    overhead_us: f64,
    /// One turn, where each request loses one; None: the drive reads on into its buffer.
    turn_us: Option<f64>,
}

impl InOrder {
    /// What the windows of a stream say.
    ///
    /// ```text
    ///   a window of 4 KiB takes   less than the shortest turn --> its rest is the overhead
    ///                             a turn and more             --> T(W) = turn + W / rate, a line
    /// ```
    fn of(windows: &[WindowResult]) -> Option<Self> {
        let smallest = windows.first()?;
        let rate = windows.iter().map(|row| row.mb_per_s).fold(0.0, f64::max);
        let overhead_us = window_us(smallest) - bytes(smallest.window_kib) / rate;
        if overhead_us < TURN_MIN_US {
            return Some(Self { rate, overhead_us: overhead_us.max(0.0), turn_us: None });
        }
        let equation = |row: &WindowResult| {
            let us = window_us(row);
            Equation { parts: [1.0, bytes(row.window_kib)], sum: us, scale: us }
        };
        let [turn_us, byte] = solve(&windows.iter().map(equation).collect::<Vec<_>>())?;
        let is_turn = (TURN_MIN_US..TURN_MAX_US).contains(&turn_us) && byte > 0.0;
        let (rate, overhead_us) = (1.0 / byte, OVERHEAD_US);
        is_turn.then_some(Self { rate, overhead_us, turn_us: Some(turn_us) })
    }
}

/// Disks that explain the points: with a queue, if more in flight gave more, and without.
pub(super) fn candidates(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Vec<FittedHdd> {
    let Some(plain) = plain(points, limits) else { return Vec::new() };
    let limits = DeviceLimits { depth: QUEUE_DEPTH, ..plain.limits };
    let queued = FittedHdd { limits, is_nearest: true, ..plain };
    has_queue(points.parallel).then_some(queued).into_iter().chain([plain]).collect()
}

/// A disk that takes one command at a time.
fn plain(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Option<FittedHdd> {
    let (smallest, stream) = (points.random.first()?, points.sequential.first()?);
    let InOrder { rate, overhead_us, turn_us } = InOrder::of(points.sequential)?;
    let is_arm = smallest.median_us >= ACCESS_MIN_US
        && smallest.median_us > ARM_TIMES * window_us(stream)
        && rate > 0.0;
    if !is_arm {
        return None;
    }
    let access = |row: &Latency| row.median_us - bytes(row.size_kib) / rate;
    let access_us = median(&mut points.random.iter().map(access).collect::<Vec<_>>());
    let (_, usual) = TURNS.into_iter().find(|(at_least, _)| access_us >= *at_least)?;
    let rpm = turn_us.map_or(usual, |turn_us| 60e6 / turn_us);
    let seek_us = access_us - overhead_us - 30e6 / rpm;
    if seek_us <= 0.0 {
        return None;
    }
    let seek_min_ms = seek_us / 1e3 / (1.0 + (SEEK_RATIO - 1.0) * MEAN_WAY);
    Some(FittedHdd {
        limits: DeviceLimits { depth: 1, ..*limits },
        rpm,
        mb_per_s: rate,
        seek_min_ms,
        seek_max_ms: SEEK_RATIO * seek_min_ms,
        overhead_us,
        is_nearest: false,
        reads_on: turn_us.is_none(),
    })
}

fn bytes(kib: u64) -> f64 {
    kib as f64 * 1024.0
}

fn window_us(row: &WindowResult) -> f64 {
    bytes(row.window_kib) / row.mb_per_s
}

/// Whether several reads in flight are faster than one by one: the drive chooses the nearest.
fn has_queue(parallel: &[ParallelResult]) -> bool {
    let most = parallel.iter().map(|row| row.reads_per_s).fold(0.0, f64::max);
    parallel.first().is_some_and(|one| most > QUEUE_GAIN * one.reads_per_s)
}

impl FittedHdd {
    pub(super) fn keys(&self) -> Vec<(&'static str, String)> {
        let pick = if self.is_nearest { "nearest" } else { "oldest" };
        let mut keys = vec![
            ("capacity", self.limits.capacity.0.to_string()),
            ("rpm", number(self.rpm)),
            ("outer_mb_per_s", number(self.mb_per_s)),
            ("inner_mb_per_s", number(self.mb_per_s)),
            ("seek_min_ms", number(self.seek_min_ms)),
            ("seek_max_ms", number(self.seek_max_ms)),
            ("overhead_us", number(self.overhead_us)),
            ("max_command", self.limits.max_command.0.to_string()),
            ("depth", self.limits.depth.to_string()),
            ("pick", format!("\"{pick}\"")),
        ];
        if self.reads_on {
            keys.push(("read_buffer", READ_BUFFER.to_string()));
        }
        keys
    }

    pub(super) fn assumed() -> Vec<String> {
        [
            "how seeks grow with the distance is usual for a disk with this access time; so is rpm, \
             unless each window of the stream lost a turn",
            "all tracks have the rate of those that were read",
            "seeks are those within what was measured: of a file, no farther than the file",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// Below it no arm has moved.
const ACCESS_MIN_US: f64 = 1000.0;

/// Reads anywhere take so many times as long as the same size in order.
const ARM_TIMES: f64 = 1.25;

/// What a command costs where the turn that it loses hides it: without, none would be lost.
const OVERHEAD_US: f64 = 100.0;

/// A turn at 15,400 and at 3600 a minute, in microseconds.
const TURN_MIN_US: f64 = 3900.0;
const TURN_MAX_US: f64 = 16_700.0;

/// From which access time on, in microseconds, a disk has how many turns a minute.
const TURNS: [(f64, f64); 4] =
    [(16_500.0, 5400.0), (10_500.0, 7200.0), (7000.0, 10_000.0), (0.0, 15_000.0)];

/// The longest seek over the shortest, of disks of the last twenty years.
const SEEK_RATIO: f64 = 13.0;

/// The mean of 0.7 x sqrt(d) + 0.3 x d over random pairs of places: 0.7 x 8/15 + 0.3 / 3.
const MEAN_WAY: f64 = 0.7 * 8.0 / 15.0 + 0.1;

/// What a queue gives at least.
const QUEUE_GAIN: f64 = 1.2;

/// Of SATA's queue.
const QUEUE_DEPTH: u32 = 32;

/// Enough for a read that goes on not to lose a turn.
const READ_BUFFER: u64 = 1 << 20;
