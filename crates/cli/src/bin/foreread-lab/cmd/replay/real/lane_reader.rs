//! Reads of a lane: through foreread, the page cache, or plain `O_DIRECT`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use foreread_core::units::PAGE_SIZE;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::opened_target::{HandleKey, LaneHandle, OpenedTarget};
use super::targets::ReadPlace;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::run::AlignedBuffer;

/// The handles and the memory of one lane.
pub(super) struct LaneReader<'o> {
    opened: &'o OpenedTarget<'o>,
    handles: HashMap<HandleKey, LaneHandle>,
    buffer: AlignedBuffer,
    room: u64,
    /// True if the file system supports non-blocking reads, which detect hits.
    tells_hits: bool,
}

/// A read that failed.
#[derive(Debug)]
pub(super) struct ReadFailure {
    path: PathBuf,
    method: AccessMethod,
    offset: u64,
    length: u64,
    source: io::Error,
}

impl std::fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, method, offset, length, source } = self;
        let (path, method) = (path.display(), method.name());
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return write!(
                f,
                "{path}: ends before byte {} ({method}); was it cut while it was read?",
                offset.saturating_add(*length)
            );
        }
        write!(f, "{path}: cannot read {length} bytes at {offset} ({method}): {source}")
    }
}

impl<'o> LaneReader<'o> {
    pub(super) fn new(opened: &'o OpenedTarget<'o>) -> Self {
        let room = 2 * PAGE_SIZE;
        let (handles, buffer) = (HashMap::new(), AlignedBuffer::new(room));
        Self { opened, handles, buffer, room, tells_hits: true }
    }

    /// Has the handle and the memory ready, so that the read itself is no later for them.
    pub(super) fn prepare(
        &mut self,
        key: HandleKey,
        place: &ReadPlace,
        length: u64,
    ) -> Result<(), ReadFailure> {
        let room = length.min(PIECE) + 2 * PAGE_SIZE;
        if room > self.room {
            self.buffer = AlignedBuffer::new(room);
            self.room = room;
        }
        if self.handles.contains_key(&key) {
            return Ok(());
        }
        // Traces have no closes that could be trusted: where there are too many handles, all are
        // closed and opened again.
        if self.handles.len() >= self.opened.handles.max {
            self.handles.clear();
        }
        let handle = self.opened.handle(key, place.file);
        let handle = handle.map_err(|source| self.failure(place, place.offset, 0, source))?;
        self.handles.insert(key, handle);
        Ok(())
    }

    /// Reads, and returns true if all bytes were in memory. The handle must have been prepared.
    pub(super) fn read(
        &mut self,
        key: HandleKey,
        place: &ReadPlace,
        length: u64,
    ) -> Result<bool, ReadFailure> {
        let mut is_hit = true;
        let mut done = 0;
        while done < length {
            let (offset, part) = (place.offset + done, (length - done).min(PIECE));
            match self.piece(key, offset, part) {
                Ok(hit) => is_hit &= hit,
                Err(source) => return Err(self.failure(place, offset, part, source)),
            }
            done += part;
        }
        Ok(is_hit)
    }

    fn piece(&mut self, key: HandleKey, offset: u64, length: u64) -> io::Result<bool> {
        let handle = self.handles.get(&key).expect("the handle has been prepared");
        let len = usize::try_from(length).expect("a piece is small");
        let buffer = self.buffer.bytes();
        match handle {
            LaneHandle::Buffered(file) => {
                buffered(file, &mut buffer[..len], offset, &mut self.tells_hits)
            }
            LaneHandle::Direct(file) => {
                let (from, to) = aligned(offset, length);
                self.opened.count_direct(to - from);
                let room = usize::try_from(to - from).expect("a piece is small");
                let wanted = usize::try_from(offset + length - from).expect("a piece is small");
                direct(file, &mut buffer[..room], wanted, from).map(|()| false)
            }
            LaneHandle::Foreread(stream) => {
                let to = &mut buffer[..len];
                if stream.try_read_at(to, offset) {
                    return Ok(true);
                }
                stream.read_exact_at(to, offset)?;
                Ok(false)
            }
        }
    }

    fn failure(
        &self,
        place: &ReadPlace,
        offset: u64,
        length: u64,
        source: io::Error,
    ) -> ReadFailure {
        let (path, method) = (self.opened.files[place.file].path.clone(), self.opened.method());
        ReadFailure { path, method, offset, length, source }
    }
}

/// Reads through the page cache; returns true for a hit. Missing pages are read by a second call,
/// for which the kernel reads ahead as for the first.
fn buffered(file: &File, to: &mut [u8], offset: u64, tells_hits: &mut bool) -> io::Result<bool> {
    let mut done = 0;
    if *tells_hits {
        match preadv2(file, &mut [IoSliceMut::new(to)], offset, ReadWriteFlags::NOWAIT) {
            Ok(got) if got == to.len() => return Ok(true),
            Ok(got) => done = got,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => *tells_hits = false,
            Err(error) => return Err(error.into()),
        }
    }
    file.read_exact_at(&mut to[done..], offset + done as u64)?;
    Ok(false)
}

/// Reads whole blocks and returns the requested part; the last block of a file may be short.
fn direct(file: &File, to: &mut [u8], wanted: usize, offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut to[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                done += got;
                if done < wanted && done % SECTOR != 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the whole pages around a read.
fn aligned(offset: u64, length: u64) -> (u64, u64) {
    (offset / PAGE_SIZE * PAGE_SIZE, (offset + length).next_multiple_of(PAGE_SIZE))
}

/// Smallest device block; only the end of a file is unaligned.
const SECTOR: usize = 512;

/// A longer read is several, one after another.
const PIECE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use foreread_core::prefetch::Policy;
    use foreread_core::units::ByteCount;

    use super::*;
    use crate::cmd::replay::real::opened_target::{HandleLimits, RunMethod};
    use crate::cmd::replay::real::targets::TargetFile;

    fn all_methods() -> [RunMethod; 3] {
        let (policy, max_window, memory) = (Policy::Adaptive, None, ByteCount(8 << 20));
        [AccessMethod::Foreread, AccessMethod::Buffered, AccessMethod::Direct]
            .map(|method| RunMethod { method, policy, max_window, memory })
    }

    fn target(len: usize) -> (tempfile::TempDir, TargetFile) {
        // On the disk of the build: a tmpfs has no O_DIRECT on older kernels.
        let place = std::env::var("CARGO_TARGET_DIR")
            .unwrap_or_else(|_| format!("{}/../../target", env!("CARGO_MANIFEST_DIR")));
        let folder = tempfile::tempdir_in(place).unwrap();
        let path = folder.path().join("target");
        let file = File::create(&path).unwrap();
        file.write_all_at(&vec![7; len], 0).unwrap();
        file.sync_all().unwrap();
        (folder, TargetFile { path, len: len as u64, buffered: None })
    }

    #[test]
    fn reads_of_any_offset_are_verified_by_their_length() {
        let (_folder, file) = target((3 << 20) + 100);
        let files = [file];
        for how in all_methods() {
            let handles = HandleLimits { max: 8, are_shared: false };
            let opened = OpenedTarget::new(&how, &files, handles).unwrap();
            let mut lane = LaneReader::new(&opened);
            let mut read = |offset: u64, length: u64| {
                let place = ReadPlace { file: 0, offset, is_wrapped: false };
                lane.prepare((1, 0), &place, length)?;
                lane.read((1, 0), &place, length)
            };
            for (offset, length) in [(0, 4096), (1, 1), (4095, 2), (100, 3 << 20), (3 << 20, 100)] {
                read(offset, length).unwrap_or_else(|error| panic!("{error}"));
            }
            let error = read(3 << 20, 101).expect_err("past the end").to_string();
            let method = how.method.name();
            assert!(error.contains(method), "{error}");
            let hit = read(0, 4096).unwrap();
            assert_eq!(hit, how.method != AccessMethod::Direct, "{method}: it was read before");
            assert!(opened.device_bytes().is_some());
        }
    }

    #[test]
    fn a_lane_keeps_no_more_handles_than_it_may() {
        let (_folder, file) = target(10_000);
        let files = [file];
        for (how, are_shared) in all_methods().into_iter().zip([false, true, false]) {
            let handles = HandleLimits { max: 3, are_shared };
            let opened = OpenedTarget::new(&how, &files, handles).unwrap();
            let mut lane = LaneReader::new(&opened);
            let place = ReadPlace { file: 0, offset: 5000, is_wrapped: false };
            for thread in 0..10 {
                lane.prepare((thread, 0), &place, 100).unwrap();
                lane.read((thread, 0), &place, 100).unwrap();
                assert!(lane.handles.len() <= 3);
            }
        }
    }

    #[test]
    fn a_direct_read_asks_for_the_pages_around_it() {
        assert_eq!(aligned(0, 4096), (0, 4096));
        assert_eq!(aligned(4095, 2), (0, 8192));
        assert_eq!(aligned(8192, 1), (8192, 12_288));
    }
}
