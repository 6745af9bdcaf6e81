//! The devices of the world: they deliver parts of requests, and complete them. They never write to
//! the frame of a page that has arrived before.

use super::*;

impl World {
    pub(crate) fn complete(&mut self, tag: Tag, answer: Answer) {
        let whole = self.there_is(tag);
        let arrived = self.arrived.get(&tag).copied().unwrap_or(0);
        // Truncating a file does not take back bytes that have arrived.
        let bytes = match answer {
            Answer::Good => Ok(ByteCount(whole.max(arrived))),
            Answer::Short(part) => Ok(ByteCount((whole * (part % 64) / 64).max(arrived))),
            Answer::Failed => Err(5),
        };
        self.failures += usize::from(bytes.is_err() || bytes < Ok(ByteCount(whole)));
        self.write(tag, bytes.unwrap_or(ByteCount(0)).0);
        self.in_flight.remove(&tag);
        self.arrived.remove(&tag);
        let now = self.tick();
        self.path.complete(now, tag, bytes);
    }

    /// Delivers up to `bytes` more bytes of a request, as far as the file has them.
    pub(crate) fn arrive(&mut self, tag: Tag, bytes: u64) {
        let before = self.arrived.get(&tag).copied().unwrap_or(0);
        let arrived = (before + bytes).min(self.there_is(tag)).max(before);
        self.write(tag, arrived);
        self.arrived.insert(tag, arrived);
        let now = self.tick();
        self.path.arrived(now, tag, ByteCount(arrived));
        let (_, _, count) = self.in_flight[&tag];
        let expected = self.path.pages(tag).len() as u64;
        assert!(expected >= count - arrived.div_ceil(4096), "a page that has not come is there");
        assert!(expected <= count - arrived / 4096, "a page that has come is still expected");
        assert_eq!(self.path.io_frames(tag).count() as u64, expected);
    }

    /// Returns the bytes of a request that its file has.
    fn there_is(&self, tag: Tag) -> u64 {
        let (device, first, count) = self.in_flight[&tag];
        let len = self.file_on(device).len;
        len.saturating_sub(first * 4096).min(count * 4096)
    }

    fn file_on(&self, device: DeviceId) -> &OpenFile {
        let mut files = self.files.iter().chain(&self.closed);
        files.find(|file| file.device == device).unwrap()
    }

    /// Writes the first `bytes` bytes of a request into the frames that still belong to it.
    fn write(&mut self, tag: Tag, bytes: u64) {
        let (device, first, count) = self.in_flight[&tag];
        let file = self.file_on(device).id;
        let expected = self.path.pages(tag);
        let arrived = count - expected.len() as u64;
        for (page, fill) in (arrived..).zip(expected) {
            if bytes > page * 4096 {
                self.written.insert(fill.filling.frame(), (file, first + page));
            }
        }
    }

    /// Checks the requests of a device after a new one.
    pub(super) fn check_asked(&self, device: DeviceId) {
        let mine = self.in_flight.iter().filter(|(_, request)| request.0 == device);
        assert!(mine.clone().count() <= self.geometry.depth as usize, "too many at a time");
        // A page that has arrived may have been evicted since.
        let pages = mine.flat_map(|(tag, (_, first, count))| {
            first + count - self.path.pages(*tag).len() as u64..first + count
        });
        let pages: Vec<_> =
            pages.filter(|page| !self.forgotten.contains(&(device, *page))).collect();
        let distinct: BTreeSet<_> = pages.iter().collect();
        assert_eq!(distinct.len(), pages.len(), "a page is asked for twice at a time");
    }
}
