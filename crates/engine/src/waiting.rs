//! Who waits for which read, and who of them leads.
//!
//! In:    reads that began, reads that are ready, waiters that gave up.
//! Out:   who is to be woken, once the engine's mutex is free.
//! Never: a wait of its own. A read that is on its way and that nobody is noted for.
//!
//! ```text
//!                begins                    ready
//!   read ----------------------> waiting ---------> taken by its waiter, who copies and releases
//!                                   |
//!                                   | its waiter gave up: a time-out, a future that was dropped
//!                                   v        ready
//!                                abandoned ---------> released at once
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

use foreread_core::path::{ReadId, Ready};

use crate::background::Bell;
use crate::file::FileShared;

/// Every read that is on its way.
#[derive(Debug)]
pub(crate) struct Waiting {
    reads: HashMap<ReadId, Read, BuildHasherDefault<IdHasher>>,
    leader: Option<Leader>,
    /// The leader sleeps in the ring.
    is_asleep: bool,
    wakes: Vec<Wake>,
    bell: Arc<Bell>,
}

/// Whoever reaps completions: one at a time, or one would sleep for a completion that another took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Leader {
    /// The thread that waits for this read.
    Read(ReadId),
    /// The background thread.
    Background,
}

/// Who waits for a read.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A thread, which parks unless it leads.
    Thread(Thread),
    /// A task of an executor.
    Task(Waker),
    /// Nobody any more. The file stays open until the device has answered.
    Nobody(Arc<FileShared>),
}

#[derive(Debug)]
struct Read {
    who: Waiter,
    /// Its thread is in the kernel, with a request of its own, and can neither lead nor be woken.
    is_away: bool,
    ready: Option<Ready>,
}

/// What is done after the mutex is free: each of these may take it again.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Thread),
    Task(Waker),
    /// The background thread has something to do.
    Background(Arc<Bell>),
    /// The last handle to a file may go with this one.
    LetGo(Arc<FileShared>),
    /// A waker that is not needed any more. The last handle to a task may go with it, and with the
    /// task whatever it owns.
    Unused(Waker),
}

/// What has to be done about a read that became ready.
pub(crate) enum Told {
    /// Its waiter will see to it.
    Waiter,
    /// Its waiter leads, and sleeps in the ring, where nothing may be that would wake it.
    SleepingLeader,
    /// Nobody wants it: release it.
    Nobody,
}

impl Waiting {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        Self { reads: HashMap::default(), leader: None, is_asleep: false, wakes: Vec::new(), bell }
    }

    pub(crate) fn add(&mut self, id: ReadId, who: Waiter) {
        let before = self.reads.insert(id, Read { who, is_away: false, ready: None });
        assert!(before.is_none(), "a read begins once");
    }

    /// Notes that a read is ready and whom to wake.
    pub(crate) fn note_ready(&mut self, ready: Ready) -> Told {
        let read = self.reads.get_mut(&ready.id).expect("a read on its way has a waiter");
        match &read.who {
            Waiter::Nobody(_) => {
                if let Some(Read { who: Waiter::Nobody(file), .. }) = self.reads.remove(&ready.id) {
                    self.wakes.push(Wake::LetGo(file));
                }
                return Told::Nobody;
            }
            _ if self.leader == Some(Leader::Read(ready.id)) => {
                read.ready = Some(ready);
                let was_asleep = std::mem::take(&mut self.is_asleep);
                return if was_asleep { Told::SleepingLeader } else { Told::Waiter };
            }
            Waiter::Thread(thread) => self.wakes.push(Wake::Thread(thread.clone())),
            Waiter::Task(waker) => self.wakes.push(Wake::Task(waker.clone())),
        }
        read.ready = Some(ready);
        Told::Waiter
    }

    pub(crate) fn is_ready(&self, id: ReadId) -> bool {
        self.reads.get(&id).is_some_and(|read| read.ready.is_some())
    }

    /// Takes a read that is ready out of here.
    pub(crate) fn take_ready(&mut self, id: ReadId) -> Option<Ready> {
        let ready = self.reads.get(&id)?.ready?;
        self.forget(id);
        Some(ready)
    }

    /// A task is polled again, maybe with another waker.
    pub(crate) fn set_waker(&mut self, id: ReadId, waker: &Waker) {
        let read = self.reads.get_mut(&id).expect("a future polls its own read");
        if let Waiter::Task(known) = &mut read.who
            && !known.will_wake(waker)
        {
            self.wakes.push(Wake::Unused(std::mem::replace(known, waker.clone())));
        }
    }

    /// Its waiter gives up. If the read is ready, the caller releases it.
    #[must_use]
    pub(crate) fn abandon(&mut self, id: ReadId, file: Arc<FileShared>) -> Option<Ready> {
        if let Some(ready) = self.take_ready(id) {
            return Some(ready);
        }
        if let Some(read) = self.reads.get_mut(&id)
            && let Waiter::Task(waker) = std::mem::replace(&mut read.who, Waiter::Nobody(file))
        {
            self.wakes.push(Wake::Unused(waker));
        }
        None
    }

    pub(crate) fn leader(&self) -> Option<Leader> {
        self.leader
    }

    pub(crate) fn lead(&mut self, who: Leader) {
        assert!(self.leader.is_none_or(|leader| leader == who), "one leads at a time");
        self.leader = Some(who);
    }

    /// The thread that waits for this read goes to read by itself, or comes back.
    pub(crate) fn set_away(&mut self, id: ReadId, is_away: bool) {
        self.reads.get_mut(&id).expect("a thread waits for its own read").is_away = is_away;
    }

    /// The leader goes to sleep in the ring, or comes back from there.
    pub(crate) fn set_asleep(&mut self, is_asleep: bool) {
        assert!(self.leader.is_some(), "only the leader sleeps there");
        self.is_asleep = is_asleep;
    }

    /// The leader leaves.
    pub(crate) fn step_down(&mut self, who: Leader) {
        if self.leader == Some(who) {
            self.leader = None;
        }
    }

    /// Names a leader if there is none and somebody has to lead: a thread that waits anyway, or the
    /// background thread if none does and something is left to do.
    ///
    /// Whoever is named finds out for itself; if it has left by then, it names another.
    pub(crate) fn name_leader(&mut self, is_something_left: bool) {
        if self.leader.is_some() {
            return;
        }
        let thread = self.waits().find_map(|read| match &read.who {
            Waiter::Thread(thread) => Some(thread.clone()),
            Waiter::Task(_) | Waiter::Nobody(_) => None,
        });
        if let Some(thread) = thread {
            self.wakes.push(Wake::Thread(thread));
        } else if is_something_left || self.is_waited_for() {
            self.wakes.push(Wake::Background(Arc::clone(&self.bell)));
        }
    }

    /// Whether anybody waits who needs somebody that leads.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits().next().is_some()
    }

    /// Whether a thread waits: then that one leads.
    pub(crate) fn has_waiting_thread(&self) -> bool {
        self.waits().any(|read| matches!(read.who, Waiter::Thread(_)))
    }

    /// The reads that need somebody who leads.
    ///
    /// Not those of threads that are away: each comes back with its request, which may take as long
    /// as its device likes, and until then it is no leader for others.
    fn waits(&self) -> impl Iterator<Item = &Read> {
        self.reads.values().filter(|read| read.ready.is_none() && !read.is_away)
    }

    /// Wakes everybody: the ring is broken, and nothing will be ready any more.
    pub(crate) fn wake_all(&mut self) {
        for read in self.reads.values() {
            match &read.who {
                Waiter::Thread(thread) => self.wakes.push(Wake::Thread(thread.clone())),
                Waiter::Task(waker) => self.wakes.push(Wake::Task(waker.clone())),
                Waiter::Nobody(_) => {}
            }
        }
    }

    /// A read that its waiter has seen the end of is nobody's business here any more.
    pub(crate) fn forget(&mut self, id: ReadId) {
        if let Some(Read { who: Waiter::Task(waker), .. }) = self.reads.remove(&id) {
            self.wakes.push(Wake::Unused(waker));
        }
    }

    /// Whom to wake, once the mutex is free.
    pub(crate) fn take_wakes(&mut self) -> Vec<Wake> {
        std::mem::take(&mut self.wakes)
    }
}

impl Wake {
    pub(crate) fn run(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
            Self::Background(bell) => bell.ring(),
            Self::LetGo(file) => drop(file),
            Self::Unused(waker) => drop(waker),
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

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(32) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
