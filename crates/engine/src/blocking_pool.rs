//! The blocking pool: threads for system calls that block, of writes that no thread waits for.
//!
//! In:    jobs, each with the disk that it may wait for.
//! Out:   each is run, once.
//! Never: a thread before it is needed, more than [`THREADS_MAX`], or more than [`DISK_MAX`] jobs
//!        of one disk at a time: a disk that answers nothing holds back its own jobs alone. A job
//!        dropped at the end: the threads end when there is nothing left to do.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use foreread_core::path::DeviceId;

/// Something that may block.
pub(crate) type BlockingJob = Box<dyn FnOnce() + Send>;

/// Where a job may block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BlocksOn {
    /// The engine's memory.
    Memory,
    /// A disk, by the number that all of its files and partitions have.
    Disk(u64),
    /// A device of which no disk is known.
    Device(DeviceId),
}

/// Threads that run jobs: of those whose disk has a thread left, the oldest first.
#[derive(Default)]
pub(crate) struct BlockingPool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<(BlocksOn, BlockingJob)>,
    /// The disks of the jobs that run.
    running: Vec<BlocksOn>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl BlockingPool {
    /// Has a job run. If the system gives no thread, it runs here.
    pub(crate) fn run(self: &Arc<Self>, on: BlocksOn, job: BlockingJob) {
        let mut state = self.lock();
        state.jobs.push_back((on, job));
        let runnable = state.runnable();
        if state.idle >= runnable || state.threads == THREADS_MAX {
            drop(state);
            self.changed.notify_one();
            return;
        }
        state.threads += 1;
        drop(state);
        let pool = Arc::clone(self);
        let thread = std::thread::Builder::new().name("foreread-blocking".into());
        if thread.stack_size(STACK).spawn(move || pool.work()).is_err() {
            let mut state = self.lock();
            state.threads -= 1;
            // Threads that there are do it.
            let job = if state.threads == 0 { state.jobs.pop_back() } else { None };
            drop(state);
            if let Some((_, job)) = job {
                job();
            }
        }
    }

    /// Its threads end when there is nothing left to do.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((on, job)) = state.next() {
                drop(state);
                job();
                state = self.lock();
                state.ended(on);
            } else if state.is_closed {
                // Jobs that wait for their disk are done by the threads that run its others.
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Nothing panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    /// Begins the oldest job whose disk has a thread left.
    fn next(&mut self) -> Option<(BlocksOn, BlockingJob)> {
        let index = self.jobs.iter().position(|(on, _)| self.running_on(*on) < DISK_MAX)?;
        let (on, job) = self.jobs.remove(index)?;
        self.running.push(on);
        Some((on, job))
    }

    fn ended(&mut self, on: BlocksOn) {
        let index = self.running.iter().position(|it| *it == on);
        self.running.swap_remove(index.expect("a job that ends was running"));
    }

    fn running_on(&self, on: BlocksOn) -> usize {
        self.running.iter().filter(|it| **it == on).count()
    }

    /// The number of waiting jobs that a thread could begin now.
    fn runnable(&self) -> usize {
        let mut begun = Vec::new();
        for &(on, _) in &self.jobs {
            let others = begun.iter().filter(|it| **it == on).count();
            if begun.len() == THREADS_MAX {
                break;
            }
            if self.running_on(on) + others < DISK_MAX {
                begun.push(on);
            }
        }
        begun.len()
    }
}

impl fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingPool").finish_non_exhaustive()
    }
}

/// Eight disks that answer nothing leave none for others.
const THREADS_MAX: usize = 64;

/// Flushes of one disk at a time: it does them one after the other, or together.
const DISK_MAX: usize = 8;

/// A job ends in the core, and in wakers of executors, none of which is deep.
const STACK: usize = 512 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_job_runs_once_by_a_bounded_number_of_threads_and_closing_drops_none() {
        let pool = Arc::new(BlockingPool::default());
        let (sender, receiver) = channel();
        let all_busy = Arc::new(Barrier::new(THREADS_MAX + 1));
        for disk in (0..).take(THREADS_MAX) {
            let all_busy = Arc::clone(&all_busy);
            let job = move || _ = all_busy.wait();
            pool.run(BlocksOn::Disk(disk / DISK_MAX as u64), Box::new(job));
        }
        for number in 0..1000 {
            let sender = sender.clone();
            let job = move || sender.send(number).expect("the test waits");
            pool.run(BlocksOn::Disk(u64::from(number % 3)), Box::new(job));
        }
        assert_eq!(pool.lock().threads, THREADS_MAX);
        pool.close();
        all_busy.wait();
        drop(sender);
        let mut done: Vec<u32> = receiver.iter().collect();
        done.sort_unstable();
        assert!(done.into_iter().eq(0..1000), "each job once");
        while pool.lock().threads > 0 {
            std::thread::yield_now();
        }
    }

    /// Sixteen stuck flushes of one disk held back those of all others.
    #[test]
    fn a_disk_that_answers_nothing_holds_back_its_own_jobs_alone() {
        let pool = Arc::new(BlockingPool::default());
        let (answer, answers) = channel::<()>();
        let answers = Arc::new(Mutex::new(answers));
        let (sender, receiver) = channel();
        for _ in 0..100 {
            let (answers, sender) = (Arc::clone(&answers), sender.clone());
            let job = move || {
                answers.lock().unwrap().recv().unwrap_err();
                sender.send("held").unwrap();
            };
            pool.run(BlocksOn::Disk(1), Box::new(job));
        }
        for on in [BlocksOn::Disk(2), BlocksOn::Memory] {
            let sender = sender.clone();
            pool.run(on, Box::new(move || sender.send("other").unwrap()));
            assert_eq!(receiver.recv().unwrap(), "other");
        }
        assert!(pool.lock().running_on(BlocksOn::Disk(1)) <= DISK_MAX);
        pool.close();
        drop((answer, sender));
        assert_eq!(receiver.iter().filter(|it: &&str| **it == *"held").count(), 100);
    }
}
