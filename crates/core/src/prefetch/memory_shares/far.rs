//! Devices that serve the requests of a window at once: their streams share what is in flight.
//!
//! In:    what each stream would want of a device if it were alone there; how much in flight
//!        is of use.
//! Out:   its part.
//! Never: a memory bound. That is shared out beside it ([`super::groups`]).
//!
//! ```text
//!   in flight     |============ one reader ============|     a device far away is busy with it
//!                 |=== a ===|=== b ===|=== c ===|= d ==|     as busy with the same in all
//!                 |a|b|c|d|                                  readers that are slower than it
//! ```
//!
//! On a device with one head each request that is saved is time. Here others are served meanwhile,
//! and what is ahead of a reader that stops was read for nothing. Design: docs/adaptive.md.

use alloc::vec::Vec;

use crate::geometry::DEFAULT_WINDOW;
use crate::units::PAGE_SIZE;

/// Sums over streams by the number of their device.
#[derive(Debug)]
pub(super) struct FarDevices {
    wanted: Vec<u64>,
}

/// What one stream adds to the sum of its device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct FarDemand {
    device: u32,
    /// 0: its device serves windows as one request.
    wanted: u32,
}

impl FarDevices {
    pub(super) const fn new() -> Self {
        Self { wanted: Vec::new() }
    }

    /// A stream adds something else now.
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

    /// Returns what all streams of a device want.
    pub(super) fn wanted(&self, device: u32) -> u64 {
        self.wanted.get(device as usize).copied().unwrap_or(0)
    }

    /// Returns the window of a stream that wants so many pages, where so many in flight are of use.
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

    /// Its part, where all streams of its device want so many pages and so many in flight are of
    /// use.
    pub(super) fn part_of(self, all: u64, read: u32, in_flight: u64) -> u64 {
        let wanted = u64::from(self.wanted);
        let least = u64::from(read.max(LEAST)).min(wanted);
        (wanted * in_flight / all.max(1)).clamp(least, wanted)
    }

    /// So many pages of a device.
    pub(super) fn device(&self) -> (u32, u64) {
        (self.device, u64::from(self.wanted))
    }
}

/// The least window: smaller ones are more requests, and stores charge for each.
#[expect(clippy::cast_possible_truncation, reason = "128 KiB in pages")]
pub(super) const LEAST: u32 = (DEFAULT_WINDOW.0 / PAGE_SIZE) as u32;
