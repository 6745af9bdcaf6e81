//! Files read to their end that stay open, under `adaptive`, use no read-ahead memory: thousands of
//! small ones do not increase the number of requests of a large one in a cache of 4 MiB.

#![cfg(not(loom))]

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceIo, FileId, IoPath, StreamId};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, Pages};

const PAGE: u64 = 4096;

/// Pages in a read.
const READ: u64 = 3;

/// Fate of a small file.
#[derive(Clone, Copy, PartialEq)]
enum SmallFile {
    /// Read to its end and closed.
    Closed,
    /// Read to its end.
    Open,
    /// Read except for the last read.
    Unread,
}

struct World {
    path: IoPath,
    now: u64,
    requests: u64,
}

impl World {
    /// Reads a file from its start, some pages at a time.
    fn read(&mut self, stream: StreamId, pages: u64) {
        for page in (0..pages).step_by(usize::try_from(READ).unwrap()) {
            self.now += 1_000_000;
            let now = Nanos(self.now);
            let (pos, len) = (ByteCount(page * PAGE), ByteCount(READ * PAGE));
            let prev_pos = Some(pos).filter(|pos| pos.0 > 0);
            let id = self.path.read(now, stream, pos, len, prev_pos);
            while let Some(DeviceIo { tag, len, .. }) = self.path.poll_dispatch(now) {
                self.requests += 1;
                self.path.complete(now, tag, Ok(len));
            }
            self.path.poll_ready().expect("the device has answered");
            self.path.release(now, id);
        }
    }
}

/// Returns the requests of a file of 8 MiB after `small` small ones.
fn requests_after(small: u64, becomes: SmallFile) -> u64 {
    let memory = ByteCount(4 << 20);
    let (policy, max_window, rules) = (Policy::Adaptive, Pages(64), Rules::default());
    let path = IoPath::new(Config { memory, policy, max_window, rules });
    let mut world = World { path, now: 0, requests: 0 };
    let geometry = Geometry { max_io: Pages(64), depth: 4, ..Geometry::new(ByteCount(1 << 40)) };
    let device = world.path.add_device(geometry, &SchedulerKind::Noop);
    let open = |world: &mut World, pages: u64| -> (FileId, StreamId) {
        let file = world.path.open(device, ByteCount(pages * PAGE)).expect("there is a slot");
        (file, world.path.stream(file))
    };
    for number in 0..small {
        let pages = READ * (2 + number % 2);
        let (file, stream) = open(&mut world, pages);
        world.read(stream, if becomes == SmallFile::Unread { pages - READ } else { pages });
        if becomes == SmallFile::Closed {
            world.path.close_stream(stream);
            world.path.close(Nanos(world.now), file);
        }
    }
    let (_, stream) = open(&mut world, 2048);
    world.requests = 0;
    world.read(stream, 2048);
    world.path.assert_consistent();
    world.requests
}

/// For seconds they counted with all pages that had been ahead of their readers: more than the
/// memory.
#[test]
fn a_large_file_is_read_after_small_ones_that_stay_open_as_if_it_were_alone() {
    let alone = requests_after(0, SmallFile::Open);
    assert_eq!(requests_after(1200, SmallFile::Open), alone);
    let closed = requests_after(1200, SmallFile::Closed);
    assert!(alone <= closed, "{alone} requests, {closed} if the small ones are closed");
}

/// Unread pages ahead of a reader are kept, and the large file gets less memory.
#[test]
fn small_files_that_were_not_read_to_their_end_need_memory() {
    let (read, unread) =
        (requests_after(250, SmallFile::Open), requests_after(250, SmallFile::Unread));
    assert!(unread > read + 10, "{unread} requests, {read} if the small ones are read");
}
