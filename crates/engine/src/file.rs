//! An open file and its streams, one per reading thread. Ending a thread or closing a file ends its
//! streams; closing a writable handle writes back its dirty pages, unless the device fails.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use crate::OpenOptions;
use crate::advice::{Advice, Advised};
use crate::backend::{Backend, Created};
use crate::driver_mailbox::DriverMailbox;
use crate::engine_state::EngineState;
use crate::error::{EngineError, ForkedError, OpenError, OpenErrorKind, ReadError};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::id_hasher::IdHasher;
use crate::open_files::{FileKey, OpenFiles};
use crate::reader::StreamReader;
use crate::ring::RingKind;
use crate::stream::ReadStream;

/// An open file or block device. Clones share one handle; dropping the last one closes the file.
///
/// Opening a file twice, even through different paths, yields one file with one set of pages; each
/// open has separate advice and streams.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().build()?;
/// let file = engine.open("/dev/sdb")?;
/// file.will_need([0..1 << 20, 1 << 30..(1 << 30) + 4096])?; // returns at once
/// let mut header = [0; 512];
/// let n = file.read_at(&mut header, 0)?;
/// assert!(n == 512 || file.len() < 512);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct File {
    handle: Arc<Handle>,
}

impl File {
    /// Opens the file at a path. Errors of its reads and writes show the given name.
    pub(crate) fn open(
        engine: &Arc<EngineState>,
        files: &Arc<OpenFiles>,
        path: &Path,
        name: &Path,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        let forked = |ForkedError| OpenErrorKind::Forked.of(path.to_path_buf());
        engine.check_process().map_err(forked)?;
        let options = options.resolve(path)?;
        let created = Created::make(path, &options)?;
        let opened = Self::open_made(engine, files, &created, &options);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                created.undo(&options, &error);
                return Err(error);
            }
        };
        let file = Self::new(Handle::new(opened, Arc::clone(files), name.to_path_buf(), &options));
        if options.truncate && file.handle.file.can_change_len() {
            file.set_len(0).map_err(|error| {
                let (path, source) = (path.to_path_buf(), error.into());
                OpenErrorKind::Io { doing: "truncate", source }.of(path)
            })?;
        }
        Ok(file)
    }

    fn open_made(
        engine: &Arc<EngineState>,
        files: &Arc<OpenFiles>,
        created: &Created<'_>,
        options: &OpenOptions,
    ) -> Result<Arc<FileState>, OpenError> {
        let path = created.path();
        // Open it again even if it is already open: the system has to check the permissions.
        let backend = Backend::open(path, options, &engine.claims)?;
        created.check(backend.identity)?;
        let failed = |doing, source| OpenErrorKind::Io { doing, source }.of(path.to_path_buf());
        check_ring(engine, path)?;
        if options.volatile.is_some() && engine.ring_kind == RingKind::IoUring {
            let why =
                "the kernel does not know this device; create the engine with IoBackend::Threads";
            return Err(failed("use the ring", io::Error::other(why)));
        }
        if options.write {
            // The background thread writes back dirty pages that no thread waits for.
            engine.background.start().map_err(|source| failed("start a thread", source))?;
        }
        let key = FileKey::new(&backend, options);
        let mut backend = Some(backend);
        let opened = files.find_or(&key, || {
            let backend = backend.take().expect("a file is made once");
            FileState::open(engine, backend, options)
        });
        let file = opened.map_err(|error| error.of(path))?;
        if options.write
            && !file.backend.is_writable()
            && let Some(backend) = backend
        {
            // Until now it was open only for reading.
            let became = file.become_writable(backend);
            became.map_err(|source| failed("ask the size", source))?;
        }
        file.refresh().map_err(|source| failed("ask the size", source))?;
        Ok(file)
    }

    /// Creates a file from a handle.
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Reads into `to` from `offset` on. Returns the number of bytes read: fewer than the length of
    /// `to` only at the end of the file, 0 at and past it. As with [`std::io::Read::read`], the
    /// contents of the rest of `to` are unspecified: if the file shrinks during the read, bytes
    /// past the returned count may have been overwritten.
    ///
    /// Each calling thread is a separate stream.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// let mut bytes = [0; 100];
    /// let read = file.read_at(&mut bytes, 12_345)?; // any offset and length
    /// println!("{:?}", &bytes[..read]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the device fails, or does not answer within the time-out.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        self.with_reader(|reader, handle, advised| reader.read_at(handle, advised, to, offset))
    }

    /// Calls `read` with the calling thread's stream.
    #[inline]
    pub(crate) fn with_reader<R>(
        &self,
        read: impl FnOnce(&StreamReader, &Handle, Advised) -> R,
    ) -> R {
        let advised = self.handle.advice.get();
        match STREAMS.try_with(|streams| stream_of(streams, &self.handle)) {
            Ok(stream) => read(&stream.reader, &self.handle, advised),
            // Destructors of other thread-local values may read after the streams have ended.
            Err(_) => {
                let stream = self.stream();
                read(&stream.reader, &self.handle, advised)
            }
        }
    }

    /// Creates a separate stream, for a scan in a thread that also reads elsewhere.
    #[must_use]
    pub fn stream(&self) -> ReadStream {
        ReadStream::new(Arc::clone(&self.handle))
    }

    /// Prefetches these bytes (offsets, end exclusive). Requests for them, and for no others, are
    /// queued at once, as far as memory permits.
    ///
    /// Returns the number of pages requested, without those already cached or in flight.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// let asked = file.will_need([0..4096, 1 << 20..2 << 20])?; // returns at once
    /// println!("{asked} pages are on their way");
    /// # Ok(()) }
    /// ```
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

    /// Declares the access pattern of this handle, its clones, and the threads that read through
    /// it. Streams created by [`Self::stream`] inherit the advice at creation.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// file.advise(foreread::Advice::Random); // nothing is read ahead
    /// # Ok(()) }
    /// ```
    pub fn advise(&self, advice: Advice) {
        self.handle.advice.add(advice);
    }

    /// Drops the whole pages in the range from the cache, because no reader needs them any more.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn dont_need(&self, range: Range<u64>) -> Result<(), EngineError> {
        Ok(self.handle.file.dont_need(&range)?)
    }

    /// Updates the cached length from the system, for a file that has grown or shrunk, and returns
    /// it, in bytes. (A read that reaches the end does this by itself.) A file open for writing
    /// keeps the length set by this engine, and one made of [extents](Self::open_extents) of a
    /// device keeps a fixed one.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// println!("{} bytes by now", file.refresh()?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the system call fails; in a forked child.
    pub fn refresh(&self) -> io::Result<u64> {
        self.handle.file.refresh().map(|len| len.0)
    }

    /// Invalidates these bytes after another program has written them: the next read goes to the
    /// device. Pages covered only in part are invalidated, too.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// // Another program has written there.
    /// file.invalidate(0..1 << 20)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn invalidate(&self, range: Range<u64>) -> Result<(), EngineError> {
        Ok(self.handle.file.invalidate(&range)?)
    }

    /// Returns the cached length in bytes; [`Self::refresh`] updates it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.handle.file.len().0
    }

    /// Returns true if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[cfg(feature = "remember")]
    pub(crate) fn file_state(&self) -> &FileState {
        &self.handle.file
    }

    /// Returns the reason why I/O goes through the kernel's page cache; None with direct I/O.
    #[must_use]
    pub fn direct_io_unavailable(&self) -> Option<&'static str> {
        self.handle.file.backend.buffered
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<FileState> {
        &self.handle.file
    }
}

/// Checks that the engine's ring works in this process, before a file is opened.
pub(crate) fn check_ring(engine: &EngineState, path: &Path) -> Result<(), OpenError> {
    let path = || path.to_path_buf();
    let driver = engine.drive().map_err(|ForkedError| OpenErrorKind::Forked.of(path()))?;
    match driver.broken() {
        None => Ok(()),
        Some(errno) => {
            let source = io::Error::from_raw_os_error(errno);
            Err(OpenErrorKind::Io { doing: "use the ring", source }.of(path()))
        }
    }
}

thread_local! {
    /// Streams of this thread, keyed by the serial of their handle.
    static STREAMS: RefCell<Streams> = RefCell::default();
}

#[derive(Default)]
struct Streams(HashMap<u64, Rc<ThreadStream>, BuildHasherDefault<IdHasher>>);

impl Drop for Streams {
    /// Runs at thread exit, when tasks and sources would find thread-local values of theirs already
    /// destroyed. So the next driver ends the streams. The engine is not held here either, or it
    /// could be dropped here.
    fn drop(&mut self) {
        for stream in self.0.values() {
            stream.reader.leave(&stream.mailbox);
        }
    }
}

/// A thread's stream of a file that other threads may close.
struct ThreadStream {
    handle: Weak<Handle>,
    /// The engine, not the file: an exiting thread would keep the file open past its last handle.
    engine: Weak<EngineState>,
    /// Receives the stream at thread exit.
    mailbox: Arc<DriverMailbox>,
    reader: StreamReader,
}

impl ThreadStream {
    fn new(handle: &Arc<Handle>) -> Self {
        let (file, handle) = (&handle.file, Arc::downgrade(handle));
        let engine = Arc::downgrade(&file.engine);
        let mailbox = Arc::clone(&file.engine.mailbox);
        Self { handle, engine, mailbox, reader: StreamReader::new(file) }
    }
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        // Closing a file has already ended its streams, and thread exit has handed over the rest:
        // the engine must not be held there (`Streams::drop`).
        if self.reader.is_open()
            && let Some(engine) = self.engine.upgrade()
        {
            self.reader.close(&engine);
        }
    }
}

/// Returns the calling thread's stream, as an `Rc`: a waker that runs during the read may read
/// again.
#[inline]
fn stream_of(streams: &RefCell<Streams>, handle: &Arc<Handle>) -> Rc<ThreadStream> {
    let mut streams = streams.borrow_mut();
    if let Some(stream) = streams.0.get(&handle.serial) {
        return Rc::clone(stream);
    }
    let closed = forget_closed_files(&mut streams);
    let stream = Rc::new(ThreadStream::new(handle));
    streams.0.insert(handle.serial, Rc::clone(&stream));
    drop(streams);
    // Ending a stream may drive, and then wakes tasks, which may read in this thread.
    drop(closed);
    stream
}

/// Removes and returns the entries of closed handles, once the map is full. A closed handle leaves
/// one behind in every thread that has read through it.
fn forget_closed_files(streams: &mut Streams) -> Vec<Rc<ThreadStream>> {
    if streams.0.len() < streams.0.capacity() {
        return Vec::new();
    }
    let closed = streams.0.extract_if(|_, stream| stream.handle.strong_count() == 0);
    closed.map(|(_, stream)| stream).collect()
}
