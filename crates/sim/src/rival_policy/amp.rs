//! AMP: each stream adapts the size and the trigger distance of its prefetches.
//!
//! ```text
//!   p: pages of a prefetch     g: pages before its end at which the next one is requested
//!
//!   the stream reached the end of its last prefetch       p + the size of a read
//!   a page of it was evicted unused                       p - 1, g at most p - 1
//!   the reader waited for a page in flight                g + the size of a read
//! ```
//!
//! Source: Gill and Bathen, "AMP: Adaptive Multi-stream Prefetching in a Shared Cache", FAST 2007,
//! section 4. Differences: an eviction is noticed when its reader misses the page, not when it
//! happens; the cache is the core's, not LRU.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Residency, StreamState, Trigger, WindowLimits,
};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct Amp;

const P: usize = 0;
const G: usize = 1;

/// Pages of a stream's first prefetch, in addition to its read.
const FIRST: u64 = 4;

impl CustomPolicy for Amp {
    fn name(&self) -> &'static str {
        "amp"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, read, max) = (state.window, ask.count.0, limits.max);
        let is_stream = is_of(last, ask.page);
        if !is_stream {
            if !continues(ask) {
                return only_the_read(ask);
            }
            state.memory[P] = FIRST.max(read);
            state.memory[G] = 0;
            return first(ask, read + state.memory[P], 0, max);
        }
        let is_lost = ask.trigger == Trigger::Miss && ask.page < last.end();
        let [p, g, ..] = &mut state.memory;
        if is_lost {
            *p = p.saturating_sub(1).max(1);
            *g = (*g).min(*p - 1);
        } else {
            *p = (*p + read).min(max.0);
            if ask.has_waited {
                *g += read;
            }
            *g = (*g).min(*p - 1);
        }
        subsequent(ask, last, *p, *g, max)
    }
}
