//! Cache misses: the rest of a read after its hits comes from the core and the device. No copy is
//! made under the engine's mutex, and a file that shrank is not an error.

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, ReadId, ReadReady};
use foreread_core::table::Frame;
use foreread_core::units::ByteCount;

use super::markers::Markers;
use super::{ReadProgress, StreamReader, in_page};
use crate::deferred_wake::KeepAlive;
use crate::engine_state::DriverGuard;
use crate::error::{ForkedError, ReadError, ReadErrorKind};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::pool::PAGE;
use crate::wait_table::{Ticket, Waiter};

impl StreamReader {
    /// Reads the missing rest, as the driver.
    pub(super) fn miss(
        &self,
        handle: &Handle,
        read: &mut ReadProgress,
        to: &mut [u8],
        markers: &Markers,
    ) -> Result<(), ReadError> {
        let file = &handle.file;
        let keep_open: KeepAlive = Arc::<FileState>::clone(file);
        let mut frames = Vec::new();
        let mut markers = Some(markers);
        while read.done < read.wanted {
            let waiter = || Waiter::Thread(std::thread::current());
            let hit = |read: &mut _, markers: &mut _| self.hit(handle, read, to, markers);
            let begun = self.begin(handle, read, markers.take(), hit, waiter)?;
            let Some((driver, id)) = begun else { break };
            let held = match self.read_inline(handle, driver, id, read, to) {
                InlineMiss::Done => continue,
                InlineMiss::Ready(driver, ready) => hold(driver, id, Ok(ready)),
                InlineMiss::Waits(driver) => self.wait_to_hold(handle, driver, id, &keep_open),
            };
            match held {
                Ok((driver, len)) => {
                    frames.clear();
                    frames.extend_from_slice(driver.path.frames(id));
                    drop(driver);
                    self.copy(file, read, to, frames.iter().copied(), len);
                    file.engine.drive_again().release(id);
                }
                Err(why) => self.fail(handle, read, why)?,
            }
        }
        Ok(())
    }

    /// Reads the missing rest of a small read on this thread, if that is one request and no other
    /// is pending. Copies it before it takes the mutex again, because no other thread fills these
    /// frames: that saves one turn as the driver.
    ///
    /// ```text
    ///   else    lock, read | preadv(2)       | lock, complete | copy | lock, release
    ///   here    lock, read | preadv(2), copy | lock, complete, release
    /// ```
    fn read_inline<'f>(
        &self,
        handle: &'f Handle,
        mut driver: DriverGuard<'f>,
        id: ReadId,
        read: &mut ReadProgress,
        to: &mut [u8],
    ) -> InlineMiss<'f> {
        let (file, ticket) = (&*handle.file, Ticket::Read(id));
        let Some(alone) = file.engine.begin_inline(&mut driver, ticket) else {
            return InlineMiss::Waits(driver);
        };
        drop(driver);
        let result = alone.run(&file.engine.pool);
        let (mut copied, len) = (*read, read.wanted - read.done);
        let pages = (in_page(read.pos()) + len).div_ceil(PAGE);
        let frames = alone.filled(pages, result).filter(|_| pages <= COPIED_AT_ONCE);
        let is_copied = frames.is_some();
        let len = ByteCount(len as u64);
        if let Some(frames) = frames {
            self.copy(file, &mut copied, to, frames, len);
        }
        let mut driver = file.engine.end_inline(&alone, ticket, result);
        let Some(ready) = driver.waiting.take_ready(id) else { return InlineMiss::Waits(driver) };
        let is_it = ready.fault.is_none() && ready.len >= len;
        if !is_copied || !is_it || !alone.has_filled(driver.path.frames(id)) {
            return InlineMiss::Ready(driver, ready);
        }
        driver.release(id);
        *read = copied;
        InlineMiss::Done
    }

    /// Blocks until a read holds its frames, and returns how many bytes they hold from its start
    /// on. Releases a failed read.
    pub(super) fn wait_to_hold<'f>(
        &self,
        handle: &'f Handle,
        driver: DriverGuard<'f>,
        id: ReadId,
        keep_open: &KeepAlive,
    ) -> Result<(DriverGuard<'f>, ByteCount), NotReady> {
        let (driver, ready) = handle.file.engine.wait_for(driver, id, keep_open);
        hold(driver, id, ready)
    }

    /// Starts to read the missing rest. Returns None if nothing is missing any more, because pages
    /// have arrived or the file has shrunk. `hit` copies the pages that have arrived.
    pub(crate) fn begin<'f>(
        &self,
        handle: &'f Handle,
        read: &mut ReadProgress,
        markers: Option<&Markers>,
        hit: impl FnOnce(&mut ReadProgress, &mut Markers),
        waiter: impl FnOnce() -> Waiter,
    ) -> Result<Option<(DriverGuard<'f>, ReadId)>, ReadError> {
        let file = &handle.file;
        let forked = |ForkedError| ReadErrorKind::Forked.of(handle.path.clone());
        let mut driver = file.engine.drive().map_err(forked)?;
        if let Some(errno) = driver.broken() {
            return Err(error(handle, read.offset, Fault::Io(errno)));
        }
        driver.take_events();
        let id = self.stream(handle, &mut driver, read.advised);
        for marker in markers.into_iter().flat_map(|markers| self.markers(markers, read)) {
            driver.marker(marker);
        }
        if driver.reap_unless_led() {
            // The pages that were just reaped may turn it into a hit.
            let mut markers = Markers::default();
            hit(read, &mut markers);
            for marker in self.markers(&markers, read) {
                driver.marker(marker);
            }
        }
        read.known_len = file.len();
        read.shrink_to(read.known_len);
        if read.done >= read.wanted {
            return Ok(None);
        }
        // The rest of the buffer, not of the file: policies see the requested size.
        let rest = ByteCount((read.room - read.done) as u64);
        let id = driver.begin(id, read.pos(), rest, self.prev_pos.get(), waiter());
        Ok(Some((driver, id)))
    }

    /// Copies the frames of a ready read to the buffer.
    pub(crate) fn copy(
        &self,
        file: &FileState,
        read: &mut ReadProgress,
        to: &mut [u8],
        frames: impl Iterator<Item = Frame>,
        len: ByteCount,
    ) {
        let mut from = in_page(read.pos());
        let len = usize::try_from(len.0).expect("the core reads no more than the buffer holds");
        let end = (read.done + len).min(read.wanted);
        for frame in frames {
            let part = (end - read.done).min(PAGE - from);
            file.engine.pool.copy_out(frame, from, &mut to[read.done..read.done + part]);
            read.done += part;
            from = 0;
        }
        assert!(read.done == end, "the frames of a read cover it");
    }

    /// Converts a failure to an error, unless the file has merely shrunk.
    pub(crate) fn fail(
        &self,
        handle: &Handle,
        read: &mut ReadProgress,
        why: NotReady,
    ) -> Result<(), ReadError> {
        match why {
            NotReady::TimedOut => {
                let after = handle.file.engine.timeout.unwrap_or_default();
                let (path, offset) = (handle.path.clone(), read.offset);
                Err(ReadErrorKind::TimedOut { offset, after }.of(path))
            }
            NotReady::Fault(Fault::Short) => {
                // Another reader may have noticed the new end first: compare with the length that
                // this read assumed.
                let before = read.known_len;
                let now = handle.len_now(read.offset)?;
                read.shrink_to(ByteCount(now));
                if read.done < read.wanted && before == ByteCount(now) {
                    return Err(error(handle, read.offset, Fault::Short));
                }
                Ok(())
            }
            NotReady::Fault(fault) => Err(error(handle, read.offset, fault)),
        }
    }
}

/// Result of an inline read.
enum InlineMiss<'f> {
    /// The read has been copied and released.
    Done,
    /// The read is ready, or has failed.
    Ready(DriverGuard<'f>, ReadReady),
    /// The read waits for another request.
    Waits(DriverGuard<'f>),
}

/// Returns the length of a ready read, which then holds its frames; releases a failed one.
fn hold<'f>(
    mut driver: DriverGuard<'f>,
    id: ReadId,
    ready: Result<ReadReady, NotReady>,
) -> Result<(DriverGuard<'f>, ByteCount), NotReady> {
    match ready.and_then(|ready| ready.fault.map_or(Ok(ready), |f| Err(f.into()))) {
        Ok(ready) => Ok((driver, ready.len)),
        Err(why) => {
            if let NotReady::Fault(_) = why
                && driver.broken().is_none()
            {
                driver.release(id);
            }
            Err(why)
        }
    }
}

/// Copying this many pages takes less time than a system call. A longer copy would delay other
/// readers of these pages.
const COPIED_AT_ONCE: usize = 4;

pub(crate) fn error(handle: &Handle, offset: u64, fault: Fault) -> ReadError {
    let path = handle.path.clone();
    match fault {
        Fault::Io(errno) | Fault::Lost(errno) => {
            let source = match handle.file.backend.source() {
                Some(source) => source.errors.of(errno),
                None => io::Error::from_raw_os_error(errno),
            };
            ReadErrorKind::Io { offset, source }.of(path)
        }
        Fault::Short => ReadErrorKind::Short { offset, len: handle.file.len().0 }.of(path),
    }
}

impl From<Fault> for NotReady {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
