//! Leader and followers: how threads wait for reads, with one ring and one mutex.
//!
//! In:    a read that has begun.
//! Out:   the same read, ready; or why not.
//! Never: a sleep under the mutex. Two that reap: one would sleep for what the other took.
//!
//! ```text
//!   leader     lock | reap, dispatch | unlock   sleep in the ring   lock | reap .. | name another
//!   followers  lock | submit         | unlock   park                lock | mine is ready
//! ```
//!
//! Why a leader and not a thread for it: a hop from thread to thread costs as much as fifteen hits.
//! The reader that waits anyway does the reaping, and pays for nobody but itself.

use std::sync::Arc;
use std::time::Duration;

use foreread_core::path::{Fault, ReadId, Ready};
use foreread_core::units::Instant;

use crate::file::FileShared;
use crate::ring;
use crate::shared::{Driving, Shared};
use crate::waiting::Leader;

/// Why a read did not become ready.
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
        mut driving: Driving<'s>,
        id: ReadId,
        file: &Arc<FileShared>,
    ) -> (Driving<'s>, Result<Ready, NotReady>) {
        let deadline = self.timeout.map(|timeout| after(driving.now(), timeout));
        if deadline.is_none() && !driving.waiting.is_ready(id) {
            driving = self.read_alone(driving, id);
        }
        let end = loop {
            if let Some(ready) = driving.waiting.take_ready(id) {
                break Ok(ready);
            }
            if let Some(errno) = driving.broken() {
                driving.waiting.forget(id);
                break Err(NotReady::Fault(Fault::Io(errno)));
            }
            if deadline.is_some_and(|deadline| deadline <= driving.now()) {
                driving.abandon(id, Arc::clone(file));
                break Err(NotReady::TimedOut);
            }
            let me = Leader::Read(id);
            driving = match driving.waiting.leader() {
                Some(leader) if leader != me => self.follow(driving, deadline),
                _ => {
                    driving.waiting.lead(me);
                    driving.reap();
                    if driving.waiting.is_ready(id) {
                        continue;
                    }
                    self.sleep(driving, deadline)
                }
            };
        };
        driving.waiting.step_down(Leader::Read(id));
        (driving, end)
    }

    /// Drives as long as somebody waits and no thread does, or requests are left to dispatch.
    pub(crate) fn lead_in_the_background(&self) {
        let me = Leader::Background;
        let mut driving = self.drive();
        while driving.broken().is_none() && driving.waiting.leader().is_none_or(|it| it == me) {
            driving.waiting.lead(me);
            driving.take_posts(&self.inbox);
            driving.reap();
            let is_wanted = driving.path.is_dispatch_pending() || driving.waiting.is_waited_for();
            let threads_lead = driving.waiting.has_waiting_thread();
            if threads_lead || !is_wanted || !driving.is_anything_on_its_way() {
                break;
            }
            driving = self.sleep(driving, None);
        }
        // What was queued after the last sleep: nobody else may come.
        driving.start_all();
        driving.waiting.step_down(me);
    }

    /// Sleeps in the ring until something has come or is due.
    fn sleep<'s>(&'s self, mut driving: Driving<'s>, deadline: Option<Instant>) -> Driving<'s> {
        let due = [driving.next_due(), deadline].into_iter().flatten().min();
        let at_most = due.map(|due| driving.until(due));
        driving.waiting.set_asleep(true);
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

    /// Parks until whoever leads says that the read is ready, or that nobody leads.
    fn follow<'s>(&'s self, mut driving: Driving<'s>, deadline: Option<Instant>) -> Driving<'s> {
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
    fn read_alone<'s>(&'s self, mut driving: Driving<'s>, id: ReadId) -> Driving<'s> {
        let Some(alone) = driving.take_alone() else { return driving };
        driving.waiting.set_away(id, true);
        drop(driving);
        let mut frames = alone.frames.iter().copied();
        let result = ring::pread(&self.pool, &alone.backend, alone.offset, &mut frames);
        let mut driving = self.drive();
        driving.waiting.set_away(id, false);
        driving.complete_alone(alone.tag, result);
        driving
    }
}

fn after(now: Instant, time: Duration) -> Instant {
    Instant(now.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}
