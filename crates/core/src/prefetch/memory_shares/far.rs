//! Divides the queue depth of remote devices, which serve the requests of a window concurrently.
//!
//! ```text
//!   in flight     |============ one reader ============|     keeps a remote device busy
//!                 |=== a ===|=== b ===|=== c ===|= d ==|     as busy with the same total
//!                 |a|b|c|d|                                  readers slower than the device
//! ```
//!
//! On a device with one head, each request saved is time saved. A remote device serves other
//! requests concurrently, and pages ahead of a reader that stops are wasted. Memory is divided
//! separately, in [`super::groups`]. Design: docs/design/adaptive.md.

use alloc::vec::Vec;

use crate::geometry::DEFAULT_WINDOW;
use crate::units::PAGE_SIZE;

/// Sums over streams, indexed by device number.
#[derive(Debug)]
pub(super) struct FarDevices {
    wanted: Vec<u64>,
}

/// Contribution of one stream to the sum of its device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct FarDemand {
    device: u32,
    /// 0 if the device serves a window as one request.
    wanted: u32,
}

impl FarDevices {
    pub(super) const fn new() -> Self {
        Self { wanted: Vec::new() }
    }

    /// Replaces a stream's contribution.
    pub(super) fn change(&mut self, before: FarDemand, after: FarDemand) {
        if before == after {
            return;
        }
        if before.wanted > 0 {
            self.wanted[before.device as usize] -= u64::from(before.wanted);
        }
        if after.wanted > 0 {
            let index = after.device as usize;
            if index >= self.wanted.len() {
                self.wanted.resize(index + 1, 0);
            }
            self.wanted[index] += u64::from(after.wanted);
        }
    }

    /// Returns the total demand of a device's streams.
    pub(super) fn wanted(&self, device: u32) -> u64 {
        self.wanted.get(device as usize).copied().unwrap_or(0)
    }

    /// Returns the window of a stream with this demand, where `in_flight` pages keep the device
    /// busy.
    pub(super) fn part(&self, demand: FarDemand, read: u32, in_flight: u64) -> u64 {
        demand.part_of(self.wanted(demand.device), read, in_flight)
    }
}

impl FarDemand {
    pub(super) const fn new(device: u32, wanted: u32) -> Self {
        Self { device, wanted }
    }

    pub(super) fn wanted(self) -> u32 {
        self.wanted
    }

    /// Returns its part of `in_flight` useful pages, where all streams of the device demand `all`.
    pub(super) fn part_of(self, all: u64, read: u32, in_flight: u64) -> u64 {
        let wanted = u64::from(self.wanted);
        let least = u64::from(read.max(LEAST)).min(wanted);
        (wanted * in_flight / all.max(1)).clamp(least, wanted)
    }

    /// Returns its device and demand.
    pub(super) fn device(&self) -> (u32, u64) {
        (self.device, u64::from(self.wanted))
    }
}

/// Smallest window: smaller ones mean more requests, and stores charge for each.
#[expect(clippy::cast_possible_truncation, reason = "128 KiB in pages")]
pub(super) const LEAST: u32 = (DEFAULT_WINDOW.0 / PAGE_SIZE) as u32;
