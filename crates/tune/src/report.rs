//! The result of a measurement, as `--json` prints it and as it is remembered.
//!
//! In:    a sweep and its advice.
//! Out:   [`Report`].
//! Never: a figure that was not measured; unknown is null.

mod refusal;

use serde::{Deserialize, Serialize};

pub use refusal::Refusal;

use crate::setting::DeviceSetting;

/// Report on a measured device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name (`sda`); for a mount, its mount point; for a model, the model's name.
    pub device: String,
    /// Duration of the measurement.
    pub seconds: f64,
    /// Method by which windows were measured.
    pub method: Method,
    /// Throughput by window, in ascending order.
    pub sweep: Vec<WindowResult>,
    /// Latency of one read by its size, in ascending order.
    pub random: Vec<Latency>,
    /// 4 KiB reads per second by number in flight; empty if not measured.
    #[serde(default)]
    pub parallel: Vec<ParallelResult>,
    /// The smallest window that reaches 98 % of the throughput of the best.
    pub plateau_kib: Option<u64>,
    /// Best window: the largest that no other one surely beats.
    #[serde(default)]
    pub best_kib: Option<u64>,
    /// 95 % confidence interval of the plateau.
    pub plateau_between_kib: Option<[u64; 2]>,
    /// Recommended settings.
    pub recommended: Option<Recommended>,
    /// Reasons not to apply them.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// Windows that other rules would choose.
    pub compared: Compared,
    /// Notes for the interpretation of the figures: bursts, caches, skipped steps.
    pub notes: Vec<String>,
    /// True if every setting was restored.
    pub restored: bool,
}

impl Report {
    /// Returns the result of a window, if it was measured. 0 and less than a page count as one
    /// page.
    #[must_use]
    pub fn row(&self, window_kib: u64) -> Option<&WindowResult> {
        let window_kib = window_kib.max(PAGE_KIB);
        self.sweep.iter().find(|row| row.window_kib == window_kib)
    }
}

/// Smallest window: the kernel reads at least one page.
pub(crate) const PAGE_KIB: u64 = 4;

/// Method by which windows were measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// `read_ahead_kb` was set, and the kernel read ahead.
    Kernel,
    /// Without permission to set it: O_DIRECT, with the requests that the kernel would make.
    Direct,
    /// A model of a device, in virtual time.
    Simulated,
}

/// Result of one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowResult {
    /// Window size.
    pub window_kib: u64,
    /// Throughput.
    pub mb_per_s: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end of the 95 % confidence interval.
    pub high: f64,
    /// Number of readings.
    pub samples: u32,
}

/// Latency of random reads of one size, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Size of each read.
    pub size_kib: u64,
    /// Median latency.
    pub median_us: f64,
    /// p90 latency.
    pub p90_us: f64,
    /// Number of reads.
    pub reads: u32,
}

/// Random 4 KiB reads, several at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParallelResult {
    /// Number in flight.
    pub at_once: u32,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Number of readings.
    pub samples: u32,
}

/// Recommended settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommended {
    /// Window in KiB.
    pub read_ahead_kb: u64,
    /// 95 % confidence interval of the best window for this load.
    #[serde(default)]
    pub between_kib: Option<[u64; 2]>,
    /// For a mounted ext4: inode-table blocks, a power of two.
    pub inode_readahead_blks: Option<u64>,
    /// Scheduler settings, if the mixed load was run: `fifo_batch`, `async_depth`, `nr_requests`.
    pub scheduler: Vec<DeviceSetting>,
    /// Load profile that they are meant for.
    pub profile: Profile,
    /// Reason.
    pub why: String,
}

/// Windows that other rules would choose, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Window in force.
    pub now_kib: Option<u64>,
    /// The kernel's default for this device.
    pub kernel_kib: Option<u64>,
    /// Limit by the device's size.
    pub size_rule_kib: Option<u64>,
}

/// Load profile of a device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Large files, read sequentially; other loads do not matter.
    Streaming,
    /// A mix of both.
    #[default]
    Mixed,
    /// Mapped files and short scans: a fault on one page reads a whole window and waits for it.
    Database,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Streaming, Self::Mixed, Self::Database];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Mixed => "mixed",
            Self::Database => "database",
        }
    }
}
