//! A device model from what a sweep has measured: the parameters that explain its figures.
//!
//! In:    throughput by window, latency by size, reads in flight; or what was found of a store.
//! Out:   candidates of several kinds, in closed form, each with the keys of a scenario's device.
//! Never: the choice among them: the command line asks each, in virtual time, what was asked of the
//!        device.
//!
//! ```text
//!   random reads   t(S) = commands x overhead + S / rate         a line: least squares
//!   one stream     the best rate                                 the bus, or one command at a time
//!   in flight      reads/s x t(4K) = how many are served at once   Little's law
//! ```
//!
//! How well a model explains the points stands in the file that is written (docs/tune.md).

mod flash;
mod hdd;
mod least_squares;
mod store;
mod text;

pub use flash::FittedFlash;
pub use hdd::FittedHdd;
pub use store::{FittedStore, StorePrices};
pub use text::{DEVICE_MODEL_HEAD, device_table};

use foreread_core::units::{ByteCount, PAGE_SIZE};

use crate::report::{Latency, ParallelResult, WindowResult};

/// What was measured of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPoints<'p> {
    /// Throughput of one stream by window, the smallest first.
    pub sequential: &'p [WindowResult],
    /// Latency of one read by its size, the smallest first.
    pub random: &'p [Latency],
    /// Reads of 4 KiB a second by how many are in flight; empty if that was not measured.
    pub parallel: &'p [ParallelResult],
}

/// What a device says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceLimits {
    /// What was measured: a device, or a file on one.
    pub capacity: ByteCount,
    /// The largest command.
    pub max_command: ByteCount,
    /// How many commands it holds.
    pub depth: u32,
}

/// A device that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FittedDevice {
    /// A price for each command and a rate.
    Flash(FittedFlash),
    /// An arm.
    Hdd(FittedHdd),
    /// An object store.
    Store(FittedStore),
}

/// A figure that was measured, and what a model gives in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPoint {
    /// What was measured: `one stream, windows of 128K`.
    pub what: String,
    /// `MB/s`, `us`, ...
    pub unit: &'static str,
    /// What was measured.
    pub measured: f64,
    /// What the model gives.
    pub model: f64,
}

/// How far a model is from what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// The mean relative error, without its sign.
    pub mean: f64,
    /// The greatest relative error, without its sign.
    pub greatest: f64,
    /// Where that is.
    pub at: String,
}

impl DeviceLimits {
    /// The limits of a device of which sysfs may not have all; both are then those that most
    /// devices have.
    #[must_use]
    pub fn new(capacity: ByteCount, max_command: Option<ByteCount>, depth: Option<u64>) -> Self {
        let max_command = max_command.unwrap_or(MAX_COMMAND);
        let depth = depth.unwrap_or(DEPTH).clamp(1, 4096);
        Self {
            capacity: ByteCount((capacity.0 / PAGE_SIZE).max(1) * PAGE_SIZE),
            max_command: ByteCount(
                (max_command.0 / PAGE_SIZE * PAGE_SIZE).clamp(PAGE_SIZE, 1 << 30),
            ),
            depth: u32::try_from(depth).unwrap_or(4096),
        }
    }
}

impl ModelPoint {
    /// By which share of what was measured the model gives more; below 0, less.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.model / self.measured - 1.0
    }
}

impl ModelError {
    /// The error over points; None without points, or if the model gave nothing for one of them.
    #[must_use]
    pub fn of(points: &[ModelPoint]) -> Option<Self> {
        let errors = || points.iter().map(|point| point.error().abs());
        let worst = points.iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))?;
        let mean = errors().sum::<f64>() / points.len() as f64;
        let greatest = worst.error().abs();
        greatest.is_finite().then(|| Self { mean, greatest, at: worst.what.clone() })
    }
}

impl FittedDevice {
    /// As a scenario names the kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flash(_) => "flash",
            Self::Hdd(_) => "hdd",
            Self::Store(_) => "store",
        }
    }

    /// Each key of a scenario's device, with its value as TOML.
    #[must_use]
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Flash(chips) => chips.keys(),
            Self::Hdd(disk) => disk.keys(),
            Self::Store(store) => store.keys(),
        }
    }

    /// What was not measured, and stands there all the same.
    #[must_use]
    pub fn assumed(&self) -> Vec<String> {
        match self {
            Self::Flash(chips) => chips.assumed(),
            Self::Hdd(disk) => disk.assumed(),
            Self::Store(store) => store.assumed(),
        }
    }

    /// By how much a model has to be better than one with fewer parameters.
    #[must_use]
    pub fn handicap(&self) -> f64 {
        match self {
            Self::Flash(chips) if chips.stall_us > 0.0 => STALL_HANDICAP,
            Self::Flash(_) | Self::Hdd(_) | Self::Store(_) => 1.0,
        }
    }
}

/// The models that could explain the points; empty of too few.
#[must_use]
pub fn candidates(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Vec<FittedDevice> {
    let chips = flash::candidates(points, limits).into_iter().map(FittedDevice::Flash);
    let disks = hdd::candidates(points, limits).into_iter().map(FittedDevice::Hdd);
    chips.chain(disks).collect()
}

/// With the default of current kernels, 1280 KiB, most requests are of whole windows up to 1 MiB.
const MAX_COMMAND: ByteCount = ByteCount(1 << 20);

const DEPTH: u64 = 64;

/// Two more parameters explain some noise, too.
const STALL_HANDICAP: f64 = 1.25;
