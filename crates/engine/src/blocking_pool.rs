//! The blocking pool: threads for system calls that block, of writes that no thread waits for.
//!
//! In:    jobs.
//! Out:   each is run, once.
//! Never: a thread before it is needed, or more than [`THREADS_MAX`]. A job dropped at the end: the
//!        threads end when there is nothing left to do.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something that may block.
pub(crate) type BlockingJob = Box<dyn FnOnce() + Send>;

/// Threads that run jobs, the oldest first.
#[derive(Default)]
pub(crate) struct BlockingPool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<BlockingJob>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl BlockingPool {
    /// Has a job run. If the system gives no thread, it runs here.
    pub(crate) fn run(self: &Arc<Self>, job: BlockingJob) {
        let mut state = self.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() || state.threads == THREADS_MAX {
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
            if let Some(job) = job {
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
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.lock();
            } else if state.is_closed {
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

impl fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingPool").finish_non_exhaustive()
    }
}

/// Flushes of so many files at once; each waits for its device. io_uring would have them done by
/// threads of the kernel, as many.
const THREADS_MAX: usize = 16;

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
        for _ in 0..THREADS_MAX {
            let all_busy = Arc::clone(&all_busy);
            pool.run(Box::new(move || {
                all_busy.wait();
            }));
        }
        for number in 0..1000 {
            let sender = sender.clone();
            pool.run(Box::new(move || sender.send(number).expect("the test waits")));
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
}
