//! What a measurement found, as `--json` prints it and as it is remembered.
//!
//! In:    a sweep and its advice.
//! Out:   [`Report`].
//! Never: a figure that was not measured; unknown is null.

mod refusal;

use serde::{Deserialize, Serialize};

pub use refusal::Refusal;

use crate::setting::DeviceSetting;

/// A device measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Its name (`sda`), of a mount where it is mounted, or the name of a model.
    pub device: String,
    /// How long it took.
    pub seconds: f64,
    /// How windows were tried.
    pub method: Method,
    /// Throughput by window, the smallest first.
    pub sweep: Vec<WindowResult>,
    /// Latency of one read by its size, the smallest first.
    pub random: Vec<Latency>,
    /// Reads of 4 KiB a second by how many are in flight; empty if that was not measured.
    #[serde(default)]
    pub parallel: Vec<ParallelResult>,
    /// The smallest window that reaches 98 % of the throughput of the best.
    pub plateau_kib: Option<u64>,
    /// The best window: the largest that no other one surely beats.
    #[serde(default)]
    pub best_kib: Option<u64>,
    /// Between which windows it is, with 95 % confidence.
    pub plateau_between_kib: Option<[u64; 2]>,
    /// What to set.
    pub recommended: Option<Recommended>,
    /// What stands against setting it.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// What others would set.
    pub compared: Compared,
    /// What a reader of the figures has to know: bursts, caches, what was skipped and why.
    pub notes: Vec<String>,
    /// Whether every setting is as it was.
    pub restored: bool,
}

impl Report {
    /// What a window delivered, if it was measured. Off, and less than a page, are one page.
    #[must_use]
    pub fn row(&self, window_kib: u64) -> Option<&WindowResult> {
        let window_kib = window_kib.max(PAGE_KIB);
        self.sweep.iter().find(|row| row.window_kib == window_kib)
    }
}

/// The smallest window: the kernel reads no less.
pub(crate) const PAGE_KIB: u64 = 4;

/// How windows were tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// `read_ahead_kb` was set and the kernel read ahead.
    Kernel,
    /// Without leave to set it: O_DIRECT, with the requests that the kernel would make.
    Direct,
    /// A model of a device, in virtual time.
    Simulated,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowResult {
    /// The window.
    pub window_kib: u64,
    /// Throughput.
    pub mb_per_s: f64,
    /// It is between here
    pub low: f64,
    /// and here, with 95 % confidence.
    pub high: f64,
    /// How often it was measured.
    pub samples: u32,
}

/// Reads of one size, anywhere, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The size.
    pub size_kib: u64,
    /// Half of them took less.
    pub median_us: f64,
    /// Nine of ten took less.
    pub p90_us: f64,
    /// How many.
    pub reads: u32,
}

/// Reads of 4 KiB, anywhere, several at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParallelResult {
    /// How many are in flight.
    pub at_once: u32,
    /// Reads a second.
    pub reads_per_s: f64,
    /// How often it was measured.
    pub samples: u32,
}

/// What to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommended {
    /// The window.
    pub read_ahead_kb: u64,
    /// Between which windows the right one for this load is, with 95 % confidence.
    #[serde(default)]
    pub between_kib: Option<[u64; 2]>,
    /// ext4's, if one is mounted there: blocks, a power of two.
    pub inode_readahead_blks: Option<u64>,
    /// The scheduler's, if the mixed load was run: `fifo_batch`, `async_depth`, `nr_requests`.
    pub scheduler: Vec<DeviceSetting>,
    /// For which load.
    pub profile: Profile,
    /// Why.
    pub why: String,
}

/// What others would set, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// What is set now.
    pub now_kib: Option<u64>,
    /// The kernel's default for this device.
    pub kernel_kib: Option<u64>,
    /// The rule by the device's size.
    pub size_rule_kib: Option<u64>,
}

/// What a device is used for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Large files, read in order: nothing else counts.
    Streaming,
    /// Some of both.
    #[default]
    Mixed,
    /// Mapped files and short scans: a fault on one page reads a whole window and waits for it.
    Database,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Streaming, Self::Mixed, Self::Database];

    /// As the command line calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Mixed => "mixed",
            Self::Database => "database",
        }
    }
}
