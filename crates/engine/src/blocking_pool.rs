//! Blocking pool: threads for blocking system calls of writes that no thread waits for.
//!
//! Threads start lazily, up to [`THREADS_MAX`]. At most [`DISK_MAX`] jobs of one disk run at a
//! time, so a hung disk stalls only its jobs. Closing the pool drops no job: the threads drain the
//! queue before they end.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use foreread_core::path::DeviceId;

/// Work that may block.
pub(crate) type BlockingJob = Box<dyn FnOnce() + Send>;

/// Resource on which a job may block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BlocksOn {
    /// The engine's memory.
    Memory,
    /// A disk, by the number shared by all files and partitions on it.
    Disk(u64),
    /// A device whose disk is unknown.
    Device(DeviceId),
}

/// Threads that run jobs, oldest first, skipping those whose disk is at its limit.
#[derive(Default)]
pub(crate) struct BlockingPool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<(BlocksOn, BlockingJob)>,
    /// Resources of the running jobs.
    running: Vec<BlocksOn>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl BlockingPool {
    /// Queues a job and starts a thread if necessary. If the pool has no thread and the system
    /// refuses one, the job runs on the calling thread.
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
            // If there are other threads, they run it.
            let job = if state.threads == 0 { state.jobs.pop_back() } else { None };
            drop(state);
            if let Some((_, job)) = job {
                job();
            }
        }
    }

    /// Closes the pool: its threads end once the queue is drained.
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
                // Jobs still queued are at their disk's limit; the threads busy with that disk
                // run them.
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
    /// Begins the oldest job whose disk is below its limit, and returns it.
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

    /// Returns the number of queued jobs that could begin now.
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

/// Most threads of a pool. Eight hung disks leave none for others.
const THREADS_MAX: usize = 64;

/// Most concurrent flushes of one disk, which serialises or merges them anyway.
const DISK_MAX: usize = 8;

/// Stack of a thread. A job ends in the core and in wakers of executors, none of which nests
/// deeply.
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

    /// Regression: 16 stuck flushes of one disk stalled those of all others.
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
