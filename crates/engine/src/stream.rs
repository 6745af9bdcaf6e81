//! A stream: one reader of one file, its hits and its misses.
//!
//! In:    offsets and buffers.
//! Out:   bytes. A full hit takes no lock and tells nobody but the pages it touched.
//! Never: more than one thread. Each has a stream of its own.

use std::io;
use std::sync::Arc;

use foreread_core::path::{Fault, StreamId};
use foreread_core::table::Found;
use foreread_core::units::{Bytes, PageIndex, Pages};

use crate::driver::{Outcome, in_page};
use crate::error::ReadError;
use crate::file::FileShared;
use crate::inbox::{Marker, Post};
use crate::pool::PAGE;

/// One reader of a file. Made by [`crate::File::stream`]; ends when it is dropped.
#[derive(Debug)]
pub struct Stream {
    file: Arc<FileShared>,
    reader: Reader,
}

/// What a reader remembers between its reads.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Made when there is first something to decide: a reader that only hits never waits for one.
    id: Option<StreamId>,
    /// The byte after the last one that a read returned.
    prev_pos: Option<Bytes>,
}

/// Markers that a read met and cleared before it knew whether it is a full hit.
#[derive(Default)]
struct Markers {
    met: [Option<PageIndex>; MOST_MARKERS],
    count: usize,
}

impl Stream {
    pub(crate) fn new(file: Arc<FileShared>) -> Self {
        Self { file, reader: Reader::new() }
    }

    /// Reads into `to` from `offset` on, and returns how many bytes: fewer than asked only at the
    /// end of the file, where it returns 0.
    ///
    /// # Errors
    ///
    /// If the offset lies past the end, or the device fails.
    pub fn read_at(&mut self, to: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        self.reader.read_at(&self.file, to, offset)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.close(&self.file);
    }
}

impl Reader {
    pub(crate) const fn new() -> Self {
        Self { id: None, prev_pos: None }
    }

    /// Ends the stream, without waiting for whoever drives.
    pub(crate) fn close(&self, file: &FileShared) {
        if let Some(id) = self.id
            && !file.engine.is_forked()
        {
            file.engine.inbox.post(Post::CloseStream(id));
            file.engine.empty_inbox();
        }
    }

    pub(crate) fn read_at(
        &mut self,
        file: &FileShared,
        to: &mut [u8],
        offset: u64,
    ) -> Result<usize, ReadError> {
        let len = file.backend.len.0;
        if offset > len {
            return Err(ReadError::PastEnd { path: file.path.clone(), offset, len });
        }
        let wanted = to.len().min(usize::try_from(len - offset).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let asked_end = PageIndex(Bytes(offset.saturating_add(to.len() as u64)).pages_up().0);
        if self.id.is_none() {
            // Without waiting: as long as there is none, markers are left for others, or for later.
            self.id = file.engine.try_drive().map(|mut driver| driver.path.stream(file.id));
        }
        let mut markers = Markers::default();
        let done = self.hit(file, &mut to[..wanted], Bytes(offset), &mut markers);
        let is_full = done == wanted;
        if is_full {
            self.post(file, &markers, asked_end);
        } else {
            self.miss(file, to, wanted, offset, done, &markers, asked_end)?;
        }
        self.prev_pos = Some(Bytes(offset + wanted as u64));
        Ok(wanted)
    }

    /// Copies as much from the start of the read as is resident, and returns how much that is.
    #[inline]
    fn hit(&self, file: &FileShared, to: &mut [u8], pos: Bytes, markers: &mut Markers) -> usize {
        let mut page = pos.page();
        let mut from = in_page(pos);
        // A read that goes on in the middle of a page is no second use of it.
        let mut continues = from > 0 && self.prev_pos == Some(pos);
        let mut done = 0;
        while done < to.len() {
            let part = (to.len() - done).min(PAGE - from);
            let Some(found) = copy_page(file, page, from, &mut to[done..done + part]) else {
                break;
            };
            found.touch(continues);
            let may_take = self.id.is_some() && markers.has_room();
            if found.entry().has_marker() && may_take && found.take_marker() {
                markers.add(page);
            }
            done += part;
            page = page + Pages(1);
            (from, continues) = (0, false);
        }
        done
    }

    /// A full hit: what it met is told to whoever drives.
    #[inline]
    fn post(&self, file: &FileShared, markers: &Markers, asked_end: PageIndex) {
        if markers.count == 0 || file.engine.is_forked() {
            return;
        }
        for marker in self.markers(markers, asked_end) {
            file.engine.inbox.post(Post::Marker(marker));
        }
        file.engine.empty_inbox();
    }

    /// Becomes the driver for what is left of a read, from byte `done` of it on.
    #[expect(clippy::too_many_arguments, reason = "one read, in the middle of it")]
    fn miss(
        &mut self,
        file: &FileShared,
        to: &mut [u8],
        wanted: usize,
        offset: u64,
        mut done: usize,
        markers: &Markers,
        asked_end: PageIndex,
    ) -> Result<(), ReadError> {
        if file.engine.is_forked() {
            return Err(ReadError::Forked { path: file.path.clone() });
        }
        let mut driver = file.engine.drive();
        driver.take_posts(&file.engine.inbox);
        let id = *self.id.get_or_insert_with(|| driver.path.stream(file.id));
        for marker in self.markers(markers, asked_end) {
            driver.marker(marker);
        }
        while done < wanted {
            // The rest of the buffer, not of the file: policies see what was asked.
            let pos = Bytes(offset + done as u64);
            match driver.read(id, pos, &mut to[done..], self.prev_pos) {
                Outcome::Copied(bytes) => done += bytes,
                Outcome::Failed(fault) => return Err(error(file, offset, fault)),
            }
        }
        Ok(())
    }

    fn markers<'m>(
        &'m self,
        markers: &'m Markers,
        asked_end: PageIndex,
    ) -> impl Iterator<Item = Marker> + 'm {
        let met = markers.met.iter().flatten().zip(std::iter::repeat(self.id));
        met.filter_map(move |(page, stream)| {
            let (count, prev_pos) = (asked_end - *page, self.prev_pos);
            Some(Marker { stream: stream?, page: *page, count, prev_pos })
        })
    }
}

/// Copies part of a resident page; None if it is not resident, or would not keep still.
///
/// ```text
///   load the entry -> copy -> load it again:  same frame, generation   the bytes are the page's
///                                             else                     throw them away
/// ```
#[inline]
fn copy_page<'f>(
    file: &'f FileShared,
    page: PageIndex,
    from: usize,
    to: &mut [u8],
) -> Option<Found<'f>> {
    for _ in 0..COPY_TRIES {
        let found = file.engine.table.look_up(file.slot, page)?;
        if !found.entry().is_up_to_date() {
            return None;
        }
        file.engine.pool.copy_out(found.entry().frame(), from, to);
        if found.still_holds() {
            return Some(found);
        }
    }
    None
}

fn error(file: &FileShared, offset: u64, fault: Fault) -> ReadError {
    let path = file.path.clone();
    match fault {
        Fault::Io(errno) => {
            ReadError::Io { path, offset, source: io::Error::from_raw_os_error(errno) }
        }
        Fault::Short => ReadError::Shrunk { path, offset, len: file.backend.len.0 },
    }
}

impl Markers {
    fn has_room(&self) -> bool {
        self.count < MOST_MARKERS
    }

    fn add(&mut self, page: PageIndex) {
        self.met[self.count] = Some(page);
        self.count += 1;
    }
}

/// How often a page that is replaced while it is copied is looked up again before the read is a
/// miss.
const COPY_TRIES: usize = 3;

/// How many markers one read clears; it leaves any others for the next reader. A read meets two
/// where windows are as small as it is.
const MOST_MARKERS: usize = 8;
