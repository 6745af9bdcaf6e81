//! Runs independent jobs on several threads and returns the results in job order, independent of
//! scheduling.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs each job, on the given number of threads. `begun` receives the number of jobs that have
/// begun, and the latest.
///
/// # Panics
///
/// If a job panics.
pub fn run_in_order<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    begun: &(dyn Fn(usize, &J) + Sync),
    run: &(dyn Fn(&J) -> R + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return results };
            begun(index + 1, job);
            results.push((index, run(job)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads = threads.min(jobs.len()).max(1);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = |worker: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            worker.join().expect("no job panics")
        };
        workers.into_iter().flat_map(ended).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_on_any_number_of_threads() {
        let jobs: Vec<u64> = (0..100).collect();
        let squares: Vec<u64> = jobs.iter().map(|job| job * job).collect();
        for threads in [0, 1, 2, 7, 1000] {
            let begun = AtomicUsize::new(0);
            let count = |_: usize, _: &u64| {
                begun.fetch_add(1, Ordering::Relaxed);
            };
            assert_eq!(run_in_order(&jobs, threads, &count, &|job| job * job), squares);
            assert_eq!(begun.into_inner(), jobs.len());
        }
        assert!(run_in_order(&[0; 0], 2, &|_, _| {}, &|job: &u8| *job).is_empty());
    }
}
