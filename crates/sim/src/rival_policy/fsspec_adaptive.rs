//! fsspec's `adaptive` cache: from the third sequential read on, each read extends the prefetch by
//! one read.
//!
//! ```text
//!   reads in order     1   2    3     4     5    ..
//!   read ahead         -   -    x 1   x 2   x 3  ..     times the mean read, at most 128 MiB
//! ```
//!
//! A seek resets the factor to 1, and the earlier prefetch no longer counts as part of the stream.
//!
//! Source: the behaviour of fsspec and gcsfs 2026.9 (BSD): streak of three reads, a window of
//! (streak - 2) mean reads, at most 128 MiB or twice the mean read. Differences: a mean with a
//! weight of a tenth, in place of the mean of the last ten reads; the policy runs when a reader
//! enters its last window, not at each read; one window is one request, where fsspec sends several
//! of the size of a read, or of 5 MiB.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Residency, StreamState, Trigger, Window, WindowLimits,
};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct FsspecAdaptive;

/// Number of sequential reads so far.
const STREAK: usize = 0;

/// Page of the last question.
const LAST_PAGE: usize = 1;

/// Mean read size, in sixteenths of a page.
const MEAN: usize = 2;

/// Sequential reads before the first window.
const READS_BEFORE: u64 = 2;

/// Largest window in pages: 128 MiB.
const MAX_AHEAD: u64 = 32_768;

impl CustomPolicy for FsspecAdaptive {
    fn name(&self) -> &'static str {
        "fsspec-adaptive"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let (last, page, read) = (state.window, ask.page.0, ask.count.0);
        let is_in_order = is_of(last, ask.page) || continues(ask);
        if !is_in_order && ask.trigger == Trigger::Marker {
            // A marker of a window from before a seek: ignore it.
            return None;
        }
        if !is_in_order {
            // The prefetch from before a seek is no longer part of a stream.
            state.window = Window::default();
            (state.memory[STREAK], state.memory[MEAN]) = (1, read * 16);
            state.memory[LAST_PAGE] = page;
            return only_the_read(ask);
        }
        let since = page.saturating_sub(state.memory[LAST_PAGE]) / read;
        state.memory[STREAK] += since.max(1);
        state.memory[LAST_PAGE] = page;
        let mean = match state.memory[MEAN] {
            0 => read * 16,
            mean => (mean * 9 + read * 16) / 10,
        };
        state.memory[MEAN] = mean;
        let times = state.memory[STREAK].saturating_sub(READS_BEFORE);
        let mean = mean.div_ceil(16);
        let ahead = times.saturating_mul(mean).min(MAX_AHEAD.max(2 * mean));
        match ask.trigger {
            Trigger::Miss if ahead == 0 => only_the_read(ask),
            Trigger::Miss => first(ask, read + ahead, ahead, limits.max),
            Trigger::Marker if ahead == 0 => None,
            Trigger::Marker => {
                let left = last.end().0.saturating_sub(page);
                let size = ahead.saturating_sub(left).max(1);
                subsequent(ask, last, size, size, limits.max)
            }
        }
    }
}
