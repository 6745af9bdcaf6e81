//! Leader and followers: how threads wait for reads and writes with one ring and one mutex.
//!
//! No thread sleeps under the mutex, and only one reaps: a second one would sleep waiting for a
//! completion that the first has taken.
//!
//! ```text
//!   leader     lock | reap, dispatch | unlock   sleep in the ring   lock | reap .. | name another
//!   followers  lock | submit         | unlock   park                lock | mine is ready
//! ```
//!
//! There is no dedicated completion thread, because a hop between threads costs as much as fifteen
//! hits, and a thread that waits anyway can reap. The background thread leads where no thread
//! waits: for tasks, and while pages are written back or will become due for it.

use std::sync::Arc;
use std::time::Duration;

use foreread_core::path::{Fault, ReadId, ReadReady};
use foreread_core::units::Nanos;

use crate::deferred_wake::KeepAlive;
use crate::driver::InlineIo;
use crate::engine_state::{DriverGuard, EngineState};
use crate::wait_table::{Notification, Ticket};
use crate::waiters::Leader;

/// Reason why a wait ended without a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotReady {
    Fault(Fault),
    /// The device missed the deadline.
    TimedOut,
}

impl EngineState {
    /// Blocks until a read of the calling thread is ready, and abandons it on a time-out.
    pub(crate) fn wait_for<'s>(
        &'s self,
        driver: DriverGuard<'s>,
        id: ReadId,
        file: &KeepAlive,
    ) -> (DriverGuard<'s>, Result<ReadReady, NotReady>) {
        match self.wait_for_notification(driver, Ticket::Read(id)) {
            (driver, Ok(Notification::Read(ready))) => (driver, Ok(ready)),
            (_, Ok(Notification::Write(_) | Notification::Batch)) => {
                unreachable!("a read has a read's news")
            }
            (mut driver, Err(why)) => {
                if let NotReady::TimedOut = why {
                    driver.abandon(id, Arc::clone(file));
                }
                (driver, Err(why))
            }
        }
    }

    /// Blocks until an operation of the calling thread has a notification. On a time-out the caller
    /// must abandon the operation.
    pub(crate) fn wait_for_notification<'s>(
        &'s self,
        mut driver: DriverGuard<'s>,
        ticket: Ticket,
    ) -> (DriverGuard<'s>, Result<Notification, NotReady>) {
        let deadline = self.timeout.map(|timeout| after(driver.now(), timeout));
        driver = self.do_inline(driver, ticket);
        let me = Leader::Waiter(ticket);
        let end = loop {
            if let Some(news) = driver.waiting.take_notification(ticket) {
                break Ok(news);
            }
            if let Some(errno) = driver.broken() {
                driver.waiting.forget(ticket);
                break Err(NotReady::Fault(Fault::Io(errno)));
            }
            if deadline.is_some_and(|deadline| deadline <= driver.now()) {
                break Err(NotReady::TimedOut);
            }
            driver = match driver.waiting.leader() {
                Some(leader) if leader != me => self.follow(driver, deadline),
                _ => {
                    driver.waiting.lead(me);
                    driver.reap();
                    if driver.waiting.has_notification(ticket) {
                        continue;
                    }
                    self.sleep(driver, me, deadline)
                }
            };
        };
        driver.waiting.step_down(me);
        (driver, end)
    }

    /// Drives while no other thread leads and there is work. Returns the time until dirty pages
    /// come due, if known.
    pub(crate) fn lead_in_the_background(&self) -> Option<Duration> {
        let me = Leader::Background;
        let mut driver = self.drive().ok()?;
        let mut may_rest = false;
        while driver.broken().is_none() && driver.waiting.leader().is_none_or(|it| it == me) {
            driver.waiting.lead(me);
            driver.take_events();
            driver.reap();
            if driver.waiting.has_waiting_thread() {
                break;
            }
            may_rest = !driver.is_leader_needed();
            if may_rest {
                break;
            }
            driver = self.sleep(driver, me, None);
        }
        // Submit requests queued since the last sleep: no other thread may come to do it.
        driver.start_all();
        driver.waiting.step_down(me);
        // If another thread leads, leave later deadlines to it, too. Otherwise every write followed
        // by a flush would wake the background thread, only to find the flush leading.
        let now = driver.now();
        let due = driver.timer().filter(|due| may_rest || *due > now);
        driver.rests_until = due;
        due.map(|due| driver.until(due))
    }

    /// Sleeps in the ring until a completion arrives or a deadline passes.
    ///
    /// If there are wakes to run, runs them instead: a woken task runs on this thread and may wait
    /// itself, which a leader cannot.
    fn sleep<'s>(
        &'s self,
        mut driver: DriverGuard<'s>,
        me: Leader,
        deadline: Option<Nanos>,
    ) -> DriverGuard<'s> {
        if driver.waiting.has_wakes() {
            driver.waiting.step_down(me);
            drop(driver);
            return self.drive_again();
        }
        debug_assert_eq!(driver.waiting.leader(), Some(me), "only the leader sleeps in the ring");
        let due = [driver.next_due(), deadline].into_iter().flatten().min();
        let at_most = due.map(|due| driver.until(due));
        driver.falls_asleep(due);
        drop(driver);
        let slept = self.sleeper.wait(at_most);
        let mut driver = self.drive_again();
        driver.waiting.set_asleep(false);
        if let Err(error) = slept {
            driver.break_down(error.raw_os_error().unwrap_or(libc::EIO));
        }
        driver.take_events();
        driver
    }

    /// Parks until the thread is notified, or there is no leader.
    fn follow<'s>(
        &'s self,
        mut driver: DriverGuard<'s>,
        deadline: Option<Nanos>,
    ) -> DriverGuard<'s> {
        driver.start_all();
        let at_most = deadline.map(|deadline| driver.until(deadline));
        drop(driver);
        match at_most {
            Some(at_most) => std::thread::park_timeout(at_most),
            None => std::thread::park(),
        }
        self.drive_again()
    }

    /// Issues the only request to be dispatched in this thread, if there is just one.
    pub(crate) fn do_inline<'s>(
        &'s self,
        mut driver: DriverGuard<'s>,
        ticket: Ticket,
    ) -> DriverGuard<'s> {
        let Some(alone) = self.begin_inline(&mut driver, ticket) else { return driver };
        drop(driver);
        let result = alone.run(&self.pool);
        self.end_inline(&alone, ticket, result)
    }

    /// Takes the only request to be dispatched, if there is just one, for the thread that waits for
    /// `ticket`. The thread issues it without the mutex, then calls [`Self::end_inline`].
    pub(crate) fn begin_inline(
        &self,
        driver: &mut DriverGuard<'_>,
        ticket: Ticket,
    ) -> Option<InlineIo> {
        if self.timeout.is_some() || driver.waiting.has_notification(ticket) {
            return None;
        }
        let alone = driver.take_inline(ticket)?;
        driver.waiting.set_away(ticket, true);
        Some(alone)
    }

    /// Passes the result of an inline request to the core, and takes the driver's role again.
    pub(crate) fn end_inline(
        &self,
        alone: &InlineIo,
        ticket: Ticket,
        result: Result<u32, i32>,
    ) -> DriverGuard<'_> {
        let mut driver = self.drive_again();
        // Before the thread counts as waiting again: it is awake, and need not be woken.
        driver.complete_inline(alone, result);
        driver.waiting.set_away(ticket, false);
        driver
    }
}

fn after(now: Nanos, time: Duration) -> Nanos {
    Nanos(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}
