//! Writing: into the cache, to the device, for good.
//!
//! In:    bytes and an offset, of any alignment; a flush; ranges to zero or to discard.
//! Out:   done as far as was asked, or why not.
//! Never: a file that becomes longer. A copy, a flush or any other wait with the engine's mutex.
//!        A byte lost in silence: what could not be written stays in memory, and flush says so.
//!
//! ```text
//!   write_at   lock | path.write | unlock   copy into fresh frames   lock | filled | unlock
//!   flush      lock | path.flush | unlock   (its pages are written)  fdatasync   lock | acted
//! ```

use std::ops::Range;
use std::sync::Arc;

use foreread_core::path::{Fault, Fill, IoPath, WriteId, WriteMode, WriteStep};
use foreread_core::sched::Submitter;
use foreread_core::units::{Bytes, Instant, PAGE_SIZE, PageIndex, Pages};

use crate::driver::Driver;
use crate::error::{ReadError, WriteError};
use crate::file::{File, FileShared, Handle};
use crate::lead::NotReady;
use crate::pool::{PAGE, Pool};
use crate::reader::in_page;
use crate::shared::{Driving, Shared};
use crate::waiting::{News, Ticket};

/// What the thread that asked does itself.
enum Doing<'d> {
    /// Copies these bytes, which begin there.
    Copy(&'d [u8], Bytes),
    /// The same, if that can be at once; else it comes to nothing.
    TryCopy(&'d [u8], Bytes),
    /// Calls the system.
    Act(&'d dyn Fn() -> Result<(), i32>),
}

impl File {
    /// Writes all of `from` at `offset`; when that is done, `mode` says.
    ///
    /// ```text
    ///   Back      it is in memory, where reads find it. The device gets it later; flush() says
    ///             that it has it
    ///   Through   the device has it, perhaps in a cache of its own
    ///   Fua       the device has it for good
    /// ```
    ///
    /// Offset and length need no alignment. Where a part of a page is written, its other bytes are
    /// read first. With too much in memory that the device does not have yet
    /// ([`Builder::dirty_limit`](crate::Builder::dirty_limit)) it waits for room.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use foreread::{Engine, OpenOptions, WriteMode};
    ///
    /// let engine = Engine::builder().build()?;
    /// let options = OpenOptions { write: true, ..OpenOptions::default() };
    /// let image = engine.open_with("/var/lib/images/disk.img", &options)?;
    /// image.write_at(b"some bytes", 1 << 20, WriteMode::Back)?;
    /// image.flush()?; // from here on no power cut takes them away
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or ends before; if the device fails, or the rest of a
    /// page cannot be read. Of a write that failed any part may have been done.
    pub fn write_at(&self, from: &[u8], offset: u64, mode: WriteMode) -> Result<(), WriteError> {
        let handle = self.handle();
        handle.check_writable(offset, from.len() as u64)?;
        handle.write_all(from, offset, mode, false).map(drop)
    }

    /// Writes as much of `from` at `offset` as can be written without waiting for anything but this
    /// engine's other threads: not for room, nor for the rest of a page. Returns how many bytes
    /// that were; they are in memory, as with [`WriteMode::Back`].
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or ends before.
    pub fn try_write_at(&self, from: &[u8], offset: u64) -> Result<usize, WriteError> {
        let handle = self.handle();
        handle.check_writable(offset, from.len() as u64)?;
        handle.write_all(from, offset, WriteMode::Back, true)
    }

    /// Waits until all that was written before is on the device, for good: no kill and no power cut
    /// takes it away. (What is written meanwhile may be, or not.) By any handle to the file.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let options = foreread::OpenOptions { write: true, ..Default::default() };
    /// let file = engine.open_with("/dev/sdb", &options)?;
    /// file.zero(0..1 << 20, false)?;
    /// if let Err(error) = file.flush() {
    ///     // What did not get there is still in memory: put things right, and flush again.
    ///     eprintln!("{error}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the device failed to take any of it, now or before: then each flush tries again, and says
    /// so again, until it is there. If the file is [buffered](File::buffered) and the kernel lost
    /// bytes that it had taken, each later flush is an error: those are gone.
    pub fn flush(&self) -> Result<(), WriteError> {
        let (handle, file) = (self.handle(), &self.handle().file);
        handle.check_forked()?;
        if !file.backend.is_writable {
            return Ok(());
        }
        let act = || file.backend.sync();
        let begin = |path: &mut IoPath, now| path.flush(now, file.id);
        handle.see_through("flush", 0, begin, &Doing::Act(&act)).map(drop)
    }

    /// Makes these bytes zeros. If `may_unmap`, the file system may give their blocks back, so that
    /// a later write may find no room. As [`Self::write_at`] with [`WriteMode::Back`], a flush has
    /// to follow.
    ///
    /// # Errors
    ///
    /// As [`Self::write_at`]. Of a range that failed the bytes are zeros or what they were at any
    /// time before.
    pub fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), WriteError> {
        let handle = self.handle();
        let len = range.end.saturating_sub(range.start);
        handle.check_writable(range.start, len)?;
        let [before, pages, behind] = around_whole_pages(&range);
        for part in [before, behind] {
            let zeros = &[0; PAGE][..usize::try_from(part.end - part.start).expect("in a page")];
            handle.write_all(zeros, part.start, WriteMode::Back, false)?;
        }
        let backend = &handle.file.backend;
        handle.act_on("zeroing", &pages, &|from, len| backend.zero(from, len, may_unmap))
    }

    /// Says that these bytes are not needed any more: afterwards they are whatever they are. Only
    /// whole pages are given back, and only where the file system or the device knows how.
    ///
    /// # Errors
    ///
    /// If the file was opened for reading, or ends before, or the device fails.
    pub fn discard(&self, range: Range<u64>) -> Result<(), WriteError> {
        let handle = self.handle();
        let len = range.end.saturating_sub(range.start);
        handle.check_writable(range.start, len)?;
        let [_, pages, _] = around_whole_pages(&range);
        let backend = &handle.file.backend;
        handle.act_on("discard", &pages, &|from, len| backend.discard(from, len))
    }

    /// Where in this range the file has data (true) and where holes, in order and without gaps, from
    /// its start on; at most 4096 parts, so that the last one may end before the range does. What
    /// was written is data, if it is on the device yet or not. A block device is all data.
    ///
    /// # Errors
    ///
    /// If what was written cannot be written back, or the file system does not answer.
    pub fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, ReadError> {
        let (handle, file) = (self.handle(), &self.handle().file);
        let (path, end) = (|| handle.path.clone(), range.end.min(file.len().0));
        if range.start > end {
            return Err(ReadError::PastEnd { path: path(), offset: range.start, len: end });
        }
        let offset = range.start;
        if file.engine.is_forked() {
            return Err(ReadError::Forked { path: path() });
        }
        if file.backend.is_writable && file.has_dirty_pages() {
            let begin = |path: &mut IoPath, now| path.write_back(now, file.id);
            let nothing = || Ok(());
            handle
                .see_through("write-back", offset, begin, &Doing::Act(&nothing))
                .map_err(|error| ReadError::Io { path: path(), offset, source: error.into() })?;
        }
        let extents = file.backend.extents(offset, end);
        extents.map_err(|errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            ReadError::Io { path: path(), offset, source }
        })
    }

    /// Whether this handle may write.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.handle().may_write
    }
}

impl Handle {
    /// Whether `len` bytes at `offset` may be written.
    fn check_writable(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.check_forked()?;
        let path = || self.path.clone();
        if !self.may_write {
            return Err(WriteError::ReadOnly { path: path() });
        }
        let (end, file_len) = (offset.checked_add(len), self.file.len().0);
        if end.is_none_or(|end| end > file_len) {
            let end = end.unwrap_or(u64::MAX);
            return Err(WriteError::PastEnd { path: path(), end, len: file_len });
        }
        Ok(())
    }

    fn check_forked(&self) -> Result<(), WriteError> {
        if self.file.engine.is_forked() {
            return Err(WriteError::Forked { path: self.path.clone() });
        }
        Ok(())
    }

    /// Writes piece by piece; if it must not wait, as far as that goes. Returns how many bytes.
    fn write_all(
        &self,
        from: &[u8],
        offset: u64,
        mode: WriteMode,
        is_try: bool,
    ) -> Result<usize, WriteError> {
        let file = &self.file;
        let mut done = 0;
        while done < from.len() {
            let rest = &from[done..];
            let piece = &rest[..rest.len().min(PIECE)];
            let pos = Bytes(offset + done as u64);
            let len = Bytes(piece.len() as u64);
            let begin = |path: &mut IoPath, now: Instant| {
                path.write(now, file.id, pos, len, mode, Submitter::default())
            };
            let doing = if is_try { Doing::TryCopy(piece, pos) } else { Doing::Copy(piece, pos) };
            let written = self.see_through("write", pos.0, begin, &doing)?;
            assert!(is_try || written > Bytes::ZERO, "a file has room for its own bytes");
            if written == Bytes::ZERO {
                break;
            }
            done += usize_of(written);
        }
        Ok(done)
    }

    /// Has whole pages to itself while it does something to them.
    fn act_on(
        &self,
        what: &'static str,
        pages: &Range<u64>,
        act: &dyn Fn(u64, u64) -> Result<(), i32>,
    ) -> Result<(), WriteError> {
        let (start, len) = (pages.start, pages.end - pages.start);
        if len == 0 {
            return Ok(());
        }
        let indices = PageIndex(start / PAGE_SIZE)..PageIndex(pages.end / PAGE_SIZE);
        let begin = |path: &mut IoPath, now| path.zero(now, self.file.id, indices);
        let act = || act(start, len);
        self.see_through(what, start, begin, &Doing::Act(&act)).map(drop)
    }

    /// Begins something and does its steps until it is over. Returns how many bytes were written.
    fn see_through(
        &self,
        what: &'static str,
        offset: u64,
        begin: impl FnOnce(&mut IoPath, Instant) -> WriteId,
        doing: &Doing<'_>,
    ) -> Result<Bytes, WriteError> {
        let engine = &*self.file.engine;
        let failed = |why| match why {
            NotReady::TimedOut => {
                let after = engine.timeout.unwrap_or_default();
                WriteError::TimedOut { path: self.path.clone(), what, offset, after }
            }
            NotReady::Fault(fault) => {
                let source = match fault {
                    Fault::Io(errno) => std::io::Error::from_raw_os_error(errno),
                    Fault::Short => {
                        std::io::Error::other("the device ended before the end that it states")
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
        driving.reap_if_nobody_does();
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
        // Who wants to know has flushed before.
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
    ) -> (Driving<'s>, Result<Bytes, NotReady>) {
        loop {
            let is_try = matches!(doing, Doing::TryCopy(..));
            if is_try && !driving.waiting.has_news(Ticket::Write(id)) {
                driving.give_up(id, Arc::clone(file));
                return (driving, Ok(Bytes::ZERO));
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
    /// A waiter gives up, before it had anything to copy.
    fn give_up(&mut self, id: WriteId, file: Arc<FileShared>) {
        let news = self.waiting.abandon(Ticket::Write(id), file);
        assert!(news.is_none(), "who has news does not give up");
        let now = self.now();
        self.path.give_up(now, id);
        self.note_ready();
        self.start_all();
    }

    /// What nobody awaits has come to a step. An act is not done then: nobody may wait under the
    /// engine's mutex, and nobody wants it.
    pub(crate) fn step_alone(&mut self, id: WriteId, step: WriteStep) {
        match step {
            WriteStep::Fill { .. } => unreachable!("{id:?} was given up"),
            WriteStep::Act => {
                let now = self.now();
                self.path.acted(now, id, Err(libc::ETIMEDOUT));
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
fn fill(pool: &Pool, fills: &[Fill], from: &[u8], pos: Bytes) {
    let (mut start, mut rest) = (in_page(pos), from);
    for &Fill { new, old, .. } in fills {
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

/// The part of a range before its first whole page, its whole pages, and the part behind them.
///
/// ```text
///   |      .===|=========|=========|====.    |
///          before        pages      behind
/// ```
fn around_whole_pages(range: &Range<u64>) -> [Range<u64>; 3] {
    let Range { start, end } = *range;
    let first = start.next_multiple_of(PAGE_SIZE).min(end);
    let last = (end - end % PAGE_SIZE).max(first);
    [start..first, first..last, last..end]
}

fn usize_of(len: Bytes) -> usize {
    usize::try_from(len.0).expect("a write fits memory")
}

/// So much is handed to the core at once: enough that its price does not show.
const PIECE: usize = 1 << 20;
