//! Decides when the leader sleeps, until when, and which thread leads next. Requests in flight that
//! a waiter needs always have a thread that will reap them.

use std::cmp::Reverse;

use foreread_core::units::{Nanos, Pages};

use super::Driver;
use crate::deferred_wake::DeferredWake;

impl Driver {
    /// Returns the time by which the leader must reap even if no completion arrives.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let early = self.early.peek().map(|Reverse(early)| early.at);
        [early, self.timer()].into_iter().flatten().min()
    }

    /// Returns the next time-out of the core or of a source request.
    ///
    /// Without dirty pages, skips the core: nothing else in it waits for a time, and finding out
    /// costs a look at each device.
    pub(crate) fn timer(&self) -> Option<Nanos> {
        let deadline = self.fetches.deadline();
        [self.core_timer(), deadline].into_iter().flatten().min()
    }

    fn core_timer(&self) -> Option<Nanos> {
        if self.path.dirty() == Pages::ZERO {
            return None;
        }
        let at = self.path.poll_timeout()?;
        // The last time-out did not help the core: repeat it, but not at once.
        let again = Nanos(self.told.0.saturating_add(TELL_AGAIN_NS));
        Some(if at <= self.told { again } else { at })
    }

    /// Passes the time to the core if a time-out is due, and ends late source requests.
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

    /// Returns true if nothing is in flight, queued or due: a miss on an idle engine has nothing to
    /// reap.
    pub(super) fn is_idle(&self) -> bool {
        let is_left = self.is_anything_on_its_way() || self.path.is_dispatch_pending();
        !is_left && self.timer().is_none()
    }

    /// Returns true if a completion will arrive.
    fn is_anything_on_its_way(&self) -> bool {
        self.ring.in_flight() > 0 || !self.early.is_empty()
    }

    /// Returns true if a thread must sleep in the ring. Requests must be in flight, and either a
    /// waiter needs one of them, more are to follow, or one is a write, as a writer may be waiting
    /// for its room.
    ///
    /// Read-ahead alone needs no leader: the next reader reaps it.
    pub(crate) fn is_leader_needed(&self) -> bool {
        let is_left = self.is_something_left() || self.waiting.is_waited_for();
        self.is_anything_on_its_way() && is_left
    }

    fn is_something_left(&self) -> bool {
        !self.writing.is_empty() || self.path.is_dispatch_pending()
    }

    /// Notes that the leader sleeps in the ring until `due`, starting when the mutex is released.
    pub(crate) fn falls_asleep(&mut self, due: Option<Nanos>) {
        self.waiting.set_asleep(true);
        self.sleeps_until = due;
        self.is_falling_asleep = true;
    }

    /// Returns the threads and tasks to wake once the mutex is released, and names a leader if
    /// there is none.
    ///
    /// First submits the requests queued in the ring, which a sleeping leader would not see. A
    /// thread about to sleep in the ring submits with the same call instead.
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
                    // The leader retries requests the kernel refused until it accepts them.
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
        // A leading thread also watches the timer.
        if let Some(due) = timer
            && !is_thread_there
            && self.rests_until.is_none_or(|until| due < until)
        {
            self.waiting.wake_background();
            // The background thread sets this again when it next rests.
            self.rests_until = Some(Nanos(0));
        }
    }
}

/// Delay before the core gets the time again when its last time-out has already passed.
const TELL_AGAIN_NS: u64 = 1_000_000;
