//! The waiters of reads and writes, and the election of a leader among them.
//!
//! In:    started requests, notifications, waiters that leave.
//! Out:   the wakes to run once the engine's mutex is free.
//! Never: blocking; a read or write in flight without an entry.
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
use std::sync::Arc;
use std::task::Waker;

use foreread_core::path::{ReadId, ReadReady};

use crate::background::BackgroundWaker;
use crate::deferred_wake::{DeferredWake, KeepAlive};
use crate::source::PendingFetch;
use crate::task_step::{PendingStep, TaskStep};
use crate::wait_table::{Notification, Ticket, WaitEntry, WaitTable, Waiter};

/// All reads and writes in flight.
#[derive(Debug)]
pub(crate) struct Waiters {
    entries: WaitTable,
    leader: Option<Leader>,
    /// The leader sleeps in the ring.
    is_asleep: bool,
    wakes: Vec<DeferredWake>,
    background: Arc<BackgroundWaker>,
}

/// The one that reaps completions: of two, one could sleep for a completion that the other took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Leader {
    /// The thread that waits for this request.
    Waiter(Ticket),
    /// The background thread.
    Background,
}

/// Handling that a notification requires.
pub(crate) enum Delivery {
    /// The waiter handles it.
    Waiter,
    /// The waiter leads and sleeps in the ring: wake it, as no completion may be due there.
    SleepingLeader,
    /// No waiter; the caller handles it at once.
    Abandoned,
}

impl Waiters {
    pub(crate) fn new(background: Arc<BackgroundWaker>) -> Self {
        let (entries, wakes) = (WaitTable::default(), Vec::new());
        Self { entries, leader: None, is_asleep: false, wakes, background }
    }

    pub(crate) fn add(&mut self, ticket: Ticket, waiter: Waiter) {
        self.add_with_step(ticket, waiter, None);
    }

    /// Adds a waiter, with a step that the driver performs for it.
    pub(crate) fn add_with_step(&mut self, ticket: Ticket, waiter: Waiter, step: Option<TaskStep>) {
        let entry = WaitEntry { waiter, is_away: false, news: None, step };
        self.entries.insert(ticket, entry);
        debug_assert!(self.is_waited_for(), "a request that has begun needs a leader");
    }

    /// Stores a notification for its waiter, and queues a wake. Returns the caller's part of the
    /// work.
    pub(crate) fn note(&mut self, ticket: Ticket, news: Notification) -> Delivery {
        let mut entry = self
            .entries
            .get_mut(ticket)
            .expect("each request has an entry from its begin to its last notification");
        debug_assert!(entry.news.is_none(), "a waiter takes its news before there are others");
        match &entry.waiter {
            Waiter::Abandoned(_) => {
                drop(entry);
                if news.is_last()
                    && let Some(WaitEntry { waiter: Waiter::Abandoned(file), .. }) =
                        self.entries.remove(ticket)
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
            // The thread checks when it returns.
            Waiter::Thread(_) if entry.is_away => {}
            Waiter::Thread(thread) => self.wakes.push(DeferredWake::Thread(thread.clone())),
            Waiter::Task(waker) => self.wakes.push(DeferredWake::Task(waker.clone())),
        }
        entry.news = Some(news);
        Delivery::Waiter
    }

    pub(crate) fn has_notification(&self, ticket: Ticket) -> bool {
        self.entries.get(ticket).is_some_and(|entry| entry.news.is_some())
    }

    /// Takes the notification. The last one removes the entry; otherwise the waiter counts as away.
    pub(crate) fn take_notification(&mut self, ticket: Ticket) -> Option<Notification> {
        let mut entry = self.entries.get_mut(ticket)?;
        let news = entry.news.take()?;
        if news.is_last() {
            drop(entry);
            self.forget(ticket);
        } else {
            entry.is_away = true;
        }
        Some(news)
    }

    /// Takes a ready read, and removes its entry.
    pub(crate) fn take_ready(&mut self, id: ReadId) -> Option<ReadReady> {
        match self.take_notification(Ticket::Read(id))? {
            Notification::Read(ready) => Some(ready),
            Notification::Write(_) | Notification::Batch => {
                unreachable!("a read has a read's news")
            }
        }
    }

    /// Replaces the waker of a task that is polled again.
    pub(crate) fn set_waker(&mut self, ticket: Ticket, waker: &Waker) {
        let mut entry = self
            .entries
            .get_mut(ticket)
            .expect("the entry of a request stays until its future has taken the result");
        debug_assert!(entry.news.is_none(), "a task with news takes them");
        if let Waiter::Task(known) = &mut entry.waiter
            && !known.will_wake(waker)
        {
            self.wakes.push(DeferredWake::Unused(std::mem::replace(known, waker.clone())));
        }
    }

    /// Replaces the waiter, possibly by the same thread or task.
    pub(crate) fn set_waiter(&mut self, ticket: Ticket, waiter: Waiter) {
        if let Some(mut entry) = self.entries.get_mut(ticket)
            && let Waiter::Task(waker) = std::mem::replace(&mut entry.waiter, waiter)
        {
            self.wakes.push(DeferredWake::Unused(waker));
        }
    }

    /// Abandons a request. Returns its pending notification, which the caller handles.
    #[must_use]
    pub(crate) fn abandon(&mut self, ticket: Ticket, file: KeepAlive) -> Option<Notification> {
        let news = self.take_notification(ticket);
        if let Some(mut entry) = self.entries.get_mut(ticket)
            && let Waiter::Task(waker) =
                std::mem::replace(&mut entry.waiter, Waiter::Abandoned(file))
        {
            self.wakes.push(DeferredWake::Unused(waker));
        }
        debug_assert!(
            self.entries.get(ticket).is_none_or(|it| matches!(it.waiter, Waiter::Abandoned(_))),
            "no waiter is left"
        );
        news
    }

    /// Takes the step that the driver performs for a task, which counts as away until it is done.
    pub(crate) fn take_step(&mut self, ticket: Ticket) -> Option<TaskStep> {
        let mut entry = self.entries.get_mut(ticket)?;
        let step = entry.step.take()?;
        entry.is_away = true;
        Some(step)
    }

    /// Drops a step that the driver has not started.
    pub(crate) fn forget_step(&mut self, ticket: Ticket) {
        if let Some(mut entry) = self.entries.get_mut(ticket) {
            entry.step = None;
        }
    }

    /// Returns true if a step of this request is in progress, on its thread or for its task.
    pub(crate) fn is_away(&self, ticket: Ticket) -> bool {
        self.entries.get(ticket).is_some_and(|entry| entry.is_away)
    }

    pub(crate) fn leader(&self) -> Option<Leader> {
        self.leader
    }

    pub(crate) fn lead(&mut self, leader: Leader) {
        assert!(self.leader.is_none_or(|current| current == leader), "one leads at a time");
        self.leader = Some(leader);
    }

    /// Marks the waiting thread as busy with a separate operation, or as back.
    pub(crate) fn set_away(&mut self, ticket: Ticket, is_away: bool) {
        self.entries
            .get_mut(ticket)
            .expect("the entry of a request stays while its thread waits")
            .is_away = is_away;
    }

    /// Notes that the leader goes to sleep in the ring, or has returned from it.
    pub(crate) fn set_asleep(&mut self, is_asleep: bool) {
        assert!(self.leader.is_some(), "only the leader sleeps there");
        self.is_asleep = is_asleep;
    }

    /// Ends the lead of this leader.
    pub(crate) fn step_down(&mut self, leader: Leader) {
        if self.leader == Some(leader) {
            self.leader = None;
        }
    }

    /// Names a leader if there is none and one is needed: a waiting thread if there is one,
    /// otherwise the background thread if work remains.
    ///
    /// The named thread learns of it when it wakes; if it has left by then, it names another.
    pub(crate) fn name_leader(&mut self, is_something_left: bool) {
        if self.leader.is_some() {
            return;
        }
        if let Some(thread) = self.entries.a_waiting_thread() {
            self.wakes.push(DeferredWake::Thread(thread));
        } else if is_something_left || self.is_waited_for() {
            self.wake_background();
        }
    }

    /// Wakes the background thread.
    pub(crate) fn wake_background(&mut self) {
        self.wakes.push(DeferredWake::Background(Arc::clone(&self.background)));
    }

    /// Returns true if an entry needs a leader.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.entries.is_waited_for()
    }

    /// Returns true if a thread waits, which then leads.
    pub(crate) fn has_waiting_thread(&self) -> bool {
        self.entries.has_waiting_thread()
    }

    /// Wakes all waiters, because no request will complete any more.
    pub(crate) fn wake_all(&mut self) {
        self.wakes.extend(self.entries.wakes());
    }

    /// Wakes the waiter of a broken ring whose step is done, or removes the entry if the waiter has
    /// left.
    pub(crate) fn wake_or_forget(&mut self, ticket: Ticket) {
        match self.entries.get(ticket).and_then(WaitEntry::wake) {
            Some(wake) => self.wakes.push(wake),
            None => self.forget(ticket),
        }
    }

    /// Removes the entry of a request whose end the waiter has seen.
    pub(crate) fn forget(&mut self, ticket: Ticket) {
        match self.entries.remove(ticket).map(|entry| entry.waiter) {
            Some(Waiter::Task(waker)) => self.wakes.push(DeferredWake::Unused(waker)),
            Some(Waiter::Abandoned(file)) => self.wakes.push(DeferredWake::Release(file)),
            Some(Waiter::Thread(_)) | None => {}
        }
    }

    /// Returns true if the leader sleeps in the ring.
    pub(crate) fn is_leader_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Queues a wake to run once the mutex is free.
    pub(crate) fn run_later(&mut self, wake: DeferredWake) {
        self.wakes.push(wake);
    }

    /// Releases a file at once: a task that learns of its request's end in this turn may close the
    /// file, and expects it closed. The last owner is dropped once the mutex is free, because its
    /// drop takes the mutex.
    pub(crate) fn release<T: Any + Send + Sync>(&mut self, file: Arc<T>) {
        if let Some(last) = Arc::into_inner(file) {
            self.wakes.push(DeferredWake::Release(Arc::new(last)));
        }
    }

    /// Queues a call of a source to run once the mutex is free.
    pub(crate) fn call_source(&mut self, fetch: PendingFetch) {
        self.wakes.push(DeferredWake::Fetch(Box::new(fetch)));
    }

    /// Queues a step of a task's write to run once the mutex is free.
    pub(crate) fn do_step(&mut self, step: PendingStep) {
        self.wakes.push(DeferredWake::Step(step));
    }

    /// Returns true if there are wakes to run.
    pub(crate) fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// Takes the wakes to run once the mutex is free.
    pub(crate) fn take_wakes(&mut self) -> Vec<DeferredWake> {
        std::mem::take(&mut self.wakes)
    }
}
