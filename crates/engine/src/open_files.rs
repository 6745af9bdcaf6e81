//! The table of open files, by which a file opened twice is one file with one set of pages. It
//! keeps no file open, and never allows two sets of pages of a file that is written.

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
    /// For each file, the access modes in which it is open: usually one.
    open: HashMap<FileIdentity, Vec<OpenEntry>>,
    /// For each file, the open loop devices backed by it.
    loops: HashMap<FileIdentity, Vec<LoopDevice>>,
    /// Number of files ever added.
    added: u64,
}

/// An open loop device.
#[derive(Debug)]
struct LoopDevice {
    /// The number of the loop device itself, even for a partition on it.
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

/// Identity and access mode of a file, and whether it is written.
#[derive(Clone, Debug)]
pub(crate) struct FileKey {
    identity: FileIdentity,
    /// For a loop device, its backing files, which hold the same bytes.
    behind: Vec<FileIdentity>,
    /// For a block device, the number of its disk; for a partition, that of the whole disk.
    disk: Option<u64>,
    way: AccessMode,
    is_written: bool,
}

/// Access mode of a file: the same file in another mode has separate pages, because a delay
/// belongs to a separate device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct AccessMode {
    is_buffered: bool,
    delay: Option<Delay>,
    /// Address of its injected faults, or 0.
    faults: usize,
}

/// Result of a look-up of a file.
enum Lookup {
    /// The same file in the same mode.
    File(Arc<FileState>),
    /// A conflict: two sets of pages, one of which would not see writes to the other, or a claim by
    /// another engine. It carries the file that was looked up, to be dropped without the lock.
    Refused(NotOpened, Option<Arc<FileState>>),
    Nothing,
}

impl Lookup {
    /// Returns the result of the open; None if the file is not open yet. Must not run with the lock
    /// held, because it may drop a file.
    fn result(self) -> Option<Result<Arc<FileState>, NotOpened>> {
        match self {
            Self::File(file) => Some(Ok(file)),
            Self::Refused(why, _held) => Some(Err(why)),
            Self::Nothing => None,
        }
    }
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

    /// Creates the key of an extent-mapped file, which is read in the same way as its device.
    pub(crate) fn of_extents(of: DeviceId, name: u64) -> Self {
        let way = AccessMode { is_buffered: false, delay: None, faults: 0 };
        let identity = FileIdentity::Extents { of, name };
        Self { identity, behind: Vec::new(), disk: None, way, is_written: false }
    }
}

impl OpenFiles {
    /// Returns the open file of this key, or adds the one that `open` creates.
    ///
    /// No lock is held while a file is created or dropped, because a driver that stops runs wakers,
    /// which may open files. If two threads create the same file at once, the second uses the file
    /// of the first.
    pub(crate) fn find_or(
        &self,
        key: &FileKey,
        open: impl FnOnce() -> Result<Arc<FileState>, NotOpened>,
    ) -> Result<Arc<FileState>, NotOpened> {
        let mut files = self.lock();
        let (found, mut added) = (find(&mut files, key), files.added);
        drop(files);
        if let Some(found) = found.result() {
            return found;
        }
        let made = open()?;
        loop {
            // No other thread can have the file, and so none changes its length, until it is added.
            made.ask_first_len()?;
            let mut files = self.lock();
            let found = find(&mut files, key);
            if matches!(found, Lookup::Nothing) && files.added == added {
                if !key.is_written && made.is_to_be_written() {
                    // The device of its extents has become writable.
                    drop(files);
                    return Err(NotOpened::Conflict);
                }
                files.add(key, &made);
                return Ok(made);
            }
            added = files.added;
            drop(files);
            if let Some(found) = found.result() {
                return found;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenTable> {
        // No code panics while it holds this lock, and the map is consistent at any time anyway.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenTable {
    fn add(&mut self, key: &FileKey, made: &Arc<FileState>) {
        self.added += 1;
        if self.open.len() == self.open.capacity() {
            // Closed files leave their key behind. They cannot remove it themselves, because the
            // last handle may be dropped while any lock is held.
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

    /// Returns true if an extent-mapped file of this device is open.
    fn has_extents_of(&self, device: &FileState) -> bool {
        self.open.iter().any(|(identity, ways)| {
            let is_of =
                matches!(identity, FileIdentity::Extents { of, .. } if *of == device.device);
            is_of && ways.iter().any(OpenEntry::is_open)
        })
    }

    /// Notes that a file opened for reading is written from now on.
    fn note_written(&mut self, key: &FileKey, entry: usize) {
        if let Some(ways) = self.open.get_mut(&key.identity) {
            ways[entry].is_written = true;
        }
        for behind in &key.behind {
            for above in self.loops.get_mut(behind).into_iter().flatten() {
                above.is_written |= above.disk == key.disk;
            }
        }
    }

    /// Returns true if the same bytes are open as another file and one of the two is written: a
    /// loop device and its backing file, or two loop devices of one file. Partitions of one loop
    /// device do not overlap; claims handle a partition and its whole disk.
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
///   wanted for   in this way  it is the same, and     it is the same
///   writing                   written from now on
///                in another   conflict                conflict
/// ```
///
/// If a file becomes writable, the caller must supply descriptors that permit writing.
fn find(files: &mut OpenTable, key: &FileKey) -> Lookup {
    // Creates no handle except the returned one: dropping it under the lock might close a file.
    if files.has_other_pages(key) {
        return Lookup::Refused(NotOpened::Conflict, None);
    }
    let ways = files.open.get(&key.identity).map_or(&[][..], Vec::as_slice);
    let mut others = ways.iter().filter(|open| open.is_open() && open.way != key.way);
    if others.any(|open| open.is_written || key.is_written) {
        return Lookup::Refused(NotOpened::Conflict, None);
    }
    let Some(entry) = ways.iter().position(|open| open.is_open() && open.way == key.way) else {
        return Lookup::Nothing;
    };
    let is_upgrade = key.is_written && !ways[entry].is_written;
    let Some(file) = ways[entry].file.upgrade() else { return Lookup::Nothing };
    if is_upgrade {
        let refused =
            if files.has_extents_of(&file) { Err(NotOpened::Conflict) } else { file.claim() };
        if let Err(why) = refused {
            return Lookup::Refused(why, Some(file));
        }
        files.note_written(key, entry);
    }
    Lookup::File(file)
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
