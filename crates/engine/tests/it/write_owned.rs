//! Writes of tasks that own their bytes: once begun they need no polls, whatever becomes of their
//! futures.
//!
//! In:    appends, and writes past the end, whose futures are polled once; then they are kept,
//!        forgotten, or dropped while a thread goes on with them.
//! Out:   later appends, which come behind them; the bytes of the file.
//! Never: a promise to futures that borrow their bytes: those are in `write_async_lengths.rs`.

use std::mem;
use std::sync::Arc;
use std::task::Poll;

use crate::recorded;
use crate::support;
use crate::tasks;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind};
use recorded::{Recorded, recorded};
use support::{wait_until, wait_until_idle, with_each_io};
use tasks::{Counter, block_on, poll_once};
use tempfile::TempDir;

/// One piece, and several.
const LENS: [usize; 2] = [600_000, (2 << 20) + 5000];

struct Log {
    engine: Recorded,
    file: File,
    faults: Arc<Faults>,
    _dir: TempDir,
}

impl Log {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new().expect("a directory");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).create(true).faults(Arc::clone(&faults));
        let file = engine.open_with(dir.path().join("log"), &options).expect("made");
        Self { engine, file, faults, _dir: dir }
    }

    fn bytes(&self, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(to - from).expect("small")];
        self.file.read_exact_at(&mut bytes, from).expect("it is there");
        bytes
    }

    /// Nothing is left of any append but its bytes.
    fn ends(&self) {
        self.file.sync_data().expect("the device is well");
        wait_until_idle(&self.engine);
    }

    /// Appends by this thread, and checks that what came before is `len` times this byte.
    fn append_behind(&self, from: u64, len: usize, byte: u8) {
        let at = self.file.append(b"behind").expect("nothing is in the way");
        assert_eq!(at, from + len as u64);
        assert!(self.bytes(from, at).iter().all(|&it| it == byte), "{len} times {byte}");
        assert_eq!(self.bytes(at, at + 6), b"behind");
    }
}

/// The end of a write that was polled once: other threads may have been faster.
fn ended<F: Future>(first: Poll<F::Output>, begun: F) -> F::Output {
    match first {
        Poll::Ready(end) => end,
        Poll::Pending => block_on(begun),
    }
}

/// Such an append held up all later ones until its future was polled: a task that awaited another
/// append first waited for ever.
#[test]
fn an_append_that_is_not_polled_again_holds_up_no_other() {
    with_each_io("an_append_that_is_not_polled_again", |io| {
        let log = Log::new(io);
        for (len, byte) in LENS.into_iter().zip(1..) {
            let (from, wakes) = (log.file.len(), Arc::default());
            let mut begun = log.file.append_from(vec![byte; len]);
            let first = poll_once(&mut begun, &wakes);
            log.append_behind(from, len, byte);
            wait_until(|| Counter::count(&wakes) > 0 || first.is_ready());
            let (buffer, offset) = ended(first, begun);
            assert_eq!((buffer, offset.expect("it is written")), (vec![byte; len], from));
        }
        log.ends();
    });
}

#[test]
fn a_forgotten_append_is_written() {
    with_each_io("a_forgotten_append_is_written", |io| {
        let log = Log::new(io);
        for (len, byte) in LENS.into_iter().zip(1..) {
            let from = log.file.len();
            let mut begun = log.file.append_from(vec![byte; len]);
            _ = poll_once(&mut begun, &Arc::default());
            mem::forget(begun);
            log.append_behind(from, len, byte);
        }
        // Nor do writes past the end, and those that wait for their length.
        let from = log.file.len();
        log.faults.inject_lengths(0..1, Mishap::Hold);
        let mut begun = log.file.write_from(vec![7; 300_000], from);
        _ = poll_once(&mut begun, &Arc::default());
        mem::forget(begun);
        log.faults.wait_held(1);
        log.faults.let_go();
        log.append_behind(from, 300_000, 7);
        log.ends();
    });
}

#[test]
fn an_append_that_is_dropped_while_it_goes_on_leaves_its_beginning() {
    with_each_io("an_append_that_is_dropped_while_it_goes_on", |io| {
        let log = Log::new(io);
        for round in 0..60_usize {
            let (from, len) = (log.file.len(), LENS[round % 2]);
            let mut begun = log.file.append_from(vec![1; len]);
            _ = poll_once(&mut begun, &Arc::default());
            for _ in 0..round * 3 {
                std::thread::yield_now();
            }
            drop(begun);
            let at = log.file.append(b"behind").expect("nothing is in the way");
            assert!((from..=from + len as u64).contains(&at), "{from}, {at}");
            assert!(log.bytes(from, at).iter().all(|&byte| byte == 1), "round {round}");
            log.file.set_len(from).expect("room");
        }
        log.ends();
    });
}

/// Each ends the one before it; none has a stack on that of another.
#[test]
fn a_long_line_of_appends_ends_without_polls() {
    const LINE: u32 = 3000;
    with_each_io("a_long_line_of_appends", |io| {
        let log = Log::new(io);
        let begun: Vec<_> = (0..LINE)
            .map(|number| {
                let mut append = log.file.append_from(number.to_le_bytes());
                let polled = poll_once(&mut append, &Arc::default());
                (append, polled.is_ready())
            })
            .collect();
        let end = log.file.append(b"behind").expect("nothing is in the way");
        assert_eq!(end, u64::from(LINE) * 4);
        let numbers = (0..LINE).flat_map(u32::to_le_bytes).collect::<Vec<_>>();
        assert!(log.bytes(0, end) == numbers, "each follows the one before it");
        drop(begun);
        log.ends();
    });
}

#[test]
fn an_append_that_fails_tells_its_future_and_holds_up_no_other() {
    with_each_io("an_append_that_fails_tells_its_future", |io| {
        let log = Log::new(io);
        log.faults.inject_lengths(0..1, Mishap::Errno(libc::EIO));
        let mut begun = log.file.append_from(vec![1; 100]);
        let first = poll_once(&mut begun, &Arc::default());
        log.append_behind(0, 0, 0);
        let (buffer, offset) = ended(first, begun);
        assert!(
            matches!(offset, Err(WriteError { kind: WriteErrorKind::Length { .. }, .. })),
            "{offset:?}"
        );
        assert_eq!(buffer, [1; 100]);
        log.ends();
    });
}

/// A program with a loop of its own that does something else, such as to append by itself.
#[test]
fn a_queue_that_is_not_run_holds_up_no_append() {
    with_each_io("a_queue_that_is_not_run", |io| {
        let log = Log::new(io);
        let queue = log.engine.completion_queue();
        queue.append(&log.file, vec![3; 600_000], |_, _, offset| {
            assert_eq!(offset.expect("it is written"), 0);
        });
        log.append_behind(0, 600_000, 3);
        while queue.pending() > 0 {
            queue.run(None);
        }
        log.ends();
    });
}
