//! Leader and followers: how threads wait for reads and writes, with one ring and one mutex.
//!
//! In:    a read or a write that has begun.
//! Out:   news of it; or why there are none.
//! Never: a sleep under the mutex. Two that reap: one would sleep for what the other took.
//!
//! ```text
//!   leader     lock | reap, dispatch | unlock   sleep in the ring   lock | reap .. | name another
//!   followers  lock | submit         | unlock   park                lock | mine is ready
//! ```
//!
//! Why a leader and not a thread for it: a hop from thread to thread costs as much as fifteen hits.
//! A thread that waits anyway does the reaping. The background thread leads where no thread
//! waits: for tasks, and while pages are written back, or will be when they are old.

use std::sync::Arc;
use std::time::Duration;

use foreread_core::path::{Fault, ReadId, ReadReady};
use foreread_core::units::Nanos;

use crate::deferred_wake::KeepAlive;
use crate::driver::InlineIo;
use crate::engine_state::{DriverGuard, EngineState};
use crate::wait_table::{Notification, Ticket};
use crate::waiters::Leader;

/// Why there are no news of a read or a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotReady {
    Fault(Fault),
    /// The device did not answer in time.
    TimedOut,
}

impl EngineState {
    /// Waits for a read that the calling thread has begun.
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

    /// Waits for news of what the calling thread has begun. If they do not come in time, it is for
    /// the caller to abandon it.
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

    /// Drives as long as no thread does and there is something to drive. Gives how long there is
    /// not, if that is known: then pages will be old.
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
        // Start what was queued after the last sleep: no other thread may come.
        driver.start_all();
        driver.waiting.step_down(me);
        // Where another thread leads it is not woken for what is due later, either: with each write
        // that a flush follows the background thread would come and find the flush leading.
        let now = driver.now();
        let due = driver.timer().filter(|due| may_rest || *due > now);
        driver.rests_until = due;
        due.map(|due| driver.until(due))
    }

    /// Sleeps in the ring until something has come or is due.
    ///
    /// Not while there are wakes to run: a task that is woken runs here, and may want to wait
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

    /// Parks until there are news for it, or until there is no leader.
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

    /// If one request is all that is to be started, does it here.
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

    /// Takes the one request that is to be started, if it is the only one, for the thread that
    /// waits for this. The thread does it without the mutex, and then ends it.
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

    /// What became of it.
    pub(crate) fn end_inline(
        &self,
        alone: &InlineIo,
        ticket: Ticket,
        result: Result<u32, i32>,
    ) -> DriverGuard<'_> {
        let mut driver = self.drive_again();
        // Before the thread counts as waiting again: it is here, and need not be woken.
        driver.complete_inline(alone, result);
        driver.waiting.set_away(ticket, false);
        driver
    }
}

fn after(now: Nanos, time: Duration) -> Nanos {
    Nanos(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}
