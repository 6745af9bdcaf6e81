//! Settings worth a trial.
//!
//! The one in force is first, then the others in order of the changes they make. A scheduler that
//! the device does not offer is never tried: setting it would load a module.
//!
//! Two things delay a read: the requests that the device has accepted, and those that the scheduler
//! dispatches first. `async_depth` limits the writes in flight, `fifo_batch` the writes before the
//! next look at reads, `nr_requests` the requests of any kind.

use std::fmt;

use super::tunable_queue::TunableQueue;

/// A scheduler, and its settings that differ from the defaults.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trial {
    /// Scheduler; None for a device without one.
    pub scheduler: Option<String>,
    /// Settings that differ from the original state, or from a new scheduler's defaults: name below
    /// `queue/` and value.
    pub changes: Vec<(&'static str, u64)>,
}

/// Returns all settings worth a trial.
#[must_use]
pub fn trials(offer: &TunableQueue) -> Vec<Trial> {
    let in_force = Trial { scheduler: offer.scheduler.clone(), changes: Vec::new() };
    if !offer.may_set {
        return vec![in_force];
    }
    let trial = |scheduler: &str, changes: &[(&'static str, u64)]| Trial {
        scheduler: Some(scheduler.to_owned()),
        changes: changes.to_vec(),
    };
    let async_depth = if offer.is_async_depth_of_queue { QUEUE_ASYNC_DEPTH } else { ASYNC_DEPTH };
    let mut wanted = vec![
        in_force,
        trial(MQ_DEADLINE, &[(async_depth, 4)]),
        trial(MQ_DEADLINE, &[(FIFO_BATCH, 1)]),
        trial(NONE, &[]),
        trial(MQ_DEADLINE, &[]),
        trial(MQ_DEADLINE, &[(async_depth, 16)]),
        trial(MQ_DEADLINE, &[(FIFO_BATCH, 1), (async_depth, 4)]),
        trial(MQ_DEADLINE, &[(async_depth, 1)]),
        trial(MQ_DEADLINE, &[(NR_REQUESTS, 8)]),
    ];
    if offer.has_own_tags {
        let depths = [8, 32].into_iter().filter(|depth| offer.nr_requests > Some(*depth));
        wanted.extend(depths.map(|depth| trial(NONE, &[(NR_REQUESTS, depth)])));
    }
    wanted.retain(|trial| trial.scheduler.as_ref().is_none_or(|it| offer.choices.contains(it)));
    let mut trials: Vec<Trial> = Vec::new();
    for trial in wanted {
        if !trials.contains(&trial) {
            trials.push(trial);
        }
    }
    trials
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheduler.as_deref().unwrap_or("no scheduler"))?;
        for (name, value) in &self.changes {
            let name = name.rsplit('/').next().unwrap_or(name);
            write!(f, ", {name} {value}")?;
        }
        Ok(())
    }
}

/// The scheduler whose settings are tuned.
pub(super) const MQ_DEADLINE: &str = "mq-deadline";

/// No scheduler: requests are dispatched in order of arrival.
pub(super) const NONE: &str = "none";

/// Attribute of the scheduler.
pub(super) const SCHEDULER: &str = "scheduler";

/// Limit of requests of any kind.
pub(super) const NR_REQUESTS: &str = "nr_requests";

/// Requests of one direction before the scheduler looks at the other.
pub(super) const FIFO_BATCH: &str = "iosched/fifo_batch";

/// Limit of asynchronous requests: writes, and reads ahead.
pub(super) const ASYNC_DEPTH: &str = "iosched/async_depth";

/// Name of the same limit as a queue attribute, since Linux 7.0.
pub(super) const QUEUE_ASYNC_DEPTH: &str = "async_depth";
