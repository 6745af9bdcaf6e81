//! The steps of a sweep, carried out on a real store.
//!
//! Only carries out the steps of the sweep. Results survive Ctrl-C and errors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreread_core::sizes::Exact;
use foreread_core::units::Nanos;
use foreread_object::{MeasuredObject, ObjectError, Stores};
use foreread_tune::probe::Stopped;
use foreread_tune::store_sweep::{
    ConnectionCost, PartWindow, SmallRead, StepFindings, StepResult, StoreFindings, StoreSpent,
    StoreStep, StoreSweep, StoreSweepSettings, TransferStep,
};
use indicatif::ProgressBar;

use foreread_cli::clock::clock;
use foreread_cli::progress::{percent, progress};

/// Results of a sweep, with the reason of an early end.
pub(super) struct SweptStore {
    pub(super) findings: StoreFindings,
    pub(super) stopped: Option<Stopped>,
}

pub(super) fn sweep(
    stores: &Stores,
    object: &MeasuredObject,
    settings: StoreSweepSettings,
    interrupted: &Arc<AtomicBool>,
) -> SweptStore {
    let probe = StoreProbe { stores, object, settings, interrupted, zero: clock() };
    let mut sweep = StoreSweep::new(settings);
    let bar = progress(100);
    let stopped = loop {
        let now = probe.now();
        let Some(step) = sweep.next_step(now) else { break None };
        show(&bar, sweep.progress(now), &step);
        let result = probe.step(&step);
        if interrupted.load(Ordering::Relaxed) {
            break Some(Stopped::Interrupted);
        }
        match result {
            Ok(result) => sweep.record(&step, result),
            Err(error) => break Some(Stopped::Failed(error.to_string())),
        }
    };
    bar.finish_and_clear();
    SweptStore { findings: sweep.findings(probe.now()), stopped }
}

struct StoreProbe<'p> {
    stores: &'p Stores,
    object: &'p MeasuredObject,
    settings: StoreSweepSettings,
    interrupted: &'p Arc<AtomicBool>,
    zero: Instant,
}

impl StoreProbe<'_> {
    fn now(&self) -> Nanos {
        since(self.zero)
    }

    /// Carries out a step. If the store throttled requests, an error of the step counts as its
    /// result.
    fn step(&self, step: &StoreStep) -> Result<StepResult, ObjectError> {
        let (before, began) = (self.stores.counters(), self.now());
        let found = self.find(step, before.throttled);
        let after = self.stores.counters();
        let spent = StoreSpent {
            requests: after.requests - before.requests,
            bytes: after.bytes - before.bytes,
            throttled: after.throttled - before.throttled,
            ns: self.now().0.saturating_sub(began.0),
        };
        let found = match found {
            Ok(found) => found,
            Err(
                ObjectError::Failed { .. }
                | ObjectError::Unavailable { .. }
                | ObjectError::TimedOut { .. },
            ) if spent.throttled > 0 => StepFindings::Transfer(None),
            Err(error) => return Err(error),
        };
        Ok(StepResult { spent, found })
    }

    fn find(&self, step: &StoreStep, refused: u64) -> Result<StepFindings, ObjectError> {
        match step {
            StoreStep::NewConnections { count } => {
                let times = self.object.new_connections(*count, self.interrupted)?;
                let cost = |time: &foreread_object::ConnectionTime| ConnectionCost {
                    first_ns: nanos(time.first),
                    next_ns: nanos(time.next),
                };
                Ok(StepFindings::NewConnections(times.iter().map(cost).collect()))
            }
            StoreStep::SmallReads(reads) => {
                let (offsets, len) = (reads.offsets.clone(), reads.len.0);
                let times =
                    self.object.small_reads(offsets, len, reads.at_most, self.interrupted)?;
                let read = |time: &foreread_object::RangeTime| SmallRead {
                    first_byte_ns: nanos(time.first_byte),
                    ns: nanos(time.whole),
                };
                Ok(StepFindings::SmallReads(times.iter().map(read).collect()))
            }
            StoreStep::Transfer(step) => self.transfer(*step, refused),
            StoreStep::Pause(time) => {
                self.object.pause(*time, self.interrupted)?;
                Ok(StepFindings::Nothing)
            }
        }
    }

    /// Reads parts; stops at the first throttled request.
    fn transfer(&self, step: TransferStep, refused: u64) -> Result<StepFindings, ObjectError> {
        let parts = Arc::new(Mutex::new(PartWindow::new(step, self.settings.object)));
        let (handed_out, counted) = (Arc::clone(&parts), Arc::clone(&parts));
        let (stores, zero) = (self.stores.clone(), self.zero);
        let next = move |connection| {
            let is_refused = stores.counters().throttled > refused;
            let mut parts = lock(&handed_out);
            if is_refused { None } else { parts.next_part(connection, since(zero)) }
        };
        let arrived = move |bytes| lock(&counted).arrived(bytes);
        let (connections, at_most) = (step.point.connections, step.at_most);
        self.object.read_parts(connections, at_most, self.interrupted, next, arrived)?;
        let sample = lock(&parts).sample();
        Ok(StepFindings::Transfer(sample))
    }
}

fn lock(parts: &Mutex<PartWindow>) -> MutexGuard<'_, PartWindow> {
    // A panic while it is held is a panic of this program, too.
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn since(zero: Instant) -> Nanos {
    Nanos(nanos(clock().saturating_duration_since(zero)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn show(bar: &ProgressBar, share: f64, step: &StoreStep) {
    bar.set_position(percent(share));
    bar.set_message(match step {
        StoreStep::NewConnections { .. } => "new connections".to_owned(),
        StoreStep::SmallReads(_) => "small reads, one at a time".to_owned(),
        StoreStep::Transfer(step) => {
            let (part, connections) = (Exact(step.point.part), step.point.connections);
            format!("parts of {part} over {connections} connections")
        }
        StoreStep::Pause(_) => "a pause: the store refuses requests".to_owned(),
    });
}
