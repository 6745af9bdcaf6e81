//! Which files are open, so that the same file opened twice is one file with one set of pages.
//!
//! In:    which file it is, and how it is read.
//! Out:   the one that is open already, if there is one.
//! Never: a file kept open. Two sets of pages of a file that is written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foreread_core::path::DeviceId;

use crate::OpenOptions;
use crate::backend::{Backend, FileIdentity, disk_of, files_behind};
use crate::delay::Delay;
use crate::file_state::{FileState, NotOpened};

#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<OpenTable>,
}

#[derive(Debug, Default)]
struct OpenTable {
    /// Of each file, the ways in which it is open: mostly one.
    open: HashMap<FileIdentity, Vec<OpenEntry>>,
    /// Of each file, the open loop devices that have its bytes.
    loops: HashMap<FileIdentity, Vec<LoopDevice>>,
}

/// A loop device that is open.
#[derive(Debug)]
struct LoopDevice {
    /// The number of the loop device itself, also of a partition on it.
    disk: Option<u64>,
    is_written: bool,
    file: Weak<FileState>,
}

#[derive(Debug)]
struct OpenEntry {
    way: AccessMode,
    is_written: bool,
    file: Weak<FileState>,
}

/// Which file, read in which way, and whether it is written.
#[derive(Clone, Debug)]
pub(crate) struct FileKey {
    identity: FileIdentity,
    /// Of a loop device, the files that have the same bytes.
    behind: Vec<FileIdentity>,
    /// Of a block device, the number of its disk: of a partition, that of the whole.
    disk: Option<u64>,
    way: AccessMode,
    is_written: bool,
}

/// The same file read in another way has other pages: a delay belongs to a device of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct AccessMode {
    is_buffered: bool,
    delay: Option<Delay>,
    /// Where its faults are, if it fails on purpose.
    faults: usize,
}

/// What is open of a file already.
enum Lookup {
    /// The same.
    File(Arc<FileState>),
    /// Something else: two sets of pages, of which one does not see what is written to the other.
    Conflict,
    Nothing,
}

impl FileKey {
    pub(crate) fn new(backend: &Backend, options: &OpenOptions) -> Self {
        let way = AccessMode {
            is_buffered: backend.buffered.is_some(),
            delay: options.delay,
            faults: backend.faults.as_ref().map_or(0, |faults| Arc::as_ptr(faults).addr()),
        };
        let (behind, disk) = match backend.identity {
            FileIdentity::Device(number) => (files_behind(number), Some(disk_of(number))),
            FileIdentity::Inode { .. }
            | FileIdentity::Memory(_)
            | FileIdentity::Source(_)
            | FileIdentity::Extents { .. } => (Vec::new(), None),
        };
        Self { identity: backend.identity, behind, disk, way, is_written: options.write }
    }

    /// Of an extent-mapped file, which is read as its device is.
    pub(crate) fn of_extents(of: DeviceId, name: u64) -> Self {
        let way = AccessMode { is_buffered: false, delay: None, faults: 0 };
        let identity = FileIdentity::Extents { of, name };
        Self { identity, behind: Vec::new(), disk: None, way, is_written: false }
    }
}

impl OpenFiles {
    /// The file of this key: the one that is open, or the one that `open` makes.
    ///
    /// No lock is held while a file is made or let go: a driver that stops runs wakers, which may
    /// open files. If two threads make one at a time, the second takes that of the first.
    pub(crate) fn find_or(
        &self,
        key: &FileKey,
        open: impl FnOnce() -> Result<Arc<FileState>, NotOpened>,
    ) -> Result<Arc<FileState>, NotOpened> {
        match find(&self.lock(), key) {
            Lookup::File(file) => return Ok(file),
            Lookup::Conflict => return Err(NotOpened::Conflict),
            Lookup::Nothing => {}
        }
        let made = open()?;
        let mut files = self.lock();
        let found = find(&files, key);
        if let Lookup::Nothing = found {
            files.add(key, &made);
            return Ok(made);
        }
        drop(files);
        match found {
            Lookup::File(file) => Ok(file),
            Lookup::Conflict | Lookup::Nothing => Err(NotOpened::Conflict),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenTable> {
        // Nothing panics while it holds this lock, and the map is whole at any time all the same.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTable {
    fn add(&mut self, key: &FileKey, made: &Arc<FileState>) {
        if self.open.len() == self.open.capacity() {
            // Closed files leave their key behind. (They do not take it away themselves: the last
            // handle may end wherever a lock is held.)
            self.open.retain(|_, ways| ways.iter().any(OpenEntry::is_open));
        }
        let ways = self.open.entry(key.identity).or_default();
        ways.retain(OpenEntry::is_open);
        let (way, is_written) = (key.way, key.is_written);
        ways.push(OpenEntry { way, is_written, file: Arc::downgrade(made) });
        self.loops.retain(|_, loops| loops.iter().any(LoopDevice::is_open));
        for &behind in &key.behind {
            let (disk, file) = (key.disk, Arc::downgrade(made));
            self.loops.entry(behind).or_default().push(LoopDevice { disk, is_written, file });
        }
    }

    /// Whether the same bytes are open as another file, and one of the two is written: a loop
    /// device and the file below it, or two loop devices of one file. Partitions of one loop device
    /// do not overlap; a partition beside its whole disk is for the claims.
    fn has_other_pages(&self, key: &FileKey) -> bool {
        let loops_of = |file| self.loops.get(file).map_or(&[][..], Vec::as_slice).iter();
        let below = key.behind.iter().filter_map(|file| self.open.get(file)).flatten();
        let below = below.filter(|open| open.is_open()).map(|open| open.is_written);
        let above = [&key.identity].into_iter().chain(&key.behind).flat_map(loops_of);
        let above =
            above.filter(|above| above.is_open() && (key.disk.is_none() || above.disk != key.disk));
        let mut others = below.chain(above.map(|above| above.is_written));
        others.any(|is_written| is_written || key.is_written)
    }
}

/// ```text
///                             open for reading        open for writing
///   wanted for   in this way  it is the same          it is the same, without the right to write
///   reading      in another   another set of pages    conflict
///
///   wanted for   in this way  conflict                it is the same
///   writing      in another   conflict                conflict
/// ```
///
/// A file that is open for reading does not become writable: its descriptor is not.
fn find(files: &OpenTable, key: &FileKey) -> Lookup {
    // No handle is made but the one that is given back: dropped under the lock it may close a file.
    if files.has_other_pages(key) {
        return Lookup::Conflict;
    }
    let ways = files.open.get(&key.identity).map_or(&[][..], Vec::as_slice);
    let open = || ways.iter().filter(|open| open.is_open());
    let is_alike = |open: &OpenEntry| open.way == key.way && (open.is_written || !key.is_written);
    if open().any(|open| !is_alike(open) && (open.is_written || key.is_written)) {
        return Lookup::Conflict;
    }
    let file = open().find(|open| open.way == key.way).and_then(|open| open.file.upgrade());
    file.map_or(Lookup::Nothing, Lookup::File)
}

impl OpenEntry {
    fn is_open(&self) -> bool {
        self.file.strong_count() > 0
    }
}

impl LoopDevice {
    fn is_open(&self) -> bool {
        self.file.strong_count() > 0
    }
}
