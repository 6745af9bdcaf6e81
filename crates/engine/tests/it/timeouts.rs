//! Devices that never answer: a read with a time-out ends with an error, and nothing that is not
//! behind that device is worse off.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::recorded;
use crate::support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, File, IoBackend, ReadErrorKind};
use recorded::{Recorded, recorded};
use support::{
    PAGE, open_faulty, read_and_check, wait_until_closed, wait_until_idle, with_each_io, write_file,
};
use tempfile::TempDir;

const LEN: u64 = 2 << 20;

/// Long enough for a disk that works, short enough for a test.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A file on a device that hangs as told, and one that is always well.
struct Bench {
    engine: Recorded,
    hung: File,
    faults: Arc<Faults>,
    well: File,
}

fn paths(dir: &TempDir) -> [PathBuf; 2] {
    [write_file(dir.path(), 1, LEN), write_file(dir.path(), 2, LEN)]
}

impl Bench {
    fn new(io: IoBackend, timeout: Option<Duration>, paths: &[PathBuf; 2]) -> Self {
        let builder = Engine::builder().memory(2 << 20).io_backend(io);
        let builder = timeout.into_iter().fold(builder, |it, timeout| it.timeout(timeout));
        let engine = recorded(builder);
        let (hung, faults) = open_faulty(&engine, &paths[0]);
        faults.inject(100..200, 0..u32::MAX, Mishap::Hold);
        let well = engine.open(&paths[1]).unwrap();
        Self { engine, hung, faults, well }
    }

    fn times_out(&self, page: u64) {
        let error = self.hung.read_at(&mut [0; 100], page * PAGE).unwrap_err();
        let ReadErrorKind::TimedOut { offset, after, .. } = &error.kind else { panic!("{error}") };
        assert_eq!((*offset, *after), (page * PAGE, TIMEOUT));
        let text = error.to_string();
        assert!(text.contains("a longer timeout"), "{text}");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut);
    }

    /// The device answers at last: everything is usable, and all memory is back.
    fn recovers(&self) {
        self.faults.clear();
        self.faults.let_go();
        wait_until_idle(&self.engine);
        for page in 0..LEN / PAGE {
            read_and_check(&self.hung, 1, &mut [0; 4096], page * PAGE);
            read_and_check(&self.well, 2, &mut [0; 4096], page * PAGE);
        }
        wait_until_idle(&self.engine);
    }
}

#[test]
fn a_read_ends_in_time_and_later_ones_are_well_once_the_device_is() {
    let dir = TempDir::new().unwrap();
    let paths = paths(&dir);
    with_each_io("a_read_ends_in_time", |io| {
        let bench = Bench::new(io, Some(TIMEOUT), &paths);
        bench.times_out(100);
        bench.times_out(100);
        bench.times_out(150);
        for page in (0..LEN / PAGE).step_by(7) {
            read_and_check(&bench.well, 2, &mut [0; 9000], page * PAGE);
        }
        read_and_check(&bench.hung, 1, &mut [0; 4096], 50 * PAGE);
        let (idle, all) = bench.engine.frames().unwrap();
        assert!(idle < all, "the device may still write to {} frames", all - idle);
        bench.recovers();
    });
}

/// Each of them waits for the page that the first asked for; one of them sleeps in the ring.
#[test]
fn leader_and_followers_time_out_alike() {
    let dir = TempDir::new().unwrap();
    let paths = paths(&dir);
    with_each_io("leader_and_followers_time_out_alike", |io| {
        let bench = Bench::new(io, Some(TIMEOUT), &paths);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let bench = &bench;
                scope.spawn(move || bench.times_out(100 + thread / 2));
            }
            scope.spawn(|| {
                for page in 0..300 {
                    read_and_check(&bench.well, 2, &mut [0; 5000], page * PAGE);
                }
            });
        });
        bench.recovers();
    });
}

#[test]
fn a_device_that_answers_in_time_is_no_error() {
    let dir = TempDir::new().unwrap();
    let paths = paths(&dir);
    with_each_io("a_device_that_answers_in_time_is_no_error", |io| {
        let bench = Bench::new(io, Some(Duration::from_secs(50)), &paths);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| read_and_check(&bench.hung, 1, &mut [0; 5000], 120 * PAGE));
            }
            bench.faults.wait_held(1);
            bench.faults.clear();
            bench.faults.let_go();
        });
        bench.recovers();
    });
}

/// Without a time-out the thread that misses reads by itself, and waits as `pread(2)` does.
#[test]
fn without_a_time_out_a_hung_device_holds_up_its_own_readers_only() {
    let dir = TempDir::new().unwrap();
    let paths = paths(&dir);
    with_each_io("without_a_time_out_a_hung_device_holds_up_its_own_readers_only", |io| {
        let bench = Bench::new(io, None, &paths);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let hung = &bench.hung;
                let offset = (110 + 10 * thread) * PAGE;
                scope.spawn(move || read_and_check(hung, 1, &mut [0; 5000], offset));
            }
            bench.faults.wait_held(4);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let well = &bench.well;
                    scope.spawn(move || {
                        for page in (thread..LEN / PAGE).step_by(3) {
                            read_and_check(well, 2, &mut [0; 9000], page * PAGE);
                        }
                    });
                }
            });
            bench.faults.clear();
            bench.faults.let_go();
        });
        bench.recovers();
    });
}

/// Reads that timed out are still in flight: they keep their file and the engine until the device
/// answers, and their memory, which the device may write to, is not reused. Dropping the last
/// handle does not wait. (An engine that ends while its device hangs with read-ahead only waits for
/// that: `faults.rs` has it, where the test tool lets go.)
#[test]
fn handles_may_go_while_the_device_hangs_and_the_rest_goes_when_it_answers() {
    let dir = TempDir::new().unwrap();
    let paths = paths(&dir);
    with_each_io("handles_may_go_while_the_device_hangs", |io| {
        let bench = Bench::new(io, Some(TIMEOUT), &paths);
        bench.times_out(100);
        let Bench { engine, hung, faults, well } = bench;
        drop((engine, hung, well));
        assert!(Arc::strong_count(&faults) > 1, "the device has not answered yet");
        faults.clear();
        faults.let_go();
        wait_until_closed(&faults);
    });
}
