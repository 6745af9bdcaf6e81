//! Open files and their streams. Each file links its own streams, so closing it searches no others.
//!
//! ```text
//!   file --newest--> stream <--newer, older--> stream <--newer, older--> stream
//! ```
//!
//! A closed file is kept until its last read and its last write have ended, because until then its
//! slot in the page table must not be reused.

use crate::driver_io::Config;
use crate::extent_map::{FileLocation, OpenError};
use crate::ids::{DeviceId, FileId, FileKind, StreamId, StreamKind};
use crate::prefetch::question::ReaderState;
use crate::slab::Slab;
use crate::table::FILES_MAX;
use crate::units::{ByteCount, PageIndex};

/// An open file, or a closed one with work in progress.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) len: ByteCount,
    pub(crate) device: DeviceId,
    /// Location on the device.
    pub(crate) location: FileLocation,
    /// Newest of the file's streams, linked to the others.
    newest_stream: Option<StreamId>,
    /// Reads not released yet.
    pub(crate) reads: u32,
    /// Writes, zeroes and flushes in progress.
    pub(crate) writes: u32,
    pub(crate) is_closing: bool,
}

/// One reader of a file.
#[derive(Debug)]
pub(crate) struct PathStream {
    pub(crate) file: FileId,
    pub(crate) reader: ReaderState,
    /// True if uses by this stream never make a page active.
    pub(crate) no_reuse: bool,
    /// Neighbours in the file's list of streams.
    newer: Option<StreamId>,
    older: Option<StreamId>,
}

/// All open files of a path, and their streams.
#[derive(Debug)]
pub(crate) struct Files {
    files: Slab<FileKind, OpenFile>,
    streams: Slab<StreamKind, PathStream>,
    /// Memory used by the extent maps of open files.
    extent_maps: ByteCount,
    extent_maps_limit: ByteCount,
}

impl Files {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            files: Slab::new(),
            streams: Slab::new(),
            extent_maps: ByteCount::ZERO,
            extent_maps_limit: ByteCount(config.memory.0 / EXTENT_MAPS_DENOM),
        }
    }

    /// Returns the memory limit for all extent maps together.
    pub(crate) fn extent_maps_limit(&self) -> ByteCount {
        self.extent_maps_limit
    }

    pub(crate) fn open(
        &mut self,
        device: DeviceId,
        location: FileLocation,
        len: ByteCount,
    ) -> Result<FileId, OpenError> {
        let limit = self.extent_maps_limit;
        if self.extent_maps + location.bytes() > limit {
            return Err(OpenError::ExtentMaps { limit });
        }
        if self.files.len() >= FILES_MAX as usize {
            return Err(OpenError::TooMany);
        }
        self.extent_maps += location.bytes();
        assert!(self.extent_maps <= limit, "extent maps take more than they may");
        Ok(self.files.insert(OpenFile {
            len,
            device,
            location,
            newest_stream: None,
            reads: 0,
            writes: 0,
            is_closing: false,
        }))
    }

    pub(crate) fn get(&self, file: FileId) -> Option<&OpenFile> {
        self.files.get(file)
    }

    pub(crate) fn get_mut(&mut self, file: FileId) -> Option<&mut OpenFile> {
        self.files.get_mut(file)
    }

    /// Returns a file that is open, or closed with work in progress.
    pub(crate) fn used(&self, file: FileId) -> &OpenFile {
        self.files.get(file).expect("a file outlives its reads and writes")
    }

    /// Like [`Self::used`], but mutable.
    pub(crate) fn used_mut(&mut self, file: FileId) -> &mut OpenFile {
        self.files.get_mut(file).expect("a file outlives its reads and writes")
    }

    /// Begins a write of the file, or other work that the file must outlive.
    pub(crate) fn begin_work(&mut self, file: FileId) {
        self.used_mut(file).writes += 1;
    }

    /// Ends such work.
    pub(crate) fn end_work(&mut self, file: FileId) {
        let state = self.used_mut(file);
        state.writes = state.writes.checked_sub(1).expect("a file counts its writes");
    }

    /// Returns an open file.
    pub(crate) fn open_file(&self, file: FileId) -> &OpenFile {
        let state = self.files.get(file).expect("the caller names a file that is not gone");
        assert!(!state.is_closing, "{file:?} is closed");
        state
    }

    /// Returns an open file that may be written.
    pub(crate) fn writable(&self, file: FileId) -> &OpenFile {
        let state = self.open_file(file);
        assert!(state.is_contiguous(), "{file:?} is extent-mapped, and read only");
        state
    }

    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.files.get(file).is_some_and(|file| !file.is_closing)
    }

    /// Returns the file that uses a slot of the page table.
    pub(crate) fn at(&self, slot: u32) -> Option<(FileId, &OpenFile)> {
        self.files.with_id_at(slot)
    }

    pub(crate) fn any(&self, holds: impl Fn(&OpenFile) -> bool) -> bool {
        self.files.any(holds)
    }

    /// Returns true if no file was ever opened.
    pub(crate) fn is_untouched(&self) -> bool {
        self.files.is_untouched()
    }

    /// Removes a closed file after its last read and its last write; returns true if it was
    /// removed.
    pub(crate) fn end_if_over(&mut self, file: FileId) -> bool {
        let is_over = |state: &OpenFile| state.is_closing && state.reads + state.writes == 0;
        if !self.files.get(file).is_some_and(is_over) {
            return false;
        }
        let state = self.files.remove(file).expect("a file that is over was found");
        self.extent_maps -= state.location.bytes();
        true
    }

    /// Begins a stream of an open file.
    pub(crate) fn begin_stream(&mut self, file: FileId) -> StreamId {
        let state = self.files.get_mut(file).expect("the caller names a file that is not gone");
        assert!(!state.is_closing, "{file:?} is closed");
        let older = state.newest_stream;
        let id = self.streams.insert(PathStream { older, ..PathStream::new(file) });
        state.newest_stream = Some(id);
        if let Some(older) = older.and_then(|older| self.streams.get_mut(older)) {
            older.newer = Some(id);
        }
        id
    }

    pub(crate) fn stream(&self, stream: StreamId) -> Option<&PathStream> {
        self.streams.get(stream)
    }

    pub(crate) fn stream_mut(&mut self, stream: StreamId) -> Option<&mut PathStream> {
        self.streams.get_mut(stream)
    }

    /// Returns a stream mutably, and its file.
    pub(crate) fn stream_and_file(
        &mut self,
        stream: StreamId,
        file: FileId,
    ) -> (Option<&mut PathStream>, Option<&OpenFile>) {
        (self.streams.get_mut(stream), self.files.get(file))
    }

    /// Ends a stream. A stream of a closed file may already be gone.
    pub(crate) fn close_stream(&mut self, stream: StreamId) {
        let Some(PathStream { file, newer, older, .. }) = self.streams.remove(stream) else {
            return;
        };
        if let Some(older) = older.and_then(|older| self.streams.get_mut(older)) {
            assert!(older.newer == Some(stream), "neighbours among streams name each other");
            older.newer = newer;
        }
        match newer.and_then(|newer| self.streams.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => {
                let state = self.files.get_mut(file).expect("a file ends with its streams");
                state.newest_stream = older;
            }
        }
    }

    /// Checks that each stream belongs to an open file, and that neighbours name each other.
    pub(crate) fn assert_consistent(&self) {
        for (id, stream) in self.streams.iter() {
            assert!(self.is_open(stream.file), "{id:?} outlives its file");
            let neighbour = |other: Option<StreamId>| other.and_then(|other| self.stream(other));
            let is_linked = neighbour(stream.older).is_none_or(|older| older.newer == Some(id));
            assert!(is_linked, "the older neighbour of {id:?} names another");
            let newest = self.used(stream.file).newest_stream;
            assert!((newest == Some(id)) == stream.newer.is_none(), "{id:?} is the newest");
        }
        let extent_maps = self.files.iter().map(|(_, file)| file.location.bytes().0).sum::<u64>();
        assert!(self.extent_maps.0 == extent_maps, "extent maps take {extent_maps} bytes");
        for (id, file) in self.files.iter() {
            let is_used = file.reads + file.writes > 0;
            assert!(is_used || !file.is_closing, "{id:?} is closed, and nothing works on it");
        }
    }

    /// Marks a file closed, ends its streams and returns its length. None if it was already closed.
    pub(crate) fn close(&mut self, file: FileId) -> Option<ByteCount> {
        let state = self.files.get_mut(file).filter(|state| !state.is_closing)?;
        state.is_closing = true;
        let len = core::mem::replace(&mut state.len, ByteCount::ZERO);
        let mut next = state.newest_stream.take();
        while let Some(stream) = next.and_then(|id| self.streams.remove(id)) {
            assert!(stream.file == file, "{file:?} leads to a stream of {:?}", stream.file);
            next = stream.older;
        }
        Some(len)
    }
}

impl OpenFile {
    /// Returns true if the file is contiguous on its device.
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self.location, FileLocation::Contiguous(_))
    }

    /// Returns the index behind the file's last page.
    pub(crate) fn end(&self) -> PageIndex {
        PageIndex(self.len.pages_up().0)
    }
}

impl PathStream {
    pub(crate) fn new(file: FileId) -> Self {
        Self { file, reader: ReaderState::default(), no_reuse: false, newer: None, older: None }
    }
}

/// Extent maps may take a sixteenth of the memory bound, on top of it: 4096 extents in the smallest
/// engine, and a million in one of 256 MiB.
const EXTENT_MAPS_DENOM: u64 = 16;
