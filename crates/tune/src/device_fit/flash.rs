//! Fits flash memory, or any device with a cost for each command, a rate, and parallel commands.
//!
//! The candidates serve either one command at a time, or several at the best observed rate. The
//! number of parallel commands is computed by Little's law, never guessed.
//!
//! ```text
//!   channel 0   |overhead, stall|== transfer ==|
//!   channel 1   |overhead, stall|. . . . . . . |== transfer ==|      the bus is busy
//!
//!   a read of S alone:  waves x (overhead + stall x s / (s + half)) + S / rate
//!                       s = min(S, max_command), waves = ceil(ceil(S / s) / channels); with
//!                       several channels only of those that are one wave
//! ```

use foreread_core::units::ByteCount;

use super::least_squares::{Equation, solve, squares};
use super::text::number;
use super::{DeviceLimits, MeasuredPoints};
use crate::parallel_reads::PARALLEL_READ;
use crate::plateau::robust::median;
use crate::report::{Latency, ParallelResult, WindowResult};

/// Parameters of a flash device, named as in a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedFlash {
    /// Limits that the device reports.
    pub limits: DeviceLimits,
    /// Rate of the bus, in 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Fixed cost of a command.
    pub overhead_us: f64,
    /// Extra cost of large commands.
    pub stall_us: f64,
    /// Command size that pays half of the stall.
    pub stall_size: ByteCount,
    /// Number of commands served in parallel.
    pub channels: u32,
    /// Relative variation of the cost of a command.
    pub jitter: f64,
    /// True if reads in flight were measured. Otherwise `channels` is a lower bound.
    pub is_parallel_known: bool,
}

/// Assumptions of one fit of times.
#[derive(Clone, Copy, Debug)]
struct FlashTerms {
    max_command: f64,
    channels: u32,
    /// Read size in bytes at which half of a stall is paid; None if there is no stall.
    stall_size: Option<f64>,
}

/// Fitted costs, in microseconds.
#[derive(Clone, Copy, Debug)]
struct FlashCost {
    overhead: f64,
    stall: f64,
    stall_size: f64,
    /// Cost of one byte.
    byte: f64,
}

/// Returns the candidates that could explain the points, those without a stall first.
pub(super) fn candidates(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Vec<FittedFlash> {
    let mut found: Vec<FittedFlash> = Vec::new();
    for with_stall in [false, true] {
        let one = one_at_a_time(points, limits, with_stall).map(|cost| (cost, 1));
        let several = several_at_a_time(points, limits, with_stall);
        for (cost, channels) in one.into_iter().chain(several) {
            let fitted = cost.fitted(points, limits, channels);
            let is_new = !found.contains(&fitted) && (!with_stall || cost.stall > 0.0);
            found.extend(is_new.then_some(fitted));
        }
    }
    found
}

/// Fits a device on which random reads and stream windows alike are commands served one by one.
fn one_at_a_time(
    points: &MeasuredPoints<'_>,
    limits: &DeviceLimits,
    with_stall: bool,
) -> Option<FlashCost> {
    let random = points.random.iter().map(time_of_read);
    let windows = points.sequential.iter().filter(|row| row.mb_per_s > 0.0).map(time_of_window);
    let times: Vec<(f64, f64)> = random.chain(windows).collect();
    fitted_times(&times, limits, 1, with_stall, None)
}

/// Fits a device whose stream runs at the bus rate, or whose random reads imply a faster bus.
fn several_at_a_time(
    points: &MeasuredPoints<'_>,
    limits: &DeviceLimits,
    with_stall: bool,
) -> Vec<(FlashCost, u32)> {
    let all: Vec<(f64, f64)> = points.random.iter().map(time_of_read).collect();
    let seen = best_rate(points);
    let mut found = Vec::new();
    for rate in [Some(seen), None].into_iter().filter(|rate| *rate != Some(0.0)) {
        let mut channels = 1;
        let mut last = None;
        // The set of reads served in parallel depends on the number of channels.
        for _ in 0..TURNS {
            let times = served_together(&all, limits, channels);
            let Some(cost) = fitted_times(&times, limits, channels, with_stall, rate) else {
                break;
            };
            channels = served_at_once(points, limits, &cost);
            last = Some((cost, channels));
        }
        found.extend(last.filter(|(cost, _)| cost.byte * seen <= 1.0 + 1e-9));
    }
    found
}

/// Returns the reads whose commands are all served in parallel. Once commands queue, transfers of
/// others hide part of their cost, and the relation is no longer linear.
fn served_together(times: &[(f64, f64)], limits: &DeviceLimits, channels: u32) -> Vec<(f64, f64)> {
    let most = limits.max_command.0 as f64 * f64::from(channels);
    times.iter().filter(|(size, _)| channels == 1 || *size <= most).copied().collect()
}

/// Fits costs to read times by size, with a known rate or without.
fn fitted_times(
    times: &[(f64, f64)],
    limits: &DeviceLimits,
    channels: u32,
    with_stall: bool,
    rate: Option<f64>,
) -> Option<FlashCost> {
    let max_command = limits.max_command.0 as f64;
    let of = |stall_size: Option<f64>| {
        let terms = FlashTerms { max_command, channels, stall_size };
        let cost = terms.solve(times, rate)?;
        Some((terms.squares(times, &cost), cost))
    };
    if !with_stall {
        return of(None).map(|(_, cost)| cost);
    }
    let sizes = (1..=STALL_SIZES).map(|step| Some(f64::from(step) * STALL_STEP));
    let best = sizes.filter_map(of).min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (times.len() > STALL_POINTS).then_some(best.1)
}

impl FlashTerms {
    /// Returns the coefficients of overhead, stall and byte in a read of this size.
    fn parts(&self, size: f64) -> [f64; 3] {
        let command = size.min(self.max_command);
        let commands = (size / command).ceil();
        let waves = (commands / f64::from(self.channels)).ceil();
        let stall = self.stall_size.map_or(0.0, |half| waves * command / (command + half));
        [waves, stall, size]
    }

    fn equations(&self, times: &[(f64, f64)]) -> Vec<Equation<3>> {
        let of =
            |(size, us): &(f64, f64)| Equation { parts: self.parts(*size), sum: *us, scale: *us };
        times.iter().map(of).collect()
    }

    fn solve(&self, times: &[(f64, f64)], rate: Option<f64>) -> Option<FlashCost> {
        if times.is_empty() {
            return None;
        }
        let stall_size = self.stall_size.unwrap_or(0.0);
        let with = |of: &Equation<3>| (of.parts[0], of.parts[1], of.parts[2], of.sum, of.scale);
        let all = self.equations(times);
        let cost = match (self.stall_size, rate) {
            (None, None) => {
                let equation = |of: &Equation<3>| {
                    let (waves, _, size, sum, scale) = with(of);
                    Equation { parts: [waves, size], sum, scale }
                };
                let [overhead, byte] = solve(&all.iter().map(equation).collect::<Vec<_>>())?;
                FlashCost { overhead, stall: 0.0, stall_size, byte }
            }
            (None, Some(rate)) => {
                let equation = |of: &Equation<3>| {
                    let (waves, _, size, sum, scale) = with(of);
                    Equation { parts: [waves], sum: sum - size / rate, scale }
                };
                let found = solve(&all.iter().map(equation).collect::<Vec<_>>());
                let overhead = found.map_or(0.0, |[overhead]| overhead);
                FlashCost { overhead, stall: 0.0, stall_size, byte: 1.0 / rate }
            }
            (Some(_), None) => {
                let [overhead, stall, byte] = solve(&all)?;
                FlashCost { overhead, stall, stall_size, byte }
            }
            (Some(_), Some(rate)) => {
                let equation = |of: &Equation<3>| {
                    let (waves, stall, size, sum, scale) = with(of);
                    Equation { parts: [waves, stall], sum: sum - size / rate, scale }
                };
                let [overhead, stall] = solve(&all.iter().map(equation).collect::<Vec<_>>())?;
                FlashCost { overhead, stall, stall_size, byte: 1.0 / rate }
            }
        };
        // A zero cost per byte is no valid rate.
        (cost.byte > 0.0).then_some(cost)
    }

    fn squares(&self, times: &[(f64, f64)], cost: &FlashCost) -> f64 {
        squares(&self.equations(times), &[cost.overhead, cost.stall, cost.byte])
    }
}

impl FlashCost {
    /// Returns the time of one command, in microseconds.
    fn command_us(&self, size: f64) -> f64 {
        let stall =
            if self.stall > 0.0 { self.stall * size / (size + self.stall_size) } else { 0.0 };
        self.overhead + stall + size * self.byte
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 1 MiB")]
    fn fitted(
        &self,
        points: &MeasuredPoints<'_>,
        limits: &DeviceLimits,
        channels: u32,
    ) -> FittedFlash {
        let half = self.stall_size as u64;
        FittedFlash {
            limits: DeviceLimits { depth: limits.depth.max(channels), ..*limits },
            mb_per_s: 1.0 / self.byte,
            overhead_us: self.overhead,
            stall_us: self.stall,
            stall_size: ByteCount(if self.stall > 0.0 { half } else { 0 }),
            channels,
            jitter: jitter(points.random, self.overhead),
            is_parallel_known: !points.parallel.is_empty(),
        }
    }
}

/// Returns the number of commands served in parallel, by Little's law: commands per second times
/// the time of one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 1024")]
fn served_at_once(points: &MeasuredPoints<'_>, limits: &DeviceLimits, cost: &FlashCost) -> u32 {
    let max_command = limits.max_command.0 as f64;
    let of_window = |row: &WindowResult| {
        let size = (row.window_kib as f64 * 1024.0).min(max_command);
        row.mb_per_s / size * cost.command_us(size)
    };
    let of_parallel =
        |row: &ParallelResult| row.reads_per_s / 1e6 * cost.command_us(PARALLEL_READ.0 as f64);
    let windows = points.sequential.iter().map(of_window);
    let most = windows.chain(points.parallel.iter().map(of_parallel)).fold(1.0, f64::max);
    most.round().min(CHANNELS_MAX) as u32
}

/// Returns the best observed rate, in bytes a microsecond: 10^6 bytes a second.
fn best_rate(points: &MeasuredPoints<'_>) -> f64 {
    let parallel = points.parallel.iter().map(|row| row.reads_per_s * PARALLEL_READ.0 as f64 / 1e6);
    points.sequential.iter().map(|row| row.mb_per_s).chain(parallel).fold(0.0, f64::max)
}

/// Estimates the jitter. If the cost is uniform within `jitter` of its mean, p90 is 1 + 0.8 x
/// `jitter`.
fn jitter(random: &[Latency], overhead_us: f64) -> f64 {
    let share = |row: &Latency| (row.p90_us - row.median_us) / (0.8 * overhead_us);
    let mut shares: Vec<f64> = random.iter().map(share).filter(|it| it.is_finite()).collect();
    let share = median(&mut shares);
    if share < JITTER_MIN { 0.0 } else { share.min(1.0) }
}

fn time_of_read(row: &Latency) -> (f64, f64) {
    (row.size_kib as f64 * 1024.0, row.median_us)
}

fn time_of_window(row: &WindowResult) -> (f64, f64) {
    let size = row.window_kib as f64 * 1024.0;
    (size, size / row.mb_per_s)
}

impl FittedFlash {
    pub(super) fn keys(&self) -> Vec<(&'static str, String)> {
        let mut keys = vec![
            ("capacity", self.limits.capacity.0.to_string()),
            ("mb_per_s", number(self.mb_per_s)),
            ("overhead_us", number(self.overhead_us)),
            ("max_command", self.limits.max_command.0.to_string()),
            ("channels", self.channels.to_string()),
            ("depth", self.limits.depth.to_string()),
        ];
        if self.stall_us > 0.0 {
            keys.push(("stall_us", number(self.stall_us)));
            keys.push(("stall_size", self.stall_size.0.to_string()));
        }
        if self.jitter > 0.0 {
            keys.push(("jitter", number(self.jitter)));
        }
        keys
    }

    pub(super) fn assumed(&self) -> Vec<String> {
        let mut assumed =
            vec!["max_command and depth are the values that the device reports".to_owned()];
        if !self.is_parallel_known {
            assumed.push(
                "channels is the smallest number that explains the stream: concurrent reads were \
                 not measured"
                    .to_owned(),
            );
        }
        assumed
    }
}

/// Channels and costs depend on each other; they converge at once or in a few iterations.
const TURNS: u32 = 4;

/// Candidate sizes at which half of a stall is paid: each 4 KiB up to 1 MiB.
const STALL_STEP: f64 = 4096.0;
const STALL_SIZES: u32 = 256;

/// Fewest points for a fit: four parameters fit any four points.
const STALL_POINTS: usize = 5;

const CHANNELS_MAX: f64 = 1024.0;

/// Smaller values are clock noise.
const JITTER_MIN: f64 = 0.02;
