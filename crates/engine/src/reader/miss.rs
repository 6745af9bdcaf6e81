//! Misses: what is left of a read after its hits, from the core and the device.
//!
//! In:    a read that is not done.
//! Out:   its bytes, or why not.
//! Never: a copy with the engine's mutex held. A file that only became shorter as an error.

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, ReadId, ReadReady};
use foreread_core::table::Frame;
use foreread_core::units::ByteCount;

use super::markers::Markers;
use super::{ReadProgress, StreamReader, in_page};
use crate::deferred_wake::KeepAlive;
use crate::engine_state::DriverGuard;
use crate::error::{ForkedError, ReadError};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::pool::PAGE;
use crate::wait_table::{Ticket, Waiter};

impl StreamReader {
    /// Becomes the driver for what is left of a read.
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

    /// Reads what a small read lacks in this thread, if that is one request and no other is to be
    /// started, and copies it before the mutex is taken again: no other thread fills these frames,
    /// and so one turn as the driver is saved.
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

    /// Waits until a read holds its frames, which have so many bytes from where it began. One that
    /// failed is released.
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

    /// Begins to read what is left of a read; None if nothing is, because it has come meanwhile or
    /// because the file has shrunk. `hit` takes what has come meanwhile.
    pub(crate) fn begin<'f>(
        &self,
        handle: &'f Handle,
        read: &mut ReadProgress,
        markers: Option<&Markers>,
        hit: impl FnOnce(&mut ReadProgress, &mut Markers),
        waiter: impl FnOnce() -> Waiter,
    ) -> Result<Option<(DriverGuard<'f>, ReadId)>, ReadError> {
        let file = &handle.file;
        let forked = |ForkedError| ReadError::Forked { path: handle.path.clone() };
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
            // With the pages that have just been reaped, it may be a hit after all.
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
        // The rest of the buffer, not of the file: policies see what was asked.
        let rest = ByteCount((read.room - read.done) as u64);
        let id = driver.begin(id, read.pos(), rest, self.prev_pos.get(), waiter());
        Ok(Some((driver, id)))
    }

    /// Copies the frames of a read that is ready to the buffer.
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

    /// A read that failed: an error, unless the file is only shorter than we thought.
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
                Err(ReadError::TimedOut { path, offset, after })
            }
            NotReady::Fault(Fault::Short) => {
                // Another reader may have seen the new end first: what counts is what we asked for.
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

/// What a thread's own look at the device has brought.
enum InlineMiss<'f> {
    /// The read is copied and released.
    Done,
    /// It is ready, or has failed.
    Ready(DriverGuard<'f>, ReadReady),
    /// It waits, for another request.
    Waits(DriverGuard<'f>),
}

/// The frames of a read are held once it is ready; one that failed is released.
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

/// A copy of so many pages takes less than a system call does; of more, other readers of these
/// pages would wait for it.
const COPIED_AT_ONCE: usize = 4;

pub(crate) fn error(handle: &Handle, offset: u64, fault: Fault) -> ReadError {
    let path = handle.path.clone();
    match fault {
        Fault::Io(errno) | Fault::Lost(errno) => {
            let source = match handle.file.backend.source() {
                Some(source) => source.errors.of(errno),
                None => io::Error::from_raw_os_error(errno),
            };
            ReadError::Io { path, offset, source }
        }
        Fault::Short => ReadError::Short { path, offset, len: handle.file.len().0 },
    }
}

impl From<Fault> for NotReady {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
