//! A device that is slow because its reader sleeps.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foreread::lab::{Delay, DelayModel};

use crate::clock::{clock, sleep_until};

/// A device that is slow because its reader sleeps.
pub(crate) struct SlowDevice {
    model: DelayModel,
    started: Instant,
}

impl SlowDevice {
    /// Returns one device for all threads: their requests wait for each other, as in the model.
    pub(crate) fn shared(delay: Delay) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { model: DelayModel::new(delay), started: clock() }))
    }

    /// Performs a request of this size; returns when the device would complete it.
    pub(crate) fn during(
        device: Option<&Arc<Mutex<Self>>>,
        bytes: usize,
        request: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let due = device.map(|device| {
            device.lock().expect("no thread panics while it asks the model").start(bytes as u64)
        });
        request()?;
        if let Some(due) = due {
            sleep_until(due);
        }
        Ok(())
    }

    fn start(&mut self, bytes: u64) -> Instant {
        let now = clock().duration_since(self.started).as_nanos();
        let due = self.model.finish_ns(u64::try_from(now).unwrap_or(u64::MAX), bytes);
        self.started + Duration::from_nanos(due)
    }
}
