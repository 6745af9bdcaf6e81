//! mountpoint-s3's prefetcher: the first request is 1.125 MiB, and each following one is eight
//! times as large, up to the largest window.
//!
//! ```text
//!   |1.125M|======== 9M ========|=== .. 72M .. 2G        the next is requested at the middle
//! ```
//!
//! A seek of up to 16 MiB forwards keeps the stream; any other ends it.
//!
//! Source: mountpoint-s3's doc/SEMANTICS.md and the documented defaults of its prefetcher's
//! configuration: `initial_request_size`, `sequential_prefetch_multiplier` 8,
//! `max_forward_seek_wait_distance` 16 MiB. Differences: no part is larger than the largest window.

use foreread_core::prefetch::{Ask, CustomPolicy, Decision, Residency, StreamState, WindowLimits};

use super::{first, subsequent};

#[derive(Debug)]
pub(super) struct MountpointS3;

const SIZE: usize = 0;

/// First window, in pages.
const FIRST: u64 = 288;
const SEEK: u64 = 4096;

const MULTIPLIER: u64 = 8;

impl CustomPolicy for MountpointS3 {
    fn name(&self) -> &'static str {
        "mountpoint-s3"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, page) = (state.window, ask.page.0);
        let is_near = last.size.0 > 0 && last.start.0 <= page && page <= last.end().0 + SEEK;
        let size = match state.memory[SIZE] {
            size if is_near && size > 0 => size.saturating_mul(MULTIPLIER),
            _ => FIRST,
        };
        let size = size.max(ask.count.0).min(limits.max.0);
        state.memory[SIZE] = size;
        if is_near {
            return subsequent(ask, last, size, size / 2, limits.max);
        }
        first(ask, size, size / 2, limits.max)
    }
}
