//! The table of requests with waiters, with counts by kind of waiter. The counts are maintained
//! incrementally, because each release of the mutex needs them, and there may be tens of thousands
//! of tasks.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::thread::Thread;

use foreread_core::path::{ReadId, ReadReady, WriteId, WriteStep};

use crate::deferred_wake::{DeferredWake, KeepAlive};
use crate::id_hasher::IdHasher;
use crate::task_step::TaskStep;

/// All entries.
#[derive(Debug, Default)]
pub(crate) struct WaitTable {
    entries: HashMap<Ticket, WaitEntry, BuildHasherDefault<IdHasher>>,
    counts: WaitCounts,
}

/// Number of entries that need a leader, and how many of these are threads.
#[derive(Debug, Default)]
struct WaitCounts {
    all: usize,
    threads: usize,
}

/// An entry being changed; counted again on drop.
pub(crate) struct EntryMut<'t> {
    entry: &'t mut WaitEntry,
    counts: &'t mut WaitCounts,
}

/// Identifies the request being waited for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Ticket {
    Read(ReadId),
    /// A write, a zeroing or a flush.
    Write(WriteId),
    /// Planned reads that were started together.
    Batch(BatchId),
}

/// Identifies a batch of planned reads; never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct BatchId(pub(crate) u64);

/// A notification for a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notification {
    Read(ReadReady),
    Write(WriteStep),
    /// Some reads of a batch have ended.
    Batch,
}

/// The waiter of a request.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A thread, which parks unless it leads.
    Thread(Thread),
    /// A task of an executor.
    Task(Waker),
    /// The waiter has left. Keeps the file open until the device has completed the request.
    Abandoned(KeepAlive),
}

#[derive(Debug)]
pub(crate) struct WaitEntry {
    pub(crate) waiter: Waiter,
    /// The waiting thread is in the kernel with a separate request, or copies: it can neither lead
    /// nor be woken.
    pub(crate) is_away: bool,
    pub(crate) news: Option<Notification>,
    /// The step of a task's write that the driver performs.
    pub(crate) step: Option<TaskStep>,
}

impl WaitTable {
    pub(crate) fn get(&self, ticket: Ticket) -> Option<&WaitEntry> {
        self.entries.get(&ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<EntryMut<'_>> {
        let entry = self.entries.get_mut(&ticket)?;
        self.counts.remove(entry);
        Some(EntryMut { entry, counts: &mut self.counts })
    }

    pub(crate) fn insert(&mut self, ticket: Ticket, entry: WaitEntry) {
        self.counts.add(&entry);
        let before = self.entries.insert(ticket, entry);
        assert!(before.is_none(), "a request begins once");
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<WaitEntry> {
        let entry = self.entries.remove(&ticket)?;
        self.counts.remove(&entry);
        Some(entry)
    }

    /// Returns true if an entry needs a leader.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.counts.all > 0
    }

    /// Returns true if one of these is a thread.
    pub(crate) fn has_waiting_thread(&self) -> bool {
        self.counts.threads > 0
    }

    /// Returns a waiting thread.
    pub(crate) fn a_waiting_thread(&self) -> Option<Thread> {
        if !self.has_waiting_thread() {
            return None;
        }
        self.entries.values().filter(|entry| entry.needs_leader()).find_map(|entry| {
            match &entry.waiter {
                Waiter::Thread(thread) => Some(thread.clone()),
                Waiter::Task(_) | Waiter::Abandoned(_) => None,
            }
        })
    }

    /// Returns the wakes of all waiters that have not left.
    pub(crate) fn wakes(&self) -> impl Iterator<Item = DeferredWake> {
        self.entries.values().filter_map(WaitEntry::wake)
    }
}

impl WaitCounts {
    fn add(&mut self, entry: &WaitEntry) {
        self.all += usize::from(entry.needs_leader());
        self.threads += usize::from(entry.needs_leader() && entry.is_thread());
    }

    fn remove(&mut self, entry: &WaitEntry) {
        self.all -= usize::from(entry.needs_leader());
        self.threads -= usize::from(entry.needs_leader() && entry.is_thread());
    }
}

impl Deref for EntryMut<'_> {
    type Target = WaitEntry;

    fn deref(&self) -> &WaitEntry {
        self.entry
    }
}

impl DerefMut for EntryMut<'_> {
    fn deref_mut(&mut self) -> &mut WaitEntry {
        self.entry
    }
}

impl Drop for EntryMut<'_> {
    fn drop(&mut self) {
        self.counts.add(self.entry);
    }
}

impl WaitEntry {
    /// Returns the wake of the waiter, if it has not left.
    pub(crate) fn wake(&self) -> Option<DeferredWake> {
        match &self.waiter {
            Waiter::Thread(thread) => Some(DeferredWake::Thread(thread.clone())),
            Waiter::Task(waker) => Some(DeferredWake::Task(waker.clone())),
            Waiter::Abandoned(_) => None,
        }
    }

    /// Returns true if the entry needs a leader.
    ///
    /// A thread that is away does not count: it returns with its request, for as long as its device
    /// takes, and cannot lead for others until then.
    fn needs_leader(&self) -> bool {
        self.news.is_none() && !self.is_away
    }

    fn is_thread(&self) -> bool {
        matches!(self.waiter, Waiter::Thread(_))
    }
}

impl Notification {
    /// Returns true if no further notification follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(WriteStep::Done { .. }))
    }
}
