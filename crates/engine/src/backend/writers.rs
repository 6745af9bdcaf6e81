//! Which engine of this process writes which file: two would have two sets of pages of it.
//!
//! In:    a file, and the engine that is going to write it.
//! Out:   a claim, as long as the file is open for writing there.
//! Never: two engines of one process with a claim to one file. A child that inherits the claims of
//!        the process that forked it, or waits for a lock that one of its threads held.
//!
//! ```text
//!   process 100    [100: a, b]  [-]        [-]         a list for each process of a line of forks;
//!   its child      [100: a, b]  [107: c]   [-]         the lists of others are not looked at
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::FileIdentity;

/// An engine writes a file.
#[derive(Debug)]
pub(crate) struct WriterClaim {
    engine: u64,
}

#[derive(Debug)]
struct ProcessWriters {
    /// 0 if it is not used yet.
    process: AtomicU32,
    held: Mutex<Vec<(FileIdentity, Weak<WriterClaim>)>>,
}

static WRITERS: [ProcessWriters; FORKS_MAX] = [const { ProcessWriters::new() }; FORKS_MAX];

impl ProcessWriters {
    const fn new() -> Self {
        Self { process: AtomicU32::new(0), held: Mutex::new(Vec::new()) }
    }

    /// That of this process. None in a child of so many children that there is none left: what its
    /// engines write is not looked at.
    fn of_this_process() -> Option<&'static Self> {
        let this = std::process::id();
        WRITERS.iter().find(|writers| {
            let free =
                writers.process.compare_exchange(0, this, Ordering::SeqCst, Ordering::SeqCst);
            free.is_ok() || free == Err(this)
        })
    }
}

/// A number for each engine.
pub(crate) fn next_engine() -> u64 {
    static ENGINES: AtomicU64 = AtomicU64::new(0);

    ENGINES.fetch_add(1, Ordering::Relaxed)
}

/// Claims a file for an engine; None if another engine of this process writes it.
pub(crate) fn claim_for(identity: FileIdentity, engine: u64) -> Option<Arc<WriterClaim>> {
    let new = || Arc::new(WriterClaim { engine });
    let Some(writers) = ProcessWriters::of_this_process() else { return Some(new()) };
    // Nothing panics while it holds this lock.
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

/// Generations of forks without an exec.
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
