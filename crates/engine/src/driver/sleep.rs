//! When the leader sleeps and until when, and which thread leads next.
//!
//! In:    what is in flight, what is due, which waiters there are.
//! Out:   the threads and tasks to wake once the mutex is free.
//! Never: requests in flight that a waiter needs and no thread will reap.

use std::cmp::Reverse;

use foreread_core::units::{Nanos, Pages};

use super::Driver;
use crate::deferred_wake::DeferredWake;

impl Driver {
    /// When the leader has to look again even if no completion comes.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let early = self.early.peek().map(|Reverse(early)| early.at);
        [early, self.timer()].into_iter().flatten().min()
    }

    /// When the core wants to be told the time, or a source has taken too long. Without dirty pages
    /// the core is not asked: nothing else of it waits for the time, and asking takes a look at
    /// each device.
    pub(crate) fn timer(&self) -> Option<Nanos> {
        let deadline = self.fetches.deadline();
        [self.core_timer(), deadline].into_iter().flatten().min()
    }

    fn core_timer(&self) -> Option<Nanos> {
        if self.path.dirty() == Pages::ZERO {
            return None;
        }
        let at = self.path.poll_timeout()?;
        // What it was told did not help it: it is told again, but not at once.
        let again = Nanos(self.told.0.saturating_add(TELL_AGAIN_NS));
        Some(if at <= self.told { again } else { at })
    }

    /// Tells the core the time if it wants to be told.
    pub(super) fn note_time(&mut self) {
        self.end_late_fetches();
        if let Some(at) = self.core_timer() {
            let now = self.now();
            if at <= now {
                self.told = now;
                self.path.timeout(now);
            }
        }
    }

    /// Whether nothing comes back, is queued or is due: a miss on an idle engine has nothing to
    /// reap.
    pub(super) fn is_idle(&self) -> bool {
        let is_left = self.is_anything_on_its_way() || self.path.is_dispatch_pending();
        !is_left && self.timer().is_none()
    }

    /// Whether a completion will come.
    fn is_anything_on_its_way(&self) -> bool {
        self.ring.in_flight() > 0 || !self.early.is_empty()
    }

    /// Whether a thread has to sleep in the ring: requests are in flight, and a waiter needs one,
    /// or more are to follow, or one is a write, for whose room a writer may wait.
    ///
    /// Read-ahead alone needs no leader: the next reader finds it.
    pub(crate) fn is_leader_needed(&self) -> bool {
        let is_left = self.is_something_left() || self.waiting.is_waited_for();
        self.is_anything_on_its_way() && is_left
    }

    fn is_something_left(&self) -> bool {
        !self.writing.is_empty() || self.path.is_dispatch_pending()
    }

    /// The leader goes to sleep in the ring until then, as soon as the mutex is free.
    pub(crate) fn falls_asleep(&mut self, due: Option<Nanos>) {
        self.waiting.set_asleep(true);
        self.sleeps_until = due;
        self.is_falling_asleep = true;
    }

    /// Returns what to wake once the mutex is free; if there is no leader, names one.
    ///
    /// Submits first what is queued in the ring: a leader that sleeps already does not see it. A
    /// thread that is about to sleep there submits with the same call.
    ///
    /// ```text
    ///   no leader, requests in flight              a thread that waits, or the background thread
    ///   no leader, pages will be old               the background thread sleeps until then
    ///   the leader sleeps longer than that         it is woken, and sleeps again
    /// ```
    pub(crate) fn before_unlock(&mut self) -> Vec<DeferredWake> {
        if let Some(job) = self.first_touch.due(self.path.frames_used()) {
            self.waiting.run_later(DeferredWake::Touch(job));
        }
        let is_left = !std::mem::take(&mut self.is_falling_asleep) && self.ring.submit().is_err();
        if self.broken.is_none() {
            match self.waiting.leader() {
                None => self.name_leader(),
                Some(_) if self.waiting.is_leader_asleep() => {
                    let is_earlier = |due| self.sleeps_until.is_none_or(|until| due < until);
                    // What the kernel refused it offers again, for as long as it takes.
                    if is_left || self.next_due().is_some_and(is_earlier) {
                        self.waiting.set_asleep(false);
                        self.ring.wake();
                    }
                }
                Some(_) => {}
            }
        }
        self.waiting.take_wakes()
    }

    fn name_leader(&mut self) {
        let timer = self.timer();
        let is_thread_there = self.waiting.has_waiting_thread();
        if self.is_anything_on_its_way() || (timer.is_some() && is_thread_there) {
            self.waiting.name_leader(self.is_something_left());
        }
        // A thread that leads looks at the time, too.
        if let Some(due) = timer
            && !is_thread_there
            && self.rests_until.is_none_or(|until| due < until)
        {
            self.waiting.wake_background();
            // It comes, and says anew how long it rests.
            self.rests_until = Some(Nanos(0));
        }
    }
}

/// How soon the core is told the time again when it wanted to be told of one that is over.
const TELL_AGAIN_NS: u64 = 1_000_000;
