//! A reader: one reader's hits and misses.
//!
//! In:    offsets and buffers.
//! Out:   bytes. A full hit takes no lock, unless it met a marker.
//! Never: more than one thread at a time. Each has a reader of its own.

mod tries;

use std::cell::Cell;
use std::io;

use foreread_core::path::{Fault, ReadId, StreamId};
use foreread_core::prefetch::Advice as Pattern;
use foreread_core::sched::Submitter;
use foreread_core::table::{FoundPage, Frame};
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::advice::Advised;
use crate::error::ReadError;
use crate::file::{FileShared, Handle};
use crate::hits::HitCount;
use crate::inbox::{Marker, Post};
use crate::lead::NotReady;
use crate::pool::PAGE;
use crate::shared::Driving;
use crate::waiting::Waiter;

/// What a reader remembers between its reads.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Made when there is first something to decide: a reader that only hits never waits for one.
    id: Cell<Option<StreamId>>,
    /// The byte after the last one that a read returned.
    prev_pos: Cell<Option<ByteCount>>,
    /// What the core was told of the advice.
    told: Cell<Advised>,
    /// The submitter that it reads for.
    submitter: Cell<Submitter>,
    pub(crate) hits: HitCount,
}

/// One read: what was asked, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) offset: u64,
    /// What the buffer holds, which the policies see; the file may end before.
    pub(crate) room: usize,
    /// What the file has of it.
    pub(crate) wanted: usize,
    pub(crate) done: usize,
    /// How long the file was known to be when the rest was last asked for.
    known_len: ByteCount,
    pub(crate) advised: Advised,
}

/// Markers that a read met and cleared before it knew whether it is a full hit.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    met: [Option<PageIndex>; MOST_MARKERS],
    count: usize,
}

impl Reader {
    pub(crate) fn new(file: &FileShared) -> Self {
        Self {
            id: Cell::new(None),
            prev_pos: Cell::new(None),
            told: Cell::default(),
            submitter: Cell::default(),
            hits: file.engine.hits.of_a_stream(),
        }
    }

    /// Ends the stream, without waiting for the driver.
    pub(crate) fn close(&self, file: &FileShared) {
        if let Some(id) = self.id.take()
            && !file.engine.is_forked()
        {
            file.engine.inbox.post(Post::CloseStream(id));
            file.engine.empty_inbox();
        }
    }

    pub(crate) fn read_at(
        &self,
        handle: &Handle,
        advised: Advised,
        to: &mut [u8],
        offset: u64,
    ) -> Result<usize, ReadError> {
        let mut read = self.ask(handle, advised, to.len(), offset)?;
        let mut markers = Markers::default();
        self.hit(handle, &mut read, to, &mut markers);
        if read.done < read.wanted {
            self.miss(handle, &mut read, to, &markers)?;
        } else {
            self.full_hit(handle, &mut read, &markers);
        }
        Ok(self.end(&read))
    }

    /// What a read comes to in this file.
    #[inline]
    pub(crate) fn ask(
        &self,
        handle: &Handle,
        advised: Advised,
        room: usize,
        offset: u64,
    ) -> Result<Asked, ReadError> {
        let mut len = handle.file.len().0;
        if offset.saturating_add(room as u64) > len {
            len = handle.len_now(offset)?;
            if offset > len {
                return Err(ReadError::PastEnd { path: handle.path.clone(), offset, len });
            }
        }
        let wanted = room.min(usize::try_from(len - offset).unwrap_or(usize::MAX));
        Ok(Asked { offset, room, wanted, done: 0, known_len: ByteCount(len), advised })
    }

    /// Copies as much from where the read stands as is resident.
    #[inline]
    pub(crate) fn hit(
        &self,
        handle: &Handle,
        read: &mut Asked,
        to: &mut [u8],
        markers: &mut Markers,
    ) {
        let file = &*handle.file;
        let pos = read.pos();
        let mut page = pos.page();
        let mut from = in_page(pos);
        // A read that goes on in the middle of a page is no second use of it.
        let mut continues = from > 0 && self.prev_pos.get() == Some(pos);
        while read.done < read.wanted {
            let part = (read.wanted - read.done).min(PAGE - from);
            let Some(found) = copy_page(file, page, from, &mut to[read.done..read.done + part])
            else {
                break;
            };
            found.touch(continues || read.advised.is_used_once);
            if found.entry().has_marker()
                && read.may_take_markers()
                && markers.has_room()
                && self.has_stream(file)
            {
                markers.take(&found, page);
            }
            read.done += part;
            page = page + Pages(1);
            (from, continues) = (0, false);
        }
    }

    /// Counts a full hit, and posts the markers that it met to the driver.
    #[inline]
    pub(crate) fn full_hit(&self, handle: &Handle, read: &mut Asked, markers: &Markers) {
        self.hits.add_one();
        let file = &*handle.file;
        if file.len() < ByteCount(read.offset + read.wanted as u64) {
            // It shrank while we copied.
            read.shrink_to(file.len());
        }
        self.post(handle, read, markers);
    }

    fn post(&self, handle: &Handle, read: &Asked, markers: &Markers) {
        let file = &*handle.file;
        if markers.count == 0 || file.engine.is_forked() {
            return;
        }
        for marker in self.markers(markers, read) {
            file.engine.inbox.post(Post::Marker(marker));
        }
        file.engine.empty_inbox();
    }

    /// A page was pinned, which is a hit of a read up to `end`; `found` is None if it was read for
    /// that.
    #[inline]
    pub(crate) fn pinned(
        &self,
        handle: &Handle,
        advised: Advised,
        found: Option<&FoundPage<'_>>,
        pos: ByteCount,
        end: ByteCount,
    ) {
        if let Some(found) = found {
            self.pinned_hit(handle, advised, found, pos, end);
        }
        self.prev_pos.set(Some(end));
    }

    #[inline]
    fn pinned_hit(
        &self,
        handle: &Handle,
        advised: Advised,
        found: &FoundPage<'_>,
        pos: ByteCount,
        end: ByteCount,
    ) {
        let continues = in_page(pos) > 0 && self.prev_pos.get() == Some(pos);
        found.touch(continues || advised.is_used_once);
        self.hits.add_one();
        if found.entry().has_marker() {
            let room = (in_page(end) + PAGE - in_page(pos)).min(PAGE);
            let known_len = handle.file.len();
            let read = Asked { offset: pos.0, room, wanted: 0, done: 0, known_len, advised };
            let mut markers = Markers::default();
            if read.may_take_markers() && self.has_stream(&handle.file) {
                markers.take(found, pos.page());
            }
            self.post(handle, &read, &markers);
        }
    }

    /// What a read returns, once it is done.
    #[inline]
    pub(crate) fn end(&self, read: &Asked) -> usize {
        if read.wanted > 0 {
            self.prev_pos.set(Some(ByteCount(read.offset + read.wanted as u64)));
        }
        read.wanted
    }

    /// Becomes the driver for what is left of a read.
    fn miss(
        &self,
        handle: &Handle,
        read: &mut Asked,
        to: &mut [u8],
        markers: &Markers,
    ) -> Result<(), ReadError> {
        let file = &handle.file;
        let mut frames = Vec::new();
        let mut markers = Some(markers);
        while read.done < read.wanted {
            let waiter = || Waiter::Thread(std::thread::current());
            let Some((driving, id)) = self.begin(handle, read, to, markers.take(), waiter)? else {
                break;
            };
            let (mut driving, ready) = file.engine.wait_for(driving, id, file);
            match ready.and_then(|ready| ready.fault.map_or(Ok(ready), |f| Err(f.into()))) {
                Ok(ready) => {
                    frames.clear();
                    frames.extend_from_slice(driving.path.frames(id));
                    drop(driving);
                    self.copy(file, read, to, &frames, ready.len);
                    file.engine.drive().release(id);
                }
                Err(not_ready) => {
                    if let NotReady::Fault(_) = not_ready
                        && driving.broken().is_none()
                    {
                        driving.release(id);
                    }
                    drop(driving);
                    self.fail(handle, read, not_ready)?;
                }
            }
        }
        Ok(())
    }

    /// Begins to read what is left of a read; None if nothing is, because it has come meanwhile or
    /// because the file has shrunk.
    pub(crate) fn begin<'f>(
        &self,
        handle: &'f Handle,
        read: &mut Asked,
        to: &mut [u8],
        markers: Option<&Markers>,
        waiter: impl FnOnce() -> Waiter,
    ) -> Result<Option<(Driving<'f>, ReadId)>, ReadError> {
        let file = &handle.file;
        if file.engine.is_forked() {
            return Err(ReadError::Forked { path: handle.path.clone() });
        }
        let mut driving = file.engine.drive();
        if let Some(errno) = driving.broken() {
            return Err(error(handle, read.offset, Fault::Io(errno)));
        }
        driving.take_posts(&file.engine.inbox);
        let id = self.stream(handle, &mut driving, read.advised);
        for marker in markers.into_iter().flat_map(|markers| self.markers(markers, read)) {
            driving.marker(marker);
        }
        if driving.reap_unless_led() {
            // With the pages that have just been reaped, it may be a hit after all.
            let mut markers = Markers::default();
            self.hit(handle, read, to, &mut markers);
            for marker in self.markers(&markers, read) {
                driving.marker(marker);
            }
        }
        read.known_len = file.len();
        read.shrink_to(read.known_len);
        if read.done >= read.wanted {
            return Ok(None);
        }
        // The rest of the buffer, not of the file: policies see what was asked.
        let rest = ByteCount((read.room - read.done) as u64);
        let id = driving.begin(id, read.pos(), rest, self.prev_pos.get(), waiter());
        Ok(Some((driving, id)))
    }

    /// Copies the frames of a read that is ready to the buffer.
    pub(crate) fn copy(
        &self,
        file: &FileShared,
        read: &mut Asked,
        to: &mut [u8],
        frames: &[Frame],
        len: ByteCount,
    ) {
        let mut from = in_page(read.pos());
        let len = usize::try_from(len.0).expect("no longer than the buffer");
        let end = (read.done + len).min(read.wanted);
        for frame in frames {
            let part = (end - read.done).min(PAGE - from);
            file.engine.pool.copy_out(*frame, from, &mut to[read.done..read.done + part]);
            read.done += part;
            from = 0;
        }
        assert!(read.done == end, "the frames of a read cover it");
    }

    /// A read that failed: an error, unless the file is only shorter than we thought.
    pub(crate) fn fail(
        &self,
        handle: &Handle,
        read: &mut Asked,
        why: NotReady,
    ) -> Result<(), ReadError> {
        match why {
            NotReady::TimedOut => {
                let after = handle.file.engine.timeout.unwrap_or_default();
                let (path, offset) = (handle.path.clone(), read.offset);
                Err(ReadError::TimedOut { path, offset, after })
            }
            NotReady::Fault(Fault::Short) => {
                // Another reader may have seen the new end first: what counts is what we asked for.
                let before = read.known_len;
                let now = handle.len_now(read.offset)?;
                read.shrink_to(ByteCount(now));
                if read.done == 0 && read.offset > now {
                    let (path, offset) = (handle.path.clone(), read.offset);
                    return Err(ReadError::PastEnd { path, offset, len: now });
                }
                if read.done < read.wanted && before == ByteCount(now) {
                    return Err(error(handle, read.offset, Fault::Short));
                }
                Ok(())
            }
            NotReady::Fault(fault) => Err(error(handle, read.offset, fault)),
        }
    }

    /// Whether there is a stream that markers can be told of; made without waiting, else they are
    /// left for others, or for later.
    fn has_stream(&self, file: &FileShared) -> bool {
        if self.id.get().is_none() && !file.engine.is_forked() {
            self.id
                .set(file.engine.try_drive().map(|mut driver| self.new_stream(file, &mut driver)));
        }
        self.id.get().is_some()
    }

    fn new_stream(&self, file: &FileShared, driving: &mut Driving<'_>) -> StreamId {
        let id = driving.path.stream(file.id);
        if self.submitter.get() != Submitter::default() {
            driving.path.set_submitter(id, self.submitter.get());
        }
        id
    }

    /// The stream, which knows of the advice.
    fn stream(&self, handle: &Handle, driving: &mut Driving<'_>, advised: Advised) -> StreamId {
        let id = self.id.get().unwrap_or_else(|| self.new_stream(&handle.file, driving));
        self.id.set(Some(id));
        if self.told.get() != advised {
            driving.advise(id, advised);
            self.told.set(advised);
        }
        id
    }

    fn markers<'m>(
        &'m self,
        markers: &'m Markers,
        read: &Asked,
    ) -> impl Iterator<Item = Marker> + use<'m> {
        let asked_end = PageIndex(read.end_of_room().pages_up().0);
        let (stream, prev_pos) = (self.id.get(), self.prev_pos.get());
        // A reader whose reads are all hits passes its advice on with markers only: with each one
        // until a miss, as any of them may be dropped.
        let advised = (self.told.get() != read.advised).then_some(read.advised);
        markers.met.iter().flatten().filter_map(move |page| {
            let count = asked_end - *page;
            Some(Marker { stream: stream?, page: *page, count, prev_pos, advised })
        })
    }
}

impl Asked {
    /// Where it stands.
    pub(crate) fn pos(&self) -> ByteCount {
        ByteCount(self.offset + self.done as u64)
    }

    /// A reader at random leaves markers where they are: they are other readers'.
    fn may_take_markers(&self) -> bool {
        self.advised.pattern != Pattern::Random
    }

    fn end_of_room(&self) -> ByteCount {
        ByteCount(self.offset.saturating_add(self.room as u64))
    }

    /// The file has no more than this.
    fn shrink_to(&mut self, len: ByteCount) {
        let left = usize::try_from(len.0.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.wanted = self.wanted.min(left);
    }
}

impl Handle {
    /// How long the file is, for a read that reaches the end that we know of.
    fn len_now(&self, offset: u64) -> Result<u64, ReadError> {
        let len = self.file.refresh_if_changed();
        let failed = |source| ReadError::Io { path: self.path.clone(), offset, source };
        len.map(|len| len.0).map_err(failed)
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
) -> Option<FoundPage<'f>> {
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

pub(crate) fn error(handle: &Handle, offset: u64, fault: Fault) -> ReadError {
    let path = handle.path.clone();
    match fault {
        Fault::Io(errno) | Fault::Lost(errno) => {
            ReadError::Io { path, offset, source: io::Error::from_raw_os_error(errno) }
        }
        Fault::Short => ReadError::Short { path, offset, len: handle.file.len().0 },
    }
}

impl From<Fault> for NotReady {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Markers {
    fn has_room(&self) -> bool {
        self.count < MOST_MARKERS
    }

    /// Takes the marker off a page, unless another reader was faster.
    fn take(&mut self, found: &FoundPage<'_>, page: PageIndex) {
        if found.take_marker() {
            self.met[self.count] = Some(page);
            self.count += 1;
        }
    }
}

/// Where in its page a byte lies.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(crate) fn in_page(pos: ByteCount) -> usize {
    (pos - pos.page().offset()).0 as usize
}

/// How often a page that is replaced while it is copied is looked up again before the read is a
/// miss.
const COPY_TRIES: usize = 3;

/// How many markers one read clears; it leaves any others for the next reader. A read meets two
/// where windows are as small as it is.
const MOST_MARKERS: usize = 8;
