//! An open file: its streams, one per thread that reads it.
//!
//! In:    a path; reads from any thread.
//! Out:   bytes.
//! Never: two threads in one stream. A thread that ends, or a file that is closed, leaves nothing;
//!        a handle that may write leaves nothing unwritten, unless the device fails.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foreread_core::device_model::DeviceModel;
use foreread_core::path::{DeviceId, DeviceState, ExtentMap, FileId, IoPath};
use foreread_core::sched::BadSetting;
use foreread_core::table::FileSlot;
use foreread_core::units::ByteCount;

use crate::OpenOptions;
use crate::advice::{Advice, HandleAdvice};
use crate::backend::Backend;
use crate::error::{OpenError, ReadError};
use crate::extents::Pieces;
use crate::open_files::{Key, NotOpened};
use crate::read_async::ReadAt;
use crate::reader::Reader;
use crate::ring::RingKind;
use crate::shared::Shared;
use crate::stream::ReadStream;
use crate::waiting::IdHasher;

/// An open file or block device. Cloning gives another handle to the same one; the last closes it.
///
/// A file that is opened twice, by whatever paths, is one file with one set of pages; each open has
/// advice and streams of its own.
#[derive(Clone, Debug)]
pub struct File {
    handle: Arc<Handle>,
}

/// One open, as `open(2)` gives one: what clones of a [`File`] and its streams share.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<FileShared>,
    pub(crate) path: PathBuf,
    pub(crate) advice: HandleAdvice,
    pub(crate) may_write: bool,
    /// Never used again, in any engine: the name of the handle in each thread's list of streams.
    serial: u64,
}

/// A file of the engine, however often it is open.
#[derive(Debug)]
pub(crate) struct FileShared {
    pub(crate) engine: Arc<Shared>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) id: FileId,
    pub(crate) slot: FileSlot,
    pub(crate) device: DeviceId,
    /// If it lies in pieces of a device: which, and where.
    pub(crate) pieces: Option<Pieces>,
    /// Its length, cached: [`Self::refresh`] asks the system. Changed by the driver only.
    len: AtomicU64,
    /// Held while the system is asked for the length: of two answers the later one must win.
    asking: Mutex<()>,
}

impl File {
    pub(crate) fn open(
        engine: &Arc<Shared>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        // Always opened, even if it is open already: whether it may be is the system's to say.
        let backend = Backend::open(path, options, &engine.claims)?;
        let path = path.to_path_buf();
        let failed = |doing, source| OpenError::Io { path: path.clone(), doing, source };
        let ring = engine.working_ring().map_err(|source| failed("use the ring", source))?;
        if options.volatile.is_some() && ring == RingKind::IoUring {
            let why =
                "the kernel does not know that device; make the engine with IoBackend::Threads";
            return Err(failed("use the ring", io::Error::other(why)));
        }
        if options.write {
            // The background thread writes back what no thread waits for.
            engine.bell.start().map_err(|source| failed("start a thread", source))?;
        }
        let key = Key::new(&backend, options);
        let opened = engine.files.find_or(&key, || FileShared::open(engine, backend, options));
        let file = opened.map_err(|error| error.of(&path))?;
        file.refresh().map_err(|source| failed("ask the size", source))?;
        Ok(Self::new(file, path, options.write))
    }

    /// One more handle to a file.
    pub(crate) fn new(file: Arc<FileShared>, path: PathBuf, may_write: bool) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);

        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let advice = HandleAdvice::default();
        Self { handle: Arc::new(Handle { file, path, advice, may_write, serial }) }
    }

    /// Reads into `to` from `offset` on, and returns how many bytes: fewer than asked only at the
    /// end of the file, where it returns 0. As with [`std::io::Read::read`], what the rest of `to`
    /// holds afterwards is not stated: where the file becomes shorter during the read, bytes behind
    /// those may have been written.
    ///
    /// Each thread that calls this is a stream of its own.
    ///
    /// # Errors
    ///
    /// If the offset lies past the end, or the device fails.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        let advised = self.handle.advice.get();
        match STREAMS.try_with(|streams| stream_of(streams, &self.handle)) {
            Ok(stream) => stream.reader.read_at(&self.handle, advised, to, offset),
            // A thread that ends may read once more after its streams have ended.
            Err(_) => self.stream().read_at(to, offset),
        }
    }

    /// Reads as [`Self::read_at`] does, without blocking the thread: for tasks of any executor.
    ///
    /// A future that is dropped leaves nothing behind; the buffer is written to only while it is
    /// polled. Each call is a stream of its own; a scan is better off with
    /// [`ReadStream::read_at_async`]. A future that waits, or is ready and is not polled, keeps its
    /// share of the memory: up to an eighth for a read as large as that.
    ///
    /// ```no_run
    /// async fn header(file: &foreread::File) -> Result<[u8; 512], foreread::ReadError> {
    ///     let mut header = [0; 512];
    ///     file.read_at_async(&mut header, 0).await?;
    ///     Ok(header)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future's are those of [`Self::read_at`].
    pub fn read_at_async<'b>(&self, to: &'b mut [u8], offset: u64) -> ReadAt<'b> {
        ReadAt::alone(self.stream(), to, offset)
    }

    /// Begins a stream: for a scan that goes its own way while the same thread reads elsewhere.
    #[must_use]
    pub fn stream(&self) -> ReadStream {
        ReadStream::new(Arc::clone(&self.handle))
    }

    /// Says that these bytes (offsets, the end not included) will be read soon. They are asked from
    /// the device at once, as far as there is memory for them, and nothing else is.
    ///
    /// Returns how many pages were asked for: those that are there, or on their way, are not.
    ///
    /// # Errors
    ///
    /// In a forked child, or if the ring is broken.
    pub fn will_need(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<u64, ReadError> {
        self.handle.will_need(ranges)
    }

    /// Says how this handle, its clones, and the threads that read by it, are going to read.
    /// Streams made by [`Self::stream`] take the advice over when they are made.
    pub fn advise(&self, advice: Advice) {
        self.handle.advise(advice);
    }

    /// Asks the system how long the file is, in bytes, and takes that over: for a file that has
    /// grown or shrunk. (A read that reaches the end asks of its own accord.) A file that is open
    /// for writing keeps the length that it had when it was opened, and so does one in
    /// [pieces](Self::open_extents) of a device.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn refresh(&self) -> io::Result<u64> {
        self.handle.file.refresh().map(|len| len.0)
    }

    /// Forgets these bytes, because another program has written them: the next read asks the
    /// device. Pages that the range covers in part go, too.
    pub fn invalidate(&self, range: Range<u64>) {
        self.handle.file.invalidate(&range);
    }

    /// The length in bytes, cached: [`Self::refresh`] asks the system.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.handle.file.len().0
    }

    /// Whether its length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The model of the device below, estimated from this engine's reads: the cost of a request and
    /// of its bytes, and how many requests it serves at once. None before there are enough reads,
    /// and in a forked child.
    #[must_use]
    pub fn device_fit(&self) -> Option<DeviceModel> {
        let file = &self.handle.file;
        if file.engine.is_forked() {
            return None;
        }
        file.engine.drive().path.device_fit(file.device)
    }

    /// The state of the device below, as far as this engine uses it: what is queued and in flight,
    /// the limit for writes, what has expired. None in a forked child.
    #[must_use]
    pub fn device_state(&self) -> Option<DeviceState> {
        let file = &self.handle.file;
        if file.engine.is_forked() {
            return None;
        }
        file.engine.drive().path.device_state(file.device)
    }

    /// The settings of this file's scheduler as they are now, its own name first; in a forked
    /// child, none.
    #[must_use]
    pub fn scheduler_settings(&self) -> Vec<(&'static str, String)> {
        let file = &self.handle.file;
        if file.engine.is_forked() {
            return Vec::new();
        }
        file.engine.drive().path.scheduler_settings(file.device)
    }

    /// Changes one setting of the scheduler of this file, by whatever handle it is open.
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting, or the value makes no sense for it.
    pub fn set_scheduler(&self, name: &str, value: &str) -> Result<(), BadSetting> {
        let file = &self.handle.file;
        if file.engine.is_forked() {
            return Ok(());
        }
        let mut driver = file.engine.drive();
        driver.path.set_scheduler(file.device, name, value)?;
        driver.start_all();
        Ok(())
    }

    /// Why reads and writes go through the kernel's page cache; None if they go around it.
    #[must_use]
    pub fn direct_io_unavailable(&self) -> Option<&'static str> {
        self.handle.file.backend.buffered
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<FileShared> {
        &self.handle.file
    }
}

impl FileShared {
    fn open(
        engine: &Arc<Shared>,
        backend: Backend,
        options: &OpenOptions,
    ) -> Result<Arc<Self>, NotOpened> {
        let backend = Arc::new(backend);
        // As long as it was a moment ago; `refresh` asks again.
        let len = backend.len;
        let mut driver = engine.drive();
        let opened = driver.open(&backend, len, options.delay, &options.scheduler);
        drop(driver);
        let (device, id) = opened.ok_or(NotOpened::TooMany)?;
        let slot = IoPath::slot(id);
        let (engine, len) = (Arc::clone(engine), AtomicU64::new(len.0));
        let (pieces, asking) = (None, Mutex::default());
        Ok(Arc::new(Self { engine, backend, id, slot, device, pieces, len, asking }))
    }

    /// A file of so many bytes in pieces of a device.
    pub(crate) fn open_pieces(
        device: &Arc<Self>,
        len: ByteCount,
        layout: &Arc<ExtentMap>,
    ) -> Result<Arc<Self>, NotOpened> {
        let Self { engine, backend, device: of, .. } = &**device;
        let (engine, backend, of) = (Arc::clone(engine), Arc::clone(backend), *of);
        let id = engine.drive().open_layout(of, len, Arc::clone(layout))?;
        let (slot, len, asking) = (IoPath::slot(id), AtomicU64::new(len.0), Mutex::default());
        let pieces = Some(Pieces { _device: Arc::clone(device), layout: Arc::clone(layout) });
        Ok(Arc::new(Self { engine, backend, id, slot, device: of, pieces, len, asking }))
    }

    /// Whether only its owner knows how long it is.
    fn keeps_its_length(&self) -> bool {
        self.backend.is_writable || self.pieces.is_some()
    }

    #[inline]
    pub(crate) fn len(&self) -> ByteCount {
        ByteCount(self.len.load(Ordering::Acquire))
    }

    /// The same, for a read that reaches the end: without the mutex, as nothing mostly changed.
    pub(crate) fn refresh_if_changed(&self) -> io::Result<ByteCount> {
        if self.keeps_its_length() || self.backend.size()? == self.len() {
            return Ok(self.len());
        }
        self.refresh()
    }

    /// Asks the system how long the file is, and takes that over.
    ///
    /// ```text
    ///   grown    |=========|==.......|            the old last page is read again: it ended early
    ///   shrunk   |=========|=========|==          what lies behind the end is forgotten, and so
    ///                ^new end                     is the page that the end is in
    /// ```
    pub(crate) fn refresh(&self) -> io::Result<ByteCount> {
        if self.engine.is_forked() || self.keeps_its_length() {
            return Ok(self.len());
        }
        // Not under the engine's mutex: a server that does not answer must block only the readers
        // of its files.
        let asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.backend.size()?;
        let mut driver = self.engine.drive();
        if len != self.len() && driver.broken().is_none() {
            driver.set_len(self.id, len);
            self.len.store(len.0, Ordering::Release);
        }
        // Before the driver stops, and wakes tasks that may ask, too.
        drop(asking);
        Ok(len)
    }
}

impl Drop for FileShared {
    fn drop(&mut self) {
        if self.engine.is_forked() {
            return;
        }
        // After a driver's panic there is nothing to close, and a second panic would end the
        // process.
        if self.engine.driver.is_poisoned() {
            return;
        }
        match &self.pieces {
            Some(_) => self.engine.drive().close_layout(self.id),
            None => self.engine.drive().close(self.device, self.id),
        }
    }
}

impl Drop for Handle {
    /// Writes dirty pages back, and waits for that. Errors are not reported: only
    /// [`File::flush`] says whether the pages got to the device.
    fn drop(&mut self) {
        if self.may_write {
            self.file.write_back_at_the_end();
        }
    }
}

thread_local! {
    /// The streams of this thread, by the serial of their handle.
    static STREAMS: RefCell<Streams> = RefCell::default();
}

type Streams = HashMap<u64, Rc<ThreadStream>, BuildHasherDefault<IdHasher>>;

/// A thread's stream of a file that others may close.
struct ThreadStream {
    handle: Weak<Handle>,
    /// Which may stay open by other handles.
    file: Weak<FileShared>,
    reader: Reader,
}

impl ThreadStream {
    fn new(handle: &Arc<Handle>) -> Self {
        let (file, reader) = (Arc::downgrade(&handle.file), Reader::new(&handle.file));
        Self { handle: Arc::downgrade(handle), file, reader }
    }
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        // The streams of a closed file ended with it.
        if let Some(file) = self.file.upgrade() {
            self.reader.close(&file);
        }
    }
}

/// The calling thread's stream. A handle of its own: while it reads, a waker may run that reads
/// again.
#[inline]
fn stream_of(streams: &RefCell<Streams>, handle: &Arc<Handle>) -> Rc<ThreadStream> {
    let mut streams = streams.borrow_mut();
    if let Some(stream) = streams.get(&handle.serial) {
        return Rc::clone(stream);
    }
    let closed = forget_closed_files(&mut streams);
    let stream = Rc::new(ThreadStream::new(handle));
    streams.insert(handle.serial, Rc::clone(&stream));
    drop(streams);
    // Ending a stream may drive, and then wakes tasks, which may read in this thread.
    drop(closed);
    stream
}

/// Handles that were closed leave their entry behind in every thread that read by them; each new
/// entry pays for looking whether it is time to sweep.
fn forget_closed_files(streams: &mut Streams) -> Vec<Rc<ThreadStream>> {
    if streams.len() < streams.capacity() {
        return Vec::new();
    }
    let closed = streams.extract_if(|_, stream| stream.handle.strong_count() == 0);
    closed.map(|(_, stream)| stream).collect()
}
