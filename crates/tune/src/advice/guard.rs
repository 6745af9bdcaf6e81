//! What takes the place of the window in force: nothing that gives less than it.
//!
//! In:    the window that a profile has chosen, the one in force, the rows of both.
//! Out:   [`GuardedWindow`]: the window to set, and why it is not the chosen one.
//! Never: a window without a refusal that was not measured to give 98 % of what is in force now,
//!        beyond the error of both (the tested rate of harm: docs/tune.md); a window in force that
//!        has less than 98 % of the chosen one in the table.
//!
//! ```text
//!   chosen == in force? ------------------ yes --> it stays
//!   in force was not measured? ----------- yes --> the chosen one, and a refusal to set it
//!   chosen surely keeps 98 % of it? ------ yes --> the chosen one
//!   in force has < 98 % of chosen? ------- yes --> the chosen one, and a refusal to set it
//!   a window between the two that does? -- yes --> the smallest of them
//!                                          no  --> what is in force stays
//! ```
//!
//! A database pays for streams with what its random reads gain, so there the sum of both decides.

use super::beside;
use super::tradeoff::LatencyLine;
use crate::plateau::{Certainty, MeasuredWindow, SHARE};
use crate::report::{PAGE_KIB, Profile, WindowResult};
use crate::sweep::SweepOutcome;

/// A choice that has been held against what is in force.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GuardedWindow {
    /// The window.
    pub(super) window_kib: u64,
    /// Why it is not the one that was chosen.
    pub(super) why: Option<String>,
    /// Whether what is in force was not measured: then nothing is known of the change.
    pub(super) is_blind: bool,
}

/// The row of the window in force: off, and less than a page, are one page.
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
    // Noise hides the change, and the table shows a gain: that is what is recommended, and not set.
    if keeps(chosen) == Certainty::Unknown && chosen.mb_per_s * SHARE > now.mb_per_s {
        return as_chosen;
    }
    let between = rows.iter().filter(|row| chosen_kib < row.window_kib && row.window_kib < now_kib);
    let next = between.into_iter().find(|row| keeps(row) == Certainty::Surely);
    let lost = match keeps(chosen) {
        Certainty::SurelyNot => format!(
            "{chosen_kib} KiB are {} the {now_kib} KiB in force",
            beside(chosen.mb_per_s, now.mb_per_s)
        ),
        Certainty::Surely | Certainty::Unknown => format!(
            "it is not sure that {chosen_kib} KiB keep {:.0} % of what the {now_kib} KiB in force \
             give",
            100.0 * SHARE
        ),
    };
    let why = match next {
        Some(row) => format!("{lost}; {} KiB do", row.window_kib),
        None => format!("{lost}: those stay"),
    };
    let window_kib = next.map_or(now_kib, |row| row.window_kib);
    GuardedWindow { window_kib, why: Some(why), is_blind: false }
}

/// Returns whether a window keeps 98 % of what the one in force gives, or pays for what it loses.
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

/// Whether what random reads gain by a window is worth what streams lose by it; each is a share of
/// the time that it takes itself, and of what is uncertain the worse end counts.
fn pays_off(row: &WindowResult, now: &WindowResult, line: LatencyLine) -> Certainty {
    let stream_loses = 100.0 * (now.high / row.low - 1.0);
    let read_gains = 100.0 * (line.at(now.window_kib) / line.at(row.window_kib) - 1.0);
    let slack = 100.0 * (1.0 - SHARE);
    if stream_loses <= read_gains + slack { Certainty::Surely } else { Certainty::SurelyNot }
}
