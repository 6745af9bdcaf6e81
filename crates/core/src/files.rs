//! Open files and their streams: where a file is on its device, who reads it, whether it may go.
//!
//! In:    files that are opened and closed, streams that begin and end.
//! Out:   ids.
//! Never: a search among the streams of other files: each file leads to its own.
//!
//! ```text
//!   file --newest--> stream <--newer, older--> stream <--newer, older--> stream
//! ```
//!
//! A closed file stays until its last read and its last write have ended: until then its slot in
//! the page table is no other file's.

use crate::driver_io::Config;
use crate::extent_map::{FileLocation, OpenError};
use crate::ids::{DeviceId, FileId, FileKind, StreamId, StreamKind};
use crate::prefetch::asker::ReaderState;
use crate::slab::Slab;
use crate::table::FILES_MAX;
use crate::units::{ByteCount, PageIndex};

/// An open file, or a closed one that something still works on.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) len: ByteCount,
    pub(crate) device: DeviceId,
    /// Where on the device.
    pub(crate) location: FileLocation,
    /// The newest of its streams, which leads to the others.
    newest_stream: Option<StreamId>,
    /// Reads that are not released yet.
    pub(crate) reads: u32,
    /// Writes, zeroes and flushes that are not over.
    pub(crate) writes: u32,
    pub(crate) is_closing: bool,
}

/// One reader of a file.
#[derive(Debug)]
pub(crate) struct PathStream {
    pub(crate) file: FileId,
    pub(crate) reader: ReaderState,
    /// Whether its uses never make a page active.
    pub(crate) no_reuse: bool,
    /// Its neighbours among the streams of its file.
    newer: Option<StreamId>,
    older: Option<StreamId>,
}

/// All open files of a path, and their streams.
#[derive(Debug)]
pub(crate) struct Files {
    files: Slab<FileKind, OpenFile>,
    streams: Slab<StreamKind, PathStream>,
    /// What the extent maps of open files take.
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

    /// How much all extent maps may take together.
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

    /// A file that is open, or closed and worked on.
    pub(crate) fn used(&self, file: FileId) -> &OpenFile {
        self.files.get(file).expect("a file outlives its reads and writes")
    }

    /// The same, to change it.
    pub(crate) fn used_mut(&mut self, file: FileId) -> &mut OpenFile {
        self.files.get_mut(file).expect("a file outlives its reads and writes")
    }

    /// A write of the file begins, or something else that it must outlive.
    pub(crate) fn begin_work(&mut self, file: FileId) {
        self.used_mut(file).writes += 1;
    }

    /// That has ended.
    pub(crate) fn end_work(&mut self, file: FileId) {
        let state = self.used_mut(file);
        state.writes = state.writes.checked_sub(1).expect("a file counts its writes");
    }

    /// A file that is open.
    pub(crate) fn open_file(&self, file: FileId) -> &OpenFile {
        let state = self.files.get(file).expect("the caller names a file that is not gone");
        assert!(!state.is_closing, "{file:?} is closed");
        state
    }

    /// A file that is open and may be written.
    pub(crate) fn writable(&self, file: FileId) -> &OpenFile {
        let state = self.open_file(file);
        assert!(state.is_contiguous(), "{file:?} is extent-mapped, and read only");
        state
    }

    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.files.get(file).is_some_and(|file| !file.is_closing)
    }

    /// The file whose pages are found at a slot of the page table.
    pub(crate) fn at(&self, slot: u32) -> Option<(FileId, &OpenFile)> {
        self.files.with_id_at(slot)
    }

    pub(crate) fn any(&self, holds: impl Fn(&OpenFile) -> bool) -> bool {
        self.files.any(holds)
    }

    /// Whether none was ever opened.
    pub(crate) fn is_untouched(&self) -> bool {
        self.files.is_untouched()
    }

    /// Lets a closed file go after its last read and its last write; says whether it went.
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

    /// A stream to change, and its file.
    pub(crate) fn stream_and_file(
        &mut self,
        stream: StreamId,
        file: FileId,
    ) -> (Option<&mut PathStream>, Option<&OpenFile>) {
        (self.streams.get_mut(stream), self.files.get(file))
    }

    /// Ends a stream. One of a closed file may be ended too, or not.
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

    /// Marks a file closed and ends its streams; returns how long it was. None if it is closed.
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
    /// Whether it lies on its device in one run.
    pub(crate) fn is_contiguous(&self) -> bool {
        matches!(self.location, FileLocation::Contiguous(_))
    }

    /// One past the file's last page.
    pub(crate) fn end(&self) -> PageIndex {
        PageIndex(self.len.pages_up().0)
    }
}

impl PathStream {
    pub(crate) fn new(file: FileId) -> Self {
        Self { file, reader: ReaderState::default(), no_reuse: false, newer: None, older: None }
    }
}

/// Extent maps may take a sixteenth of the memory, beside it: 4096 extents in the smallest engine,
/// and a million in one of 256 MiB.
const EXTENT_MAPS_DENOM: u64 = 16;
