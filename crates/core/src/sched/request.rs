//! Requests: what a scheduler queues, merges and orders.
//!
//! In:    a run of sectors, a direction, and what it carries.
//! Out:   whether two of them may be one.
//! Never: an order.

use core::fmt;

use crate::units::{Nanos, Sector, Sectors};

/// Which way a request goes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Op {
    /// From the device.
    #[default]
    Read,
    /// To the device.
    Write,
}

/// How urgent its submitter is: the kernel's three priority classes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// Before all others.
    RealTime,
    /// The default.
    #[default]
    BestEffort,
    /// When no other class wants the device.
    Idle,
}

/// Identifies the source of requests: a process, a connection, a tenant.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Submitter(pub u32);

/// What a scheduler may look at, beside place and time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Origin {
    /// The direction.
    pub op: Op,
    /// How urgent.
    pub class: Class,
    /// The source.
    pub submitter: Submitter,
}

/// What a scheduler queues.
#[derive(Debug, Eq, PartialEq)]
pub struct Request<L> {
    /// Where it starts.
    pub start: Sector,
    /// How long it is.
    pub sectors: Sectors,
    /// Its direction, class and submitter; a merged request keeps those of the one that it joined.
    pub origin: Origin,
    /// When it was queued; a merged request keeps the time of the one that it joined.
    pub arrival: Nanos,
    /// What travels along.
    pub load: L,
}

/// What travels with a request.
pub trait Payload: fmt::Debug + Send {
    /// Whether `next`, which begins where this one ends, may become part of it.
    fn can_take(&self, next: &Self) -> bool;

    /// Makes it part of this one.
    fn append(&mut self, next: Self);
}

impl<L> Request<L> {
    /// One past its last sector.
    #[must_use]
    pub fn end(&self) -> Sector {
        self.start + self.sectors
    }
}

impl<L: Payload> Request<L> {
    /// Whether `next` may be appended: it begins where this one ends, has the same direction and
    /// class, and the sum is no larger than the device takes.
    pub(crate) fn can_take(&self, next: &Self, max: Sectors) -> bool {
        self.end() == next.start
            && self.origin.op == next.origin.op
            && self.origin.class == next.origin.class
            && self.sectors + next.sectors <= max
            && self.load.can_take(&next.load)
    }

    /// Makes `next` part of this one, which keeps its time.
    pub(crate) fn append(&mut self, next: Self) {
        debug_assert!(self.end() == next.start, "what is appended begins where this one ends");
        debug_assert!(self.origin.op == next.origin.op, "a request has one direction");
        self.sectors += next.sectors;
        self.load.append(next.load);
    }

    /// Makes this one the front part of `queued`, which keeps its time and its origin.
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
