//! Reads that succeed only as full hits, for callers that handle misses in another way. They never
//! block, and a failed attempt does not count as a use of the pages.

use foreread_core::sched::Submitter;
use foreread_core::table::FoundPage;
use foreread_core::units::{ByteCount, PageIndex};

use super::{Markers, ReadProgress, StreamReader, in_page};
use crate::advice::Advised;
use crate::error::ForkedError;
use crate::file_state::FileState;
use crate::handle::Handle;

impl StreamReader {
    /// Reads resident pages, if the file has all of the bytes and all are resident.
    #[inline]
    pub(crate) fn try_read_at(
        &self,
        handle: &Handle,
        advised: Advised,
        to: &mut [u8],
        offset: u64,
    ) -> bool {
        let (room, known_len) = (to.len(), handle.file.len());
        // Otherwise resident pages would be used now, and once more by the actual read.
        if !Self::is_all_there(&handle.file, ByteCount(offset), room) {
            return false;
        }
        let mut read = ReadProgress { offset, room, wanted: room, done: 0, known_len, advised };
        let mut markers = Markers::default();
        self.hit(handle, &mut read, to, &mut markers);
        if read.done < read.wanted {
            // A page has been evicted since. The next read cannot meet the markers taken here: post
            // them.
            self.post(handle, &read, &markers);
            return false;
        }
        self.full_hit(handle, &mut read, &markers);
        self.observe(handle, offset, room);
        self.end(&read);
        read.wanted == room
    }

    /// Records the pins of one read as a hit, like [`Self::full_hit`]. If some pages could not be
    /// pinned, only posts the markers.
    pub(crate) fn pinned_all(
        &self,
        handle: &Handle,
        read: &ReadProgress,
        markers: &Markers,
        is_hit: bool,
    ) {
        self.post(handle, read, markers);
        if is_hit {
            self.hits.add_one();
            self.observe(handle, read.offset, read.wanted);
            self.end(read);
        }
    }

    /// Records that a read used the page at its current position in place, and takes its marker.
    #[inline]
    pub(crate) fn used(
        &self,
        file: &FileState,
        read: &ReadProgress,
        found: &FoundPage<'_>,
        markers: &mut Markers,
    ) {
        let (page, start) = (read.pos().page(), ByteCount(read.offset));
        let is_first = page == start.page();
        let continues = is_first && in_page(start) > 0 && self.prev_pos.get() == Some(start);
        found.touch(continues || read.advised.is_used_once);
        if found.entry().has_marker()
            && read.may_take_markers()
            && markers.has_room()
            && self.has_stream(file)
        {
            markers.take(found, page);
        }
    }

    /// Returns true if all pages of a read appear resident at the moment.
    #[inline]
    pub(crate) fn is_all_there(file: &FileState, pos: ByteCount, len: usize) -> bool {
        let end = (pos + ByteCount(len as u64)).pages_up().0;
        (pos.page().0..end).all(|page| {
            let found = file.engine.table.look_up(file.slot, PageIndex(page));
            found.is_some_and(|found| found.entry().is_up_to_date())
        })
    }

    /// Sets the submitter of its later requests.
    ///
    /// # Errors
    ///
    /// In a forked child, where the core is out of reach.
    pub(crate) fn set_submitter(
        &self,
        file: &FileState,
        submitter: Submitter,
    ) -> Result<(), ForkedError> {
        if let Some(id) = self.id.get() {
            file.engine.drive()?.path.set_submitter(id, submitter);
        }
        self.submitter.set(submitter);
        Ok(())
    }
}
