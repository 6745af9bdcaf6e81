//! `thrash-2010`: windows as large as the surviving history, and half of that after a page was
//! lost.
//!
//! It ignores the page where the last window expects its reader, and looks back eight windows at
//! most.

use super::linux_2_6_28::follows_previous_read;
use super::{linux_2_6_28, linux_2_6_31};
use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Pattern, Residency, StreamState, Trigger, Window, WindowLimits,
};
use foreread_core::units::{PageIndex, Pages};

/// The policy `thrash-2010`.
#[derive(Debug)]
pub(super) struct Thrash2010;

impl CustomPolicy for Thrash2010 {
    fn name(&self) -> &'static str {
        "thrash-2010"
    }

    fn largest(&self, ask: Ask, limits: WindowLimits) -> Pages {
        linux_2_6_31::largest_when_merged(ask, limits)
    }

    /// The first rule that matches decides. A stream that lost a page skips the first three from
    /// then on.
    ///
    /// ```text
    ///   1  page 0                                     initial0   as linux-2.6.31
    ///   2  more than max                              oversize   as linux-2.6.31
    ///   3  a miss in or next to the last read         initial    as linux-2.6.31
    ///   4  history, or a marker                       context, or nothing if enough is ahead
    ///   5  a miss in the stream's last fetch          thrash: the page was evicted before it came
    ///   6  anything else                              random
    /// ```
    ///
    /// The window of a marker never grows from the last one: the resident history shows how much
    /// survives now, the last window how much did before.
    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        cache: &dyn Residency,
    ) -> Option<Decision> {
        let max = limits.max;
        if state.memory[THRASHED] == 0 {
            let pattern = match ask.trigger {
                _ if ask.page == PageIndex(0) => Some(Pattern::Initial0),
                _ if ask.count > max => Some(Pattern::Oversize),
                Trigger::Miss if follows_previous_read(ask) => Some(Pattern::Initial),
                Trigger::Miss | Trigger::Marker => None,
            };
            if let Some(pattern) = pattern {
                let window = linux_2_6_28::initial(ask, max);
                let window = linux_2_6_31::merged_with_its_successor(window, ask.page, max);
                return Some(Decision { pattern, window });
            }
        }
        let history = cache.history(ask.page, Pages(max.0 * LOOK_BACK));
        if history > Pages::ZERO || ask.trigger == Trigger::Marker {
            return context(ask, history, max, cache);
        }
        let last = state.fetched;
        if last.start <= ask.page + last.size && ask.page < last.end() {
            state.memory[THRASHED] = 1;
            return Some(Decision {
                pattern: Pattern::Thrash,
                window: after_a_loss(ask, last, max),
            });
        }
        Some(Decision::random(ask, ask.count))
    }
}

/// ```text
///      |<----- history: 12 ----->|pg|ahead|<--- size: 12 - 2 --->|
///      |=========================|==#=====|===================#==|
///                                ^page    ^start              |<>| async: 1 + 12/8
/// ```
/// Pages already ahead are part of the surviving amount. A history that reaches the start of the
/// file was cut off there, not by eviction, and counts twice.
fn context(ask: Ask, history: Pages, max: Pages, cache: &dyn Residency) -> Option<Decision> {
    let start = match ask.trigger {
        Trigger::Miss => ask.page,
        Trigger::Marker => cache.next_hole(ask.page + Pages(1), max)?,
    };
    let survives = if history.0 >= ask.page.0 { history + history } else { history };
    let ahead = start - ask.page;
    if survives <= ahead {
        return None;
    }
    debug_assert!(start >= ask.page, "a window begins at the page or behind it");
    let size = survives.saturating_sub(ahead).max(LEAST).min(max);
    let async_size = size.min(Pages(1 + survives.0 / ASYNC_RATIO));
    Some(Decision { pattern: Pattern::Context, window: Window { start, size, async_size } })
}

/// Returns half of the window that was too large, without a marker: history finds the stream again.
fn after_a_loss(ask: Ask, last: Window, max: Pages) -> Window {
    let size = Pages(last.size.0 / 2).max(LEAST).min(max);
    Window { start: ask.page, size, async_size: Pages::ZERO }
}

/// Entry of the stream's memory: not 0 after a page of one of its windows was evicted before use.
const THRASHED: usize = 0;

/// Windows to look back for history.
const LOOK_BACK: u64 = 8;

/// Share of the surviving amount that is ahead when the next window is requested, as a divisor.
const ASYNC_RATIO: u64 = 8;

/// Smallest window, 16 KiB, if `max` allows it.
const LEAST: Pages = Pages(4);
