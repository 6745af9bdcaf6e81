//! Measures reads under a flood of writes, to choose the scheduler and the write depth.
//!
//! In:    a device under a mixed load ([`MixedLoad`]), its settings, a time budget.
//! Out:   [`FloodReport`]: results for readers and writers under each setting, and the best
//! setting.
//! Never: a write outside the scratch file; a setting left behind; a recommendation without a
//! measured
//!        gain.
//!
//! ```text
//!   scratch file    |<-- a quarter -->|<--------- three quarters ---------->|
//!   one reader       4 KiB, wait, 4 KiB, wait ..                                 is measured
//!   64 writers                         64 KiB anywhere, 64 at any time           are the load
//! ```
//!
//! A user waits for a chain of dependent reads: each read reveals the offset of the next. Under a
//! flood, each waits behind the requests that the device has already accepted, and only scheduler
//! and depth determine how many. Design and figures: docs/guide/tune-scheduler.md.

mod buffer;
mod load;
mod mixed_load;
mod plan;
mod queue_settings;
mod report;
mod scratch;
mod trial;
mod trial_runs;
mod tunable_queue;
mod verdict;

use std::io;
use std::time::Duration;

use crate::probe::Stopped;

pub use load::RealMixedLoad;
pub use mixed_load::{MixedLoad, MixedSample};
pub use plan::{NextTrial, TrialPlan};
pub use report::{FloodReport, FloodRow};
pub use scratch::ScratchFile;
pub use trial::{Trial, trials};
pub use trial_runs::{IN_FORCE, TrialRuns};
pub use tunable_queue::TunableQueue;
pub use verdict::{FloodVerdict, verdict};

/// Current activity of [`measure`], for a progress line.
#[derive(Clone, Debug, PartialEq)]
pub struct FloodProgress {
    /// Setting under trial: `mq-deadline, async_depth 4`.
    pub trial: String,
    /// Used share of the budget, from 0 to 1.
    pub part: f64,
}

/// Result of [`measure`].
#[derive(Clone, Debug, PartialEq)]
pub struct FloodOutcome {
    /// Measurements; partial if it was stopped.
    pub report: FloodReport,
    /// Reason for an early end.
    pub stopped: Option<Stopped>,
}

/// Tries the settings in `offer`, and restores the original ones.
///
/// ```text
///   once each, shuffled  --->  the one in force and the best few, round by round, shuffled
///                                                       |
///   everything as before  <---  verdict  <--- clear, or the budget is used up
/// ```
pub fn measure(
    mixed: &mut dyn MixedLoad,
    offer: &TunableQueue,
    budget: Duration,
    seed: u64,
    said: &mut dyn FnMut(&FloodProgress),
) -> FloodOutcome {
    let mut queue_settings = queue_settings::QueueSettings::new(offer, &mixed.queue());
    let began = mixed.now();
    let mut plan = TrialPlan::new(trials(offer), budget, seed);
    let mut notes = offer.notes.clone();
    let mut stopped = None;
    loop {
        let spent = Duration::from_nanos(mixed.now().0.saturating_sub(began.0));
        let NextTrial::Run { index, time } = plan.next(spent) else { break };
        let trial = plan.trials()[index].clone();
        let part = spent.as_secs_f64() / budget.as_secs_f64().max(1e-3);
        said(&FloodProgress { trial: trial.to_string(), part: part.min(1.0) });
        if let Err(error) = queue_settings.apply(mixed, &trial) {
            if index == IN_FORCE {
                notes.push(format!("cannot restore the previous settings: {error}"));
                break;
            }
            if is_refusal(&error) {
                notes.push(format!("only the current settings were measured: {error}"));
                (1..plan.trials().len()).for_each(|index| plan.drop_trial(index));
            } else {
                notes.push(format!("{trial} was not tried: {error}"));
                plan.drop_trial(index);
            }
            continue;
        }
        plan.describe(index, mixed.queue());
        match mixed.run(time) {
            Ok(sample) => {
                let spent = Duration::from_nanos(mixed.now().0.saturating_sub(began.0));
                plan.add(index, sample, spent);
            }
            Err(why) => {
                stopped = Some(why);
                break;
            }
        }
    }
    let restored = queue_settings.restore(mixed);
    if let Err(error) = &restored {
        notes.push(format!("not everything is as it was: {error}"));
    }
    let seconds = mixed.now().0.saturating_sub(began.0) as f64 / 1e9;
    let verdict = verdict(plan.tried(), stopped.is_none());
    let recommended =
        queue_settings.settings_for(verdict.choice.map(|index| &plan.trials()[index]));
    let report = FloodReport {
        device: offer.device.clone(),
        seconds,
        rows: report::rows(&plan),
        recommended,
        why: verdict.why,
        notes: notes.into_iter().chain(plan.notes()).collect(),
        restored: restored.is_ok(),
    };
    FloodOutcome { report, stopped }
}

/// Returns whether the error means that no other setting can be made either.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
