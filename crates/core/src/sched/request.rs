//! Requests, as queued, merged and ordered by a scheduler.

use core::fmt;

use crate::units::{Nanos, Sector, Sectors};

/// Direction of a request.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Op {
    /// From the device.
    #[default]
    Read,
    /// To the device.
    Write,
}

/// Priority class of a submitter, one of the kernel's three.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// Dispatched before all other classes.
    RealTime,
    /// The default.
    #[default]
    BestEffort,
    /// Dispatched only when no other class has requests.
    Idle,
}

/// Identifies the source of requests: a process, a connection, a tenant.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Submitter(pub u32);

/// Properties of a request, other than its position and time, that a scheduler may use.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Origin {
    /// Direction.
    pub op: Op,
    /// Priority class.
    pub class: Class,
    /// Source.
    pub submitter: Submitter,
}

/// A queued request.
#[derive(Debug, Eq, PartialEq)]
pub struct Request<L> {
    /// First sector.
    pub start: Sector,
    /// Length.
    pub sectors: Sectors,
    /// Direction, class and submitter. A merged request keeps those of the request that it joined.
    pub origin: Origin,
    /// Arrival time. A merged request keeps that of the request that it joined.
    pub arrival: Nanos,
    /// Payload.
    pub load: L,
}

/// Payload of a request.
pub trait Payload: fmt::Debug + Send {
    /// Returns true if `next`, which begins at the end of this one, may be merged into it.
    fn can_take(&self, next: &Self) -> bool;

    /// Merges `next` into this one.
    fn append(&mut self, next: Self);
}

impl<L> Request<L> {
    /// Returns the first sector after the request.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.start + self.sectors
    }
}

impl<L: Payload> Request<L> {
    /// Returns true if `next` may be appended: it begins at the end of this one, direction and
    /// class are the same, and the sum does not exceed the device's limit.
    pub(crate) fn can_take(&self, next: &Self, max: Sectors) -> bool {
        self.end() == next.start
            && self.origin.op == next.origin.op
            && self.origin.class == next.origin.class
            && self.sectors + next.sectors <= max
            && self.load.can_take(&next.load)
    }

    /// Appends `next` to this request, which keeps its arrival time.
    pub(crate) fn append(&mut self, next: Self) {
        debug_assert!(self.end() == next.start, "what is appended begins where this one ends");
        debug_assert!(self.origin.op == next.origin.op, "a request has one direction");
        self.sectors += next.sectors;
        self.load.append(next.load);
    }

    /// Prepends this request to `queued`, which keeps its arrival time and origin.
    pub(crate) fn prepend_to(mut self, queued: &mut Self) {
        debug_assert!(
            self.end() == queued.start,
            "the front part ends where the queued one begins"
        );
        debug_assert!(self.origin.op == queued.origin.op, "a request has one direction");
        core::mem::swap(&mut self.load, &mut queued.load);
        queued.start = self.start;
        queued.sectors += self.sectors;
        queued.load.append(self.load);
    }
}
