//! A process that forks after it made an engine: the child shares the ring with its parent and must
//! not use it. A test of its own, so that no other thread runs while it forks.

use std::fs;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use foreread::{Engine, OpenOptions, ReadError, WriteError, WriteMode};
use tempfile::TempDir;

const PAGE: usize = 4096;

#[test]
fn a_forked_child_gets_an_error_or_the_right_bytes_and_the_parent_goes_on() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let content: Vec<u8> =
        (0..400 * PAGE).map(|at| u8::try_from(at / PAGE % 251).unwrap()).collect();
    fs::write(&path, &content).unwrap();
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let file = engine.open(&path).unwrap();
    let stream = file.stream();
    let mut page = vec![0; PAGE];
    let written = dir.path().join("written");
    fs::write(&written, &content[..PAGE]).unwrap();
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let writer = engine.open_with(&written, &options).unwrap();
    writer.write_at(&[9], 0, WriteMode::WriteBack).unwrap();
    // Read-ahead is on its way when the process forks.
    for index in 100..104 {
        stream.read_at(&mut page, index * PAGE as u64).unwrap();
    }
    // So is a task's read.
    let mut buffer = vec![0; PAGE];
    let mut task = file.read_at_async(&mut buffer, 399 * PAGE as u64);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut task).poll(&mut context).is_pending());
    // SAFETY: the child only reads memory that it has, asks the kernel for its number, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    for index in 104..250 {
        match stream.read_at(&mut page, index * PAGE as u64) {
            Ok(_) => assert!(
                page == content[usize::try_from(index).unwrap() * PAGE..][..PAGE]
                    || child_fails(child)
            ),
            Err(ReadError::Forked { .. }) if child == 0 => {}
            Err(error) => assert!(child_fails(child), "{error}"),
        }
    }
    if child == 0 {
        let polled = Pin::new(&mut task).poll(&mut context);
        // It once waited for a thread that the child does not have.
        let is_error = matches!(polled, Poll::Ready(Err(ReadError::Forked { .. })));
        assert!(is_error || child_fails(child));
        let refused = |result| matches!(result, Err(WriteError::Forked { .. }));
        let writes =
            refused(writer.write_at(&[8], 0, WriteMode::WriteBack)) && refused(writer.flush());
        assert!(writes || child_fails(child));
        // What the parent has yet to write is not the child's to write.
        drop(writer.clone());
        drop(writer);
        // SAFETY: ends the child without running what is the parent's to run.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is where the answer goes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child read wrong bytes");
    writer.flush().unwrap();
    assert_eq!(fs::read(&written).unwrap()[0], 9);
}

/// In the child, a failed check must not unwind into the parent's test harness.
fn child_fails(child: i32) -> bool {
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(1) };
    }
    false
}
