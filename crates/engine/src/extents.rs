//! Extent-mapped files: read-only files whose pages map to extents of an open device. Each has its
//! own pages, streams and read-ahead; requests go through the device's queue.
//!
//! ```text
//!   file 12     |== 0 ==|== 1 ==|..........|== 2 ==|        its pages, its streams
//!                  |        \\        hole      |
//!   device      ---|== 1 ==|-|== 0 ==|-----|== 2 ==|---     one queue, one model, one descriptor
//! ```

use std::sync::Arc;

use foreread_core::path::{self, ExtentMap, InvalidExtents};
use foreread_core::units::{ByteCount, MAX_FILE_BYTES};

use crate::OpenOptions;
use crate::error::{ForkedError, OpenError, OpenErrorKind};
use crate::file::{File, check_ring};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::open_files::FileKey;

/// Range of a file that is contiguous on its device, or a hole. All three fields are multiples of
/// 512.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// use foreread::FileExtent;
///
/// let device = engine.open("/dev/sdb")?;
/// let data = FileExtent { start: 0, len: 8192, place: Some(1 << 20) };
/// let hole = FileExtent { start: 8192, len: 4096, place: None };
/// let file = device.open_extents(12, 10_000, [data, hole])?; // 12: the inode's number
/// # let _ = file;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileExtent {
    /// Offset in the file.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset on the device. None for a hole, which reads as zeros.
    pub place: Option<u64>,
}

impl File {
    /// Opens a file of the file system on this file, which is a device or the image of one. The new
    /// file is read-only and has separate pages, streams and read-ahead; its requests go through
    /// the queue of this file's device.
    ///
    /// The extents are in order and do not overlap. Gaps between them are holes, and so is the rest
    /// up to `len`. Extents may reach past `len`, where reads end: pass whole blocks. Pages of a
    /// hole cost no request; a page made up of blocks of 512 bytes to 2 KiB costs one for each run
    /// of contiguous blocks.
    ///
    /// `identity` names the file on this device, for example by its inode number. If a file with
    /// that identity is already open, the new handle refers to it, with its original extents. Its
    /// pages leave the cache when the last handle is dropped.
    ///
    /// The extents of all open files together are limited to a sixteenth of the engine's memory,
    /// allocated in addition to it: 16 bytes for each extent or hole.
    ///
    /// # Errors
    ///
    /// If the extents are invalid or end past the end of the device; if this file is open for
    /// writing, because the new file's pages would miss the writes; if too much is open.
    ///
    /// # Panics
    ///
    /// If this is an extent-mapped file itself.
    pub fn open_extents(
        &self,
        identity: u64,
        len: u64,
        extents: impl IntoIterator<Item = FileExtent>,
    ) -> Result<Self, OpenError> {
        let (handle, device) = (self.handle(), &self.handle().file);
        assert!(device.mapping.is_none(), "a file in pieces is no device");
        let path = || handle.path.clone();
        check_ring(&device.engine, &handle.path)?;
        if device.backend.is_writable() {
            return Err(OpenErrorKind::Overlap.of(path()));
        }
        let forked = |ForkedError| OpenErrorKind::Forked.of(path());
        let limit = device.engine.drive().map_err(forked)?.extent_maps_limit();
        let extents = extents.into_iter().map(path::FileExtent::from);
        let layout = ExtentMap::within(limit, extents).map_err(|why| {
            if matches!(why, InvalidExtents::TooMuch(_)) {
                OpenErrorKind::ManyExtents { limit }.of(path())
            } else {
                OpenErrorKind::Extents { why }.of(path())
            }
        })?;
        let (end, device_len) = (layout.device_end().0, device.len().0);
        if end > device_len {
            return Err(OpenErrorKind::PastDevice { end, len: device_len }.of(path()));
        }
        if ByteCount(len) > MAX_FILE_BYTES {
            return Err(OpenErrorKind::Extents { why: InvalidExtents::TooFar(0) }.of(path()));
        }
        let layout = Arc::new(layout);
        let key = FileKey::of_extents(device.device, identity);
        let opened = handle
            .files
            .find_or(&key, || FileState::open_extents(device, ByteCount(len), &layout))
            .map_err(|error| error.of(&handle.path))?;
        // Name of the file in errors.
        let name = format!("{}, file {identity}", handle.path.display());
        Ok(Self::new(Handle::new(
            opened,
            Arc::clone(&handle.files),
            name.into(),
            &OpenOptions::new(),
        )))
    }
}

impl From<FileExtent> for path::FileExtent {
    fn from(extent: FileExtent) -> Self {
        let FileExtent { start, len, place } = extent;
        Self { start: ByteCount(start), len: ByteCount(len), place: place.map(ByteCount) }
    }
}
