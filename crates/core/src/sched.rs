//! I/O schedulers: choose the next request for a device.
//!
//! In:    requests, each a run of sectors with a payload; completions; the time.
//! Out:   the same sectors in fewer, larger requests, in the scheduler's order.
//! Never: a device or its queue depth (the path counts requests in flight); a lost request.
//!
//! A scheduler does not look into its payloads: an `IoPath` queues frames, a picture of a schedule
//! queues names. It only asks whether two neighbours may be merged ([`Payload`]).

pub mod cfq;
pub mod deadline;
pub mod noop;

mod queue;
mod request;
mod setting;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use self::request::{Class, Op, Origin, Payload, Request, Submitter};
pub use self::setting::InvalidSetting;
use crate::units::{Nanos, Sectors};

/// Request queue of one device.
///
/// ```text
///   add ---> [ queued, merged, sorted ] ---> take ---> device ---> completed
///                                    \
///                                     wake_at: nothing to take now, ask again then
/// ```
pub trait Scheduler<L: Payload>: fmt::Debug + Send {
    /// Queues a request.
    fn add(&mut self, now: Nanos, request: Request<L>);

    /// Queues a request ahead of others, as far as this scheduler permits.
    fn add_next(&mut self, now: Nanos, request: Request<L>) {
        self.add(now, request);
    }

    /// Queues a request with its earlier arrival time, in the place it would have had.
    fn add_by_age(&mut self, now: Nanos, request: Request<L>) {
        self.add(now, request);
    }

    /// Returns true if requests are dispatched in device order instead of arrival order. A longer
    /// queue then gives a better order.
    fn sorts(&self) -> bool {
        true
    }

    /// Takes the next request. None if the queue is empty, or if its requests must wait for a
    /// completion or until [`Self::wake_at`].
    fn take(&mut self, now: Nanos) -> Option<Request<L>>;

    /// Records the completion of a request, successful or not, with its origin and arrival time.
    fn completed(&mut self, now: Nanos, origin: Origin, arrival: Nanos);

    /// Empties the queue, in any order, because its device was removed.
    fn drain(&mut self) -> Vec<Request<L>>;

    /// Returns true if the queue is empty.
    fn is_empty(&self) -> bool;

    /// Returns the number of queued requests in this direction; merged requests count as one.
    fn queued(&self, op: Op) -> usize;

    /// Takes over a request in flight that another queue of the device dispatched; it completes
    /// here.
    fn adopt(&mut self, origin: Origin, arrival: Nanos);

    /// Returns the time from which [`Self::take`] may return a request even without a new request
    /// or completion.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    /// Returns the reason for the last choice, if the scheduler records it.
    fn why(&self) -> Option<Why> {
        None
    }

    /// Changes one setting, from the next decision on.
    ///
    /// # Errors
    ///
    /// If the setting does not exist, or the value is invalid.
    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting>;

    /// Returns the name and the current settings, in the form that [`Self::set`] takes.
    fn tunables(&self) -> (&'static str, Vec<(&'static str, String)>);

    /// Returns how long after a completed read the next one is expected, in nanoseconds, if the
    /// scheduler uses a learnt write-depth limit.
    fn wants_limit(&self) -> Option<u64> {
        None
    }

    /// Sets the learnt write-depth limit; None: no limit.
    fn limit_writes(&mut self, _limit: Option<u32>) {}

    /// Returns the write-depth limit, learnt or configured; None: no limit.
    fn write_limit(&self) -> Option<u32> {
        None
    }
}

/// Reason for taking a request: the rule that decided last.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// It continues the batch, or the request in progress.
    Batch,
    /// It begins a batch, at the next position after the last request.
    Next,
    /// It begins a batch as the oldest request: there is none at a later position.
    Oldest,
    /// It begins a batch because its deadline has expired.
    Expired,
    /// It begins a batch of the direction that was starved.
    Starved,
    /// It waited too long behind higher priority classes.
    Aged,
}

/// A scheduler and its settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum SchedulerKind {
    /// First come, first served.
    #[default]
    Noop,
    /// In device order, until a request's deadline expires.
    Deadline(deadline::DeadlineSettings),
    /// One time slice per submitter; for the simulator.
    Cfq(cfq::CfqSettings),
}

impl SchedulerKind {
    /// Names of all schedulers.
    pub const NAMES: &'static [&'static str] = &["noop", "deadline", "cfq"];

    /// Returns the scheduler of this name with its default settings.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "noop" => Some(Self::Noop),
            "deadline" => Some(Self::Deadline(deadline::DeadlineSettings::default())),
            "cfq" => Some(Self::Cfq(cfq::CfqSettings::default())),
            _ => None,
        }
    }

    /// Returns the scheduler for a device with concurrent reads and writes: `deadline` with a
    /// learnt write-depth limit.
    #[must_use]
    pub fn learning() -> Self {
        let writes_in_flight = deadline::WriteLimit::Learnt;
        Self::Deadline(deadline::DeadlineSettings {
            writes_in_flight,
            ..deadline::DeadlineSettings::default()
        })
    }

    /// Returns the scheduler of this name for a real device. Those meant for the simulator are
    /// refused.
    ///
    /// # Errors
    ///
    /// If there is no such scheduler.
    pub fn for_device(name: &str) -> Result<Self, InvalidSetting> {
        match name {
            "noop" => Ok(Self::Noop),
            "deadline" => Ok(Self::learning()),
            _ => Err(setting::bad("scheduler", name, "noop or deadline")),
        }
    }

    /// Returns the name on the command line and in scenarios.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Deadline(_) => "deadline",
            Self::Cfq(_) => "cfq",
        }
    }

    /// Changes one setting for queues created later.
    ///
    /// # Errors
    ///
    /// If the setting does not exist, or the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        match self {
            Self::Noop => Err(setting::unknown(name, &[])),
            Self::Deadline(settings) => settings.set(name, value),
            Self::Cfq(settings) => settings.set(name, value),
        }
    }

    /// Returns the settings in the form that [`Self::set`] takes.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Noop => Vec::new(),
            Self::Deadline(settings) => settings.list(),
            Self::Cfq(settings) => settings.list(),
        }
    }

    /// Creates an empty queue for a device with requests of at most `max` sectors.
    #[must_use]
    pub fn queue<L: Payload + 'static>(&self, max: Sectors) -> Box<dyn Scheduler<L>> {
        match self {
            Self::Noop => Box::new(noop::Noop::new(max)),
            Self::Deadline(settings) => Box::new(deadline::Deadline::new(settings, max)),
            Self::Cfq(settings) => Box::new(cfq::Cfq::new(settings, max)),
        }
    }
}

impl Why {
    /// Returns a one-word name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Next => "next",
            Self::Oldest => "oldest",
            Self::Expired => "expired",
            Self::Starved => "starved",
            Self::Aged => "aged",
        }
    }
}
