//! A process that forks after it made an engine: the child shares the ring with its parent and must
//! not use it. A test of its own, so that no other thread runs while it forks.

use std::cell::Cell;
use std::fs;
use std::future::Future as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use foreread::Submitter;
use foreread::lab::ReplayError;
use foreread::{
    Engine, EngineError, File, OpenError, OpenErrorKind, OpenOptions, PageRange, PageRef,
    ReadError, ReadErrorKind, ReadStream, SettingError, WriteError, WriteErrorKind,
};
use tempfile::TempDir;

const PAGE: usize = 4096;

/// Nothing has read there: the task's read, at the end, may be over when the process forks.
const FAR: u64 = 300 * PAGE as u64;

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
    let pinned = Pinned::new(&file, &path);
    // Read-ahead is on its way when the process forks.
    for index in 100..104 {
        stream.read_at(&mut page, index * PAGE as u64).unwrap();
    }
    // So is a task's read.
    let mut buffer = vec![0; PAGE];
    let mut task = file.read_at_async(&mut buffer, 399 * PAGE as u64);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut task).poll(&mut context).is_pending());
    // So is a write that has begun, and a flush.
    let mut task_writes = TaskWrites::begin(&writer);
    // SAFETY: the child only reads memory that it has, asks the kernel for its number, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    for index in 104..250 {
        match stream.read_at(&mut page, index * PAGE as u64) {
            Ok(_) => assert!(
                page == content[usize::try_from(index).unwrap() * PAGE..][..PAGE]
                    || child_fails(child)
            ),
            Err(error) if child == 0 && error.says_forked() => {}
            Err(error) => assert!(child_fails(child), "{error}"),
        }
    }
    if child == 0 {
        // It once waited for a thread that the child does not have.
        assert!(is_forked_now(poll(&mut task)) || child_fails(child));
        drop(task);
        assert!(pinned.are_right(&content) || child_fails(child));
        drop(pinned);
        assert!(task_writes.fail() || child_fails(child));
        drop(task_writes);
        let failed = calls_of_all_kinds(&engine, &file, &stream, &writer);
        if let Some((call, _)) = failed.iter().find(|(_, is_forked)| !is_forked) {
            // The harness catches what is printed, and is the parent's: tell it past that.
            let _ = writeln!(io::stderr(), "{call} is no error in a forked child");
            child_fails(child);
        }
        assert!(an_engine_of_its_own_writes(&written) || child_fails(child));
        // What the parent has yet to write is not the child's to write.
        drop((writer.clone(), writer));
        // SAFETY: ends the child without running what is the parent's to run.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is where the answer goes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child read wrong bytes");
    assert!(pinned.are_right(&content), "the child has dropped its own");
    drop(pinned);
    writer.sync_data().unwrap();
    assert_eq!(fs::read(&written).unwrap()[0], 9);
}

/// Pages that are pinned when the process forks.
struct Pinned {
    pages: PageRange,
    /// All that is left of its engine.
    last: PageRef,
}

impl Pinned {
    fn new(file: &File, path: &Path) -> Self {
        let pages = file.pin_range(20 * PAGE as u64..24 * PAGE as u64).unwrap();
        let engine = Engine::builder().memory(1 << 20).build().unwrap();
        let last = engine.open(path).unwrap().pin(7 * PAGE as u64).unwrap();
        Self { pages, last }
    }

    fn are_right(&self, content: &[u8]) -> bool {
        self.pages.parts().eq(content[20 * PAGE..24 * PAGE].chunks(PAGE))
            && self.last[..] == content[7 * PAGE..8 * PAGE]
    }
}

/// What the parent's engine has claimed is not claimed in the child.
fn an_engine_of_its_own_writes(path: &Path) -> bool {
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    engine.open_with(path, &OpenOptions::new().write(true)).map(drop).is_ok()
}

/// Every public call that needs the driver, and whether it says that the process was forked.
fn calls_of_all_kinds(
    engine: &Engine,
    file: &File,
    stream: &ReadStream,
    writer: &File,
) -> Vec<(&'static str, bool)> {
    let mut calls = calls_that_need_the_driver(engine, file, stream, writer);
    calls.extend(calls_for_ranges(file));
    calls
}

/// All of them but those that read many ranges.
fn calls_that_need_the_driver(
    engine: &Engine,
    file: &File,
    stream: &ReadStream,
    writer: &File,
) -> Vec<(&'static str, bool)> {
    let path = Path::new("/proc/self/exe");
    let (far, mut page) = (FAR, [0; PAGE]);
    let mut owned = stream.read_owned(vec![0; PAGE], far);
    let polled = owned.poll(stream, &Context::from_waker(Waker::noop()));
    let mut calls = vec![
        ("Engine::open", is_forked(engine.open(path))),
        ("Engine::counters", is_forked(engine.counters())),
        ("Engine::max_window", is_forked(engine.max_window())),
        ("Engine::set_by_name", is_forked(engine.set_by_name("dirty_age", "1"))),
        ("Engine::set_weight", is_forked(engine.set_weight(Submitter(1), 1))),
        ("Engine::settings", is_forked(engine.settings())),
        ("Engine::replay", is_forked(engine.replay())),
        ("Engine::frames", is_forked(engine.frames())),
        ("Engine::take_trace", is_forked(engine.take_trace())),
        ("File::open_extents", is_forked(file.open_extents(1, 0, []))),
        ("File::read_at", is_forked(file.read_at(&mut page, far))),
        ("File::pin", is_forked(file.pin(far))),
        ("File::pin_range", is_forked(file.pin_range(far..far + 1))),
        ("File::will_need", is_forked(file.will_need(std::iter::once(0..1)))),
        ("File::dont_need", is_forked(file.dont_need(0..1))),
        ("File::invalidate", is_forked(file.invalidate(0..1))),
        ("File::refresh", is_forked(file.refresh())),
        ("FileDevice::model", is_forked(file.device().model())),
        ("FileDevice::state", is_forked(file.device().state())),
        ("FileDevice::scheduler_settings", is_forked(file.device().scheduler_settings())),
        (
            "FileDevice::set_scheduler_by_name",
            is_forked(file.device().set_scheduler_by_name("read_expire", "1")),
        ),
        ("File::write_at", is_forked(writer.write_all_at(&[8], 0))),
        ("File::try_write_at", is_forked(writer.try_write_at(&[8], 0))),
        ("File::write_zeroes", is_forked(writer.write_zeroes(0..PAGE as u64, true))),
        ("File::discard", is_forked(writer.discard(0..PAGE as u64))),
        ("File::flush", is_forked(writer.sync_data())),
        ("File::set_len", is_forked(writer.set_len(1))),
        ("File::append", is_forked(writer.append(&[8]))),
        ("File::write_at, behind the end", is_forked(writer.write_all_at(&[8], 1 << 20))),
        ("File::sync_all", is_forked(writer.sync_all())),
        ("Engine::create", is_forked(engine.create(path))),
        ("File::accept_lost", is_forked(writer.accept_lost())),
        ("File::has_lost", is_forked(writer.has_lost())),
        ("File::extents", is_forked(writer.extents(0..1))),
        ("ReadStream::pin", is_forked(stream.pin(far))),
        ("ReadStream::set_submitter", is_forked(stream.set_submitter(Submitter(1)))),
        ("OwnedRead::poll", is_forked_now(polled)),
    ];
    calls.extend(futures_that_need_the_driver(engine, file, writer));
    calls
}

/// The same of futures, polled once.
fn futures_that_need_the_driver(
    engine: &Engine,
    file: &File,
    writer: &File,
) -> Vec<(&'static str, bool)> {
    let read_into = poll(&mut file.read_into(vec![0; PAGE], FAR));
    let write_at = poll(&mut writer.write_at_async(&[8], 0));
    let write_all_at = poll(&mut writer.write_all_at_async(&[8], 0));
    let write_from = poll(&mut writer.write_from([8], 0));
    let append = poll(&mut writer.append_async(&[8]));
    let append_from = poll(&mut writer.append_from([8]));
    vec![
        ("File::read_into", is_forked_now(read_into.map(|(_, end)| end))),
        ("File::write_at_async", is_forked_now(write_at)),
        ("File::write_all_at_async", is_forked_now(write_all_at)),
        ("File::write_from", is_forked_now(write_from.map(|(_, end)| end))),
        ("File::sync_data_async", is_forked_now(poll(&mut writer.sync_data_async()))),
        ("File::sync_all_async", is_forked_now(poll(&mut writer.sync_all_async()))),
        ("File::set_len_async", is_forked_now(poll(&mut writer.set_len_async(0)))),
        ("File::append_async", is_forked_now(append)),
        ("File::append_from", is_forked_now(append_from.map(|(_, end)| end))),
        ("CompletionQueue::write", completes_with_an_error(engine, writer)),
    ]
}

/// A request of a queue of completions ends at once, too.
fn completes_with_an_error(engine: &Engine, writer: &File) -> bool {
    let (ended, queue) = (Rc::new(Cell::new(false)), engine.completion_queue());
    let has_failed = Rc::clone(&ended);
    queue.write(writer, [8], 0, move |_, _, result| has_failed.set(is_forked(result)));
    queue.run(None) == 1 && ended.get()
}

/// A write and a flush that were begun before the fork.
struct TaskWrites {
    write: foreread::WriteFrom<[u8; 1]>,
    flush: foreread::SyncData,
    are_over: [bool; 2],
}

impl TaskWrites {
    fn begin(writer: &File) -> Self {
        let (mut write, mut flush) = (writer.write_from([9], 1), writer.sync_data_async());
        let are_over = [poll(&mut write).is_ready(), poll(&mut flush).is_ready()];
        Self { write, flush, are_over }
    }

    fn fail(&mut self) -> bool {
        let [is_written, is_flushed] = self.are_over;
        (is_written || is_forked_now(poll(&mut self.write).map(|(_, end)| end)))
            && (is_flushed || is_forked_now(poll(&mut self.flush)))
    }
}

/// The calls that read many ranges.
fn calls_for_ranges(file: &File) -> [(&'static str, bool); 3] {
    let ranges = [0..1, 399 * PAGE as u64..400 * PAGE as u64];
    let all = poll(&mut file.read_ranges_async(&ranges));
    let stream = file.read_ranges_stream(&ranges).into_iter();
    [
        ("File::read_ranges", is_forked(file.read_ranges(&ranges))),
        ("File::read_ranges_async", is_forked_now(all)),
        ("File::read_ranges_stream", stream.map(|(_, end)| is_forked(end)).eq([true, true])),
    ]
}

/// Polls once. What is polled in a child waits for no thread.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// An error of a call that says when the process was forked.
trait MayBeForked {
    fn says_forked(&self) -> bool;
}

impl MayBeForked for EngineError {
    fn says_forked(&self) -> bool {
        matches!(self, Self::Forked)
    }
}

impl MayBeForked for OpenError {
    fn says_forked(&self) -> bool {
        matches!(self.kind, OpenErrorKind::Forked)
    }
}

impl MayBeForked for ReadError {
    fn says_forked(&self) -> bool {
        matches!(self.kind, ReadErrorKind::Forked)
    }
}

impl MayBeForked for WriteError {
    fn says_forked(&self) -> bool {
        matches!(self.kind, WriteErrorKind::Forked)
    }
}

impl MayBeForked for SettingError {
    fn says_forked(&self) -> bool {
        matches!(self, Self::Forked)
    }
}

impl MayBeForked for ReplayError {
    fn says_forked(&self) -> bool {
        matches!(self, Self::Forked)
    }
}

impl MayBeForked for io::Error {
    fn says_forked(&self) -> bool {
        self.kind() == io::ErrorKind::Unsupported
    }
}

fn is_forked<T>(result: Result<T, impl MayBeForked>) -> bool {
    result.is_err_and(|error| error.says_forked())
}

fn is_forked_now<T>(polled: Poll<Result<T, impl MayBeForked>>) -> bool {
    if let Poll::Ready(result) = polled { is_forked(result) } else { false }
}

/// In the child, a failed check must not unwind into the parent's test harness.
fn child_fails(child: i32) -> bool {
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::_exit(1) };
    }
    false
}
