//! The figures of one policy in one scenario.

use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use serde::Serialize;

use crate::cache_policy::CachePolicyKind;

/// What a policy came to in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct RivalRow {
    /// Which scenario.
    pub scenario: &'static str,
    /// Which policy.
    pub policy: &'static str,
    /// The eviction policy below it.
    pub eviction: &'static str,
    /// The largest window that it may have, in bytes; None: learnt.
    pub max_window: Option<u64>,
    /// Which parts of it are left out.
    pub without: Vec<&'static str>,
    /// How long what was counted took, in seconds.
    pub elapsed_s: f64,
    /// How many requests the devices were sent.
    pub requests: u64,
    /// How long the devices were at work, in seconds.
    pub device_s: f64,
    /// Bytes that the devices were asked for, a byte that was read.
    pub amplification: f64,
    /// Pages that were read ahead and evicted unused, from the start of the run on.
    pub evicted_unread: u64,
    /// How long all readers waited for reads, in seconds.
    pub waited_s: f64,
    /// The fewest requests that windows could come to; None where no formula says so.
    pub optimum_requests: Option<f64>,
    /// Requests that no read-ahead can do without, whatever it knows; None if it was not computed,
    /// or where the device takes requests as large as the memory.
    pub fewest_requests: Option<u64>,
    /// Bytes that no cache of this memory can do without; None where it was not computed.
    pub fewest_bytes: Option<u64>,
    /// Bytes that the devices were asked for.
    pub device_bytes: u64,
    /// Bytes that were read a second, in MB.
    pub mb_per_s: f64,
    /// Clients with a rate.
    pub streams: usize,
    /// How many of them got it.
    pub at_rate: usize,
}

impl RivalRow {
    /// The policy, what is left out of it, the largest window that it was told, and the eviction
    /// policy if it is not the library's own.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.policy_label();
        if self.eviction != CachePolicyKind::TwoLists.name() {
            label += &format!(", {}", self.eviction);
        }
        label
    }

    /// The same without the eviction policy.
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
