//! A storage backend for [redb](https://docs.rs/redb), the embedded key-value store: redb reads and
//! writes its pages through foreread instead of the kernel's page cache.
//!
//! ```no_run
//! use foreread_redb::EngineBackend;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().memory(512 << 20).build()?;
//! let backend = EngineBackend::open(&engine, "/var/lib/app/data.redb")?;
//! let database = redb::Database::builder()
//!     .set_cache_size(16 << 20) // redb's own cache can be small
//!     .create_with_backend(backend)?;
//! # drop(database);
//! # Ok(()) }
//! ```
//!
//! In:    reads and writes of redb's pages.
//! Out:   the same, through the engine's cache, read-ahead and scheduler.
//! Never: a commit that is acknowledged before it is durable: redb's `sync_data` is the engine's.
//!
//! To use it, copy this file into your program.

use std::io;
use std::ops::Bound;
use std::path::Path;

use foreread::{Engine, File, OpenOptions};
use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

/// The file of a database, opened by an engine.
#[derive(Debug)]
pub struct EngineBackend {
    file: File,
    /// Holds the locks that keep out other processes and a second database of this process.
    locks: FileBackend,
}

impl EngineBackend {
    /// Opens the file of a database, or creates an empty one.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for reading and writing.
    pub fn open(engine: &Engine, path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        Self::of_file(engine, file, &OpenOptions::new().write(true))
    }

    /// Opens the file of a database for `Builder::open_read_only_with_backend`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for reading.
    pub fn open_read_only(engine: &Engine, path: impl AsRef<Path>) -> Result<Self, DatabaseError> {
        Self::of_file(engine, std::fs::File::open(path)?, &OpenOptions::new())
    }

    /// Takes an open file, with the engine's options for it.
    ///
    /// # Errors
    ///
    /// If the engine cannot open it with these options.
    pub fn of_file(
        engine: &Engine,
        file: std::fs::File,
        options: &OpenOptions,
    ) -> Result<Self, DatabaseError> {
        let opened = engine.open_file(file.try_clone()?, options).map_err(io::Error::from)?;
        Ok(Self { file: opened, locks: FileBackend::new(file)? })
    }
}

impl StorageBackend for EngineBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Ok(self.file.read_exact_at(out, offset)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.file.set_len(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.file.sync_data()?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Ok(self.file.write_all_at(data, offset)?)
    }

    /// Writes the dirty pages before another process may take the lock.
    fn close(&self) -> io::Result<()> {
        let written = self.file.sync_data();
        self.locks.close()?;
        Ok(written?)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.locks.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks.unlock_range(start, end)
    }
    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks.query_lock_range(start, end)
    }
}
