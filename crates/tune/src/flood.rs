//! Reads beside a flood of writes: which scheduler, and how much of the flood at once.
//!
//! In:    a device under this mixed load ([`MixedLoad`]), what can be set on it, a budget of time.
//! Out:   [`FloodReport`]: what each setting gives readers and writers, and which one to take.
//! Never: a write outside the scratch file; a setting that stays behind; a recommendation that was
//!        not seen to pay.
//!
//! ```text
//!   scratch file    |<-- a quarter -->|<--------- three quarters ---------->|
//!   one reader       4 KiB, wait, 4 KiB, wait ..                                 is measured
//!   64 writers                         64 KiB anywhere, 64 at any time           are the load
//! ```
//!
//! A chain of dependent reads is what a person waits for: each read tells where the next one is.
//! Beside a flood each of them waits behind what the device has taken already, and only scheduler
//! and depth decide how much that is. Design and figures: docs/tune-scheduler.md.

mod buffer;
mod knobs;
mod load;
mod offer;
mod plan;
mod report;
mod scratch;
mod trial;
mod verdict;

use std::io;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use crate::probe::Stopped;
use crate::setting::DeviceSetting;
use crate::sysfs::Queue;

pub use load::RealMixedLoad;
pub use offer::TunableQueue;
pub use plan::{NextTrial, TrialPlan, TrialRuns};
pub use report::{FloodReport, FloodRow};
pub use scratch::ScratchFile;
pub use trial::{Trial, trials};
pub use verdict::{FloodVerdict, verdict};

/// A device under the mixed load.
pub trait MixedLoad {
    /// The time now, since a moment of its own.
    fn now(&self) -> Nanos;

    /// What is in force, as sysfs shows it.
    fn queue(&self) -> Queue;

    /// Sets one thing.
    ///
    /// # Errors
    ///
    /// If the system refuses it.
    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()>;

    /// Lets readers and writers run for about `time`, after a start that does not count.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn run(&mut self, time: Duration) -> Result<MixedSample, Stopped>;
}

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedSample {
    /// How long each read took, in nanoseconds.
    pub reads_ns: Vec<u64>,
    /// What the writers wrote meanwhile.
    pub written: ByteCount,
    /// How long that was, in nanoseconds.
    pub ns: u64,
}

/// What [`measure`] does at the moment, for a line of progress.
#[derive(Clone, Debug, PartialEq)]
pub struct FloodProgress {
    /// The setting that is tried: `mq-deadline, async_depth 4`.
    pub trial: String,
    /// How much of the budget is used, from 0 to 1.
    pub part: f64,
}

/// What [`measure`] comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct FloodOutcome {
    /// What was measured; all that is known so far if it was stopped.
    pub report: FloodReport,
    /// Why it ended before its end.
    pub stopped: Option<Stopped>,
}

/// Tries the settings that `offer` has, and puts everything back.
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
    let mut knobs = knobs::QueueSettings::new(offer, &mixed.queue());
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
        if let Err(error) = knobs.apply(mixed, &trial) {
            if index == TrialPlan::IN_FORCE {
                notes.push(format!("what was in force cannot be set again: {error}"));
                break;
            }
            if is_refusal(&error) {
                notes.push(format!("only what is in force was measured: {error}"));
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
    let restored = knobs.restore(mixed);
    if let Err(error) = &restored {
        notes.push(format!("not everything is as it was: {error}"));
    }
    let seconds = mixed.now().0.saturating_sub(began.0) as f64 / 1e9;
    let verdict = verdict(plan.tried(), stopped.is_none());
    let recommended = knobs.settings_for(verdict.choice.map(|index| &plan.trials()[index]));
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

/// Whether nothing else can be set either.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Longer than centuries does not occur.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
