//! A replay of a trace.

use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_trace::TraceSummary;
use serde::Serialize;

use super::{ratio, wait_ms};
use crate::cache_policy::CachePolicyKind;
use crate::replay::{Replay, ReplayBounds, ReplayFigures, ReplayGroup};
use crate::time::seconds;

/// A trace, a device, and the settings of a replay apart from its seed.
#[derive(Clone, Debug, Serialize)]
pub struct ReplaySetup {
    /// Path of the trace.
    pub trace: String,
    /// Level at which the trace was taken: `block` or `file`.
    pub level: &'static str,
    /// Name of the device model.
    pub device: String,
    /// Name of the read-ahead policy.
    pub policy: String,
    /// Name of the eviction policy.
    pub eviction: &'static str,
    /// Name of both policies, as shown in tables and charts.
    #[serde(skip)]
    pub label: String,
    /// Largest window, in bytes; None if it was learnt.
    pub max_window: Option<u64>,
    /// Memory bound, in bytes.
    pub memory: u64,
    /// Start of reads: `open` or `closed`.
    #[serde(rename = "loop")]
    pub pace: &'static str,
    /// Factor applied to the times of the trace.
    pub scale: f64,
    /// True if the cache was warmed by playing the trace once.
    pub warm: bool,
}

/// Figures of one replay.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayRow {
    /// Trace, device and settings.
    #[serde(flatten)]
    pub setup: ReplaySetup,
    /// Seed of the device's random variation.
    pub seed: u64,
    /// Number of reads.
    pub reads: u64,
    /// Bytes returned.
    pub bytes: u64,
    /// Number of reads that waited.
    pub waits: u64,
    /// Total wait, in seconds.
    pub waited_s: f64,
    /// Lower bound of the total wait; None if it was not computed.
    pub least_waited_s: Option<f64>,
    /// Distribution of the waits.
    pub wait_ms: WaitRow,
    /// Number of device requests.
    pub requests: u64,
    /// Lower bound of the requests; None if it was not computed, or if the device accepts requests
    /// as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Bytes requested from the device.
    pub device_bytes: u64,
    /// Lower bound of those bytes.
    pub fewest_bytes: Option<u64>,
    /// Time during which the device was busy, in seconds.
    pub device_s: f64,
    /// Bytes read from the device per byte returned.
    pub amplification: f64,
    /// Pages that were read ahead and evicted unused.
    pub evicted_unread: u64,
    /// Time from the first measured read to the last, in seconds.
    pub elapsed_s: f64,
    /// Open-loop reads that began late.
    pub late: u64,
    /// Failed reads.
    pub failed: u64,
    /// Writes of the trace, which were skipped.
    pub writes: u64,
    /// Figures of each file or thread.
    pub groups: Vec<GroupRow>,
}

/// Distribution of the waits, in ms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WaitRow {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

/// The figures of one file or thread.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRow {
    name: String,
    reads: u64,
    bytes: u64,
    waits: u64,
    waited_s: f64,
}

impl ReplayRow {
    /// Creates the row of a replay.
    #[must_use]
    pub fn new(
        trace: String,
        device: &str,
        summary: &TraceSummary,
        how: &Replay,
        figures: &ReplayFigures,
        bounds: Option<ReplayBounds>,
    ) -> Self {
        let ms = |quantile: f64| wait_ms(&figures.wait_latency, quantile);
        Self {
            setup: ReplaySetup {
                trace,
                level: summary.level().name(),
                device: device.to_owned(),
                policy: how.cache.policy.0.name().to_owned(),
                eviction: how.cache.eviction.0.name(),
                label: replay_label(how),
                max_window: how.cache.max_window_on([&how.device]).bytes().map(|window| window.0),
                memory: how.cache.memory.0.0,
                pace: how.pace.name(),
                scale: how.pace.scale(),
                warm: how.is_warmed,
            },
            seed: how.seed,
            reads: figures.reads,
            bytes: figures.bytes,
            waits: figures.waits,
            waited_s: seconds(figures.waited_ns),
            least_waited_s: bounds.map(|bounds| seconds(bounds.least_waited_ns)),
            wait_ms: WaitRow { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999), max: ms(1.0) },
            requests: figures.requests,
            fewest_requests: bounds.and_then(|bounds| bounds.fewest_requests),
            device_bytes: figures.device_bytes,
            fewest_bytes: bounds.map(|bounds| bounds.fewest_bytes),
            device_s: figures.device_s,
            amplification: ratio(figures.device_bytes, figures.bytes),
            evicted_unread: figures.evicted_unread,
            elapsed_s: seconds(figures.elapsed_ns),
            late: figures.late,
            failed: figures.failed,
            writes: figures.writes,
            groups: groups(summary, how.group, figures),
        }
    }
}

fn groups(summary: &TraceSummary, of: ReplayGroup, figures: &ReplayFigures) -> Vec<GroupRow> {
    let name = |number: u32| match of {
        ReplayGroup::File => summary.files.get(number as usize).map(|file| file.name.clone()),
        ReplayGroup::Whole | ReplayGroup::Thread => None,
    };
    let groups = figures.groups.iter().map(|(number, group)| GroupRow {
        name: name(*number).unwrap_or_else(|| number.to_string()),
        reads: group.reads,
        bytes: group.bytes,
        waits: group.waits,
        waited_s: seconds(group.waited_ns),
    });
    groups.collect()
}

/// Returns the policy, its largest window if it was given one, and the eviction policy if it is not
/// the library's own.
#[must_use]
pub fn replay_label(how: &Replay) -> String {
    let (policy, eviction) = (how.cache.policy.0, how.cache.eviction.0);
    let window = how.cache.max_window_on([&how.device]).bytes().filter(|_| policy != Policy::None);
    let mut label = match window {
        Some(window) => format!("{} {}", policy.name(), Exact(window)),
        None => policy.name().to_owned(),
    };
    if eviction != CachePolicyKind::TwoLists {
        label += &format!(", {}", eviction.name());
    }
    label
}
