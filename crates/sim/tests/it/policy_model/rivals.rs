//! The policies of no released kernel, as slow and obvious as possible, without rules from the
//! core.

use foreread_core::prefetch::{Pattern, StreamState};

use super::model::{Answer, Question, init, int, next};

impl Question<'_> {
    pub(super) fn thrash_2010(&self, is_marker: bool, state: &mut StreamState) -> Option<Answer> {
        const MIN: i64 = 4;
        if self.max == 0 {
            return None;
        }
        if state.memory[0] == 0 {
            let is_large = self.count > self.max;
            let is_sequential_miss = !is_marker && self.follows(self.previous_page());
            if self.page == 0 || is_large || is_sequential_miss {
                return Some(self.joined(self.first(is_large)));
            }
        }
        let mut survives = self.history(8 * self.max);
        if survives == 0 && !is_marker {
            let (start, size) = (int(state.fetched.start.0), int(state.fetched.size.0));
            if (start - size..start + size).contains(&self.page) {
                state.memory[0] = 1;
                let size = (size / 2).max(MIN).min(self.max);
                return Some((Pattern::Thrash, self.page, size, 0));
            }
            return Some((Pattern::Random, self.page, self.count, 0));
        }
        if self.page - survives == 0 {
            survives *= 2;
        }
        // The page of a miss is itself the hole.
        let from = if is_marker { self.page + 1 } else { self.page };
        let hole = self.first_hole(from, self.page + self.max)?;
        let ahead = hole - self.page;
        if survives <= ahead {
            return None;
        }
        let size = (survives - ahead).max(MIN).min(self.max);
        Some((Pattern::Context, hole, size, size.min(1 + survives / 8)))
    }

    pub(super) fn fixed(&self, is_marker: bool) -> Option<Answer> {
        if self.max == 0 {
            return None;
        }
        let (pattern, start) = if is_marker {
            if self.is_at_marker() {
                (Pattern::Subsequent, self.start + self.size)
            } else {
                (Pattern::Interleaved, self.first_hole(self.page + 1, self.page + self.max)?)
            }
        } else if self.page == 0 {
            (Pattern::Initial0, 0)
        } else if self.size > 0 && self.page == self.start + self.size {
            (Pattern::Subsequent, self.page)
        } else if self.follows_returned_byte() {
            (Pattern::Initial, self.page)
        } else {
            return Some((Pattern::Random, self.page, self.count, 0));
        };
        Some((pattern, start, self.max, self.max))
    }

    pub(super) fn distance(
        &self,
        is_marker: bool,
        has_waited: bool,
        state: &mut StreamState,
    ) -> Option<Answer> {
        if self.max == 0 {
            return None;
        }
        let end = self.start + self.size;
        let first = init(self.count, self.max);
        let grown = first.max(next(self.size, self.max));
        let (pattern, start, size) = if is_marker && self.is_at_marker() {
            (Pattern::Subsequent, end, grown)
        } else if is_marker {
            let hole = self.first_hole(self.page + 1, self.page + self.max)?;
            (Pattern::Interleaved, hole, next(hole - self.page + self.count, self.max))
        } else if self.page == 0 {
            (Pattern::Initial0, 0, first)
        } else if self.size > 0 && self.start <= self.page && self.page <= end {
            (Pattern::Subsequent, self.page, grown)
        } else if self.follows_returned_byte() {
            (Pattern::Initial, self.page, first)
        } else {
            return Some((Pattern::Random, self.page, self.count, 0));
        };
        let (mut ahead, mut holds) = (int(state.memory[0]), int(state.memory[1]));
        if has_waited {
            (ahead, holds) = (2 * ahead, self.max);
        } else {
            if holds == 0 {
                ahead -= 1;
            }
            holds = (holds - self.size).max(0);
        }
        ahead = ahead.max(1).min(self.max);
        state.memory[..2].copy_from_slice(&[ahead, holds].map(i64::cast_unsigned));
        Some((pattern, start, size, ahead.min(size)))
    }

    /// A window without a tail, or with a tail longer than the window, has no marker.
    fn is_at_marker(&self) -> bool {
        (1..=self.size).contains(&self.async_size)
            && self.page == self.start + self.size - self.async_size
    }
}
