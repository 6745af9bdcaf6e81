//! Fits a disk: sequential reads cost their transfer, random reads also a seek and half a turn.
//!
//! The candidates have the measured mean access time; there are none if random reads cost no more
//! than sequential ones. One access time does not determine a seek curve, so the curve is that of a
//! usual disk with this access time.
//!
//! ```text
//!   access = t(S) - S / rate = overhead + mean seek + half a turn
//! ```
//!
//! If the windows of a stream lose no turn, the slope of random read times gives the rate of the
//! middle tracks. Inner tracks are shorter than those of the stream.

use super::least_squares::{Equation, solve};
use super::text::number;
use super::{DeviceLimits, MeasuredPoints};
use crate::plateau::robust::median;
use crate::report::{Latency, ParallelResult, WindowResult};

/// Parameters of a disk, named as in a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedHdd {
    /// Limits that the device reports; `depth` is the largest depth seen to help.
    pub limits: DeviceLimits,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Rate of the outermost track.
    pub mb_per_s: f64,
    /// Rate of the innermost track; equal to the outermost if nothing indicates that it is slower.
    pub inner_mb_per_s: f64,
    /// Shortest seek.
    pub seek_min_ms: f64,
    /// Longest seek.
    pub seek_max_ms: f64,
    /// Fixed cost of a command.
    pub overhead_us: f64,
    /// True if the drive reorders its queued commands.
    pub is_nearest: bool,
    /// True if a read that continues the last one needs no turn.
    pub reads_on: bool,
    /// True if the drive reads on during command overhead: a command then costs the greater of
    /// overhead and transfer.
    pub overlaps: bool,
}

/// Behaviour of a disk under sequential reads.
#[derive(Clone, Copy, Debug)]
struct InOrder {
    /// Transfer rate in bytes a microsecond.
    rate: f64,
    overhead_us: f64,
    /// True if the platter is read on during a command's overhead.
    overlaps: bool,
    /// Duration of one turn if each request loses one; None if the drive reads on into its buffer.
    turn_us: Option<f64>,
}

impl InOrder {
    /// Returns every explanation of the windows of a stream.
    ///
    /// ```text
    ///   a window of 4 KiB takes   a turn and more   --> T(W) = turn + W / rate, a line
    ///                             less              --> T(W) = commands x overhead + W / rate, or
    ///                                                   each command the greater of the two
    /// ```
    fn all(windows: &[WindowResult], limits: &DeviceLimits) -> Vec<Self> {
        let Some(smallest) = windows.first() else { return Vec::new() };
        let best = windows.iter().map(|row| row.mb_per_s).fold(0.0, f64::max);
        let overhead_us = window_us(smallest) - bytes(smallest.window_kib) / best;
        if overhead_us >= TURN_MIN_US {
            return Self::with_turns(windows).into_iter().collect();
        }
        let apart = fitted_line(windows, |row| commands(bytes(row.window_kib), limits));
        let (overhead_us, rate) = apart.unwrap_or((overhead_us.max(0.0), best));
        let apart = Self { rate, overhead_us, overlaps: false, turn_us: None };
        let overhead_us = window_us(smallest);
        vec![apart, Self { rate: best, overhead_us, overlaps: true, turn_us: None }]
    }

    /// Fits a disk on which each window loses a turn.
    fn with_turns(windows: &[WindowResult]) -> Option<Self> {
        let (turn_us, rate) = fitted_line(windows, |_| 1.0)?;
        let is_turn = (TURN_MIN_US..TURN_MAX_US).contains(&turn_us);
        let (overhead_us, overlaps, turn_us) = (OVERHEAD_US, false, Some(turn_us));
        is_turn.then_some(Self { rate, overhead_us, overlaps, turn_us })
    }
}

/// Fits `time = times x price + bytes / rate`.
fn fitted_line(
    windows: &[WindowResult],
    times: impl Fn(&WindowResult) -> f64,
) -> Option<(f64, f64)> {
    let equation = |row: &WindowResult| {
        let us = window_us(row);
        Equation { parts: [times(row), bytes(row.window_kib)], sum: us, scale: us }
    };
    let [price_us, byte] = solve(&windows.iter().map(equation).collect::<Vec<_>>())?;
    (byte > 0.0).then_some((price_us, 1.0 / byte))
}

/// Returns the number of commands in a request of this size.
fn commands(size: f64, limits: &DeviceLimits) -> f64 {
    (size / limits.max_command.0 as f64).ceil()
}

/// Behaviour of a disk under random reads.
#[derive(Clone, Copy, Debug)]
struct Anywhere {
    access_us: f64,
    /// Rate of the middle tracks, in bytes a microsecond.
    rate: f64,
}

impl Anywhere {
    /// Estimates the access time, assuming that all tracks have this rate.
    fn at_rate(rate: f64, random: &[Latency]) -> Self {
        let access = |row: &Latency| row.median_us - bytes(row.size_kib) / rate;
        let access_us = median(&mut random.iter().map(access).collect::<Vec<_>>());
        Self { access_us, rate }
    }

    /// Fits access time and rate to the random reads.
    ///
    /// ```text
    ///   t(S) = access + S / rate + (commands - 1) x overhead, a line
    /// ```
    fn of(random: &[Latency], limits: &DeviceLimits, overhead_us: f64) -> Option<Self> {
        let equation = |row: &Latency| {
            let size = bytes(row.size_kib);
            let sum = row.median_us - (commands(size, limits) - 1.0) * overhead_us;
            Equation { parts: [1.0, size], sum, scale: row.median_us }
        };
        let [access_us, byte] = solve(&random.iter().map(equation).collect::<Vec<_>>())?;
        (byte > 0.0).then_some(Self { access_us, rate: 1.0 / byte })
    }
}

/// Returns disks that explain the points: with a queue if more reads in flight gave more
/// throughput, and without; with tracks of one rate, and with slower inner tracks.
pub(super) fn candidates(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Vec<FittedHdd> {
    let in_order = InOrder::all(points.sequential, limits);
    let in_order = in_order.iter().filter(|it| has_arm(points, it.rate));
    let plain: Vec<_> = in_order.flat_map(|it| plain_disks(points, limits, it)).collect();
    let queued = |disk: &FittedHdd, depth| {
        let limits = DeviceLimits { depth, ..disk.limits };
        FittedHdd { limits, is_nearest: true, ..*disk }
    };
    let mut depths = vec![QUEUE_DEPTH, limits.depth];
    depths.dedup();
    depths.retain(|depth| *depth > 1 && has_queue(points.parallel));
    let of_depth = |depth: u32| plain.iter().map(move |disk| queued(disk, depth));
    depths.into_iter().flat_map(of_depth).chain(plain.iter().copied()).collect()
}

/// Returns disks that take one command at a time.
fn plain_disks(
    points: &MeasuredPoints<'_>,
    limits: &DeviceLimits,
    in_order: &InOrder,
) -> Vec<FittedHdd> {
    let one_rate = Some(Anywhere::at_rate(in_order.rate, points.random));
    let is_slower = |it: &Anywhere| (MIDDLE_MIN..MIDDLE_MAX).contains(&(it.rate / in_order.rate));
    let zoned = Anywhere::of(points.random, limits, in_order.overhead_us);
    // If each request loses a turn, so does each command of a random read.
    let zoned = zoned.filter(|it| in_order.turn_us.is_none() && is_slower(it));
    let anywhere = [one_rate, zoned].into_iter().flatten();
    anywhere.filter_map(|it| plain_disk(in_order, &it, limits)).collect()
}

/// Returns whether random reads take as long as a seek, and longer than the same size sequentially.
fn has_arm(points: &MeasuredPoints<'_>, rate: f64) -> bool {
    let first = points.random.first().zip(points.sequential.first());
    first.is_some_and(|(smallest, stream)| {
        smallest.median_us >= ACCESS_MIN_US
            && smallest.median_us > ARM_TIMES * window_us(stream)
            && rate > 0.0
    })
}

/// Builds a disk that takes one command at a time.
fn plain_disk(in_order: &InOrder, anywhere: &Anywhere, limits: &DeviceLimits) -> Option<FittedHdd> {
    let InOrder { rate, overhead_us, overlaps, turn_us } = *in_order;
    let Anywhere { access_us, rate: middle } = *anywhere;
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
        // The rate falls linearly from the outermost track to the innermost.
        inner_mb_per_s: 2.0 * middle - rate,
        seek_min_ms,
        seek_max_ms: SEEK_RATIO * seek_min_ms,
        overhead_us,
        is_nearest: false,
        reads_on: turn_us.is_none(),
        overlaps,
    })
}

fn bytes(kib: u64) -> f64 {
    kib as f64 * 1024.0
}

fn window_us(row: &WindowResult) -> f64 {
    bytes(row.window_kib) / row.mb_per_s
}

/// Returns whether several reads in flight are faster than one: the drive picks the nearest.
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
            ("inner_mb_per_s", number(self.inner_mb_per_s)),
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
        if self.overlaps {
            keys.push(("buffer_overruns", "true".to_owned()));
        }
        keys
    }

    pub(super) fn assumed(&self) -> Vec<String> {
        let tracks = if self.inner_mb_per_s < self.mb_per_s {
            "the stream was read from the outermost tracks; the rate is assumed to fall linearly \
             to the innermost ones, fitted to reads anywhere"
        } else {
            "all tracks are assumed to have the rate of the measured ones"
        };
        [
            "the seek curve is typical of a disk with this access time; so is rpm, unless each \
             window of the stream lost a turn",
            tracks,
            "seeks cover only the measured range: for a file, its extent on the disk",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// A shorter access involves no seek.
const ACCESS_MIN_US: f64 = 1000.0;

/// Random reads take at least this many times as long as sequential reads of the same size.
const ARM_TIMES: f64 = 1.25;

/// The rate in the middle over that outside. The innermost tracks, as far below the middle as that
/// is below the outside (`2 x middle - 1`), have about half of the outside's rate; less than 0.3 is
/// another cause, and more than 0.96 is noise.
const MIDDLE_MIN: f64 = 0.65;
const MIDDLE_MAX: f64 = 0.98;

/// Assumed command overhead if the lost turn hides it: without overhead no turn would be lost.
const OVERHEAD_US: f64 = 100.0;

/// Shortest and longest turn, at 15,400 and 3600 rpm, in microseconds.
const TURN_MIN_US: f64 = 3900.0;
const TURN_MAX_US: f64 = 16_700.0;

/// Rotational speed by access time: from this many microseconds, this many turns per minute.
const TURNS: [(f64, f64); 4] =
    [(16_500.0, 5400.0), (10_500.0, 7200.0), (7000.0, 10_000.0), (0.0, 15_000.0)];

/// Ratio of the longest to the shortest seek, for disks of the last twenty years.
const SEEK_RATIO: f64 = 13.0;

/// The mean of 0.7 x sqrt(d) + 0.3 x d over random pairs of positions: 0.7 x 8/15 + 0.3 / 3.
const MEAN_WAY: f64 = 0.7 * 8.0 / 15.0 + 0.1;

/// Smallest gain that indicates a queue.
const QUEUE_GAIN: f64 = 1.2;

/// Depth of SATA's queue.
const QUEUE_DEPTH: u32 = 32;

/// Large enough for a continued read to lose no turn.
const READ_BUFFER: u64 = 1 << 20;
