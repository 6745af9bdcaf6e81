//! Fits a device model to the results of a sweep.
//!
//! In:    throughput by window, latency by size, reads in flight; or the findings of a store sweep.
//! Out:   candidates of several kinds, in closed form, each with the keys of a scenario's device.
//! Never: the choice among them. The command line replays the sweep on each in virtual time.
//!
//! ```text
//!   random reads   t(S) = commands x overhead + S / rate         a line: least squares
//!   one stream     the best rate                                 the bus, or one command at a time
//!   in flight      reads/s x t(4K) = how many are served at once   Little's law
//! ```
//!
//! The written file states the quality of the fit (docs/guide/tune.md).

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

/// Measurements of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPoints<'p> {
    /// Throughput of one stream by window, in ascending order.
    pub sequential: &'p [WindowResult],
    /// Latency of one read by its size, in ascending order.
    pub random: &'p [Latency],
    /// 4 KiB reads per second by number in flight; empty if not measured.
    pub parallel: &'p [ParallelResult],
}

/// Limits that a device reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceLimits {
    /// Capacity of the measured device, or size of the measured file.
    pub capacity: ByteCount,
    /// The largest command.
    pub max_command: ByteCount,
    /// Number of commands that the device queues.
    pub depth: u32,
}

/// A fitted device.
#[derive(Clone, Debug, PartialEq)]
pub enum FittedDevice {
    /// Flash memory: a fixed cost for each command, and a rate.
    Flash(FittedFlash),
    /// A disk with a seek arm.
    Hdd(FittedHdd),
    /// An object store.
    Store(FittedStore),
}

/// A measured figure and the model's prediction of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelPoint {
    /// Name of the measured quantity: `one stream, windows of 128K`.
    pub what: String,
    /// `MB/s`, `us`, ...
    pub unit: &'static str,
    /// Measured value.
    pub measured: f64,
    /// Value predicted by the model.
    pub model: f64,
}

/// Deviation of a model from the measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelError {
    /// Mean absolute relative error.
    pub mean: f64,
    /// Greatest absolute relative error.
    pub greatest: f64,
    /// Point with the greatest error.
    pub at: String,
}

impl DeviceLimits {
    /// Creates the limits of a device. Values that sysfs lacks default to those of most devices.
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
    /// Returns the relative error of the model; negative if it predicts too little.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.model / self.measured - 1.0
    }
}

impl ModelError {
    /// Returns the error over all points; None without points, or if the model gave nothing for one
    /// of them.
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
    /// Returns the kind's name in a scenario.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Flash(_) => "flash",
            Self::Hdd(_) => "hdd",
            Self::Store(_) => "store",
        }
    }

    /// Returns each key of a scenario's device, with its value as TOML.
    #[must_use]
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Flash(chips) => chips.keys(),
            Self::Hdd(disk) => disk.keys(),
            Self::Store(store) => store.keys(),
        }
    }

    /// Returns notes on the values that were assumed, not measured.
    #[must_use]
    pub fn assumed(&self) -> Vec<String> {
        match self {
            Self::Flash(chips) => chips.assumed(),
            Self::Hdd(disk) => disk.assumed(),
            Self::Store(store) => store.assumed(),
        }
    }

    /// Returns the factor by which a model has to beat one with fewer parameters.
    #[must_use]
    pub fn handicap(&self) -> f64 {
        match self {
            Self::Flash(chips) if chips.stall_us > 0.0 => STALL_HANDICAP,
            Self::Flash(_) | Self::Hdd(_) | Self::Store(_) => 1.0,
        }
    }
}

/// Returns the models that could explain the points; empty if there are too few points.
#[must_use]
pub fn candidates(points: &MeasuredPoints<'_>, limits: &DeviceLimits) -> Vec<FittedDevice> {
    let chips = flash::candidates(points, limits).into_iter().map(FittedDevice::Flash);
    let disks = hdd::candidates(points, limits).into_iter().map(FittedDevice::Hdd);
    chips.chain(disks).collect()
}

/// With the default of current kernels, 1280 KiB, most requests are of whole windows up to 1 MiB.
const MAX_COMMAND: ByteCount = ByteCount(1 << 20);

const DEPTH: u64 = 64;

/// Two more parameters explain some noise as well.
const STALL_HANDICAP: f64 = 1.25;
