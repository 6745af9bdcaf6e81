//! PostgreSQL's read stream: requests of at most 128 KiB, as many ahead as the distance allows. The
//! distance doubles with each read that had to be started.
//!
//! ```text
//!   |<----------- distance ----------->|
//!   reader   |== 128K ==|== 128K ==|== 128K ==|      a marker on each: one consumed, one requested
//! ```
//!
//! Source: PostgreSQL 17's documentation of `io_combine_limit` (128 KiB) and
//! `effective_io_concurrency` (16), and the comment at the head of its read_stream.c on the growth
//! and decay of the distance. Differences: a read stream receives its blocks from the caller; here
//! they are consecutive.

use foreread_core::prefetch::{
    Ask, CustomPolicy, Decision, Residency, StreamState, Trigger, WindowLimits,
};

use super::{continues, first, is_of, only_the_read, subsequent};

#[derive(Debug)]
pub(super) struct PgStream;

const DISTANCE: usize = 0;

/// Pages of the largest request.
const COMBINED: u64 = 32;

/// Requests in flight ahead of the reader.
const CONCURRENCY: u64 = 16;

impl CustomPolicy for PgStream {
    fn name(&self) -> &'static str {
        "pg-stream"
    }

    fn decide(
        &self,
        state: &mut StreamState,
        ask: Ask,
        limits: WindowLimits,
        _cache: &dyn Residency,
    ) -> Option<Decision> {
        let last = state.window;
        if !is_of(last, ask.page) && !continues(ask) {
            state.memory[DISTANCE] = 0;
            return only_the_read(ask);
        }
        let most = (COMBINED * CONCURRENCY).min(limits.max.0);
        let distance = (state.memory[DISTANCE] * 2).clamp(1, most.max(1));
        state.memory[DISTANCE] = distance;
        if ask.trigger == Trigger::Miss {
            let size = ask.count.0.max(distance.min(COMBINED));
            return first(ask, size, size, limits.max);
        }
        let ahead = last.end().0.saturating_sub(ask.page.0);
        let size = distance.saturating_sub(ahead).clamp(ask.count.0, COMBINED.max(ask.count.0));
        subsequent(ask, last, size, size, limits.max)
    }
}
