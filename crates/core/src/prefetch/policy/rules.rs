//! Rules written for Linux and never merged. Each can be added to any policy; all are off by
//! default.

use crate::prefetch::decision::{Ask, Decision, Pattern, Trigger, Window, WindowLimits};
use crate::prefetch::policy::sizes;
use crate::prefetch::stream_state::StreamState;
use crate::units::{PageIndex, Pages};

/// Rules that are switched on.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Rules {
    /// A small read at page 0 right after a seek starts no stream: it is a tool that checks a
    /// header.
    pub lseek: bool,
    /// A window that would leave a small rest of the file includes it.
    pub snap_eof: bool,
    /// A stream towards the start of the file gets windows.
    pub backwards: bool,
    /// Parts of `adaptive` that are switched off, to measure the benefit of each.
    pub without: Without,
}

/// A part of [`Policy::Adaptive`](super::Policy::Adaptive) that can be switched off, to measure its
/// benefit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AdaptivePart {
    /// Division of the memory among streams.
    Shares,
    /// Protection of unread pages from eviction.
    Clip,
    /// Requesting the next window when its stream needs it, instead of as early as possible.
    Distance,
    /// Learning of run lengths.
    Runs,
    /// Dispatch of demand reads before read-ahead.
    Order,
    /// Reading resident pages again to save a request.
    Gaps,
    /// Division of the queue depth of remote devices among streams.
    Far,
}

/// Parts that are switched off.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Without(u8);

impl AdaptivePart {
    /// All parts.
    pub const ALL: [Self; 7] =
        [Self::Shares, Self::Clip, Self::Distance, Self::Runs, Self::Order, Self::Gaps, Self::Far];

    /// Returns the name in scenarios and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shares => "law",
            Self::Clip => "clip",
            Self::Distance => "lead",
            Self::Runs => "runs",
            Self::Order => "order",
            Self::Gaps => "gaps",
            Self::Far => "far",
        }
    }

    /// Returns the part of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

impl Without {
    /// Returns true if a part is switched off.
    #[must_use]
    pub const fn has(self, part: AdaptivePart) -> bool {
        self.0 & (1 << part as u8) != 0
    }

    /// Returns the parts, in the order of [`AdaptivePart::ALL`].
    pub fn parts(self) -> impl Iterator<Item = AdaptivePart> {
        AdaptivePart::ALL.into_iter().filter(move |part| self.has(*part))
    }
}

impl FromIterator<AdaptivePart> for Without {
    fn from_iter<I: IntoIterator<Item = AdaptivePart>>(parts: I) -> Self {
        Self(parts.into_iter().fold(0, |set, part| set | 1 << part as u8))
    }
}

impl Rules {
    /// The decision that comes before the policy's, if there is one.
    ///
    /// ```text
    ///   seek to 0, read 1 page     initial0 0+4-3  becomes  random 0+1
    /// ```
    pub(in crate::prefetch) fn before(
        self,
        state: &StreamState,
        ask: Ask,
        limits: WindowLimits,
    ) -> Option<Decision> {
        let looks_at_header = self.lseek
            && state.seeked
            && ask.trigger == Trigger::Miss
            && ask.page == PageIndex(0)
            && ask.count < limits.max;
        looks_at_header.then(|| Decision::random(ask, ask.count))
    }

    /// Applies the rules to the policy's decision. With read-ahead off (`max` 0) it is unchanged.
    pub(in crate::prefetch) fn after(
        self,
        decision: Decision,
        state: &StreamState,
        ask: Ask,
        max: Pages,
        end: PageIndex,
    ) -> Decision {
        if max == Pages::ZERO {
            return decision;
        }
        if decision.is_remembered() {
            let window =
                if self.snap_eof { snapped(decision.window, max, end) } else { decision.window };
            return Decision { window, ..decision };
        }
        if self.backwards && ask.trigger == Trigger::Miss {
            return backwards(state.fetched, ask, max).unwrap_or(decision);
        }
        decision
    }
}

/// The window of a stream that goes backwards: it ends where the last fetch began.
///
/// ```text
///             |<----- size ----->|<- last ->|
///   ----------|===============|==|==========|
///             ^start          ^page, and its read reaches the last fetch
/// ```
///
/// It grows as windows do that go forwards, but has no marker: a reader that goes backwards meets
/// the first page of a window last, and each read that misses is as good a place to ask.
fn backwards(last: Window, ask: Ask, max: Pages) -> Option<Decision> {
    let reaches = ask.page < last.start && ask.page + ask.count >= last.start;
    if last.size == Pages::ZERO || !reaches {
        return None;
    }
    // A read that is larger than the next window is read whole.
    let size = sizes::next(last.size, max).max(last.start - ask.page);
    let window = if size.0 > last.start.0 {
        let size = Pages(last.start.0).min(max.max(last.start - ask.page));
        Window { start: PageIndex(0), size, async_size: Pages::ZERO }
    } else {
        Window { start: PageIndex(last.start.0 - size.0), size, async_size: Pages::ZERO }
    };
    debug_assert!(window.start <= ask.page, "a window that goes backwards has the page asked for");
    Some(Decision { pattern: Pattern::Backwards, window })
}

/// A window that takes the rest of the file along, or is cut at its end.
///
/// ```text
///   |<----- size ----->|<- probe ->|     probe: half of the window, or a quarter of max
///   |==================|=====|           if it is less
///   ^start                   ^end of the file
/// ```
///
/// One more request for a few pages costs more than the pages.
fn snapped(window: Window, max: Pages, end: PageIndex) -> Window {
    let probe = Pages(window.size.0 / 2).min(Pages(max.0 / 4));
    if window.start >= end || window.end() + probe <= end {
        return window;
    }
    Window { size: end - window.start, async_size: Pages::ZERO, ..window }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: u64, size: u64) -> Window {
        Window { start: PageIndex(start), size: Pages(size), async_size: Pages::ZERO }
    }

    #[test]
    fn parts_are_found_by_their_names_and_kept_in_a_set() {
        for part in AdaptivePart::ALL {
            assert_eq!(AdaptivePart::from_name(part.name()), Some(part));
            assert!(Without::from_iter([part]).parts().eq([part]));
        }
        assert!(AdaptivePart::ALL.into_iter().collect::<Without>().parts().eq(AdaptivePart::ALL));
    }

    #[test]
    fn a_rest_of_up_to_half_a_window_or_a_quarter_of_max_is_taken_along() {
        let snapped = |size, max, end| snapped(window(0, size), Pages(max), PageIndex(end)).size.0;
        assert_eq!(snapped(4, 32, 5), 5, "half of the window is two pages");
        assert_eq!(snapped(4, 32, 6), 4);
        assert_eq!(snapped(4, 4, 5), 4, "a quarter of max is one page");
        assert_eq!(snapped(32, 32, 39), 39);
        assert_eq!(snapped(32, 32, 40), 32);
        assert_eq!(snapped(32, 32, 20), 20, "and nothing lies past the end");
    }

    #[test]
    fn a_backward_window_always_has_the_page_that_is_missing() {
        for (start, size) in (1..40).flat_map(|start| (1..9).map(move |size| (start, size))) {
            for (page, max) in (0..start).flat_map(|page| [1, 4, 8].map(|max| (page, max))) {
                let ask = Ask {
                    page: PageIndex(page),
                    count: Pages(start - page),
                    trigger: Trigger::Miss,
                    prev_pos: None,
                    has_waited: true,
                };
                let got = backwards(window(start, size), ask, Pages(max)).unwrap().window;
                assert_eq!(got.end(), PageIndex(start));
                assert!(got.start <= ask.page, "{start} {size} {page} {max}");
            }
        }
    }
}
