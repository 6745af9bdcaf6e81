//! Reasons not to set a recommendation: the measurement does not support it.
//!
//! Each [`Refusal`] states its way out. This module changes no setting and does not know about
//! `--force`.
//!
//! ```text
//!   the sweep --- was stopped, or its time was over before its plan ---> Stopped, Unfinished
//!             --- may have measured a cache below -----------------------> Cached
//!             --- is sure within a factor of four? no ------------------> Uncertain
//!             --- read the window in force? no ---------------------------> NowUnknown
//!             --- is sure that the change costs nothing? no --------------> ChangeUncertain
//!   to remember: it was no more than a quick look ----------------------> Quick
//! ```

use super::{DeviceFacts, guard};
use crate::plateau::{Certainty, SHARE};
use crate::probe::Stopped;
use crate::report::{Method, PAGE_KIB, Recommended, Refusal, WindowResult};
use crate::sweep::{SweepEnd, SweepOutcome};

/// Returns every reason not to set the recommended window.
#[must_use]
pub(super) fn refusals(
    facts: &DeviceFacts,
    outcome: &SweepOutcome,
    recommended: &Recommended,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    refusals.extend(outcome.stopped.as_ref().map(|stopped| Refusal::Stopped {
        why: match stopped {
            Stopped::Interrupted => "interrupted".to_owned(),
            Stopped::Failed(what) => what.clone(),
        },
    }));
    if let (None, SweepEnd::Unfinished { read, of }) = (&outcome.stopped, outcome.ended) {
        refusals.push(Refusal::Unfinished { read, of, seconds: seconds(outcome) });
    }
    let why = cached(facts, outcome).or_else(|| cached_pair(facts, outcome, recommended));
    refusals.extend(why.map(|why| Refusal::Cached { why }));
    if let Some([low_kib, high_kib]) = recommended.between_kib
        && high_kib > SURE_WITHIN * low_kib
    {
        refusals.push(Refusal::Uncertain { low_kib, high_kib });
    }
    let now = facts.now_kib.and_then(|kib| guard::row_now(&outcome.rows, kib));
    if now.is_none() && facts.method != Method::Simulated {
        refusals.push(Refusal::NowUnknown { now_kib: facts.now_kib });
    }
    refusals.extend(now.and_then(|now| uncertain_change(now, outcome, recommended)));
    refusals.extend(outcome.is_quick.then_some(Refusal::Quick));
    refusals
}

/// Returns the refusal of a change that may cost more than 2 % of the throughput in force.
fn uncertain_change(
    now: &WindowResult,
    outcome: &SweepOutcome,
    recommended: &Recommended,
) -> Option<Refusal> {
    let to_kib = recommended.read_ahead_kb;
    let to = outcome.rows.iter().find(|row| row.window_kib == to_kib)?;
    let is_sure = to_kib == now.window_kib
        || guard::keeps(to, now, outcome, recommended.profile) == Certainty::Surely;
    (!is_sure).then_some(Refusal::ChangeUncertain { to_kib, now_kib: now.window_kib })
}

/// Returns evidence that a cache below was measured instead of the device.
fn cached(facts: &DeviceFacts, outcome: &SweepOutcome) -> Option<String> {
    if let Some(why) = &facts.cached_below {
        return Some(why.clone());
    }
    if outcome.ended == SweepEnd::NothingFresh || outcome.may_be_cached {
        let why = "repeated reads are faster, and too little unread data was left";
        return Some(why.to_owned());
    }
    let fastest = outcome.rows.iter().map(|row| row.mb_per_s).fold(0.0, f64::max);
    let is_memory = fastest > DEVICE_MB_PER_S && facts.method != Method::Simulated;
    is_memory.then(|| format!("{fastest:.0} MB/s is the speed of memory, not of a device"))
}

/// Returns evidence that a cache below decided between the recommended window and the one in force.
/// Where previously read ranges were used, fresh ranges have to give the same answer.
///
/// ```text
///   MB/s | ============ upper limit of the device (a token bucket)
///        | c   o  o  o      c: 4 KiB from the cache below, as fast as every other window
///        | o                o: 4 KiB from the device
///        +---------------> window
/// ```
fn cached_pair(
    facts: &DeviceFacts,
    outcome: &SweepOutcome,
    recommended: &Recommended,
) -> Option<String> {
    let now_kib = facts.now_kib?.max(PAGE_KIB);
    let kib = recommended.read_ahead_kb;
    let fresh = outcome.fresh_rows.as_ref().filter(|_| kib != now_kib)?;
    let row = |kib: u64| fresh.iter().find(|row| row.window_kib == kib);
    let (Some(to), Some(now)) = (row(kib), row(now_kib)) else {
        return Some(format!("{kib} and {now_kib} KiB were not both measured on unread data"));
    };
    let interval = |row: &WindowResult| (row.high / row.low).ln() / 2.0;
    let lowest = (to.mb_per_s / now.mb_per_s).ln() - interval(to).hypot(interval(now));
    let keeps = lowest >= SHARE.ln() - 1e-9;
    (!keeps).then(|| {
        format!(
            "it is uncertain whether {kib} KiB keep {:.0} % of the throughput of {now_kib} KiB on \
             unread data",
            100.0 * SHARE
        )
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most an hour")]
fn seconds(outcome: &SweepOutcome) -> u64 {
    outcome.seconds.clamp(0.0, 1e6).ceil() as u64
}

/// The window has to be known to within this factor.
const SURE_WITHIN: u64 = 4;

/// No device delivers this much to one reader: sixteen lanes of PCIe 3, four of PCIe 5.
const DEVICE_MB_PER_S: f64 = 16_000.0;
