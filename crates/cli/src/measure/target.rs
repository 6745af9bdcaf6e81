//! Targets of measurements: a scratch file, or a file, device or object of the user.
//!
//! A scratch file has no name, so it never outlives the process.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foreread_files::scratch::unnamed;
use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::Errno;

use super::bare_object::BareObject;
use super::random::mix;
use crate::block_device::device_of;
use crate::clock::clock;
use crate::output::Failure;
use crate::store::StoreAccess;

pub struct BenchTarget {
    /// Path to open; for a scratch file, in /proc.
    pub path: PathBuf,
    /// Name to print.
    pub name: String,
    pub len: u64,
    /// Block device that is, or holds, the target.
    pub device: u64,
    /// Reason if direct I/O is not possible.
    pub buffered: Option<&'static str>,
    is_block_device: bool,
    /// Largest number of pages that stayed cached after a drop.
    stayed: Cell<u64>,
    /// The open file, which keeps a scratch file alive; None for an object.
    file: Option<File>,
    /// The object, for a URL.
    object: Option<BareObject>,
}

impl BenchTarget {
    /// Creates an unnamed file of `len` bytes in `directory`, and syncs it.
    pub fn scratch(directory: &Path, len: u64, progress: impl Fn(u64)) -> Result<Self, Failure> {
        let failed = |source: io::Error| {
            Failure::WrongUse(format!(
                "{}: cannot write a scratch file of {} MiB: {source}; give another directory, \
                 or less with --size",
                directory.display(),
                len >> 20
            ))
        };
        let mut file = unnamed(directory, OFlags::empty()).map_err(|errno| failed(errno.into()))?;
        // Allocates first, so that a small disk is not filled in vain; file systems without
        // allocation fail on write.
        let promised = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len);
        if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = promised {
            return Err(failed(errno.into()));
        }
        let mut block = vec![0; 1 << 20];
        let mut seed = 0;
        for written in (0..len).step_by(block.len()) {
            for word in block.chunks_exact_mut(8) {
                // Random data: some devices and file systems do not store zeros.
                word.copy_from_slice(&mix(seed).to_le_bytes());
                seed += 1;
            }
            file.write_all(&block).map_err(failed)?;
            progress(written);
        }
        file.sync_all().map_err(failed)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let name = format!("a scratch file of {} MiB in {}", len >> 20, directory.display());
        let buffered = opened(&path)?.direct_io_unavailable();
        Self::new(path, name, len, buffered, file).map_err(failed)
    }

    /// Opens an existing file or block device.
    pub fn existing(path: &Path) -> Result<Self, Failure> {
        let readable = opened(path)?;
        let len = readable.len();
        if len == 0 {
            let line = format!("{}: is empty; give a file with something to read", path.display());
            return Err(Failure::WrongUse(line));
        }
        let failed = |error: io::Error| {
            Failure::WrongUse(format!("{}: cannot open: {error}", path.display()))
        };
        let file = File::open(path).map_err(failed)?;
        let name = format!("{} ({} MiB)", path.display(), len >> 20);
        Self::new(path.to_path_buf(), name, len, readable.direct_io_unavailable(), file)
            .map_err(failed)
    }

    /// Opens an object of a store.
    pub fn object(url: &str, store: StoreAccess) -> Result<Self, Failure> {
        let object = BareObject::open(url, store)?;
        let len = object.len();
        if len == 0 {
            let line = format!("{url}: is empty; give an object with something to read");
            return Err(Failure::WrongUse(line));
        }
        Ok(Self {
            path: PathBuf::from(url),
            name: format!("{url} ({} MiB)", len >> 20),
            len,
            device: 0,
            buffered: None,
            is_block_device: false,
            stayed: Cell::new(0),
            file: None,
            object: Some(object),
        })
    }

    fn new(
        path: PathBuf,
        name: String,
        len: u64,
        buffered: Option<&'static str>,
        file: File,
    ) -> io::Result<Self> {
        let (device, is_block_device) = device_of(&file)?;
        let (stayed, file) = (Cell::new(0), Some(file));
        Ok(Self { path, name, len, device, buffered, is_block_device, stayed, file, object: None })
    }

    /// Returns true for a block device, false for a file on one.
    pub(crate) fn is_block_device(&self) -> bool {
        self.is_block_device
    }

    /// Reads the file once, for a few seconds at most, to warm the caches of a host, controller or
    /// drive, which would otherwise favour the second method.
    pub fn read_once(&self) -> io::Result<()> {
        // A store is not behind caches of this machine.
        let Some(file) = &self.file else { return Ok(()) };
        let mut piece = vec![0; 1 << 20];
        let started = clock();
        let mut offset = 0;
        while offset < self.len && clock().duration_since(started) < READ_ONCE {
            let got = file.read_at(&mut piece, offset)?;
            if got == 0 {
                break;
            }
            offset += got as u64;
        }
        Ok(())
    }

    /// Opens the same file again, buffered.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Drops the file from the kernel's page cache.
    pub fn drop_cache(&self) {
        let Some(file) = &self.file else { return };
        let stayed = drop_cache(file, self.stayed.get()).unwrap_or(0);
        self.stayed.set(stayed.max(self.stayed.get()));
    }

    /// Returns the largest number of pages that the kernel kept cached after a drop, if known.
    pub fn stayed(&self) -> u64 {
        self.stayed.get()
    }

    /// Returns the file; None for an object.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Returns the object, for a URL.
    pub fn as_object(&self) -> Option<&BareObject> {
        self.object.as_ref()
    }
}

/// Opens a target through the engine for its error messages.
fn opened(path: &Path) -> Result<foreread::File, Failure> {
    let wrong = |error: &dyn std::error::Error| Failure::WrongUse(error.to_string());
    let engine = foreread::Engine::builder().memory(1 << 20).build().map_err(|e| wrong(&e))?;
    engine.open(path).map_err(|error| wrong(&error))
}

/// Drops a file from the kernel's page cache. Returns the number of pages that stayed, if the
/// kernel reports it: all pages of a tmpfs, which have no other copy, and pages mapped by another
/// process.
///
/// Pages in flight, such as the last window of an earlier reader, also stay until they arrive.
/// While more than `expected` stay, the drop is repeated for a short time.
pub fn drop_cache(file: &File, expected: u64) -> Option<u64> {
    let started = clock();
    loop {
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        let stayed = foreread::cached_pages(file).ok()?;
        if stayed <= expected || clock().duration_since(started) >= ON_THEIR_WAY {
            return Some(stayed);
        }
        std::thread::yield_now();
    }
}

/// Time limit of the warm-up read.
const READ_ONCE: Duration = Duration::from_secs(4);

/// Time in which a slow disk reads a window of 8 MiB.
const ON_THEIR_WAY: Duration = Duration::from_millis(200);
