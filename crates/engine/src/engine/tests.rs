//! The engine from inside: its queue, its wakers, and a ring that breaks.

use std::sync::atomic::Ordering;

use foreread_core::sched::Submitter;
use foreread_core::units::ByteCount;

use super::*;
use crate::faults::{Faults, Mishap};
use crate::lab::Rules;
use crate::open_files::{FileKey, OpenFiles};
use crate::wait_table::{Ticket, Waiter};
use crate::waiters::Leader;
use crate::{IoBackend, ReadError, ReadErrorKind, WriteError, WriteErrorKind, WriteMode};

/// A file of a MiB, in a directory that goes with it.
fn one_file() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
    (dir, path)
}

/// A marker that was posted while another thread held the driver for another reason, such as
/// to read counters, once lay there until the next miss.
#[test]
fn a_marker_posted_while_another_thread_drives_is_taken_when_it_stops() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let stream = engine.open(&path).expect("it is there").stream();
    let mut page = vec![0; 4096];
    stream.read_at(&mut page, 0).expect("the first window, with a marker on page 1");
    stream.read_at(&mut page, 8192).expect("the window has come");

    let driver = engine.state.drive().expect("no fork");
    let stream = std::thread::scope(|scope| {
        let page = &mut page;
        // The stream comes back: its file would close, and that needs the driver.
        let hit = scope.spawn(move || {
            stream.read_at(page, 4096).expect("a hit");
            stream
        });
        hit.join().expect("it does not wait")
    });
    assert!(!engine.state.queue().is_empty(), "no other thread could drive");
    drop(driver);
    drop(stream);
    assert!(engine.state.queue().is_empty());
    assert_eq!(engine.counters().unwrap().path.markers, 1);
}

/// Of sources and tasks that a thread called while it ended the thread-local values were gone.
#[test]
fn a_thread_that_ends_leaves_its_streams_to_the_next_driver() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    file.advise(crate::Advice::Random);
    let reader = file.clone();
    let read = std::thread::spawn(move || reader.read_at(&mut [0], 0).expect("a miss"));
    read.join().expect("it ends");
    assert!(!engine.state.queue().is_empty(), "nothing has driven");
    file.read_at(&mut [0], 8192).expect("a miss drives");
    assert!(engine.state.queue().is_empty());
}

/// A thread that leaves its streams must not keep the engine alive. If the last handle was dropped
/// at that moment, the thread used to end the engine in the destructor of a thread-local value.
#[test]
fn an_engine_ends_with_its_last_handle_while_a_thread_leaves_its_streams() {
    struct Ends(std::sync::mpsc::Sender<i32>);

    impl Drop for Ends {
        fn drop(&mut self) {
            let id = rustix::thread::gettid().as_raw_nonzero();
            self.0.send(id.get()).expect("the main thread waits for it");
        }
    }

    thread_local!(static ENDS: std::cell::RefCell<Option<Ends>> = std::cell::RefCell::default());

    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    file.advise(crate::Advice::Random);
    let (reader, state) = (file.clone(), Arc::downgrade(&engine.state));
    let mailbox = Arc::clone(&engine.state.mailbox);
    let ((ends, ended), (go, may_go)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let thread = std::thread::spawn(move || {
        reader.read_at(&mut [0], 0).expect("a miss");
        // Made after the thread's streams, so it ends before them.
        ENDS.set(Some(Ends(ends)));
        may_go.recv().expect("the main thread says so");
    });
    file.read_at(&mut [0], 8192).expect("a miss");
    let held = mailbox.queue().hold();
    go.send(()).expect("the thread waits for it");
    let stat = format!("/proc/self/task/{}/stat", ended.recv().expect("it ends"));
    // It sleeps in the destructor of its streams, as it cannot post that they have ended.
    while !std::fs::read_to_string(&stat).expect("it runs").contains(") S ") {
        std::thread::yield_now();
    }
    drop((file, engine));
    assert_eq!(state.strong_count(), 0, "the thread holds nothing of it");
    drop(held);
    thread.join().expect("it ends");
    assert!(!mailbox.queue().is_empty(), "there is no driver any more that takes it");
}

/// They once stayed in the builder.
#[test]
fn rules_reach_the_core() {
    let rules = Rules { snap_eof: true, backwards: true, ..Rules::default() };
    let engine = Engine::builder().memory(1 << 20).rules(rules).build().expect("an engine");
    assert_eq!(engine.state.drive().expect("no fork").path.config().rules, rules);
}

/// A waker that ran while a thread's list of streams was borrowed, as one was swept from it,
/// once panicked when it read.
#[test]
fn a_task_that_is_woken_by_the_end_of_a_stream_may_read() {
    struct Reads(File, std::sync::atomic::AtomicU64);

    impl std::task::Wake for Reads {
        fn wake(self: Arc<Self>) {
            let read = self.0.read_at(&mut [0], 0);
            self.1.fetch_add(read.map_or(0, |bytes| bytes as u64), Ordering::SeqCst);
        }
    }

    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    // Without read-ahead, whose completion would end the wait for that of the read.
    let open = || {
        let file = engine.open(&path).expect("it is there");
        file.advise(crate::Advice::Random);
        file
    };
    let file = open();
    file.read_at(&mut [0], 0).expect("the thread has a stream of it");
    // More streams, which end when the list of the thread's has no more room.
    let read = |file: &File| file.read_at(&mut [0], 4096 * 9).expect("a byte");
    let short_lived: Vec<_> = (0..2).map(|_| open()).inspect(|file| _ = read(file)).collect();
    for file in &short_lived {
        file.read_at(&mut [0], 4096 * 99).expect("a miss, for which there has to be a stream");
    }

    // A read that has completed, and that is not reaped.
    let lead = |leads| {
        let mut driver = engine.state.lock_driver();
        let me = Leader::Background;
        if leads { driver.waiting.lead(me) } else { driver.waiting.step_down(me) }
    };
    lead(true);
    let waker = Arc::new(Reads(file.clone(), 0.into()));
    let mut page = [0; 4096];
    let mut future = file.read_at_async(&mut page, 800_000);
    let task = std::task::Waker::from(Arc::clone(&waker));
    let mut context = std::task::Context::from_waker(&task);
    assert!(std::pin::Pin::new(&mut future).poll(&mut context).is_pending());
    engine.state.sleeper.wait(None).expect("it has come");
    lead(false);

    drop(short_lived);
    let more: Vec<_> = (0..8).map(|_| open()).inspect(|file| _ = read(file)).collect();
    assert_eq!(waker.1.load(Ordering::SeqCst), 1, "{} files are open", more.len());
}

/// The list of open files was once locked while a file was made, and so while its opener woke
/// tasks.
#[test]
fn a_task_that_is_woken_while_a_file_is_opened_may_open_one() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    let options = OpenOptions::new().buffered(true);
    let key = FileKey::new(&file.shared().backend, &options);
    let files = OpenFiles::default();
    let mut twice = None;
    let opened = files.find_or(&key, || {
        // As if a task did, which wants the same file.
        twice = Some(files.find_or(&key, || Ok(Arc::clone(file.shared())))?);
        let again = engine.open_with(&path, &options).expect("it is there");
        Ok(Arc::clone(again.shared()))
    });
    let opened = opened.expect("it may be opened");
    assert!(Arc::ptr_eq(&opened, &twice.expect("it was opened")), "the first one stays");
}

/// A kernel that refused the ring (a closed descriptor, a seccomp filter) once made the end of
/// the file panic, because reads that would never end still held its frames.
#[test]
fn a_ring_that_broke_is_an_error_for_all_and_files_still_close() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    let mut page = vec![0; 4096];
    file.read_at(&mut page, 0).expect("the ring is whole");
    let mut driver = engine.state.drive().expect("no fork");
    // A read that begins and never ends.
    let stream = driver.path.stream(file.shared().id);
    let waiter = Waiter::Thread(std::thread::current());
    driver.begin(stream, ByteCount(500_000), ByteCount(4096), None, waiter);
    driver.break_down(libc::EBADF);
    drop(driver);

    assert!(file.read_at(&mut page, 0).is_ok(), "a hit needs no ring");
    let error = file.read_at(&mut page, 900_000).expect_err("a miss does");
    assert!(matches!(&error, ReadError { kind: ReadErrorKind::Io { source, .. }, .. }
        if source.raw_os_error() == Some(libc::EBADF)));
    assert!(matches!(
        engine.open(&path),
        Err(OpenError { kind: crate::OpenErrorKind::Io { .. }, .. })
    ));
    drop(file);
}

/// A writer that had copied once gave its page to a waiter that had got the error and left:
/// there was no entry of it to note the news in.
#[test]
fn a_ring_that_broke_while_a_writer_copied_is_an_error_for_it_and_for_later_calls() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let options = OpenOptions::new().write(true);
    let file = engine.open_with(&path, &options).expect("it is there");
    let id = file.shared().id;
    let mut driver = engine.state.drive().expect("no fork");
    let mut write = || {
        driver.begin_write(|path, now| {
            let (mode, whose) = (WriteMode::WriteBack, Submitter::default());
            path.write(now, id, ByteCount(0), ByteCount(4096), mode, whose)
        })
    };
    let (copies, waits) = (Ticket::Write(write()), Ticket::Write(write()));
    assert!(
        driver.waiting.take_notification(copies).is_some()
            && !driver.waiting.has_notification(waits)
    );
    driver.break_down(libc::EBADF);
    driver.waiting.forget(waits);
    let Ticket::Write(copies) = copies else { unreachable!("as it was made") };
    driver.stepped(copies, |path, now| path.filled(now, copies));
    drop(driver);

    for wrote in [file.write_all_at(&[1; 4096], 0), file.sync_data()] {
        let Err(WriteError { kind: WriteErrorKind::Io { source, .. }, .. }) = wrote else {
            panic!("{wrote:?}")
        };
        assert_eq!(source.raw_os_error(), Some(libc::EBADF));
    }
}

/// Threads that slept in the ring or were parked once slept on when a driver had panicked.
#[test]
fn a_driver_that_panics_leaves_no_thread_waiting() {
    let (_dir, path) = one_file();
    for io in [IoBackend::Threads, IoBackend::Probe] {
        let engine = Engine::builder().memory(1 << 20).io_backend(io).build().expect("an engine");
        let faults = Arc::new(Faults::default());
        faults.inject_writes(0..256, 0..u32::MAX, Mishap::Hold);
        let faults = Some(faults);
        let options = OpenOptions::new().write(true).faults(faults);
        let file = engine.open_with(&path, &options).expect("it is there");
        let writers: Vec<_> = (0..3)
            .map(|page| {
                let file = file.clone();
                std::thread::spawn(move || {
                    file.write_all_at_with(&[1; 4096], page * 65536, WriteMode::WriteThrough)
                })
            })
            .collect();
        options.faults.expect("it is there").wait_held(1);
        let shared = Arc::clone(&engine.state);
        let driver = std::thread::spawn(move || {
            let _driving = shared.drive().expect("no fork");
            panic!("as a test wants it");
        });
        assert!(driver.join().is_err());
        for writer in writers {
            assert!(writer.join().is_err(), "it is told by a panic of its own");
        }
    }
}

/// The arena lives as long as a page of it is pinned, and no longer; the file is closed before.
#[test]
fn the_memory_is_freed_with_the_last_page() {
    let (_dir, path) = one_file();
    let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
    let file = engine.open(&path).expect("it is there");
    let (page, range) = (file.pin(4096).expect("resident"), file.pin_range(0..9000).expect("so"));
    let pool = Arc::downgrade(&engine.state.pool);
    let closed = Arc::downgrade(file.shared());
    drop((file, engine));
    while closed.strong_count() > 0 {
        std::thread::yield_now();
    }
    assert!(page.iter().chain(range.parts().flatten()).all(|&byte| byte == 7));
    drop(page);
    assert!(pool.strong_count() > 0 && range.parts().flatten().all(|&byte| byte == 7));
    std::thread::spawn(move || drop(range)).join().expect("nothing fails");
    while pool.strong_count() > 0 {
        std::thread::yield_now();
    }
}
