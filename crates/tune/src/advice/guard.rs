//! Keeps a recommendation from replacing the window in force with a slower one.
//!
//! A window is set without a refusal only if it was measured to give 98 % of the window in force,
//! beyond the error of both (the tested rate of harm: docs/guide/tune.md). The window in force does
//! not stay if it gives less than 98 % of the chosen one in the table.
//!
//! ```text
//!   chosen == in force? ------------------ yes --> it stays
//!   in force was not measured? ----------- yes --> the chosen one, and a refusal to set it
//!   chosen surely keeps 98 % of it? ------ yes --> the chosen one
//!   in force has < 98 % of chosen? ------- yes --> the chosen one, and a refusal to set it
//!   a window between the two that does? -- yes --> the smallest of them
//!                                          no  --> the window in force stays
//! ```
//!
//! A database trades stream throughput for random latency, so for it the sum of both decides.

use super::beside;
use super::tradeoff::LatencyLine;
use crate::plateau::{Certainty, MeasuredWindow, SHARE};
use crate::report::{PAGE_KIB, Profile, WindowResult};
use crate::sweep::SweepOutcome;

/// A choice after comparison with the window in force.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GuardedWindow {
    /// Window to set.
    pub(super) window_kib: u64,
    /// Reason for deviating from the profile's choice.
    pub(super) why: Option<String>,
    /// True if the window in force was not measured, so the effect of the change is unknown.
    pub(super) is_blind: bool,
}

/// Returns the row of the window in force. Windows of 0 or less than a page count as one page.
pub(super) fn row_now(rows: &[WindowResult], now_kib: u64) -> Option<&WindowResult> {
    rows.iter().find(|row| row.window_kib == now_kib.max(PAGE_KIB))
}

pub(super) fn guarded(
    chosen_kib: u64,
    now_kib: Option<u64>,
    outcome: &SweepOutcome,
    profile: Profile,
) -> GuardedWindow {
    let rows = &outcome.rows[..];
    let as_chosen = GuardedWindow { window_kib: chosen_kib, why: None, is_blind: false };
    let Some(now_kib) = now_kib.filter(|now| *now != chosen_kib) else { return as_chosen };
    let chosen = rows.iter().find(|row| row.window_kib == chosen_kib);
    let (Some(chosen), Some(now)) = (chosen, row_now(rows, now_kib)) else {
        return GuardedWindow { is_blind: true, ..as_chosen };
    };
    let keeps = |row: &WindowResult| keeps(row, now, outcome, profile);
    if keeps(chosen) == Certainty::Surely {
        return as_chosen;
    }
    // Noise hides the change and the table shows a gain: recommend the window, but do not set it.
    if keeps(chosen) == Certainty::Unknown && chosen.mb_per_s * SHARE > now.mb_per_s {
        return as_chosen;
    }
    let between = rows.iter().filter(|row| chosen_kib < row.window_kib && row.window_kib < now_kib);
    let next = between.into_iter().find(|row| keeps(row) == Certainty::Surely);
    let lost = match keeps(chosen) {
        Certainty::SurelyNot => format!(
            "{chosen_kib} KiB are {} the current {now_kib} KiB",
            beside(chosen.mb_per_s, now.mb_per_s)
        ),
        Certainty::Surely | Certainty::Unknown => format!(
            "it is uncertain whether {chosen_kib} KiB keep {:.0} % of the throughput of the \
             current {now_kib} KiB",
            100.0 * SHARE
        ),
    };
    let why = match next {
        Some(row) => format!("{lost}; use {} KiB", row.window_kib),
        None => format!("{lost}: keep them"),
    };
    let window_kib = next.map_or(now_kib, |row| row.window_kib);
    GuardedWindow { window_kib, why: Some(why), is_blind: false }
}

/// Returns whether a window keeps 98 % of the throughput of the one in force, or pays for its loss.
pub(super) fn keeps(
    row: &WindowResult,
    now: &WindowResult,
    outcome: &SweepOutcome,
    profile: Profile,
) -> Certainty {
    let of_profile =
        (profile == Profile::Database).then(|| LatencyLine::through(&outcome.random)).flatten();
    match of_profile {
        Some(line) => pays_off(row, now, line),
        None => MeasuredWindow::from(row).keeps(&MeasuredWindow::from(now), outcome.bias),
    }
}

/// Returns whether the gain for random reads outweighs the loss for streams. Each is a share of its
/// own time, and the pessimistic end of each uncertain figure counts.
fn pays_off(row: &WindowResult, now: &WindowResult, line: LatencyLine) -> Certainty {
    let stream_loses = 100.0 * (now.high / row.low - 1.0);
    let read_gains = 100.0 * (line.at(now.window_kib) / line.at(row.window_kib) - 1.0);
    let slack = 100.0 * (1.0 - SHARE);
    if stream_loses <= read_gains + slack { Certainty::Surely } else { Certainty::SurelyNot }
}
