//! Extent-mapped files: their pages are extents of a device that is open.
//!
//! In:    extents, as a file system keeps them.
//! Out:   a file like any other: streams, read-ahead on its own pages, pins, hints.
//! Never: a write; a byte of the device that no extent names; a second set of pages of one name.
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

/// Bytes of a file that lie one after another on its device, or that are all zeros. All three are
/// multiples of 512.
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
    /// Where they begin in the file.
    pub start: u64,
    /// How many.
    pub len: u64,
    /// Where they begin on the device. None: a hole, which reads as zeros.
    pub place: Option<u64>,
}

impl File {
    /// Opens a file whose pages are extents of this one, which is a device or an image of one: a
    /// file of the file system on it. It is read only, and has pages, streams and read-ahead of its
    /// own; requests go to this file's device, in its one queue.
    ///
    /// The extents are in order and do not overlap. What none of them names is a hole, and so is
    /// what follows the last one up to `len`. They may reach over `len`, where reads end: give
    /// whole blocks. Pages of a hole cost no request; pages that blocks of 512 bytes to 2 KiB make
    /// up cost one for each run of them.
    ///
    /// `identity` names the file among those of this device, such as by its inode's number: what is
    /// open by that name is the same file, with the extents that it was opened with. Its pages
    /// leave the cache when the last handle goes.
    ///
    /// All extents of open files together take a sixteenth of the engine's memory at most, beside
    /// it: sixteen bytes for each extent or hole.
    ///
    /// # Errors
    ///
    /// If the extents make no sense, or end behind the end of the device; if this file is open for
    /// writing, which a second set of pages would not see; if too much is open.
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
        // Errors name it so.
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
