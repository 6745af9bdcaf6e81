//! A process that forks while it reads a source: the child has neither the threads nor the replies.
//! A test of its own, so that no other thread runs while it forks.

use std::io;
use std::ops::Range;
use std::slice;

use foreread::{Blocking, Engine, ReadError, ReadErrorKind, ReadRange, Reply, SourceIdentity};

const LEN: u64 = 1 << 20;

struct Sevens;

impl ReadRange for Sevens {
    fn identity(&self) -> SourceIdentity {
        SourceIdentity::new("sevens", "1")
    }

    fn length(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
        reply.write(&vec![7; usize::try_from(range.end - range.start).unwrap()])
    }
}

#[test]
fn a_forked_child_gets_errors_and_the_parent_reads_on() {
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let file = engine.open_source(Blocking::new(Sevens)).unwrap();
    assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 10);
    // Asked for, and perhaps on its way when the process forks.
    file.will_need(slice::from_ref(&(500_000..600_000)).iter().cloned()).unwrap();
    // SAFETY: the child asks the engine, which says no, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    let far = LEN - 5000..LEN;
    if child == 0 {
        let is_forked = |error: ReadError| matches!(error.kind, ReadErrorKind::Forked);
        let read = file.read_at(&mut [0; 10], far.start);
        let is_right = read.is_err_and(is_forked)
            && file.read_ranges(slice::from_ref(&far)).is_err_and(is_forked)
            && engine.open_source(Blocking::new(Sevens)).is_err();
        drop(file);
        drop(engine);
        // SAFETY: ends the child without running what is the parent's to run.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: `status` is where the answer goes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child got something else than an error");
    assert!(
        file.read_ranges(&[far, 550_000..560_000])
            .unwrap()
            .iter()
            .all(|read| { read.len() >= 5000 && read.iter().all(|byte| *byte == 7) })
    );
}
