//! Requests of a path to its device: for hints, for advice and rules, and with read-ahead off. The
//! windows of policies are checked in adaptive.rs, and in golden.rs and policy_model.rs of the
//! simulator.

use std::ops::Range;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceIo, FileId, IoPath, StreamId};
use foreread_core::prefetch::{Advice, Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const PAGE: u64 = 4096;

struct World {
    path: IoPath,
    file: FileId,
    stream: StreamId,
    prev_pos: Option<ByteCount>,
}

impl World {
    fn new(policy: Policy, max: u64, memory: u64) -> Self {
        Self::with(policy, max, memory, Rules::default())
    }

    fn with(policy: Policy, max: u64, memory: u64, rules: Rules) -> Self {
        let (memory, max_window) = (ByteCount(memory), Pages(max));
        let mut path = IoPath::new(Config { memory, policy, max_window, rules });
        let geometry = Geometry { max_io: Pages(16), depth: 4, ..Geometry::new(ByteCount(0)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount(10_000 * PAGE - 100)).unwrap();
        let stream = path.stream(file);
        Self { path, file, stream, prev_pos: None }
    }

    fn hint(&mut self, pages: Range<u64>) -> u64 {
        let count = Pages(pages.end - pages.start);
        self.path.will_need(Nanos(0), self.file, PageIndex(pages.start), count).0
    }

    /// Completes all requests. Returns their first pages and ends.
    fn run(&mut self) -> Vec<(u64, u64)> {
        let mut asked = Vec::new();
        while let Some(DeviceIo { tag, offset, len, .. }) = self.path.poll_dispatch(Nanos(0)) {
            asked.push((offset.0 / PAGE, (offset + len).0 / PAGE));
            self.path.complete(Nanos(0), tag, Ok(len));
        }
        asked
    }

    /// Reads as a program does: in several calls if it is long, resident or not.
    fn read(&mut self, page: u64, count: u64) -> Vec<(u64, u64)> {
        let (mut pos, end) = (ByteCount(page * PAGE), ByteCount((page + count) * PAGE));
        let mut asked = Vec::new();
        while pos < end {
            let id = self.path.read(Nanos(0), self.stream, pos, end - pos, self.prev_pos);
            asked.extend(self.run());
            let ready = self.path.poll_ready().expect("the device has answered");
            assert_eq!((ready.id, ready.fault), (id, None));
            self.path.release(Nanos(0), id);
            pos += ready.len;
        }
        self.prev_pos = Some(end);
        asked
    }

    fn is_resident(&self, page: u64) -> bool {
        self.path.table().look_up(IoPath::slot(self.file), PageIndex(page)).is_some()
    }
}

#[test]
fn a_hint_reads_what_is_not_resident_in_the_largest_requests_and_marks_nothing() {
    for policy in Policy::ALL {
        for advice in Advice::ALL {
            let mut world = World::new(policy, 32, 8 << 20);
            world.path.advise(world.stream, advice);
            world.read(520, 1);
            assert_eq!(world.hint(510..550), 39);
            assert_eq!(world.run(), [(510, 520), (521, 537), (537, 550)]);
            assert_eq!(world.hint(510..550), 0, "all of it is there");
            let stats = world.path.stats();
            assert_eq!((stats.pages_hinted, stats.hints_shortened), (39, 0));
            assert_eq!(stats.pages_ahead, 0, "a hint is no read-ahead");
            for page in 510..550 {
                assert_eq!(world.read(page, 1), [], "{}, {advice:?}", policy.name());
            }
            assert_eq!(world.path.stats().markers, 0);
        }
    }
}

#[test]
fn a_hint_leaves_out_what_the_file_does_not_have() {
    let mut world = World::new(Policy::None, 32, 8 << 20);
    assert_eq!(world.hint(9_998..20_000), 2);
    assert_eq!(world.run(), [(9_998, 10_000)]);
    assert_eq!(world.hint(10_000..10_001), 0);
    assert_eq!(world.hint(u64::MAX - 1..u64::MAX), 0);
    let file = world.file;
    world.path.close(Nanos(0), file);
    assert_eq!(world.hint(0..10), 0, "the file is closed");
}

#[test]
fn a_read_joins_a_hint_that_is_on_its_way() {
    let mut world = World::new(Policy::None, 32, 8 << 20);
    assert_eq!(world.hint(100..110), 10);
    let id =
        world.path.read(Nanos(0), world.stream, ByteCount(103 * PAGE), ByteCount(2 * PAGE), None);
    assert!(world.path.poll_ready().is_none());
    assert_eq!(world.path.stats().pages_joined, 2);
    assert_eq!(world.run(), [(100, 110)]);
    assert_eq!(world.path.poll_ready().map(|ready| ready.id), Some(id));
    world.path.release(Nanos(0), id);
}

#[test]
fn hints_that_follow_each_other_merge_while_the_device_is_busy() {
    let mut world = World::new(Policy::None, 32, 8 << 20);
    // Four requests fill the device; later ones wait in its queue.
    let busy: Vec<_> = (0..4)
        .map(|number| {
            world.hint(1000 * number..1000 * number + 1);
            world.path.poll_dispatch(Nanos(0)).unwrap()
        })
        .collect();
    for page in 500..516 {
        assert_eq!(world.hint(page..page + 1), 1);
    }
    assert!(world.path.poll_dispatch(Nanos(0)).is_none());
    for DeviceIo { tag, len, .. } in busy {
        world.path.complete(Nanos(0), tag, Ok(len));
    }
    assert_eq!(world.run(), [(500, 516)]);
}

#[test]
fn unused_hinted_pages_hold_half_of_the_frames_at_most() {
    let mut world = World::new(Policy::Adaptive, 32, 1 << 20);
    let frames = u64::from(world.path.frame_count());
    assert_eq!(world.hint(0..10_000), frames / 2);
    world.run();
    assert_eq!(world.path.stats().hints_shortened, 1);
    assert_eq!(world.hint(5000..5001), 0);
    assert_eq!(world.path.stats().hints_shortened, 2);
    assert!(!world.is_resident(5000));

    // Each used page makes room for another, regardless of its position in the queue.
    for page in [frames / 2 - 1, 3, 40] {
        assert_eq!(world.read(page, 1), [], "it is there");
    }
    let more: u64 = (0..frames).map(|page| world.hint(6000 + page..6001 + page)).sum();
    assert_eq!(more, 3);

    // Pages evicted unused make room, too. A scan that is read ahead lives in frames of its own.
    let scan = 2 * frames;
    world.path.advise(world.stream, Advice::Random);
    world.run();
    for page in 7000..7000 + scan {
        world.read(page, 1);
    }
    let more: u64 = (0..frames).map(|page| world.hint(page..page + 1)).sum();
    assert_eq!(more, frames / 2);
}

#[test]
fn a_hint_takes_no_frame_while_a_read_waits_for_one() {
    let mut world = World::new(Policy::None, 32, 1 << 20);
    let frames = u64::from(world.path.frame_count());
    let largest = frames / 8;
    let ids: Vec<_> = (0..9)
        .map(|number| {
            let pos = ByteCount(1000 * number * PAGE);
            world.path.read(Nanos(0), world.stream, pos, ByteCount(largest * PAGE), None)
        })
        .collect();
    // Six at a time: a quarter of the frames is reserved for pins.
    assert_eq!(world.path.stats().waited_for_frames, 3);
    assert_eq!(world.hint(9500..9501), 0);
    assert_eq!(world.path.stats().hints_shortened, 1);
    for id in ids {
        world.run();
        assert_eq!(world.path.poll_ready().map(|ready| ready.id), Some(id));
        world.path.release(Nanos(0), id);
    }
    assert_eq!(world.hint(9500..9501), 1);
}

/// When read-ahead is off, no policy and no advice reads a page that was not requested.
#[test]
fn without_read_ahead_the_device_reads_only_requested_pages() {
    let patterns: [(&str, Vec<(u64, u64)>); 7] = [
        ("one stream", (0..200).map(|i| (i, 1)).collect()),
        ("large reads", (0..20).map(|i| (i * 70, 70)).collect()),
        ("in turns", (0..100).flat_map(|i| [(1 + i, 1), (4000 + i, 1)]).collect()),
        ("in turns, 64 KiB", (0..40).flat_map(|i| [(16 * i, 16), (4000 + 16 * i, 16)]).collect()),
        ("backwards", (0..200).rev().map(|i| (i, 1)).collect()),
        ("every third page", (0..200).map(|i| (3 * i, 1)).collect()),
        ("here and there", (0..200).map(|i| (i * 7919 % 9973, 3)).collect()),
    ];
    let off = Policy::ALL.map(|policy| (policy, 0, Advice::Normal));
    let random = Policy::ALL.map(|policy| (policy, 32, Advice::Random));
    let none = Advice::ALL.map(|advice| (Policy::None, 32, advice));
    for (policy, max, advice) in [&off[..], &random[..], &none[..]].concat() {
        for (name, reads) in &patterns {
            let mut world = World::new(policy, max, 64 << 20);
            world.path.advise(world.stream, advice);
            let mut wanted = std::collections::BTreeSet::new();
            for (page, count) in reads {
                world.read(*page, *count);
                wanted.extend(*page..page + count);
            }
            let read = world.path.stats().device_pages;
            let at = format!("{name}, {}, max {max}, {advice:?}", policy.name());
            assert_eq!(read, wanted.len() as u64, "{at}");
        }
    }
}

#[test]
fn a_sequential_stream_has_windows_twice_as_large() {
    for (policy, advice, want) in [
        (Policy::Linux6, Advice::Normal, 32),
        (Policy::Linux6, Advice::Sequential, 64),
        (Policy::Adaptive, Advice::Normal, 32),
        (Policy::Adaptive, Advice::Sequential, 64),
    ] {
        let mut world = World::new(policy, 32, 64 << 20);
        world.path.advise(world.stream, advice);
        let asked: Vec<u64> = (0..1000)
            .map(|page| world.read(page, 1).iter().map(|(first, end)| end - first).sum())
            .collect();
        assert_eq!(asked.iter().max(), Some(&want), "{}, {advice:?}", policy.name());
    }
}

#[test]
fn a_path_has_the_rules_it_was_made_with() {
    let lseek = Rules { lseek: true, ..Rules::default() };
    for (rules, seeks, want) in
        [(lseek, true, (0, 1)), (lseek, false, (0, 4)), (Rules::default(), true, (0, 4))]
    {
        let mut world = World::with(Policy::Adaptive, 32, 8 << 20, rules);
        if seeks {
            world.path.seeked(world.stream);
        }
        assert_eq!(world.read(0, 1), [want], "{rules:?}, seek {seeks}");
    }
    let backwards = Rules { backwards: true, ..Rules::default() };
    let mut world = World::with(Policy::Adaptive, 32, 8 << 20, backwards);
    assert_eq!(world.read(100, 8), [(100, 108)]);
    assert_eq!(world.read(92, 8), [(84, 100)]);
}

#[test]
fn a_file_remembers_its_streams_through_every_handle_and_forgets_them_when_it_closes() {
    let mut world = World::new(Policy::Adaptive, 32, 8 << 20);
    let mut second = world.path.stream(world.file);
    let mut asked = Vec::new();
    for page in 0..12 {
        world.prev_pos = None;
        asked.extend(world.read(100 + page, 1));
        (world.stream, second) = (second, world.stream);
    }
    assert_eq!(asked, [(100, 101), (101, 105), (105, 113), (113, 129)]);

    // The same slot, another file: page 113 follows nothing.
    let file = world.file;
    world.path.close(Nanos(0), file);
    let device = world
        .path
        .add_device(Geometry { depth: 4, ..Geometry::new(ByteCount(0)) }, &SchedulerKind::Noop);
    world.file = world.path.open(device, ByteCount(1 << 30)).unwrap();
    assert_eq!(IoPath::slot(world.file), IoPath::slot(file));
    world.stream = world.path.stream(world.file);
    world.prev_pos = None;
    assert_eq!(world.read(113, 1), [(113, 114)]);
}

/// The activation of a page shows when it stays resident while many others pass.
#[test]
fn pages_that_are_not_to_be_reused_leave_however_often_they_are_read() {
    for no_reuse in [false, true] {
        let mut world = World::new(Policy::None, 32, 1 << 20);
        let frames = u64::from(world.path.frame_count());
        let (first, stream) = (world.stream, world.path.stream(world.file));
        world.path.set_no_reuse(stream, no_reuse);
        world.stream = stream;
        for _ in 0..3 {
            world.prev_pos = None;
            world.read(0, 1);
        }
        world.stream = first;
        for page in 0..2 * frames {
            world.read(1000 + page, 1);
        }
        assert_eq!(world.is_resident(0), !no_reuse);
    }
}
