//! Misses: what is left of a read after its hits, from the core and the device.
//!
//! In:    a read that is not done.
//! Out:   its bytes, or why not.
//! Never: a copy with the engine's mutex held. A file that only became shorter as an error.

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, ReadId};
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
use crate::wait_table::Waiter;

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
            match self.wait_to_hold(handle, driver, id, &keep_open) {
                Ok((driver, len)) => {
                    frames.clear();
                    frames.extend_from_slice(driver.path.frames(id));
                    drop(driver);
                    self.copy(file, read, to, &frames, len);
                    file.engine.drive_again().release(id);
                }
                Err(why) => self.fail(handle, read, why)?,
            }
        }
        Ok(())
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
        let (mut driver, ready) = handle.file.engine.wait_for(driver, id, keep_open);
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
        frames: &[Frame],
        len: ByteCount,
    ) {
        let mut from = in_page(read.pos());
        let len = usize::try_from(len.0).expect("the core reads no more than the buffer holds");
        let end = (read.done + len).min(read.wanted);
        for frame in frames {
            let part = (end - read.done).min(PAGE - from);
            file.engine.pool.copy_out(*frame, from, &mut to[read.done..read.done + part]);
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
                if read.done == 0 && read.offset > now {
                    let (path, offset) = (handle.path.clone(), read.offset);
                    return Err(ReadError::PastEnd { path, offset, len: now });
                }
                if read.done < read.wanted && before == ByteCount(now) {
                    return Err(error(handle, read.offset, Fault::Short));
                }
                Ok(())
            }
            NotReady::Fault(fault) => Err(error(handle, read.offset, fault)),
        }
    }
}

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
