//! Lets one engine per process write a file: two would cache its pages twice.
//!
//! A forked child neither inherits the claims of its parent nor takes a lock that one of the
//! parent's threads may hold.
//!
//! ```text
//!   process 100    [100: a, b]  [-]        [-]         one list per process in a chain of
//!   its child      [100: a, b]  [107: c]   [-]         forks; each uses only its own
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::FileIdentity;

/// Claim of an engine to write a file.
#[derive(Debug)]
pub(crate) struct WriterClaim {
    engine: u64,
}

#[derive(Debug)]
struct ProcessWriters {
    /// 0 while unused.
    process: AtomicU32,
    held: Mutex<Vec<(FileIdentity, Weak<WriterClaim>)>>,
}

static WRITERS: [ProcessWriters; FORKS_MAX] = [const { ProcessWriters::new() }; FORKS_MAX];

impl ProcessWriters {
    const fn new() -> Self {
        Self { process: AtomicU32::new(0), held: Mutex::new(Vec::new()) }
    }

    /// Returns the list of this process. Returns `None` if earlier generations of forks have used
    /// up all lists; writers are then not checked.
    fn of_this_process() -> Option<&'static Self> {
        let this = std::process::id();
        WRITERS.iter().find(|writers| {
            let free =
                writers.process.compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst);
            free.is_ok() || free == Err(this)
        })
    }
}

/// Returns a new number for an engine, unique in the process.
pub(crate) fn next_engine() -> u64 {
    static ENGINES: AtomicU64 = AtomicU64::new(0);

    ENGINES.fetch_add(1, Ordering::Relaxed)
}

/// Claims a file for an engine; None if another engine of this process writes it.
pub(crate) fn claim_for(identity: FileIdentity, engine: u64) -> Option<Arc<WriterClaim>> {
    let new = || Arc::new(WriterClaim { engine });
    let Some(writers) = ProcessWriters::of_this_process() else { return Some(new()) };
    // No code panics while holding this lock.
    let mut held = writers.held.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|(_, claim)| claim.strong_count() > 0);
    let of_this_file = held.iter().filter(|(of, _)| *of == identity);
    if let Some(claim) = of_this_file.filter_map(|(_, claim)| claim.upgrade()).next() {
        return (claim.engine == engine).then_some(claim);
    }
    let claim = new();
    held.push((identity, Arc::downgrade(&claim)));
    Some(claim)
}

/// Most generations of forks without an exec.
const FORKS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_engine_has_a_file_until_its_last_claim_ends() {
        let file = FileIdentity::Inode { on: u64::MAX, number: 1 };
        let other = FileIdentity::Inode { on: u64::MAX, number: 2 };
        let [first, second] = [next_engine(), next_engine()];
        let claims = [(); 2].map(|()| claim_for(file, first).expect("it is free, or its own"));
        assert!(claim_for(file, second).is_none());
        claim_for(other, second).expect("another file");
        let [one, last] = claims;
        drop(one);
        assert!(claim_for(file, second).is_none());
        drop(last);
        claim_for(file, second).expect("it is free");
    }
}
