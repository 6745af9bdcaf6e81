//! Competitive prefetching: windows whose transfer takes as long as a switch to another stream, so
//! that neither the switches nor useless prefetches cost more than twice the minimum.
//!
//! ```text
//!   |-- seek, rotation --|== transfer: as long ==|-- seek, rotation --|== transfer: as long ==|
//! ```
//!
//! A stream begins with twice its read, and its windows double up to that size.
//!
//! Source: Li, Shen and Papathanasiou, "Competitive Prefetching for Concurrent Sequential I/O",
//! EuroSys 2007: the depth, and its bound of half the throughput of the best offline policy. The
//! depth is a parameter: by default, the largest window of this policy is
//! [`DeviceParams::switch_bytes`](crate::device::DeviceParams::switch_bytes) of the device model.
//! Differences: the paper measures seek and transfer times of a disk before it is used; windows
//! begin at twice the read, where its kernel had different initial sizes.

use foreread_core::prefetch::{Ask, CustomPolicy, Decision, Residency, StreamState, WindowLimits};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct Competitive;

/// Name of the policy, whose largest window follows from the device.
pub(super) const NAME: &str = "competitive";

impl CustomPolicy for Competitive {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, read, depth) = (state.window, ask.count.0, limits.max.0);
        if is_of(last, ask.page) {
            let size = (last.size.0 * 2).clamp(read.min(depth), depth);
            return subsequent(ask, last, size, size, limits.max);
        }
        if !continues(ask) {
            return only_the_read(ask);
        }
        first(ask, (read * 2).min(depth.max(read)), read, limits.max)
    }
}
