//! Range planner: finds the requests that read a set of byte ranges fastest, with the fewest bytes.
//!
//! In:    byte ranges, the cost model of a device, limits of a request.
//! Out:   requests in dispatch order, with their bytes and predicted time.
//! Never: I/O, a clock or a tunable: merging and splitting follow from the cost model.
//!
//! Derivation, figures for four devices, limits: docs/design/ranges.md.

mod cost_model;
mod makespan;
mod merge;
mod request_plan;
mod search;
mod split;
mod wanted;

use alloc::vec::Vec;
use core::ops::Range;

pub use self::cost_model::CostModel;
pub use self::makespan::makespan;
pub use self::request_plan::{RequestLimits, RequestPlan};

use self::merge::MergeLevels;

/// Plans the requests that read all of `wanted`: merged, split and ordered by the costs in `model`.
///
/// Ranges may come in any order. Where they overlap or touch, their bytes are read once; empty
/// ranges need no request. The plan has the fewest bytes among those that are about as fast as the
/// fastest found (within 1/128), and then the fewest requests (within 1/128 again).
///
/// # Formula
///
/// A request of b bytes takes `latency + b / connection bandwidth`; `parallel` requests run at
/// once, and together they transfer no faster than the total bandwidth ([`makespan()`]). A plan of
/// p requests and B bytes therefore takes at least the largest of
///
/// ```text
///   latency x ceil(p / parallel)                             the rounds of a server
///   (p x latency + B / connection bandwidth) / parallel      the mean work of a server
///   latency + B / total bandwidth                            the bytes
/// ```
///
/// Merging two ranges takes one from p and adds the gap between them to B. If all requests run at
/// once (p <= parallel) no line falls: merging pays only where it frees a place for a piece of
/// another range. On a serial device (parallel = 1) it saves a latency and costs gap / bandwidth,
/// so it pays up to gap = latency x bandwidth. In between the smallest gaps are merged as long as
/// the largest line falls. Splitting adds to p without adding to B; it pays where one large
/// request would run longer than the lines above.
///
/// A plan for n ranges takes n log n steps for each plan that is simulated. The search ends after
/// about a sixteenth of the time that its plan takes (a 64th, where that is long), and after some
/// 65,000 simulated requests in all; only then the plan may be further from the best one.
///
/// # Panics
///
/// If a range ends before it starts, if a number of `model` but its latency is 0, if
/// `limits.align` is 0, or if `limits.largest` or `limits.budget` is less than `limits.align`. A
/// plan needs memory for wanted bytes / `limits.largest` requests: cut a range of 2^63 bytes to the
/// length of its file first.
///
/// # Examples
///
/// ```
/// use foreread_core::ranges::{CostModel, RequestLimits, plan};
///
/// let wanted = [0..4096, 102_400..106_496, 50_000_000..50_004_096];
/// let limits = RequestLimits { align: 4096, largest: 8 << 20, budget: 64 << 20 };
/// let disk = CostModel {
///     latency_ns: 4_000_000,
///     connection_bytes_per_s: 100_000_000,
///     total_bytes_per_s: 100_000_000,
///     parallel: 1,
/// };
/// // The gap of 98 kB costs 1 ms and saves 4 ms; the one of 49.9 MB costs 499 ms.
/// let plan_of_disk = plan(&wanted, &disk, &limits);
/// assert_eq!(plan_of_disk.requests(), [0..106_496, 49_999_872..50_008_064]);
///
/// // With eight at once nothing is saved: three requests. The last range touches two pages.
/// let plan_of_eight = plan(&wanted, &CostModel { parallel: 8, ..disk }, &limits);
/// assert_eq!((plan_of_eight.requests().len(), plan_of_eight.bytes()), (3, 16384));
/// ```
#[must_use]
pub fn plan(wanted: &[Range<u64>], model: &CostModel, limits: &RequestLimits) -> RequestPlan {
    model.check();
    limits.check();
    let spans = wanted::spans(wanted, limits.align);
    if spans.is_empty() {
        return RequestPlan::new(Vec::new(), 0);
    }
    let levels = MergeLevels::new(&spans, limits.cap());
    search::fastest(&levels, model, limits)
}
