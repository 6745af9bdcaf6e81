//! The settings that are worth a try.
//!
//! In:    a [`TunableQueue`].
//! Out:   [`Trial`]s, the one in force first, then by how much they may change.
//! Never: a scheduler that the device does not offer, which would load a module.
//!
//! Two things keep a read waiting: what the device has taken already, and what the scheduler sends
//! before it. `async_depth` bounds how many writes there are at all, `fifo_batch` how many go
//! before the reads are looked at again, `nr_requests` how many requests of any kind there are.

use std::fmt;

use super::tunable_queue::TunableQueue;

/// One thing to try: a scheduler, and what of it is not as it comes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trial {
    /// Which; None: a device without one.
    pub scheduler: Option<String>,
    /// What is not as it was found, or not as a new scheduler comes: name below `queue/` and value.
    pub changes: Vec<(&'static str, u64)>,
}

/// All that is worth a try.
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

/// The scheduler that this is about.
pub(super) const MQ_DEADLINE: &str = "mq-deadline";

/// No scheduler: what comes first goes first.
pub(super) const NONE: &str = "none";

/// The scheduler itself.
pub(super) const SCHEDULER: &str = "scheduler";

/// How many requests of any kind.
pub(super) const NR_REQUESTS: &str = "nr_requests";

/// How many requests of one direction before the other is looked at.
pub(super) const FIFO_BATCH: &str = "iosched/fifo_batch";

/// The number of asynchronous requests: writes, and reads ahead.
pub(super) const ASYNC_DEPTH: &str = "iosched/async_depth";

/// The same where it is the queue's own, since Linux 7.0.
pub(super) const QUEUE_ASYNC_DEPTH: &str = "async_depth";
