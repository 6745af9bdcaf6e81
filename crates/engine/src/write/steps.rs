//! The steps of a write, zeroing or flush on the thread that requested it. Copies and system calls
//! run without the engine's mutex; a waiter that leaves early reports that.
//!
//! ```text
//!   begin --> wait --> Fill: copy, filled --.
//!              ^  '--> Act:  call, acted   -|
//!              |  '--> SetLen: call, acted -|
//!              '----------------------------'     ... until Done
//! ```

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, IoPath, WriteFill, WriteId, WriteStep};
use foreread_core::units::{ByteCount, Nanos, Pages};

use super::usize_of;
use crate::deferred_wake::KeepAlive;
use crate::engine_state::{DriverGuard, EngineState};
use crate::error::{ForkedError, WriteError, WriteErrorKind};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::pool::{PAGE, Pool};
use crate::reader::in_page;
use crate::wait_table::{Notification, Ticket};

/// Work that the requesting thread performs.
pub(super) enum StepWork<'d> {
    /// Copies these bytes, which start at this offset of the file.
    Copy(&'d [u8], ByteCount),
    /// The same, if it can be done at once; otherwise writes nothing.
    TryCopy(&'d [u8], ByteCount),
    /// Calls the system.
    Act(&'d dyn Fn() -> Result<(), i32>),
    /// Calls the system with the start and the length of the whole pages that are still within the
    /// file.
    ActOn(&'d dyn Fn(u64, u64) -> Result<(), i32>),
    /// Calls the system with the new length of the file.
    SetLen(&'d FileState, &'d dyn Fn(ByteCount) -> Result<(), i32>),
}

impl Handle {
    /// Starts an operation, performs its steps, and blocks until it has ended. Returns the number
    /// of bytes written.
    pub(super) fn run_to_end(
        &self,
        what: &'static str,
        offset: u64,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
        doing: &StepWork<'_>,
    ) -> Result<ByteCount, WriteError> {
        let engine = &*self.file.engine;
        let failed = |why| self.write_error(what, offset, why);
        let mut driver = engine.drive().map_err(|forked| self.forked(forked))?;
        if let Some(errno) = driver.broken() {
            return Err(failed(NotReady::Fault(Fault::Io(errno))));
        }
        driver.take_events();
        driver.reap_unless_led();
        let id = driver.begin_write(begin);
        let (driver, result) = engine.do_steps(driver, id, &keep_open(&self.file), doing);
        drop(driver);
        result.map_err(failed)
    }

    /// Returns the error of an operation that started at `offset`.
    pub(super) fn write_error(&self, what: &'static str, offset: u64, why: NotReady) -> WriteError {
        let path = self.path.clone();
        match why {
            NotReady::TimedOut => {
                let after = self.file.engine.timeout.unwrap_or_default();
                WriteErrorKind::TimedOut { what, offset, after }.of(path)
            }
            NotReady::Fault(Fault::Lost(errno)) => {
                let source = io::Error::from_raw_os_error(errno);
                WriteErrorKind::Lost { source }.of(path)
            }
            NotReady::Fault(fault) => {
                let source = match fault {
                    Fault::Io(errno) | Fault::Lost(errno) => io::Error::from_raw_os_error(errno),
                    Fault::Short => io::Error::other("the device ended before its reported end"),
                };
                WriteErrorKind::Io { what, offset, source }.of(path)
            }
        }
    }
}

impl FileState {
    pub(crate) fn has_dirty_pages(&self) -> Result<bool, ForkedError> {
        Ok(self.engine.drive()?.path.dirty_pages(self.id) > Pages::ZERO)
    }

    /// Writes back dirty pages when a writable handle ends, as far as the device accepts them.
    pub(crate) fn write_back_at_the_end(self: &Arc<Self>) {
        let engine = &*self.engine;
        let Some(mut driver) = engine.drive_in_drop() else { return };
        if driver.broken().is_some() || driver.path.dirty_pages(self.id) == Pages::ZERO {
            return;
        }
        let id = driver.begin_write(|path, now| path.write_back(now, self.id));
        let (driver, result) =
            engine.do_steps(driver, id, &keep_open(self), &StepWork::Act(&|| Ok(())));
        drop(driver);
        // Not reported: a caller that needs the result has flushed before.
        let _ = result;
    }
}

impl EngineState {
    fn do_steps<'s>(
        &'s self,
        mut driver: DriverGuard<'s>,
        id: WriteId,
        file: &KeepAlive,
        doing: &StepWork<'_>,
    ) -> (DriverGuard<'s>, Result<ByteCount, NotReady>) {
        loop {
            let is_try = matches!(doing, StepWork::TryCopy(..));
            if is_try && !driver.waiting.has_notification(Ticket::Write(id)) {
                driver.abandon_write(id, Arc::clone(file));
                return (driver, Ok(ByteCount::ZERO));
            }
            let news;
            (driver, news) = self.wait_for_notification(driver, Ticket::Write(id));
            let step = match news {
                Ok(Notification::Write(step)) => step,
                Ok(Notification::Read(_) | Notification::Batch) => {
                    unreachable!("a write has a write's news")
                }
                Err(why) => {
                    if let NotReady::TimedOut = why {
                        driver.abandon_write(id, Arc::clone(file));
                    }
                    return (driver, Err(why));
                }
            };
            match (step, doing) {
                (WriteStep::Done { len, fault: None }, _) => return (driver, Ok(len)),
                (WriteStep::Done { fault: Some(fault), .. }, _) => {
                    return (driver, Err(fault.into()));
                }
                (
                    WriteStep::Fill { len },
                    StepWork::Copy(from, pos) | StepWork::TryCopy(from, pos),
                ) => {
                    let fills = driver.path.fills(id).to_vec();
                    drop(driver);
                    fill(&self.pool, &fills, &from[..usize_of(len)], *pos);
                    driver = self.drive_again();
                    driver.told(id, |path, now| path.filled(now, id));
                    if driver.waiting.has_notification(Ticket::Write(id)) {
                        // Otherwise the wait starts the requests, and issues a lone one itself.
                        driver.queue_all();
                    }
                }
                (WriteStep::Act, StepWork::Act(act)) => {
                    drop(driver);
                    let result = act();
                    driver = self.drive_again();
                    driver.stepped(id, |path, now| path.acted(now, id, result));
                }
                (WriteStep::Act, StepWork::ActOn(act)) => {
                    let bytes = driver.path.act_range(id);
                    drop(driver);
                    let (start, len) = (bytes.start.0, bytes.end.0 - bytes.start.0);
                    // Another program may have cut the file at an earlier offset.
                    let result = if len == 0 { Ok(()) } else { act(start, len) };
                    driver = self.drive_again();
                    driver.stepped(id, |path, now| path.acted(now, id, result));
                }
                (WriteStep::SetLen { len }, StepWork::SetLen(file, act)) => {
                    driver = self.act_on_len(driver, id, file, len, *act);
                }
                (step, _) => unreachable!("{step:?} is no step of this"),
            }
        }
    }
}

/// Keeps the file open until the device has completed all of its requests.
pub(super) fn keep_open(file: &Arc<FileState>) -> KeepAlive {
    Arc::<FileState>::clone(file)
}

/// Copies new bytes, and the old ones around them, into fresh frames.
///
/// ```text
///   old      |ooooooooooooo|                     |ooooooooooooo|
///   from            |wwwwww|wwwwwwwwwwwww|wwwwwww|
///   new      |oooooowwwwwww|wwwwwwwwwwwww|wwwwwwwoooooo|
/// ```
///
/// Fills with zeros where the file has no old bytes: past its end, because it may grow.
pub(super) fn fill(pool: &Pool, fills: &[WriteFill], from: &[u8], pos: ByteCount) {
    let (mut start, mut rest) = (in_page(pos), from);
    for &WriteFill { new, old, old_len, .. } in fills {
        let kept = old_len as usize;
        let (now, later) = rest.split_at(rest.len().min(PAGE - start));
        let end = start + now.len();
        for around in [0..start, end..PAGE] {
            let old_bytes = around.start..around.end.min(kept);
            if let Some(old) = old.filter(|_| !old_bytes.is_empty()) {
                pool.copy_over(old, new, old_bytes);
            }
            let zeros = around.start.max(kept)..around.end;
            if !zeros.is_empty() {
                pool.copy_in(new, zeros.start, &[0; PAGE][..zeros.len()]);
            }
        }
        pool.copy_in(new, start, now);
        (start, rest) = (0, later);
    }
    assert!(rest.is_empty(), "the frames of a write hold it");
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    use foreread_core::path::{IoPath, WriteFill};
    use foreread_core::table::Frame;
    use foreread_core::units::{ByteCount, PageIndex};

    use super::{PAGE, Pool, StepWork, fill};
    use crate::{Engine, IoBackend, OpenOptions};

    /// If the file grows, its readers would otherwise find the frame's earlier contents.
    #[test]
    fn behind_the_old_bytes_that_are_the_files_a_filled_page_has_zeros() {
        let pool = Pool::new(4).expect("a pool");
        let of = |frame, byte: u8| pool.copy_in(Frame(frame), 0, &[byte; PAGE]);
        // Each old frame holds more than the file has, and each new one its earlier contents.
        for (at, len, old_len) in [(100, 50, 1000_u16), (100, 50, 120), (0, 50, 80), (30, 5, 20)] {
            for (frame, byte) in [(0, b'o'), (1, b'o'), (2, b'x'), (3, b'x')] {
                of(frame, byte);
            }
            let page = |page, old, new, old_len| {
                let (page, new, old) = (PageIndex(page), Frame(new), Some(Frame(old)));
                WriteFill { page, new, old, old_len }
            };
            let fills = [page(7, 0, 2, 4096), page(8, 1, 3, u32::from(old_len))];
            // From the last bytes of the first page, or inside the second.
            let is_second = at > 0;
            let from = vec![b'w'; if is_second { len } else { 10 + len }];
            let pos = if is_second { 8 * PAGE + at } else { 8 * PAGE - 10 };
            fill(&pool, &fills[usize::from(is_second)..], &from, ByteCount(pos as u64));
            let mut want = vec![0; PAGE];
            want[..usize::from(old_len)].fill(b'o');
            want[at..at + len].fill(b'w');
            let mut got = vec![0xff; PAGE];
            pool.copy_out(Frame(3), 0, &mut got);
            assert!(got == want, "{len} bytes at {at} of {old_len}");
        }
    }

    /// Regression: requests queued by a thread whose write had ended stayed in the ring, while the
    /// leader slept there and waited for nothing else. The kernel got them only with an unrelated
    /// call, such as a read of counters.
    #[test]
    fn requests_queued_by_the_end_of_a_write_start_while_the_leader_sleeps() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).expect("a file");
        for io in [IoBackend::Threads, IoBackend::Probe] {
            let (age, timeout) = (Duration::from_secs(1 << 30), Duration::from_secs(30));
            let engine =
                Engine::builder().memory(1 << 20).dirty_age(age).timeout(timeout).io_backend(io);
            let engine = engine.build().expect("an engine");
            let options = OpenOptions::new().write(true);
            let file = engine.open_with(&path, &options).expect("it is there");
            file.write_all_at(&[1; 4096], 0).expect("it is in memory");

            let (shared, flushed) = (Arc::clone(&engine.state), &file);
            let flush = std::thread::scope(|scope| {
                let began = RefCell::new(None);
                // It keeps the page from the flush, which sleeps with nothing in flight; then it
                // fails, so that the page is written after all.
                let fail = || {
                    let (sender, thread) = std::sync::mpsc::channel();
                    let flush = scope.spawn(move || {
                        let id = rustix::thread::gettid().as_raw_nonzero();
                        sender.send(id).expect("the main thread waits for it");
                        flushed.sync_data()
                    });
                    let stat = format!("/proc/self/task/{}/stat", thread.recv().expect("it runs"));
                    let sleeps =
                        || std::fs::read_to_string(&stat).is_ok_and(|it| it.contains(") S "));
                    while !shared.drive().expect("no fork").waiting.is_leader_asleep() || !sleeps()
                    {
                        std::thread::yield_now();
                    }
                    began.replace(Some(flush));
                    Err(libc::EIO)
                };
                let id = file.shared().id;
                let page = PageIndex(0)..PageIndex(1);
                let zero = |path: &mut IoPath, now| path.write_zeroes(now, id, page);
                let zeroed = file.handle().run_to_end("zeroing", 0, zero, &StepWork::Act(&fail));
                assert!(zeroed.is_err(), "as it was told");
                began.take().expect("it began").join().expect("it does not panic")
            });
            flush.expect("the page is written");
        }
    }
}
