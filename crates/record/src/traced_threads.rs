//! Attached threads and their processes. A known thread costs no look-up in `/proc`, because each
//! of its system calls comes here.

use std::collections::HashMap;

/// Threads by number, each with its process.
#[derive(Debug, Default)]
pub(crate) struct TracedThreads {
    process_of: HashMap<u32, u32>,
    /// Number of threads by process.
    counts: HashMap<u32, usize>,
}

impl TracedThreads {
    pub(crate) fn len(&self) -> usize {
        self.process_of.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.process_of.is_empty()
    }

    pub(crate) fn contains(&self, thread: u32) -> bool {
        self.process_of.contains_key(&thread)
    }

    /// Returns true if a thread of this process is attached.
    pub(crate) fn has_process(&self, process: u32) -> bool {
        self.counts.contains_key(&process)
    }

    /// Returns the processes in no particular order.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.counts.keys().copied()
    }

    /// Adds a thread and returns true if it is new. Only then is its process looked up.
    pub(crate) fn add(&mut self, thread: u32, process_of: impl FnOnce(u32) -> u32) -> bool {
        if self.contains(thread) {
            return false;
        }
        let process = process_of(thread);
        self.process_of.insert(thread, process);
        *self.counts.entry(process).or_default() += 1;
        true
    }

    /// Removes a thread that has ended or was detached; no-op for an unknown thread.
    pub(crate) fn remove(&mut self, thread: u32) {
        let Some(process) = self.process_of.remove(&thread) else { return };
        let count = self.counts.get_mut(&process).expect("each process of a thread is counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&process);
        }
    }

    /// Keeps the threads for which the predicate is true.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(u32) -> bool) {
        let gone: Vec<u32> = self.process_of.keys().copied().filter(|it| !is_kept(*it)).collect();
        gone.into_iter().for_each(|thread| self.remove(thread));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each call read the state of every thread of a process that had ended.
    #[test]
    fn a_process_is_looked_up_once_a_thread_and_is_gone_with_its_last() {
        let mut threads = TracedThreads::default();
        let mut looks = 0;
        for (thread, process) in [(10, 10), (11, 10), (11, 10), (20, 20), (10, 10), (20, 20)] {
            threads.add(thread, |_| {
                looks += 1;
                process
            });
        }
        assert_eq!((looks, threads.len()), (3, 3));
        threads.remove(10);
        threads.remove(10);
        assert!(threads.has_process(10) && !threads.contains(10), "its main thread has ended");
        threads.remove(11);
        assert!(!threads.has_process(10));
        assert_eq!(threads.processes().collect::<Vec<_>>(), [20]);
        threads.retain(|thread| thread != 20);
        assert!(threads.is_empty() && threads.processes().next().is_none());
    }
}
