//! Switches from one trial to the next, and back to the original settings.
//!
//! The calls are ordered so that none undoes another, and the device is never left with fewer tags
//! than it had.
//!
//! ```text
//!   scheduler ------> replaces nr_requests and all of iosched/ by its own
//!   nr_requests ----> sets async_depth, too
//!   the rest
//! ```
//!
//! Before a scheduler is replaced, all of its settings return to their initial values. That matters
//! without a scheduler, where `nr_requests` is the number of device tags: Linux keeps the tags and
//! shows another number once a scheduler is attached. Writing the shown number then changes
//! nothing.

use std::collections::BTreeMap;
use std::io;

use super::mixed_load::MixedLoad;
use super::trial::{ASYNC_DEPTH, NR_REQUESTS, QUEUE_ASYNC_DEPTH, SCHEDULER, Trial};
use super::tunable_queue::TunableQueue;
use crate::setting::DeviceSetting;
use crate::sysfs::Queue;

/// Switches the settings of one queue, and restores the original ones.
pub(super) struct QueueSettings {
    device: String,
    may_set: bool,
    found: Option<String>,
    /// Settings of each scheduler as found, or as it starts: names below `queue/`, in the order in
    /// which they are set.
    bases: BTreeMap<String, AttributeValues>,
}

type AttributeValues = Vec<(String, String)>;

impl QueueSettings {
    pub(super) fn new(offer: &TunableQueue, queue: &Queue) -> Self {
        let found = queue.scheduler.as_ref().map(|scheduler| scheduler.chosen.clone());
        let bases = found.iter().map(|name| (name.clone(), values(queue))).collect();
        Self { device: offer.device.clone(), may_set: offer.may_set, found, bases }
    }

    /// Makes the settings of a trial.
    pub(super) fn apply(&mut self, mixed: &mut dyn MixedLoad, trial: &Trial) -> io::Result<()> {
        let Some(wanted) = trial.scheduler.as_ref().filter(|_| self.may_set) else {
            return Ok(());
        };
        let chosen = mixed.queue().scheduler.map(|scheduler| scheduler.chosen);
        let chosen = chosen.ok_or_else(|| io::Error::other("its scheduler has gone"))?;
        if chosen != *wanted {
            let base = self.bases.get(&chosen).cloned().unwrap_or_default();
            self.put(mixed, &base)?;
            mixed.set(&self.setting(SCHEDULER, wanted))?;
            if !self.bases.contains_key(wanted) {
                self.bases.insert(wanted.clone(), values(&mixed.queue()));
            }
        }
        let target = self.target(trial);
        self.put(mixed, &target)
    }

    /// Restores the original settings.
    pub(super) fn restore(&mut self, mixed: &mut dyn MixedLoad) -> io::Result<()> {
        let found = Trial { scheduler: self.found.clone(), changes: Vec::new() };
        self.apply(mixed, &found)
    }

    /// Returns the settings that lead from the original state to the choice, in this order.
    pub(super) fn settings_for(&self, choice: Option<&Trial>) -> Vec<DeviceSetting> {
        let Some(wanted) = choice.and_then(|trial| trial.scheduler.as_ref().map(|it| (trial, it)))
        else {
            return Vec::new();
        };
        let (trial, scheduler) = wanted;
        let mut settings = Vec::new();
        if Some(scheduler) != self.found.as_ref() {
            settings.push(self.setting(SCHEDULER, scheduler));
        }
        let base = self.bases.get(scheduler).cloned().unwrap_or_default();
        let target = self.target(trial).into_iter();
        let changed = target.filter(|pair| !base.contains(pair));
        settings.extend(changed.map(|(name, value)| self.setting(&name, &value)));
        settings
    }

    /// Returns the scheduler's settings with the trial's changes.
    fn target(&self, trial: &Trial) -> AttributeValues {
        let scheduler = trial.scheduler.as_deref().unwrap_or_default();
        let mut target = self.bases.get(scheduler).cloned().unwrap_or_default();
        let changes = |name: &str| trial.changes.iter().any(|(changed, _)| *changed == name);
        if changes(NR_REQUESTS) {
            // The kernel adjusts these along with it, as for a manual change.
            let follows = [ASYNC_DEPTH, QUEUE_ASYNC_DEPTH];
            target.retain(|(name, _)| changes(name) || !follows.contains(&name.as_str()));
        }
        for (name, value) in &trial.changes {
            match target.iter_mut().find(|(known, _)| known == name) {
                Some(pair) => pair.1 = value.to_string(),
                // The attribute does not exist: setting it returns the error.
                None => target.push(((*name).to_owned(), value.to_string())),
            }
        }
        target
    }

    /// Writes the settings that differ. It checks before each, because one may change a later one.
    fn put(&self, mixed: &mut dyn MixedLoad, target: &AttributeValues) -> io::Result<()> {
        for (name, value) in target {
            let now = values(&mixed.queue());
            if !now.iter().any(|(known, now)| known == name && now == value) {
                mixed.set(&self.setting(name, value))?;
            }
        }
        Ok(())
    }

    fn setting(&self, name: &str, value: &str) -> DeviceSetting {
        DeviceSetting {
            device: self.device.clone(),
            attribute: format!("queue/{name}"),
            value: value.to_owned(),
        }
    }
}

/// Returns the settings of a queue, `nr_requests` first.
fn values(queue: &Queue) -> AttributeValues {
    let depth = queue.nr_requests.map(|depth| (NR_REQUESTS.to_owned(), depth.to_string()));
    let scheduler = queue.scheduler.iter();
    let tunables = scheduler.flat_map(|scheduler| &scheduler.tunables);
    let async_depth =
        queue.async_depth.map(|depth| (QUEUE_ASYNC_DEPTH.to_owned(), depth.to_string()));
    let tunables = tunables.map(|(name, value)| (format!("iosched/{name}"), value.clone()));
    depth.into_iter().chain(async_depth).chain(tunables).collect()
}
