//! The waiters of reads and writes, and which of them leads.
//!
//! In:    what began, what there is news of, waiters that leave.
//! Out:   the wakes to run, once the engine's mutex is free.
//! Never: a wait of its own. A read or a write in flight without an entry.
//!
//! ```text
//!                begins                    ready
//!   read ----------------------> waiting ---------> taken by its waiter, which copies and releases
//!                                   |
//!                                   | its waiter left: a time-out, a future that was dropped
//!                                   v        ready
//!                                abandoned ---------> released at once
//!
//!                                         a step
//!   write ---------------------> waiting ---------> with its waiter, which copies or acts
//!                                   ^                  |
//!                                   '------------------'      ... and so on, until it is over
//! ```

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

use foreread_core::path::{ReadId, ReadReady, WriteId, WriteStep};

use crate::background::BackgroundWaker;
use crate::source::PendingFetch;

/// All reads and writes that are on their way.
#[derive(Debug)]
pub(crate) struct Waiters {
    entries: HashMap<Ticket, WaitEntry, BuildHasherDefault<IdHasher>>,
    leader: Option<Leader>,
    /// The leader sleeps in the ring.
    is_asleep: bool,
    wakes: Vec<DeferredWake>,
    background: Arc<BackgroundWaker>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Ticket {
    Read(ReadId),
    /// A write, a zero or a flush.
    Write(WriteId),
}

/// What a waiter waits to hear.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notification {
    Read(ReadReady),
    Write(WriteStep),
}

/// The one that reaps completions: with two, one would sleep for a completion that the other took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Leader {
    /// The thread that waits for this.
    Waiter(Ticket),
    /// The background thread.
    Background,
}

/// What has to stay open until the device has answered an abandoned request: its file.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

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
struct WaitEntry {
    waiter: Waiter,
    /// Its thread is in the kernel, with a request of its own, or copies: it can neither lead nor
    /// be woken.
    is_away: bool,
    news: Option<Notification>,
}

/// What is done after the mutex is free: each of these may take it again.
#[derive(Debug)]
pub(crate) enum DeferredWake {
    Thread(Thread),
    Task(Waker),
    /// The background thread has something to do.
    Background(Arc<BackgroundWaker>),
    /// The last handle to a file may go with this one.
    Release(KeepAlive),
    /// A waker that is not needed any more. The last handle to a task may go with it, and with the
    /// task whatever it owns.
    Unused(Waker),
    /// A source is to be called.
    Fetch(Box<PendingFetch>),
}

/// What has to be done about news.
pub(crate) enum Delivery {
    /// Its waiter will see to it.
    Waiter,
    /// Its waiter leads, and sleeps in the ring, where nothing may be that would wake it.
    SleepingLeader,
    /// There is no waiter: the caller handles it at once.
    Abandoned,
}

impl Waiters {
    pub(crate) fn new(background: Arc<BackgroundWaker>) -> Self {
        let (entries, wakes) = (HashMap::default(), Vec::new());
        Self { entries, leader: None, is_asleep: false, wakes, background }
    }

    pub(crate) fn add(&mut self, ticket: Ticket, waiter: Waiter) {
        let entry = WaitEntry { waiter, is_away: false, news: None };
        let before = self.entries.insert(ticket, entry);
        assert!(before.is_none(), "a request begins once");
        debug_assert!(self.is_waited_for(), "a request that has begun needs a leader");
    }

    /// Notes the news for their waiter, and its wake. Returns what the caller has to do.
    pub(crate) fn note(&mut self, ticket: Ticket, news: Notification) -> Delivery {
        let entry = self
            .entries
            .get_mut(&ticket)
            .expect("each request has an entry from its begin to its last notification");
        debug_assert!(entry.news.is_none(), "a waiter takes its news before there are others");
        match &entry.waiter {
            Waiter::Abandoned(_) => {
                if news.is_last()
                    && let Some(WaitEntry { waiter: Waiter::Abandoned(file), .. }) =
                        self.entries.remove(&ticket)
                {
                    self.wakes.push(DeferredWake::Release(file));
                }
                return Delivery::Abandoned;
            }
            _ if self.leader == Some(Leader::Waiter(ticket)) => {
                entry.news = Some(news);
                let was_asleep = std::mem::take(&mut self.is_asleep);
                return if was_asleep { Delivery::SleepingLeader } else { Delivery::Waiter };
            }
            // It looks when it comes back.
            Waiter::Thread(_) if entry.is_away => {}
            Waiter::Thread(thread) => self.wakes.push(DeferredWake::Thread(thread.clone())),
            Waiter::Task(waker) => self.wakes.push(DeferredWake::Task(waker.clone())),
        }
        entry.news = Some(news);
        Delivery::Waiter
    }

    pub(crate) fn has_notification(&self, ticket: Ticket) -> bool {
        self.entries.get(&ticket).is_some_and(|entry| entry.news.is_some())
    }

    /// Takes the news. With the last, the entry goes; else the waiter counts as away with them.
    pub(crate) fn take_notification(&mut self, ticket: Ticket) -> Option<Notification> {
        let entry = self.entries.get_mut(&ticket)?;
        let news = entry.news.take()?;
        if news.is_last() {
            self.forget(ticket);
        } else {
            entry.is_away = true;
        }
        Some(news)
    }

    /// Takes a read that is ready out of here.
    pub(crate) fn take_ready(&mut self, id: ReadId) -> Option<ReadReady> {
        match self.take_notification(Ticket::Read(id))? {
            Notification::Read(ready) => Some(ready),
            Notification::Write(_) => unreachable!("a read has a read's news"),
        }
    }

    /// A task is polled again, maybe with another waker.
    pub(crate) fn set_waker(&mut self, id: ReadId, waker: &Waker) {
        let entry = self
            .entries
            .get_mut(&Ticket::Read(id))
            .expect("the entry of a read stays until its future has taken the result");
        debug_assert!(entry.news.is_none(), "a task with news takes them");
        if let Waiter::Task(known) = &mut entry.waiter
            && !known.will_wake(waker)
        {
            self.wakes.push(DeferredWake::Unused(std::mem::replace(known, waker.clone())));
        }
    }

    /// The waiter leaves. Returns the news it has not taken: the caller sees to them.
    #[must_use]
    pub(crate) fn abandon(&mut self, ticket: Ticket, file: KeepAlive) -> Option<Notification> {
        let news = self.take_notification(ticket);
        if let Some(entry) = self.entries.get_mut(&ticket)
            && let Waiter::Task(waker) =
                std::mem::replace(&mut entry.waiter, Waiter::Abandoned(file))
        {
            self.wakes.push(DeferredWake::Unused(waker));
        }
        debug_assert!(
            self.entries.get(&ticket).is_none_or(|it| matches!(it.waiter, Waiter::Abandoned(_))),
            "no waiter is left"
        );
        news
    }

    pub(crate) fn leader(&self) -> Option<Leader> {
        self.leader
    }

    pub(crate) fn lead(&mut self, leader: Leader) {
        assert!(self.leader.is_none_or(|current| current == leader), "one leads at a time");
        self.leader = Some(leader);
    }

    /// The thread that waits for this goes to do something by itself, or comes back.
    pub(crate) fn set_away(&mut self, ticket: Ticket, is_away: bool) {
        self.entries
            .get_mut(&ticket)
            .expect("the entry of a request stays while its thread waits")
            .is_away = is_away;
    }

    /// The leader goes to sleep in the ring, or comes back from there.
    pub(crate) fn set_asleep(&mut self, is_asleep: bool) {
        assert!(self.leader.is_some(), "only the leader sleeps there");
        self.is_asleep = is_asleep;
    }

    /// The leader leaves.
    pub(crate) fn step_down(&mut self, leader: Leader) {
        if self.leader == Some(leader) {
            self.leader = None;
        }
    }

    /// Names a leader if there is none and one is needed: a thread that waits anyway, or the
    /// background thread if none does and something is left to do.
    ///
    /// The named thread finds out when it wakes; if it has left by then, it names another.
    pub(crate) fn name_leader(&mut self, is_something_left: bool) {
        if self.leader.is_some() {
            return;
        }
        let thread = self.waits().find_map(|entry| match &entry.waiter {
            Waiter::Thread(thread) => Some(thread.clone()),
            Waiter::Task(_) | Waiter::Abandoned(_) => None,
        });
        if let Some(thread) = thread {
            self.wakes.push(DeferredWake::Thread(thread));
        } else if is_something_left || self.is_waited_for() {
            self.wake_background();
        }
    }

    /// Wakes the background thread.
    pub(crate) fn wake_background(&mut self) {
        self.wakes.push(DeferredWake::Background(Arc::clone(&self.background)));
    }

    /// Whether an entry waits that needs a leader.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits().next().is_some()
    }

    /// Whether a thread waits: then that one leads.
    pub(crate) fn has_waiting_thread(&self) -> bool {
        self.waits().any(|entry| matches!(entry.waiter, Waiter::Thread(_)))
    }

    /// The entries that need a leader.
    ///
    /// Not the threads that are away: each comes back with its request, which may take as long as
    /// its device likes, and until then it is no leader for others.
    fn waits(&self) -> impl Iterator<Item = &WaitEntry> {
        self.entries.values().filter(|entry| entry.news.is_none() && !entry.is_away)
    }

    /// Wakes all waiters: nothing will be ready any more.
    pub(crate) fn wake_all(&mut self) {
        for entry in self.entries.values() {
            match &entry.waiter {
                Waiter::Thread(thread) => self.wakes.push(DeferredWake::Thread(thread.clone())),
                Waiter::Task(waker) => self.wakes.push(DeferredWake::Task(waker.clone())),
                Waiter::Abandoned(_) => {}
            }
        }
    }

    /// Removes the entry of a request whose end its waiter has seen.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        if let Some(WaitEntry { waiter: Waiter::Task(waker), .. }) = self.entries.remove(&ticket) {
            self.wakes.push(DeferredWake::Unused(waker));
        }
    }

    /// Whether the leader sleeps in the ring.
    pub(crate) fn is_leader_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Has a source called once the mutex is free.
    pub(crate) fn call_source(&mut self, fetch: PendingFetch) {
        self.wakes.push(DeferredWake::Fetch(Box::new(fetch)));
    }

    /// Whether there are wakes to run.
    pub(crate) fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// Takes the wakes to run once the mutex is free.
    pub(crate) fn take_wakes(&mut self) -> Vec<DeferredWake> {
        std::mem::take(&mut self.wakes)
    }
}

impl Notification {
    /// Whether nothing follows.
    fn is_last(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(WriteStep::Done { .. }))
    }
}

impl DeferredWake {
    pub(crate) fn run(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
            Self::Background(background) => background.wake(),
            Self::Release(file) => drop(file),
            Self::Unused(waker) => drop(waker),
            Self::Fetch(fetch) => fetch.run(),
        }
    }
}

/// Ids are dense in their low half: they spread well enough once turned.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, half: u32) {
        self.write_u64(u64::from(half));
    }

    fn write_isize(&mut self, variant: isize) {
        self.write_u64(variant.cast_unsigned() as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
