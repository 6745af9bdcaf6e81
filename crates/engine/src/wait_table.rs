//! The entries of requests that are waited for, counted by how they wait.
//!
//! In:    entries, and changes of them.
//! Out:   how many need a leader, and how many of these are threads.
//! Never: a count by looking at all of them: each release of the mutex asks, and there may be tens
//!        of thousands of tasks.

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

/// How many entries need a leader, and how many of these are threads.
#[derive(Debug, Default)]
struct WaitCounts {
    all: usize,
    threads: usize,
}

/// An entry that is being changed; counted again when it is dropped.
pub(crate) struct EntryMut<'t> {
    entry: &'t mut WaitEntry,
    counts: &'t mut WaitCounts,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Ticket {
    Read(ReadId),
    /// A write, a zero or a flush.
    Write(WriteId),
    /// Planned reads that began together.
    Batch(BatchId),
}

/// Names a batch of planned reads; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct BatchId(pub(crate) u64);

/// What a waiter waits to hear.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notification {
    Read(ReadReady),
    Write(WriteStep),
    /// Some reads of a batch have ended.
    Batch,
}

/// What waits for a read or a write.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A thread, which parks unless it leads.
    Thread(Thread),
    /// A task of an executor.
    Task(Waker),
    /// None any more. The file stays open until the device has answered.
    Abandoned(KeepAlive),
}

#[derive(Debug)]
pub(crate) struct WaitEntry {
    pub(crate) waiter: Waiter,
    /// Its thread is in the kernel, with a request of its own, or copies: it can neither lead nor
    /// be woken.
    pub(crate) is_away: bool,
    pub(crate) news: Option<Notification>,
    /// The step of a task's write that the driver has done for it.
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

    /// Whether an entry needs a leader.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.counts.all > 0
    }

    /// Whether one of these is a thread.
    pub(crate) fn has_waiting_thread(&self) -> bool {
        self.counts.threads > 0
    }

    /// A thread that waits.
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

    /// How all waiters are woken that have not left.
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
    /// How its waiter is woken, if it has not left.
    pub(crate) fn wake(&self) -> Option<DeferredWake> {
        match &self.waiter {
            Waiter::Thread(thread) => Some(DeferredWake::Thread(thread.clone())),
            Waiter::Task(waker) => Some(DeferredWake::Task(waker.clone())),
            Waiter::Abandoned(_) => None,
        }
    }

    /// Whether it needs a leader.
    ///
    /// Not a thread that is away: it comes back with its request, which may take as long as its
    /// device likes, and until then it is no leader for others.
    fn needs_leader(&self) -> bool {
        self.news.is_none() && !self.is_away
    }

    fn is_thread(&self) -> bool {
        matches!(self.waiter, Waiter::Thread(_))
    }
}

impl Notification {
    /// Whether nothing follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(WriteStep::Done { .. }))
    }
}
