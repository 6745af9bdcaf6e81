//! An open file: its streams, one per thread that reads it.
//!
//! In:    a path; reads from any thread.
//! Out:   bytes.
//! Never: two threads in one stream. A thread that ends, or a file that is closed, leaves nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use foreread_core::path::{DeviceId, FileId, IoPath};
use foreread_core::table::FileSlot;

use crate::backend::Backend;
use crate::error::{OpenError, ReadError};
use crate::stream::{Reader, Stream};
use crate::{OpenOptions, Shared};

/// An open file or block device. Cloning gives another handle to the same one; the last closes it.
#[derive(Clone, Debug)]
pub struct File {
    shared: Arc<FileShared>,
}

/// What all handles of a file share.
#[derive(Debug)]
pub(crate) struct FileShared {
    pub(crate) engine: Arc<Shared>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) path: PathBuf,
    pub(crate) id: FileId,
    pub(crate) slot: FileSlot,
    device: DeviceId,
    /// Never used again, in any engine: the name of the file in each thread's list of streams.
    serial: u64,
}

impl File {
    pub(crate) fn open(
        engine: &Arc<Shared>,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<Self, OpenError> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);

        let mut backend = Backend::open(path, options.buffered)?;
        backend.faults.clone_from(&options.faults);
        let backend = Arc::new(backend);
        let path = path.to_path_buf();
        let unusable = |source| OpenError::Io { path: path.clone(), doing: "use the ring", source };
        if engine.is_forked() {
            let why = "this process was forked after the engine was made; make another one here";
            return Err(unusable(std::io::Error::other(why)));
        }
        let mut driver = engine.drive();
        if let Some(errno) = driver.broken() {
            return Err(unusable(std::io::Error::from_raw_os_error(errno)));
        }
        let opened = driver.open(&backend, options.delay);
        drop(driver);
        let Some((device, id)) = opened else { return Err(OpenError::TooMany { path }) };
        let shared = FileShared {
            engine: Arc::clone(engine),
            backend,
            path,
            id,
            slot: IoPath::slot(id),
            device,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Reads into `to` from `offset` on, and returns how many bytes: fewer than asked only at the
    /// end of the file, where it returns 0.
    ///
    /// Each thread that calls this is a stream of its own.
    ///
    /// # Errors
    ///
    /// If the offset lies past the end, or the device fails.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        let read = STREAMS.try_with(|streams| {
            let mut streams = streams.borrow_mut();
            if let Some(stream) = streams.get_mut(&self.shared.serial) {
                return stream.reader.read_at(&self.shared, to, offset);
            }
            forget_closed_files(&mut streams);
            let stream = ThreadStream::new(&self.shared);
            let stream = streams.entry(self.shared.serial).or_insert(stream);
            stream.reader.read_at(&self.shared, to, offset)
        });
        // A thread that ends may read once more after its streams have ended.
        read.unwrap_or_else(|_| self.stream().read_at(to, offset))
    }

    /// Begins a stream: for a scan that goes its own way while the same thread reads elsewhere.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(Arc::clone(&self.shared))
    }

    /// Its name in the core.
    #[cfg(test)]
    pub(crate) fn id(&self) -> FileId {
        self.shared.id
    }

    /// How many bytes it has.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an empty file is not opened")]
    pub fn len(&self) -> u64 {
        self.shared.backend.len.0
    }

    /// Why reads go through the kernel's page cache; None if they go around it.
    #[must_use]
    pub fn buffered(&self) -> Option<&'static str> {
        self.shared.backend.buffered
    }
}

impl Drop for FileShared {
    fn drop(&mut self) {
        if self.engine.is_forked() {
            return;
        }
        // After a driver's panic there is nothing to close, and a second panic would end the
        // process.
        if let Ok(mut driver) = self.engine.driver.lock() {
            driver.close(self.device, self.id);
        }
        self.engine.empty_inbox();
    }
}

thread_local! {
    /// The streams of this thread, by the serial of their file.
    static STREAMS: RefCell<Streams> = RefCell::default();
}

type Streams = HashMap<u64, ThreadStream, BuildHasherDefault<SerialHasher>>;

/// A thread's stream of a file that others may close.
struct ThreadStream {
    file: Weak<FileShared>,
    reader: Reader,
}

impl ThreadStream {
    fn new(file: &Arc<FileShared>) -> Self {
        Self { file: Arc::downgrade(file), reader: Reader::new() }
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

/// Files that were closed leave their entry behind in every thread that read them; each new entry
/// pays for looking whether it is time to sweep.
fn forget_closed_files(streams: &mut Streams) {
    if streams.len() == streams.capacity() {
        streams.retain(|_, stream| stream.file.strong_count() > 0);
    }
}

/// Serials are dense: they spread well enough as they are, turned so that the high bits differ too.
#[derive(Default)]
struct SerialHasher(u64);

impl Hasher for SerialHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a serial is a u64");
    }

    fn write_u64(&mut self, serial: u64) {
        self.0 = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
