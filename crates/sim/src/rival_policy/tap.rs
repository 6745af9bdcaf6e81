//! TaP: a table of expected stream addresses, which detects streams without history in the cache,
//! and prefetches of a fixed size for the detected streams.
//!
//! ```text
//!   miss at x      x in the table: a stream. Prefetch, and expect its next miss
//!                  else: expect x + the size of the read
//! ```
//!
//! Source: Li, Aghera, Prabhakar, Akella, Kandappan, "TaP: Table-based Prefetching for Storage
//! Caches", FAST 2008. Differences: the table has eight entries for each handle instead of one
//! table for the device; the size of the prefetch cache, which TaP adapts, is the core's.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Residency, StreamState, Trigger, WindowLimits,
};
use foreread_core::units::Pages;

use super::{first, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct Tap;

/// The paper's prefetch: 256 blocks of 512 bytes.
const DEGREE: u64 = 32;

impl CustomPolicy for Tap {
    fn name(&self) -> &'static str {
        "tap"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let size = DEGREE.max(ask.count.0).min(limits.max.0);
        // Address plus 1, because 0 stands for an empty entry.
        let expect = |memory: &mut [u64; 8], page: u64| {
            memory.rotate_right(1);
            memory[0] = page + 1;
        };
        if ask.trigger == Trigger::Marker {
            let end = state.window.end().0;
            if let Some(entry) = state.memory.iter_mut().find(|entry| **entry == end + 1) {
                *entry = end + size + 1;
                return subsequent(ask, state.window, size, size / 2, limits.max);
            }
            return None;
        }
        let is_here = |entry: &u64| *entry == ask.page.0 + 1;
        let Some(found) = state.memory.iter().position(is_here) else {
            expect(&mut state.memory, (ask.page + ask.count).0);
            return only_the_read(ask);
        };
        state.memory[found] = (ask.page + Pages(size)).0 + 1;
        state.memory[..=found].rotate_right(1);
        first(ask, size, size / 2, limits.max)
    }
}
