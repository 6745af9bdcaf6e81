//! Searches for the best plan: levels of merging, numbers of pieces, three orders.
//!
//! Returns the plan with the fewest bytes among those about as fast as the fastest one found. Plans
//! with a lower bound above that are skipped.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::cost_model::{CostModel, whole};
use super::makespan::simulate;
use super::merge::MergeLevels;
use super::request_plan::{RequestLimits, RequestPlan};
use super::split::{PieceCounts, by_size};

/// Tolerance as a divisor: a plan slower by less than this part counts as equally fast.
const SLACK_DENOM: f64 = 128.0;

/// Most requests simulated before the search returns its best plan: some milliseconds. A set of up
/// to 30 ranges never needs that many.
const EFFORT: usize = 1 << 16;

/// Search effort per nanosecond of the plan. Simulating a request takes some 50 ns, so a search of
/// up to 0.2 ms takes at most a sixteenth of its plan's time and a longer one a 64th: the search
/// never delays the plan noticeably.
const NS_PER_SIMULATED: f64 = 16.0 * 50.0;
const SHORT_EFFORT: usize = 4096;

/// Requests simulated per range on any device: two levels in three orders.
const EFFORT_PER_RANGE: usize = 6;

/// State of the search for one set of ranges.
struct PlanSearch<'a> {
    levels: &'a MergeLevels<'a>,
    model: &'a CostModel,
    limits: &'a RequestLimits,
    /// Requests that may still be simulated.
    effort: usize,
    /// Effort left at which no further level is tried.
    reserve: usize,
}

/// Requests, and their time in nanoseconds.
struct TimedRequests {
    requests: Vec<Range<u64>>,
    ns: f64,
}

/// Returns the best plan for the spans of these levels.
pub(super) fn fastest(
    levels: &MergeLevels<'_>,
    model: &CostModel,
    limits: &RequestLimits,
) -> RequestPlan {
    let effort = effort(levels, model);
    let mut search = PlanSearch { levels, model, limits, effort, reserve: effort / 2 };
    let unmerged = levels.sizes()[0];
    let first = search.at_once(unmerged.requests, unmerged.bytes).then(|| search.level(0));
    // No plan beats one request with these bytes; merging would free slots for pieces of others.
    let floor_ns = with_slack(model.bound(1, unmerged.bytes));
    let is_final =
        |first: &TimedRequests| first.ns <= floor_ns || !model.is_limited_by_connection();
    let found = first.filter(is_final).unwrap_or_else(|| search.all_levels());
    let TimedRequests { requests, ns } = found;
    let trimmed = levels.trimmed(&requests);
    let ns = if trimmed == requests { ns } else { search.simulate(&trimmed) };
    RequestPlan::new(trimmed, whole(ns))
}

/// Returns the number of requests to simulate, given a lower bound of the plan's time.
fn effort(levels: &MergeLevels<'_>, model: &CostModel) -> usize {
    let bounds = levels.sizes().iter().map(|size| model.bound(size.requests, size.bytes));
    let ns = bounds.fold(f64::INFINITY, f64::min);
    let sixteenth = usize::try_from(whole(ns / NS_PER_SIMULATED)).unwrap_or(EFFORT);
    let by_time = sixteenth.min(SHORT_EFFORT).max(sixteenth / 4);
    let least = levels.sizes()[0].requests.saturating_mul(EFFORT_PER_RANGE as u64);
    by_time.max(usize::try_from(least).unwrap_or(EFFORT)).min(EFFORT)
}

impl PlanSearch<'_> {
    /// Returns true if no request waits for another: neither merging nor an order gains anything
    /// then.
    fn at_once(&self, requests: u64, bytes: u64) -> bool {
        requests <= u64::from(self.model.parallel) && bytes <= self.limits.budget
    }

    /// Handles sets that do not run at once: simulates the levels that may be fastest, then,
    /// starting with the fewest bytes, those that may be equally fast.
    fn all_levels(&mut self) -> TimedRequests {
        let sizes = self.levels.sizes().iter();
        let bounds: Vec<f64> =
            sizes.map(|size| self.model.bound(size.requests, size.bytes)).collect();
        let mut by_bound: Vec<usize> = (0..bounds.len()).collect();
        by_bound.sort_by(|a, b| bounds[*a].total_cmp(&bounds[*b]));
        let mut tried: Vec<Option<TimedRequests>> = bounds.iter().map(|_| None).collect();
        let unmerged = self.level(0);
        let mut best_ns = unmerged.ns;
        tried[0] = Some(unmerged);
        for level in by_bound.into_iter().filter(|level| *level > 0) {
            if bounds[level] >= best_ns || self.effort < self.reserve {
                break;
            }
            let requests = self.level(level);
            best_ns = best_ns.min(requests.ns);
            tried[level] = Some(requests);
        }
        for (level, known) in tried.into_iter().enumerate() {
            if bounds[level] > with_slack(best_ns) || (known.is_none() && self.effort == 0) {
                continue;
            }
            let requests = known.unwrap_or_else(|| self.level(level));
            if requests.ns <= with_slack(best_ns) {
                return requests;
            }
        }
        unreachable!("the fastest level is within the slack of itself")
    }

    /// Returns the requests of a level, in fewer pieces where that is equally fast.
    fn level(&mut self, level: usize) -> TimedRequests {
        let bytes = self.levels.sizes()[level].bytes;
        let spans = self.levels.spans(level);
        let mut counts = PieceCounts::fewest(&spans, self.levels.cap());
        let (least, align) = (counts.total(), self.limits.align);
        let mut tried = vec![self.ordered(counts.pieces(align), bytes)];
        let mut best_ns = tried[0].ns;
        let may_split = self.model.is_limited_by_connection()
            || (self.model.parallel > 1 && bytes > self.limits.budget);
        let floor_ns = self.model.bound(least, bytes);
        let mut added = 0;
        while may_split && self.effort > 0 && best_ns > with_slack(floor_ns) {
            added = next_count(added, least, u64::from(self.model.parallel));
            while counts.total() < least + added && counts.cut_largest(align) {}
            if counts.total() < least + added || self.model.bound(counts.total(), bytes) >= best_ns
            {
                break;
            }
            let cut = self.ordered(counts.pieces(align), bytes);
            best_ns = best_ns.min(cut.ns);
            tried.push(cut);
        }
        let fewest = tried.into_iter().find(|requests| requests.ns <= with_slack(best_ns));
        fewest.expect("the fastest is within the slack of itself")
    }

    /// Returns the requests in the fastest order, preferring ascending offsets.
    fn ordered(&mut self, ascending: Vec<Range<u64>>, bytes: u64) -> TimedRequests {
        let (count, parallel) = (ascending.len() as u64, self.model.parallel);
        let mut best = TimedRequests { ns: self.simulate(&ascending), requests: ascending };
        if parallel == 1 || self.at_once(count, bytes) || best.ns <= self.model.bound(count, bytes)
        {
            return best;
        }
        for requests in by_size(&best.requests) {
            let ns = self.simulate(&requests);
            if ns < best.ns {
                best = TimedRequests { requests, ns };
            }
        }
        best
    }

    fn simulate(&mut self, requests: &[Range<u64>]) -> f64 {
        self.effort = self.effort.saturating_sub(requests.len());
        simulate(requests, self.model, self.limits.budget)
    }
}

/// Returns the next number of additional pieces to try after `added`: one more at first, an eighth
/// more later, and always those that fill a round of the device.
fn next_count(added: u64, fewest: u64, parallel: u64) -> u64 {
    let next = added + 1 + added / 8;
    let full = (fewest + added + 1).next_multiple_of(parallel) - fewest;
    next.min(full)
}

fn with_slack(ns: f64) -> f64 {
    ns * (1.0 + 1.0 / SLACK_DENOM)
}
