//! Files that change under their readers, step by step: which pages are read again, and how each
//! read ends. The random steps are in path_model.rs.

#![cfg(not(loom))]

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceId, Fault, FileId, IoPath, ReadReady, StreamId, Tag};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::table::PageEntry;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const NOW: Nanos = Nanos(1);

struct World {
    path: IoPath,
    device: DeviceId,
    file: FileId,
    stream: StreamId,
}

impl World {
    fn new(file_len: u64) -> Self {
        let config = Config {
            memory: ByteCount(1 << 20),
            policy: Policy::None,
            max_window: Pages(0),
            rules: Rules::default(),
        };
        let mut path = IoPath::new(config);
        let device = path
            .add_device(Geometry { depth: 1, ..Geometry::new(ByteCount(0)) }, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount(file_len)).unwrap();
        let stream = path.stream(file);
        Self { path, device, file, stream }
    }

    fn read(&mut self, pos: u64, len: u64) {
        self.path.read(NOW, self.stream, ByteCount(pos), ByteCount(len), None);
    }

    /// Takes the next request: its tag, offset and length.
    fn dispatch(&mut self) -> Option<(Tag, u64, u64)> {
        self.path.poll_dispatch(NOW).map(|io| (io.tag, io.offset.0, io.len.0))
    }

    /// Completes all requests with this many bytes, or in full.
    fn answer(&mut self, bytes: Option<u64>) {
        while let Some((tag, _, len)) = self.dispatch() {
            self.path.complete(NOW, tag, Ok(ByteCount(bytes.unwrap_or(len))));
        }
    }

    /// Takes the next ready read: its length and fault. Releases it.
    fn ready(&mut self) -> Option<(u64, Option<Fault>)> {
        let ReadReady { id, len, fault } = self.path.poll_ready()?;
        self.path.release(NOW, id);
        Some((len.0, fault))
    }

    fn entry(&self, page: u64) -> Option<PageEntry> {
        let table = self.path.table();
        table.look_up(IoPath::slot(self.file), PageIndex(page)).map(|found| found.entry())
    }

    /// Begins reads until the next large one has to wait for frames; returns their number.
    fn take_all_frames(&mut self) -> u64 {
        let other = self.path.open(self.device, ByteCount(1 << 30)).unwrap();
        let mut reads = 0;
        while self.path.stats().waited_for_frames == 0 {
            let stream = self.path.stream(other);
            self.path.read(NOW, stream, ByteCount(reads << 20), ByteCount(1 << 20), None);
            reads += 1;
        }
        reads
    }

    fn all_frames_are_idle(&self) -> bool {
        self.path.idle_frames() == u64::from(self.path.frame_count())
    }
}

#[test]
fn a_file_that_grows_forgets_its_last_page_if_that_was_a_part() {
    for (len, is_kept) in [(8192, true), (8191, false)] {
        let mut world = World::new(len);
        world.read(0, 8192);
        world.answer(None);
        assert_eq!(world.ready(), Some((len, None)));
        world.path.set_len(NOW, world.file, ByteCount(20_000));
        assert!(world.entry(0).is_some());
        assert_eq!(world.entry(1).is_some(), is_kept);
        world.read(0, 20_000);
        assert_eq!(world.dispatch().unwrap().1, if is_kept { 8192 } else { 4096 });
    }
}

#[test]
fn a_file_that_shrinks_forgets_all_from_the_page_at_its_new_end_on() {
    let mut world = World::new(20_000);
    world.read(0, 20_000);
    world.answer(None);
    world.path.set_len(NOW, world.file, ByteCount(4097));
    assert_eq!(
        [0, 1, 2, 3, 4].map(|page| world.entry(page).is_some()),
        [true, false, false, false, false]
    );
    world.read(0, 20_000);
    assert_eq!(world.ready(), Some((20_000, None)), "it had its pages before");
    world.answer(None);
    assert_eq!(world.ready(), Some((4097, None)));
    world.path.set_len(NOW, world.file, ByteCount(4097));
    assert!(world.entry(1).is_some(), "the same length again is nothing new");
    world.path.set_len(NOW, world.file, ByteCount(0));
    assert_eq!(world.entry(0), None);
    assert!(world.all_frames_are_idle());
}

#[test]
fn a_read_at_the_end_of_the_file_or_behind_it_is_ready_with_nothing() {
    let mut world = World::new(4096);
    for pos in [4096, 4097, 1 << 40] {
        world.read(pos, 4096);
        assert_eq!(world.ready(), Some((0, None)));
    }
    let stream = world.stream;
    world.path.marker(NOW, stream, PageIndex(1), Pages(3), None);
    assert_eq!(world.path.stats().markers, 0);
    assert!(world.dispatch().is_none());
}

#[test]
fn a_read_that_waits_for_a_forgotten_page_gets_it_and_the_next_one_asks_again() {
    let mut world = World::new(8192);
    world.read(0, 8192);
    let (tag, ..) = world.dispatch().unwrap();
    let first = world.entry(0).unwrap();
    world.path.invalidate(NOW, world.file, PageIndex(0)..PageIndex(9));
    assert_eq!(world.entry(0), None);
    world.read(0, 4096);
    let second = world.entry(0).unwrap();
    assert_ne!(first.frame(), second.frame());
    world.path.complete(NOW, tag, Ok(ByteCount(8192)));
    assert!(!world.entry(0).unwrap().is_up_to_date(), "that was the older page");
    assert_eq!(world.ready(), Some((8192, None)));
    world.answer(None);
    assert_eq!(world.ready(), Some((4096, None)));
    assert!(world.entry(0).unwrap().is_up_to_date());
    assert!(world.all_frames_are_idle());
}

#[test]
fn a_read_that_waits_for_frames_is_cut_to_what_its_file_has_when_it_starts() {
    // (position, new lengths, result); the read requests 80,000 bytes.
    let cases: [(u64, &[u64], u64); 6] = [
        (0, &[50_000], 50_000),
        (40_960, &[40_960], 0),
        (81_920, &[4096], 0),
        (81_920, &[4096, 200_000], 0),
        (0, &[8192, 20_000], 20_000),
        (40_960, &[1 << 20], 80_000),
    ];
    for (pos, lens, want) in cases {
        let mut world = World::new(100_000);
        let readers = world.take_all_frames();
        world.read(pos, 80_000);
        for &len in lens {
            world.path.set_len(NOW, world.file, ByteCount(len));
        }
        if want == 0 {
            assert_eq!(world.ready(), Some((0, None)), "at once: no device has to answer");
        }
        let mut ends = Vec::new();
        // Each round ends a request or a read.
        while {
            world.answer(None);
            true
        } && let Some(end) = world.ready()
        {
            assert_eq!(end.1, None);
            ends.push(end.0);
        }
        assert_eq!(ends.len() as u64, readers + u64::from(want > 0), "{pos} {lens:?}");
        assert!(want == 0 || ends.contains(&want), "{ends:?}");
        assert!(world.all_frames_are_idle());
    }
}

#[test]
fn a_file_that_is_closed_goes_with_its_last_read() {
    let mut world = World::new(409_600);
    world.read(0, 8192);
    let (tag, ..) = world.dispatch().unwrap();
    world.read(40_960, 4096);
    let stream = world.stream;
    world.path.close(NOW, world.file);
    world.path.close(NOW, world.file);
    world.path.marker(NOW, stream, PageIndex(0), Pages(1), None);
    world.path.close_stream(stream);
    let next = world.path.open(world.device, ByteCount(4096)).unwrap();
    assert_ne!(IoPath::slot(next), IoPath::slot(world.file), "it is still in use");

    world.path.complete(NOW, tag, Ok(ByteCount(8192)));
    assert_eq!(world.entry(0), None);
    assert_eq!(world.ready(), Some((8192, None)));
    world.answer(None);
    assert_eq!(world.ready(), Some((4096, None)));
    assert!(world.all_frames_are_idle());
    let next = world.path.open(world.device, ByteCount(4096)).unwrap();
    assert_eq!(IoPath::slot(next), IoPath::slot(world.file), "it has gone");
}

#[test]
fn reads_of_a_closed_file_end_though_its_device_is_removed() {
    let mut world = World::new(409_600);
    // One in flight on the device, which takes one at a time; one queued.
    world.read(0, 8192);
    let (tag, ..) = world.dispatch().unwrap();
    world.read(40_960, 8192);
    world.path.close(NOW, world.file);
    world.path.remove_device(NOW, world.device);
    assert_eq!(world.ready(), Some((8192, Some(Fault::Short))));
    assert_eq!(world.ready(), None, "the other one is in the device's hands");
    // Half of it arrived. No device is left to read the rest.
    world.path.complete(NOW, tag, Ok(ByteCount(4096)));
    assert_eq!(world.ready(), Some((8192, Some(Fault::Short))));
    assert!(world.all_frames_are_idle());
}

#[test]
fn a_read_that_waits_for_frames_ends_when_its_file_is_closed_and_outlives_its_stream() {
    for is_closed in [false, true] {
        let mut world = World::new(100_000);
        let readers = world.take_all_frames();
        world.read(0, 80_000);
        let stream = world.stream;
        world.path.close_stream(stream);
        if is_closed {
            world.path.close(NOW, world.file);
            assert_eq!(world.ready(), Some((0, None)));
        }
        let mut ends = 0;
        while {
            world.answer(None);
            true
        } && world.ready().is_some()
        {
            ends += 1;
        }
        assert_eq!(ends, readers + u64::from(!is_closed));
        assert!(world.all_frames_are_idle());
    }
}

#[test]
fn the_whole_pages_of_a_range_are_those_that_it_covers_whole() {
    let world = World::new(10_000);
    let whole = |pos, len| {
        let pages = world.path.whole_pages(world.file, ByteCount(pos), ByteCount(len));
        pages.start.0..pages.end.0
    };
    assert_eq!(whole(0, 8192), 0..2);
    assert_eq!(whole(1, 8191), 1..2);
    assert_eq!(whole(0, 8191), 0..1);
    assert_eq!(whole(1, 4096), 1..1);
    assert_eq!(whole(1, 8192), 1..2);
    assert_eq!(whole(1, 4094), 1..1, "none");
    assert_eq!(whole(4096, 4096), 1..2);
    assert_eq!(whole(0, 9999), 0..2);
    assert_eq!(whole(0, 10_000), 0..3, "the last page ends with the file");
    assert_eq!(whole(4097, u64::MAX), 2..3);
    assert_eq!(whole(8193, u64::MAX), 3..3);
    assert_eq!(whole(u64::MAX, u64::MAX), 3..3);
}
