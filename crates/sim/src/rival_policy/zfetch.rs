//! ZFS zfetch: the distance doubles with each access of a stream up to 4 MiB, then grows by an
//! eighth at each wait of the reader, up to 64 MiB.
//!
//! ```text
//!   access   1    2     3     4   ..                  when it waits
//!   distance -    x2    x4    x8  .. 4 MiB  ------->  + 1/8 .. 64 MiB
//! ```
//!
//! Source: OpenZFS's zfs(4), `zfetch_min_distance` (4 MiB) and `zfetch_max_distance` (64 MiB), and
//! the comment at the head of dmu_zfetch.c. Differences: one stream for each handle, where ZFS has
//! eight for each file; no window is larger than the largest.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Residency, StreamState, Trigger, WindowLimits,
};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct Zfetch;

const DISTANCE: usize = 0;

/// Distance up to which it doubles, in pages.
const MIN_DISTANCE: u64 = 1024;
const MAX_DISTANCE: u64 = 16384;

impl CustomPolicy for Zfetch {
    fn name(&self) -> &'static str {
        "zfetch"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, read) = (state.window, ask.count.0);
        if !is_of(last, ask.page) {
            if !continues(ask) {
                state.memory[DISTANCE] = 0;
                return only_the_read(ask);
            }
            state.memory[DISTANCE] = read;
            return first(ask, read * 2, read, limits.max);
        }
        let distance = match state.memory[DISTANCE] {
            distance if distance < MIN_DISTANCE => (distance * 2).clamp(1, MIN_DISTANCE),
            distance if ask.has_waited => (distance + distance / 8).min(MAX_DISTANCE),
            distance => distance,
        };
        state.memory[DISTANCE] = distance;
        if ask.trigger == Trigger::Miss {
            return subsequent(ask, last, read + distance, distance, limits.max);
        }
        let ahead = last.end().0.saturating_sub(ask.page.0);
        let size = distance.saturating_sub(ahead).max(read);
        subsequent(ask, last, size, size, limits.max)
    }
}
