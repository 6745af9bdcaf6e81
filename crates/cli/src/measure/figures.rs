//! Figures of the runs of a pattern: medians with their range, and ratios of runs made side by
//! side.

use serde::Serialize;

use super::method::AccessMethod;
use super::pattern::{AccessPattern, PAGE};
use super::run::TimedRun;
use super::testbed::Testbed;
use crate::store::StoreAsked;

/// All runs of one pattern by one access method.
#[derive(Debug, Serialize)]
pub struct BenchRow {
    /// Scene, if a command has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scene: Option<&'static str>,
    /// `default` or `best` setting of the kernel, if both are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<&'static str>,
    pub pattern: AccessPattern,
    pub method: AccessMethod,
    /// Read-ahead policy; foreread only.
    policy: Option<&'static str>,
    threads: u32,
    pub window_kib: Option<u64>,
    runs: usize,
    pub mb_per_s: Spread,
    pub ns_per_read: Spread,
    pub cpu_s_per_gb: Spread,
    /// Device reads of the median run.
    device_reads: Option<u64>,
    pub device_bytes: Option<u64>,
    pub bytes_wanted: u64,
    evicted_before_use: Option<u64>,
    /// Requests to the store in the median run, for an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreAsked>,
    #[serde(skip)]
    taken: Vec<TimedRun>,
}

/// Distribution over the runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub median: f64,
    min: f64,
    max: f64,
}

impl BenchRow {
    pub fn new(
        testbed: &Testbed<'_>,
        pattern: AccessPattern,
        method: AccessMethod,
        taken: Vec<TimedRun>,
    ) -> Self {
        let mut by_speed: Vec<&TimedRun> = taken.iter().collect();
        by_speed.sort_by(|a, b| a.mb_per_s().total_cmp(&b.mb_per_s()));
        let median = *by_speed[by_speed.len() / 2];
        Self {
            scene: None,
            setting: None,
            pattern,
            method,
            policy: (method == AccessMethod::Foreread).then(|| testbed.policy.name()),
            threads: median.threads,
            window_kib: match method {
                AccessMethod::Buffered => testbed.kernel_window.map(|window| window / 1024),
                AccessMethod::Direct | AccessMethod::Memory => None,
                AccessMethod::Foreread => (!testbed.learns_window).then_some(testbed.window / 1024),
            },
            runs: taken.len(),
            mb_per_s: Spread::of(&taken, TimedRun::mb_per_s),
            ns_per_read: Spread::of(&taken, TimedRun::ns_per_read),
            cpu_s_per_gb: Spread::of(&taken, TimedRun::cpu_s_per_gb),
            device_reads: median.asked.reads,
            device_bytes: median.asked.bytes,
            bytes_wanted: median.bytes_wanted(),
            evicted_before_use: median.asked.evicted_before_use,
            store: median.store,
            taken,
        }
    }

    /// Returns the median with its range, in the pattern's [unit].
    pub fn cell(&self) -> String {
        match unit(self.pattern) {
            "MB/s" => self.mb_per_s.shown(),
            "us" => self.ns_per_read.scaled(1e-3).shown(),
            _ => self.ns_per_read.shown(),
        }
    }

    /// Returns the speed relative to `other`: the median ratio over the rounds.
    pub fn times(&self, other: &Self) -> f64 {
        let mut ratios: Vec<f64> = self
            .taken
            .iter()
            .zip(&other.taken)
            .map(|(ours, theirs)| theirs.ns_per_read() / ours.ns_per_read())
            .collect();
        median(&mut ratios)
    }
}

/// Returns the unit of a pattern. Cache hits are limited by processor time, not by a device.
pub fn unit(pattern: AccessPattern) -> &'static str {
    match pattern.hot_set() {
        None => "MB/s",
        Some(_) if pattern.block() > PAGE => "us",
        Some(_) => "ns",
    }
}

/// Returns the median, the mean of the two middle values for an even count.
fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    if figures.len() % 2 == 1 {
        figures[half]
    } else {
        f64::midpoint(figures[half - 1], figures[half])
    }
}

impl Spread {
    pub fn of<R>(runs: &[R], figure: impl Fn(&R) -> f64) -> Self {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        Self { median: median(&mut figures), min: figures[0], max: figures[figures.len() - 1] }
    }

    fn scaled(self, by: f64) -> Self {
        Self { median: self.median * by, min: self.min * by, max: self.max * by }
    }

    pub fn shown(self) -> String {
        let digits = if self.median < 100.0 { 1 } else { 0 };
        let Self { median, min, max } = self;
        format!("{median:.digits$} [{min:.digits$}-{max:.digits$}]")
    }
}
