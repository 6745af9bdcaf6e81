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

use crate::file::FileShared;
use crate::ring;
use crate::shared::{Driving, Shared};
use crate::waiting::{Leader, News, Ticket};

/// Why there are no news of a read or a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotReady {
    Fault(Fault),
    /// The device did not answer in time.
    TimedOut,
}

impl Shared {
    /// Waits for a read that the calling thread has begun.
    pub(crate) fn wait_for<'s>(
        &'s self,
        driving: Driving<'s>,
        id: ReadId,
        file: &Arc<FileShared>,
    ) -> (Driving<'s>, Result<ReadReady, NotReady>) {
        match self.wait_for_news(driving, Ticket::Read(id)) {
            (driving, Ok(News::Read(ready))) => (driving, Ok(ready)),
            (_, Ok(News::Write(_))) => unreachable!("a read has a read's news"),
            (mut driving, Err(why)) => {
                if let NotReady::TimedOut = why {
                    driving.abandon(id, Arc::clone(file));
                }
                (driving, Err(why))
            }
        }
    }

    /// Waits for news of what the calling thread has begun. If they do not come in time, it is for
    /// the caller to abandon it.
    pub(crate) fn wait_for_news<'s>(
        &'s self,
        mut driving: Driving<'s>,
        ticket: Ticket,
    ) -> (Driving<'s>, Result<News, NotReady>) {
        let deadline = self.timeout.map(|timeout| after(driving.now(), timeout));
        if deadline.is_none() && !driving.waiting.has_news(ticket) {
            driving = self.read_alone(driving, ticket);
        }
        let me = Leader::Waiter(ticket);
        let end = loop {
            if let Some(news) = driving.waiting.take_news(ticket) {
                break Ok(news);
            }
            if let Some(errno) = driving.broken() {
                driving.waiting.forget(ticket);
                break Err(NotReady::Fault(Fault::Io(errno)));
            }
            if deadline.is_some_and(|deadline| deadline <= driving.now()) {
                break Err(NotReady::TimedOut);
            }
            driving = match driving.waiting.leader() {
                Some(leader) if leader != me => self.follow(driving, deadline),
                _ => {
                    driving.waiting.lead(me);
                    driving.reap();
                    if driving.waiting.has_news(ticket) {
                        continue;
                    }
                    self.sleep(driving, me, deadline)
                }
            };
        };
        driving.waiting.step_down(me);
        (driving, end)
    }

    /// Drives as long as no thread does and there is something to drive. Gives how long there is
    /// not, if that is known: then pages will be old.
    pub(crate) fn lead_in_the_background(&self) -> Option<Duration> {
        let me = Leader::Background;
        let mut driving = self.drive();
        let mut may_rest = false;
        while driving.broken().is_none() && driving.waiting.leader().is_none_or(|it| it == me) {
            driving.waiting.lead(me);
            driving.take_posts(&self.inbox);
            driving.reap();
            if driving.waiting.has_waiting_thread() {
                break;
            }
            may_rest = !driving.is_leader_needed();
            if may_rest {
                break;
            }
            driving = self.sleep(driving, me, None);
        }
        // Start what was queued after the last sleep: no other thread may come.
        driving.start_all();
        driving.waiting.step_down(me);
        let due = driving.timer().filter(|_| may_rest);
        driving.rests_until = due;
        due.map(|due| driving.until(due))
    }

    /// Sleeps in the ring until something has come or is due.
    ///
    /// Not while there are wakes to run: a task that is woken runs here, and may want to wait
    /// itself, which a leader cannot.
    fn sleep<'s>(
        &'s self,
        mut driving: Driving<'s>,
        me: Leader,
        deadline: Option<Nanos>,
    ) -> Driving<'s> {
        if driving.waiting.has_wakes() {
            driving.waiting.step_down(me);
            drop(driving);
            return self.drive();
        }
        let due = [driving.next_due(), deadline].into_iter().flatten().min();
        let at_most = due.map(|due| driving.until(due));
        driving.falls_asleep(due);
        drop(driving);
        let slept = self.sleeper.wait(at_most);
        let mut driving = self.drive();
        driving.waiting.set_asleep(false);
        if let Err(error) = slept {
            driving.break_down(error.raw_os_error().unwrap_or(libc::EIO));
        }
        driving.take_posts(&self.inbox);
        driving
    }

    /// Parks until there are news for it, or until there is no leader.
    fn follow<'s>(&'s self, mut driving: Driving<'s>, deadline: Option<Nanos>) -> Driving<'s> {
        driving.start_all();
        let at_most = deadline.map(|deadline| driving.until(deadline));
        drop(driving);
        match at_most {
            Some(at_most) => std::thread::park_timeout(at_most),
            None => std::thread::park(),
        }
        self.drive()
    }

    /// If one request is all that is to be started, reads it here.
    fn read_alone<'s>(&'s self, mut driving: Driving<'s>, ticket: Ticket) -> Driving<'s> {
        let Some(alone) = driving.take_alone() else { return driving };
        driving.waiting.set_away(ticket, true);
        drop(driving);
        let mut parts = alone.parts.iter().cloned();
        let result = ring::pread(&self.pool, alone.backend, alone.offset, &mut parts);
        let mut driving = self.drive();
        driving.waiting.set_away(ticket, false);
        driving.complete_alone(alone.tag, result);
        driving
    }
}

fn after(now: Nanos, time: Duration) -> Nanos {
    Nanos(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}
