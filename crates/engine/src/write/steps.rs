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
use crate::driver::Driver;
use crate::error::WriteError;
use crate::file::{FileShared, Handle};
use crate::lead::NotReady;
use crate::pool::{PAGE, Pool};
use crate::reader::in_page;
use crate::shared::{Driving, Shared};
use crate::waiting::{News, Ticket};

/// What the thread that asked does itself.
pub(super) enum Doing<'d> {
    /// Copies these bytes, which begin there.
    Copy(&'d [u8], ByteCount),
    /// The same, if that can be at once; else nothing is written.
    TryCopy(&'d [u8], ByteCount),
    /// Calls the system.
    Act(&'d dyn Fn() -> Result<(), i32>),
}

impl Handle {
    /// Begins something and does its steps until it is over. Returns how many bytes were written.
    pub(super) fn see_through(
        &self,
        what: &'static str,
        offset: u64,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
        doing: &Doing<'_>,
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
        let mut driving = engine.drive();
        if let Some(errno) = driving.broken() {
            return Err(failed(NotReady::Fault(Fault::Io(errno))));
        }
        driving.take_posts(&engine.inbox);
        driving.reap_unless_led();
        let id = driving.begin_write(begin);
        let (driving, result) = engine.do_steps(driving, id, &self.file, doing);
        drop(driving);
        result.map_err(failed)
    }
}

impl FileShared {
    pub(crate) fn has_dirty_pages(&self) -> bool {
        self.engine.drive().path.dirty_pages(self.id) > Pages::ZERO
    }

    /// A handle that may write ends: what is left in memory goes to the device, as far as it takes
    /// it.
    pub(crate) fn write_back_at_the_end(self: &Arc<Self>) {
        let engine = &*self.engine;
        if engine.is_forked() || engine.driver.is_poisoned() {
            return;
        }
        let mut driving = engine.drive();
        if driving.broken().is_some() || driving.path.dirty_pages(self.id) == Pages::ZERO {
            return;
        }
        let id = driving.begin_write(|path, now| path.write_back(now, self.id));
        let (driving, result) = engine.do_steps(driving, id, self, &Doing::Act(&|| Ok(())));
        drop(driving);
        // Not reported: a caller that wants to know has flushed before.
        let _ = result;
    }
}

impl Shared {
    fn do_steps<'s>(
        &'s self,
        mut driving: Driving<'s>,
        id: WriteId,
        file: &Arc<FileShared>,
        doing: &Doing<'_>,
    ) -> (Driving<'s>, Result<ByteCount, NotReady>) {
        loop {
            let is_try = matches!(doing, Doing::TryCopy(..));
            if is_try && !driving.waiting.has_news(Ticket::Write(id)) {
                driving.give_up(id, Arc::clone(file));
                return (driving, Ok(ByteCount::ZERO));
            }
            let news;
            (driving, news) = self.wait_for_news(driving, Ticket::Write(id));
            let step = match news {
                Ok(News::Write(step)) => step,
                Ok(News::Read(_)) => unreachable!("a write has a write's news"),
                Err(why) => {
                    if let NotReady::TimedOut = why {
                        driving.give_up(id, Arc::clone(file));
                    }
                    return (driving, Err(why));
                }
            };
            match (step, doing) {
                (WriteStep::Done { len, fault: None }, _) => return (driving, Ok(len)),
                (WriteStep::Done { fault: Some(fault), .. }, _) => {
                    return (driving, Err(fault.into()));
                }
                (WriteStep::Fill { len }, Doing::Copy(from, pos) | Doing::TryCopy(from, pos)) => {
                    let fills = driving.path.fills(id).to_vec();
                    drop(driving);
                    fill(&self.pool, &fills, &from[..usize_of(len)], *pos);
                    driving = self.drive();
                    driving.stepped(id, |path, now| path.filled(now, id));
                }
                (WriteStep::Act, Doing::Act(act)) => {
                    drop(driving);
                    let result = act();
                    driving = self.drive();
                    driving.stepped(id, |path, now| path.acted(now, id, result));
                }
                (step, _) => unreachable!("{step:?} is no step of this"),
            }
        }
    }
}

impl Driver {
    /// Abandons a write whose waiter had nothing to copy yet.
    fn give_up(&mut self, id: WriteId, file: Arc<FileShared>) {
        if self.broken().is_some() {
            self.waiting.forget(Ticket::Write(id));
            return;
        }
        let news = self.waiting.abandon(Ticket::Write(id), file);
        assert!(news.is_none(), "a waiter with news does not leave");
        let now = self.now();
        self.path.give_up(now, id);
        self.note_ready();
        self.start_all();
    }

    /// A step of an abandoned write. An act is not done: it may not wait under the engine's mutex,
    /// and no caller wants it.
    pub(crate) fn step_alone(&mut self, id: WriteId, step: WriteStep) {
        match step {
            WriteStep::Fill { .. } => unreachable!("{id:?} was given up"),
            WriteStep::Act => {
                let now = self.now();
                self.path.not_acted(now, id, libc::ETIMEDOUT);
            }
            WriteStep::Done { .. } => {}
        }
    }
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

    use super::Doing;
    use crate::{Engine, IoBackend, OpenOptions, WriteMode};

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
            let options = OpenOptions { write: true, ..OpenOptions::default() };
            let file = engine.open_with(&path, &options).expect("it is there");
            file.write_at(&[1; 4096], 0, WriteMode::WriteBack).expect("it is in memory");

            let (shared, flushed) = (Arc::clone(&engine.shared), &file);
            let flush = std::thread::scope(|scope| {
                let began = RefCell::new(None);
                // It keeps the page from the flush, which sleeps with nothing on its way; and then
                // it fails, so that the page is written after all.
                let fail = || {
                    let (sender, thread) = std::sync::mpsc::channel();
                    let flush = scope.spawn(move || {
                        let id = rustix::thread::gettid().as_raw_nonzero();
                        sender.send(id).expect("the main thread waits for it");
                        flushed.flush()
                    });
                    let stat = format!("/proc/self/task/{}/stat", thread.recv().expect("it runs"));
                    let sleeps =
                        || std::fs::read_to_string(&stat).is_ok_and(|it| it.contains(") S "));
                    while !shared.drive().waiting.is_leader_asleep() || !sleeps() {
                        std::thread::yield_now();
                    }
                    began.replace(Some(flush));
                    Err(libc::EIO)
                };
                let id = file.shared().id;
                let page = PageIndex(0)..PageIndex(1);
                let zero = |path: &mut IoPath, now| path.zero(now, id, page);
                let zeroed = file.handle().see_through("zeroing", 0, zero, &Doing::Act(&fail));
                assert!(zeroed.is_err(), "as it was told");
                began.take().expect("it began").join().expect("it does not panic")
            });
            flush.expect("the page is written");
        }
    }
}
