//! First line of a report: the best window with its confidence, the change, and how to undo it.
//!
//! ```text
//!   sda: 1024K is best for mixed reads (95 % confidence: between 1024K and 2048K);
//!        --apply changes read_ahead_kb from 128 to 1024, 626 % faster than now; undo: ...
//! ```

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_tune::advice::beside;
use foreread_tune::report::{Method, Recommended, Refusal, Report};

use super::plan::TuneAction;

/// Returns the headline.
pub(super) fn headline(report: &Report, action: TuneAction) -> String {
    let device = &report.device;
    let Some(to) = &report.recommended else {
        return format!("{device}: no window can be recommended yet, and nothing changes.");
    };
    let sure = match to.between_kib {
        Some([low, high]) if !(low..=high).contains(&to.read_ahead_kb) => {
            let choice = if low < high {
                format!("the choice is between {} and {}", size(low), size(high))
            } else {
                format!("the choice would be {}", size(low))
            };
            format!("{choice}, which may be slower than the current setting")
        }
        Some([low, high]) if low < high => {
            format!("95 % confidence: between {} and {}", size(low), size(high))
        }
        Some(_) => "95 % confidence".to_owned(),
        None => "confidence unknown".to_owned(),
    };
    let window = size(to.read_ahead_kb);
    let profile = to.profile.name();
    let verdict = verdict(report, to);
    format!(
        "{device}: {window} {verdict} for {profile} reads ({sure}); {}.",
        change(report, to, action)
    )
}

/// Returns the verdict that the table supports: a window that stays because of noise is not called
/// the best.
fn verdict(report: &Report, to: &Recommended) -> &'static str {
    let is_open = |it: &Refusal| matches!(it, Refusal::ChangeUncertain { .. });
    let is_choice =
        to.between_kib.is_none_or(|[low, high]| (low..=high).contains(&to.read_ahead_kb));
    let is_same = report.compared.now_kib == Some(to.read_ahead_kb);
    if report.refusals.iter().any(is_open) {
        "measured best, but not reliably,"
    } else if is_same && (!is_choice || is_tie(report, to)) {
        "stays"
    } else {
        "is best"
    }
}

/// Returns true if the recommended window is not the plateau's but equals it within the errors.
fn is_tie(report: &Report, to: &Recommended) -> bool {
    let plateau = report.plateau_kib.and_then(|kib| report.row(kib));
    let rows = report.row(to.read_ahead_kb).zip(plateau);
    rows.is_some_and(|(to, plateau)| to.window_kib != plateau.window_kib && plateau.low <= to.high)
}

/// Returns the change and the command to undo it.
fn change(report: &Report, to: &Recommended, action: TuneAction) -> String {
    if report.method == Method::Simulated {
        return "simulated, nothing is set".to_owned();
    }
    let counts = |remember| {
        let mut against = report.refusals.iter().filter(move |it| remember || it.is_of_apply());
        against.next()
    };
    let (device, kib) = (&report.device, to.read_ahead_kb);
    let undo = format!("undo: foreread tune forget {device}");
    let gain = gain(report, kib).map_or_else(String::new, |gain| format!(", {gain} now"));
    let from = report.compared.now_kib.map_or_else(|| "?".to_owned(), |now| now.to_string());
    let is_same = report.compared.now_kib == Some(kib);
    match action {
        TuneAction::Set(set) if is_same && !set.remembers() => "it is in force already".to_owned(),
        TuneAction::Set(set) => match (counts(set.remembers()), set.is_forced) {
            (Some(_), false) => "nothing is set, for the reason at the end".to_owned(),
            (Some(_), true) => {
                format!("read_ahead_kb is set from {from} to {kib} by --force{gain}; {undo}")
            }
            (None, _) if is_same => "it is in force already".to_owned(),
            (None, _) => format!("read_ahead_kb is set from {from} to {kib}{gain}; {undo}"),
        },
        TuneAction::Report if is_same => "it is in force already".to_owned(),
        TuneAction::Report => match counts(false) {
            Some(refusal) => format!("nothing changes, and --apply would refuse: {refusal}"),
            None => format!(
                "nothing changes; --apply sets read_ahead_kb from {from} to {kib}{gain}; {undo}"
            ),
        },
    }
}

/// Returns a text such as `626 % faster than`, if both windows were measured.
fn gain(report: &Report, kib: u64) -> Option<String> {
    let speed = |kib: u64| report.row(kib).map(|row| row.mb_per_s);
    Some(beside(speed(kib)?, speed(report.compared.now_kib?)?))
}

fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

#[cfg(test)]
mod tests {
    use foreread_tune::report::{Compared, Profile, WindowResult};

    use super::*;
    use crate::cmd::tune::plan::{SetPlan, SettingLifetime};

    fn report(to_kib: u64, between: [u64; 2], now_kib: u64, refusals: Vec<Refusal>) -> Report {
        Report {
            device: "sda".into(),
            seconds: 50.0,
            method: Method::Kernel,
            sweep: Vec::new(),
            random: Vec::new(),
            parallel: Vec::new(),
            plateau_kib: None,
            best_kib: None,
            plateau_between_kib: None,
            recommended: Some(Recommended {
                read_ahead_kb: to_kib,
                between_kib: Some(between),
                inode_readahead_blks: None,
                scheduler: Vec::new(),
                profile: Profile::Mixed,
                why: String::new(),
            }),
            refusals,
            compared: Compared { now_kib: Some(now_kib), ..Compared::default() },
            notes: Vec::new(),
            restored: true,
        }
    }

    #[test]
    fn what_is_in_force_is_not_refused() {
        let refusals = vec![Refusal::NowUnknown { now_kib: Some(128) }];
        let apply =
            TuneAction::Set(SetPlan { lifetime: SettingLifetime::UntilBoot, is_forced: false });
        let line = headline(&report(128, [128, 128], 128, refusals.clone()), apply);
        assert!(line.ends_with("it is in force already."), "{line}");
        let line = headline(&report(256, [256, 256], 128, refusals), apply);
        assert!(line.contains("nothing is set"), "{line}");
    }

    /// A window that stayed because of noise used to be called the best, above a faster row.
    #[test]
    fn only_what_the_table_carries_is_best() {
        let open = vec![Refusal::ChangeUncertain { to_kib: 1024, now_kib: 128 }];
        let line = headline(&report(1024, [128, 2048], 128, open), TuneAction::Report);
        assert!(line.starts_with("sda: 1M measured best, but not reliably, for"), "{line}");
        assert!(line.contains("--apply would refuse: because of noise"), "{line}");
        let line = headline(&report(8192, [2048, 2048], 8192, Vec::new()), TuneAction::Report);
        assert!(line.starts_with("sda: 8M stays for mixed reads"), "{line}");
        let mut tie = report(1024, [512, 1024], 1024, Vec::new());
        let line = headline(&tie, TuneAction::Report);
        assert!(line.starts_with("sda: 1M is best for mixed reads"), "{line}");
        let row = |window_kib, mb_per_s: f64| WindowResult {
            window_kib,
            mb_per_s,
            low: mb_per_s - 3.0,
            high: mb_per_s + 3.0,
            samples: 20,
        };
        tie.sweep = vec![row(512, 101.0), row(1024, 100.0)];
        tie.plateau_kib = Some(512);
        let line = headline(&tie, TuneAction::Report);
        assert!(line.starts_with("sda: 1M stays for mixed reads"), "{line}");
    }

    #[test]
    fn one_choice_is_not_between_two() {
        let line = headline(&report(8192, [2048, 2048], 8192, Vec::new()), TuneAction::Report);
        assert!(line.contains("the choice would be 2M, which may be slower"), "{line}");
        let line = headline(&report(8192, [1024, 2048], 8192, Vec::new()), TuneAction::Report);
        assert!(line.contains("the choice is between 1M and 2M,"), "{line}");
    }
}
