//! The figures of one policy in one scenario.

use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use serde::Serialize;

use crate::cache_policy::CachePolicyKind;

/// Result of a policy in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct RivalRow {
    /// Scenario.
    pub scenario: &'static str,
    /// Policy.
    pub policy: &'static str,
    /// Eviction policy below it.
    pub eviction: &'static str,
    /// Largest window, in bytes; None: learnt.
    pub max_window: Option<u64>,
    /// Disabled parts of the policy.
    pub without: Vec<&'static str>,
    /// Duration of the measurement, in seconds.
    pub elapsed_s: f64,
    /// Number of requests sent to the devices.
    pub requests: u64,
    /// Busy time of the devices, in seconds.
    pub device_s: f64,
    /// Bytes requested from the devices per byte read.
    pub amplification: f64,
    /// Pages read ahead and evicted unused, from the start of the run.
    pub evicted_unread: u64,
    /// Total time that all readers waited for reads, in seconds.
    pub waited_s: f64,
    /// Fewest requests that windows can reach; None without a formula for it.
    pub optimum_requests: Option<f64>,
    /// Lower bound of requests for any read-ahead, even with perfect knowledge; None if it was not
    /// computed, or if the device accepts requests as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Lower bound of bytes for any cache of this memory; None if it was not computed.
    pub fewest_bytes: Option<u64>,
    /// Bytes requested from the devices.
    pub device_bytes: u64,
    /// Throughput, in MB/s.
    pub mb_per_s: f64,
    /// Number of clients with a rate.
    pub streams: usize,
    /// Number of them that reached it.
    pub at_rate: usize,
}

impl RivalRow {
    /// Returns the policy, its disabled parts, its fixed largest window, and the eviction policy if
    /// it is not the library's own.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.policy_label();
        if self.eviction != CachePolicyKind::TwoLists.name() {
            label += &format!(", {}", self.eviction);
        }
        label
    }

    /// Like [`Self::label`], without the eviction policy.
    #[must_use]
    pub fn policy_label(&self) -> String {
        let mut label = self.policy.to_owned();
        for part in &self.without {
            label += &format!(" -{part}");
        }
        if let Some(window) = self.max_window.filter(|_| self.policy != Policy::None.name()) {
            label += &format!(" {}", sizes::Exact(ByteCount(window)));
        }
        label
    }
}
