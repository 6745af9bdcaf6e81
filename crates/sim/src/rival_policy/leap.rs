//! Leap: the majority among recent access strides is the trend; the prefetch along it grows with
//! the number of pages used of the last one.
//!
//! ```text
//!   accesses   7  8  9 40 10 11     distances  1 1 31 -30 1: a majority of 1 in the last few
//!   prefetch   1 more than were used of the last one, rounded up to a power of two
//! ```
//!
//! Source: Al Maruf and Chowdhury, "Effectively Prefetching Remote Memory with Leap", ATC 2020,
//! algorithms 1 and 2: a history of 32 accesses, at most 8 pages. Differences: a history of 12; the
//! accesses are misses and markers, as of all policies here; no trend backwards.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Stride, Trigger, Window,
    WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

use super::{only_the_read, window};

#[derive(Debug)]
pub(super) struct Leap;

/// Two distances of 32 bits in each of six words.
const HISTORY: usize = 12;
const LAST_PAGE: usize = 6;
const TREND: usize = 7;

/// The largest prefetch of the paper.
const MAX_PREFETCH: u64 = 8;

impl CustomPolicy for Leap {
    fn name(&self) -> &'static str {
        "leap"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        // Page and 1: 0 stands for no access yet.
        let page = ask.page.0 + 1;
        let last_page = std::mem::replace(&mut state.memory[LAST_PAGE], page);
        let distance = if last_page == 0 { 0 } else { clamped(page, last_page) };
        push(&mut state.memory, distance);
        if let Some(trend) = trend(&state.memory) {
            state.memory[TREND] = u64::from(trend.max(0).cast_unsigned());
        }
        let trend = state.memory[TREND];
        if trend == 0 {
            return only_the_read(ask);
        }
        let used = used(state.window, ask.page) + u64::from(ask.trigger == Trigger::Marker);
        let size = (used + 1).next_power_of_two().min(MAX_PREFETCH).min(limits.max.0);
        let start = match ask.trigger {
            Trigger::Miss => ask.page,
            Trigger::Marker => state.window.end().max(ask.page + Pages(1)),
        };
        // The paper prefetches in addition to the missing page.
        let wanted = if ask.trigger == Trigger::Miss { ask.count.0 } else { 0 };
        let size = size + wanted;
        if trend <= ask.count.0 {
            let window = window(start, size, 1, limits.max);
            return Some(Decision { pattern: Pattern::Subsequent, window });
        }
        let span = (size.saturating_mul(trend)).min(limits.max.0.max(ask.count.0));
        let stride = Stride { every: Pages(trend), read: ask.count };
        let window = Window { start: ask.page, size: Pages(span), async_size: Pages::ZERO };
        Some(Decision { pattern: Pattern::Strided(stride), window })
    }
}

fn clamped(page: u64, last: u64) -> i32 {
    let distance = page.wrapping_sub(last).cast_signed();
    i32::try_from(distance).unwrap_or(0)
}

/// Returns the number of pages of the last prefetch that the reader has passed.
fn used(last: Window, page: PageIndex) -> u64 {
    if last.size == Pages::ZERO || page < last.start {
        return 0;
    }
    (page - last.start).0.min(last.size.0)
}

/// Prepends a distance to the history.
fn push(memory: &mut [u64; 8], distance: i32) {
    let mut carry = u64::from(distance.cast_unsigned());
    for word in &mut memory[..HISTORY / 2] {
        let out = *word >> 32;
        *word = (*word << 32) | carry;
        carry = out;
    }
}

fn distance(memory: &[u64; 8], index: usize) -> i32 {
    let half = memory[index / 2] >> (index % 2 * 32);
    u32::try_from(half & u64::from(u32::MAX)).expect("a half of 64 bits").cast_signed()
}

/// Returns the majority distance of the shortest recent history that has one.
fn trend(memory: &[u64; 8]) -> Option<i32> {
    for count in [3, 6, HISTORY] {
        let last = || (0..count).map(|index| distance(memory, index));
        // Boyer and Moore: the only candidate for a majority.
        let mut candidate = (0, 0_usize);
        for distance in last() {
            candidate = match candidate {
                (_, 0) => (distance, 1),
                (known, votes) if known == distance => (known, votes + 1),
                (known, votes) => (known, votes - 1),
            };
        }
        let votes = last().filter(|distance| *distance == candidate.0).count();
        if votes > count / 2 && candidate.0 != 0 {
            return Some(candidate.0);
        }
    }
    None
}
