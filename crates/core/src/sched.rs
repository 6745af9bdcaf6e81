//! Schedulers: which request a device gets next.
//!
//! In:    requests, each a run of sectors with something that travels along; what ended; the time.
//! Out:   the same sectors in fewer, larger requests, in the order of the scheduler.
//! Never: a device, a queue depth (the path counts what is in flight), a lost request.
//!
//! A scheduler does not look into what it queues: the path's requests carry frames, a picture of a
//! schedule carries names. It only asks whether two neighbours may become one ([`Payload`]).

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

/// A queue in front of one device.
///
/// ```text
///   add ---> [ queued, merged, sorted ] ---> take ---> device ---> completed
///                                    \
///                                     wake_at: nothing to take now, ask again then
/// ```
pub trait Scheduler<L: Payload>: fmt::Debug + Send {
    /// Queues a request.
    fn add(&mut self, now: Nanos, request: Request<L>);

    /// Queues a request that is to go next, as far as this scheduler lets it.
    fn add_next(&mut self, now: Nanos, request: Request<L>) {
        self.add(now, request);
    }

    /// Queues a request that arrived earlier, as if it had been queued then.
    fn add_by_age(&mut self, now: Nanos, request: Request<L>) {
        self.add(now, request);
    }

    /// Whether requests go in the order of the device, and not of their arrival: it can do so only
    /// with those that it has.
    fn sorts(&self) -> bool {
        true
    }

    /// Takes the request that is next. None if nothing is queued, or if what is queued has to wait
    /// for a completion, or until [`Self::wake_at`].
    fn take(&mut self, now: Nanos) -> Option<Request<L>>;

    /// A request that was taken has ended, well or not: whose it was, and when it had arrived.
    fn completed(&mut self, now: Nanos, origin: Origin, arrival: Nanos);

    /// Empties the queue, in any order: its device is gone.
    fn drain(&mut self) -> Vec<Request<L>>;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool;

    /// How many requests are queued that go this way; those that merged are one.
    fn queued(&self, op: Op) -> usize;

    /// A request that another queue of the device gave is on its way, and will end here.
    fn adopt(&mut self, origin: Origin, arrival: Nanos);

    /// When [`Self::take`] may give something although nothing was added and nothing ended
    /// meanwhile.
    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    /// Why the last request was taken, if the scheduler tells.
    fn why(&self) -> Option<Why> {
        None
    }

    /// Changes one setting, from the next decision on.
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value makes no sense for it.
    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting>;

    /// Its name, and its settings as they are now: each can be given to [`Self::set`].
    fn tunables(&self) -> (&'static str, Vec<(&'static str, String)>);

    /// If it wants to be told how many writes the device may have: for how long after a read ended
    /// another one is expected, in nanoseconds.
    fn wants_limit(&self) -> Option<u64> {
        None
    }

    /// How many writes the device may have, as it was learnt; None: no limit.
    fn limit_writes(&mut self, _limit: Option<u32>) {}

    /// How many writes the device may have, learnt or set; None: no limit.
    fn write_limit(&self) -> Option<u32> {
        None
    }
}

/// Why a request was taken: what decided last.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Why {
    /// It goes on with the batch, or with what was begun.
    Batch,
    /// It begins a batch, next to what went before.
    Next,
    /// It begins a batch because it is the oldest: nothing lies next.
    Oldest,
    /// It begins a batch because it has expired.
    Expired,
    /// It begins a batch of the direction that was passed over.
    Starved,
    /// It waited behind higher classes for too long.
    Aged,
}

/// A scheduler by its name, with its settings.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum SchedulerKind {
    /// First come, first served.
    #[default]
    Noop,
    /// In the order of the device, until one has waited too long.
    Deadline(deadline::DeadlineSettings),
    /// A slice of time for each submitter; for the simulator.
    Cfq(cfq::CfqSettings),
}

impl SchedulerKind {
    /// The names of all schedulers.
    pub const NAMES: &'static [&'static str] = &["noop", "deadline", "cfq"];

    /// The scheduler of this name, with its settings as they are at first.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "noop" => Some(Self::Noop),
            "deadline" => Some(Self::Deadline(deadline::DeadlineSettings::default())),
            "cfq" => Some(Self::Cfq(cfq::CfqSettings::default())),
            _ => None,
        }
    }

    /// The scheduler for a device that is read and written at once: `deadline`, with a learnt limit
    /// of writes in flight.
    #[must_use]
    pub fn learning() -> Self {
        let writes_in_flight = deadline::WriteLimit::Learnt;
        Self::Deadline(deadline::DeadlineSettings {
            writes_in_flight,
            ..deadline::DeadlineSettings::default()
        })
    }

    /// The scheduler of this name for a device that is at work, from its users' point of view:
    /// those that are meant for the simulator are refused.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn for_device(name: &str) -> Result<Self, InvalidSetting> {
        match name {
            "noop" => Ok(Self::Noop),
            "deadline" => Ok(Self::learning()),
            _ => Err(setting::bad("scheduler", name, "noop or deadline")),
        }
    }

    /// What it is called on the command line and in scenarios.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Deadline(_) => "deadline",
            Self::Cfq(_) => "cfq",
        }
    }

    /// Changes one setting of the queues that will be made.
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting, or the value makes no sense for it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidSetting> {
        match self {
            Self::Noop => Err(setting::unknown(name, &[])),
            Self::Deadline(settings) => settings.set(name, value),
            Self::Cfq(settings) => settings.set(name, value),
        }
    }

    /// The settings, each as it can be given to [`Self::set`].
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Noop => Vec::new(),
            Self::Deadline(settings) => settings.list(),
            Self::Cfq(settings) => settings.list(),
        }
    }

    /// A queue of this kind, empty, for a device whose largest request has `max` sectors.
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
    /// In one word.
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
