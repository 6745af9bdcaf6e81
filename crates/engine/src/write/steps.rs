//! The steps of a write, a zero or a flush, as the thread does them that asked for it.
//!
//! In:    something to begin; bytes to copy, or a system call.
//! Out:   how much was written, or why not.
//! Never: a copy or a system call with the engine's mutex. A step left undone without a word: a
//!        waiter that leaves says so.
//!
//! ```text
//!   begin --> wait --> Fill: copy, filled --.
//!              ^  '--> Act:  call, acted   -|
//!              '----------------------------'     ... until Done
//! ```

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, IoPath, WriteFill, WriteId, WriteStep};
use foreread_core::units::{ByteCount, Nanos, Pages};

use super::usize_of;
use crate::engine_state::{DriverGuard, EngineState};
use crate::error::{ForkedError, WriteError};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::pool::{PAGE, Pool};
use crate::reader::in_page;
use crate::waiters::{KeepAlive, Notification, Ticket};

/// What the thread that asked does itself.
pub(super) enum StepWork<'d> {
    /// Copies these bytes, which begin there.
    Copy(&'d [u8], ByteCount),
    /// The same, if that can be at once; else nothing is written.
    TryCopy(&'d [u8], ByteCount),
    /// Calls the system.
    Act(&'d dyn Fn() -> Result<(), i32>),
}

impl Handle {
    /// Begins something and does its steps until it is over. Returns how many bytes were written.
    pub(super) fn run_to_end(
        &self,
        what: &'static str,
        offset: u64,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
        doing: &StepWork<'_>,
    ) -> Result<ByteCount, WriteError> {
        let engine = &*self.file.engine;
        let failed = |why| match why {
            NotReady::TimedOut => {
                let after = engine.timeout.unwrap_or_default();
                WriteError::TimedOut { path: self.path.clone(), what, offset, after }
            }
            NotReady::Fault(Fault::Lost(errno)) => {
                let source = io::Error::from_raw_os_error(errno);
                WriteError::Lost { path: self.path.clone(), source }
            }
            NotReady::Fault(fault) => {
                let source = match fault {
                    Fault::Io(errno) | Fault::Lost(errno) => io::Error::from_raw_os_error(errno),
                    Fault::Short => {
                        io::Error::other("the device ended before the end that it states")
                    }
                };
                WriteError::Io { path: self.path.clone(), what, offset, source }
            }
        };
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
}

impl FileState {
    pub(crate) fn has_dirty_pages(&self) -> Result<bool, ForkedError> {
        Ok(self.engine.drive()?.path.dirty_pages(self.id) > Pages::ZERO)
    }

    /// A handle that may write ends: what is left in memory goes to the device, as far as it takes
    /// it.
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
        // Not reported: a caller that wants to know has flushed before.
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
                Ok(Notification::Read(_)) => unreachable!("a write has a write's news"),
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
                    driver.stepped(id, |path, now| path.filled(now, id));
                }
                (WriteStep::Act, StepWork::Act(act)) => {
                    drop(driver);
                    let result = act();
                    driver = self.drive_again();
                    driver.stepped(id, |path, now| path.acted(now, id, result));
                }
                (step, _) => unreachable!("{step:?} is no step of this"),
            }
        }
    }
}

/// The file stays open until the device has answered all that was begun of it.
fn keep_open(file: &Arc<FileState>) -> KeepAlive {
    Arc::<FileState>::clone(file)
}

/// Copies what is written, and around it what stays, into fresh frames.
///
/// ```text
///   old      |ooooooooooooo|                     |ooooooooooooo|
///   from            |wwwwww|wwwwwwwwwwwww|wwwwwww|
///   new      |oooooowwwwwww|wwwwwwwwwwwww|wwwwwwwoooooo|
/// ```
///
/// Where nothing old is, zeros are: past the end of a file.
fn fill(pool: &Pool, fills: &[WriteFill], from: &[u8], pos: ByteCount) {
    let (mut start, mut rest) = (in_page(pos), from);
    for &WriteFill { new, old, .. } in fills {
        let (now, later) = rest.split_at(rest.len().min(PAGE - start));
        let end = start + now.len();
        for around in [0..start, end..PAGE] {
            match old {
                Some(old) if !around.is_empty() => pool.copy_over(old, new, around),
                None if !around.is_empty() => {
                    pool.copy_in(new, around.start, &[0; PAGE][..around.len()]);
                }
                Some(_) | None => {}
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

    use foreread_core::path::IoPath;
    use foreread_core::units::PageIndex;

    use super::StepWork;
    use crate::{Engine, IoBackend, OpenOptions};

    /// What a thread had queued whose own write was over with it once stayed in the ring, while
    /// the leader slept there for nothing else: it was not handed to the kernel until a call for
    /// another reason, such as to read counters.
    #[test]
    fn what_the_last_step_of_a_write_queues_is_started_although_the_leader_sleeps() {
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
                // It keeps the page from the flush, which sleeps with nothing on its way; and then
                // it fails, so that the page is written after all.
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
