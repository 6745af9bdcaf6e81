//! A process that forks after it made an engine: the child shares the ring with its parent and must
//! not use it. A test of its own, so that no other thread runs while it forks.

use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use foreread::core::sched::Submitter;
use foreread::{
    Engine, File, OpenError, OpenOptions, ReadError, ReadStream, ReplayError, SettingError,
    WriteError,
};
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
    let options = OpenOptions::new().write(true);
    let writer = engine.open_with(&written, &options).unwrap();
    writer.write_all_at(&[9], 0).unwrap();
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
        drop(task);
        let failed = calls_that_need_the_driver(&engine, &file, &stream, &writer);
        if let Some((call, _)) = failed.iter().find(|(_, is_forked)| !is_forked) {
            // The parent's harness has caught nothing of this process: tell it here.
            eprintln!("{call} is no error in a forked child");
            child_fails(child);
        }
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
    writer.sync_data().unwrap();
    assert_eq!(fs::read(&written).unwrap()[0], 9);
}

/// Every public call that needs the driver, and whether it says that the process was forked.
fn calls_that_need_the_driver(
    engine: &Engine,
    file: &File,
    stream: &ReadStream,
    writer: &File,
) -> Vec<(&'static str, bool)> {
    let write = |result: Result<(), WriteError>| matches!(result, Err(WriteError::Forked { .. }));
    let setting = |result| matches!(result, Err(SettingError::Forked(_)));
    let path = Path::new("/proc/self/exe");
    let (far, mut page) = (399 * PAGE as u64, [0; PAGE]);
    let mut owned = stream.read_owned(vec![0; PAGE], far);
    let polled = owned.poll(stream, &Context::from_waker(Waker::noop()));
    vec![
        ("Engine::open", matches!(engine.open(path), Err(OpenError::Forked { .. }))),
        ("Engine::counters", engine.counters().is_err()),
        ("Engine::max_window", engine.max_window().is_err()),
        ("Engine::set_by_name", setting(engine.set_by_name("dirty_age", "1"))),
        ("Engine::set_weight", setting(engine.set_weight(Submitter(1), 1))),
        ("Engine::settings", engine.settings().is_err()),
        ("Engine::replay", matches!(engine.replay(), Err(ReplayError::Forked(_)))),
        ("Engine::frames", engine.frames().is_err()),
        ("Engine::take_trace", engine.take_trace().is_err()),
        (
            "File::open_extents",
            matches!(file.open_extents(1, 0, []), Err(OpenError::Forked { .. })),
        ),
        ("File::read_at", matches!(file.read_at(&mut page, far), Err(ReadError::Forked { .. }))),
        (
            "File::will_need",
            matches!(file.will_need(std::iter::once(0..1)), Err(ReadError::Forked { .. })),
        ),
        ("File::dont_need", file.dont_need(0..1).is_err()),
        ("File::invalidate", file.invalidate(0..1).is_err()),
        ("File::refresh", file.refresh().is_err()),
        ("File::device_fit", file.device_model().is_err()),
        ("File::device_state", file.device_state().is_err()),
        ("File::scheduler_settings", file.scheduler_settings().is_err()),
        ("File::set_scheduler_by_name", setting(file.set_scheduler_by_name("read_expire", "1"))),
        ("File::write_at", write(writer.write_all_at(&[8], 0))),
        ("File::try_write_at", write(writer.try_write_at(&[8], 0).map(drop))),
        ("File::write_zeroes", write(writer.write_zeroes(0..PAGE as u64, true))),
        ("File::discard", write(writer.discard(0..PAGE as u64))),
        ("File::flush", write(writer.sync_data())),
        ("File::accept_lost", write(writer.accept_lost())),
        ("File::has_lost", writer.has_lost().is_err()),
        ("File::extents", matches!(writer.extents(0..1), Err(ReadError::Forked { .. }))),
        ("ReadStream::pin", matches!(stream.pin(far), Err(ReadError::Forked { .. }))),
        ("ReadStream::set_submitter", stream.set_submitter(Submitter(1)).is_err()),
        ("OwnedRead::poll", matches!(polled, Poll::Ready(Err(ReadError::Forked { .. })))),
    ]
}

/// In the child, a failed check must not unwind into the parent's test harness.
fn child_fails(child: i32) -> bool {
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(1) };
    }
    false
}
