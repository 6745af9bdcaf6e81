//! Writes, flushes and zeroes step by step: the cases of docs/design/writes.md by name, with the
//! order of steps and device I/O. Bytes are checked in write_model.rs.

#![cfg(not(loom))]

mod appends;
mod cuts;
mod held_back;
mod lengths;
mod zeroes;

use foreread_core::geometry::Geometry;
use foreread_core::path::{
    Config, DeviceId, DeviceIo, Fault, FileId, IoPath, Tag, WriteId, WriteMode, WriteStep,
};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{InvalidSetting, Op, SchedulerKind, Submitter};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages, Sector};

struct Bench {
    path: IoPath,
    device: DeviceId,
    file: FileId,
    now: u64,
}

impl Bench {
    fn new(len: u64) -> Self {
        let (policy, max_window, rules) = (Policy::None, Pages(0), Rules::default());
        let mut path =
            IoPath::new(Config { memory: ByteCount(1 << 20), policy, max_window, rules });
        let geometry = Geometry { max_io: Pages(16), depth: 8, ..Geometry::new(ByteCount(0)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount(len)).unwrap();
        Self { path, device, file, now: 1 }
    }

    fn now(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    fn ask(&mut self, pos: u64, len: u64, mode: WriteMode) -> WriteId {
        let now = self.now();
        self.path.write(now, self.file, ByteCount(pos), ByteCount(len), mode, Submitter(1))
    }

    /// Writes and fills whole pages; a write-back write is over then.
    fn write(&mut self, page: u64, pages: u64, mode: WriteMode) -> WriteId {
        let id = self.ask(page * 4096, pages * 4096, mode);
        assert_eq!(self.step(), Some((id, WriteStep::Fill { len: ByteCount(pages * 4096) })));
        self.fill(id);
        if mode == WriteMode::WriteBack {
            assert_eq!(self.step(), Some((id, wrote(pages))));
        }
        id
    }

    fn fill(&mut self, id: WriteId) {
        let now = self.now();
        self.path.filled(now, id);
    }

    fn flush(&mut self) -> WriteId {
        let now = self.now();
        self.path.flush(now, self.file)
    }

    fn step(&mut self) -> Option<(WriteId, WriteStep)> {
        self.path.poll_write().map(|ready| (ready.id, ready.step))
    }

    fn io(&mut self) -> Option<DeviceIo> {
        let now = self.now();
        self.path.poll_dispatch(now)
    }

    /// Takes the next device write: its tag, first page, and number of pages.
    fn written(&mut self) -> Option<(Tag, u64, u64)> {
        let io = self.io()?;
        assert_eq!(io.op, Op::Write);
        Some((io.tag, io.offset.0 / 4096, io.len.0.div_ceil(4096)))
    }

    fn complete(&mut self, tag: Tag, result: Result<u64, i32>) {
        let now = self.now();
        self.path.complete(now, tag, result.map(ByteCount));
    }

    fn has(&self, page: u64) -> bool {
        self.path.table().look_up(IoPath::slot(self.file), PageIndex(page)).is_some()
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms * 1_000_000;
        let now = self.now();
        self.path.timeout(now);
    }
}

fn done(fault: Option<Fault>) -> WriteStep {
    WriteStep::Done { len: ByteCount(0), fault }
}

fn wrote(pages: u64) -> WriteStep {
    WriteStep::Done { len: ByteCount(pages * 4096), fault: None }
}

const EIO: Option<Fault> = Some(Fault::Io(5));

#[test]
fn a_whole_page_is_never_read_and_a_dirty_one_is_written_when_it_is_old() {
    let mut bench = Bench::new(1 << 20);
    bench.write(3, 2, WriteMode::WriteBack);
    assert_eq!(bench.io(), None, "neither read nor written yet");
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(2));
    assert!(bench.path.poll_timeout().unwrap() <= Nanos(bench.now + 5_000_000_000));
    bench.wait(5_000);
    let (tag, first, pages) = bench.written().unwrap();
    assert_eq!((first, pages), (3, 2));
    bench.complete(tag, Ok(8192));
    assert_eq!(bench.path.dirty(), Pages(0));
    assert_eq!(bench.path.poll_timeout(), None);
}

/// If all pages that it had to wait for belonged to an earlier flush, it once waited for later
/// writes until they were old.
#[test]
fn a_second_flush_waits_for_nothing_that_comes_after_it() {
    let mut bench = Bench::new(1 << 20);
    bench.write(3, 1, WriteMode::WriteBack);
    let flushes = [bench.flush(), bench.flush()];
    let (tag, ..) = bench.written().unwrap();
    bench.write(7, 1, WriteMode::WriteBack);
    assert_eq!(bench.step(), None, "the first page is on its way");
    bench.complete(tag, Ok(4096));
    assert_eq!(bench.step(), Some((flushes[0], WriteStep::Act)));
    assert_eq!(bench.step(), Some((flushes[1], WriteStep::Act)));
}

#[test]
fn a_partial_page_is_read_first_but_not_the_last_one_of_a_file_that_is_whole_in_it() {
    let mut bench = Bench::new(10_000);
    let id = bench.ask(100, 9_900, WriteMode::WriteBack);
    let io = bench.io().unwrap();
    assert_eq!((io.op, io.offset, io.len), (Op::Read, ByteCount(0), ByteCount(4096)));
    assert_eq!(bench.io(), None, "the page at the end is written whole");
    assert_eq!(bench.step(), None);
    bench.complete(io.tag, Ok(4096));
    assert_eq!(bench.step(), Some((id, WriteStep::Fill { len: ByteCount(9_900) })));
    let olds: Vec<_> = bench.path.fills(id).iter().map(|fill| fill.old.is_some()).collect();
    assert_eq!(olds, [true, false, false]);
    bench.fill(id);
    let flush = bench.flush();
    let io = bench.io().unwrap();
    assert_eq!(
        (io.op, io.offset, io.len),
        (Op::Write, ByteCount(0), ByteCount(10_000)),
        "to the end"
    );
    assert_eq!(bench.path.io_frames(io.tag).count(), 3);
    bench.complete(io.tag, Ok(10_000));
    assert_eq!(bench.step().unwrap().1, WriteStep::Done { len: ByteCount(9_900), fault: None });
    assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
}

/// The flusher looked for a dirty neighbour behind the largest page number, and panicked.
#[test]
fn the_last_page_of_the_longest_file_is_written() {
    let mut bench = Bench::new((1 << 63) - 1);
    let id = bench.ask((1 << 63) - 4096, 4095, WriteMode::WriteThrough);
    assert_eq!(bench.step(), Some((id, WriteStep::Fill { len: ByteCount(4095) })));
    bench.fill(id);
    assert_eq!(bench.written().map(|(_, first, pages)| (first, pages)), Some(((1 << 51) - 1, 1)));
}

#[test]
fn a_partial_page_that_cannot_be_read_is_the_error_of_its_write_and_leaves_nothing_behind() {
    let mut bench = Bench::new(1 << 20);
    let id = bench.ask(100, 100, WriteMode::WriteBack);
    let other = bench.ask(0, 4096, WriteMode::WriteBack);
    let io = bench.io().unwrap();
    bench.complete(io.tag, Err(5));
    assert_eq!(bench.step(), Some((id, done(EIO))));
    assert!(matches!(bench.step(), Some((next, WriteStep::Fill { .. })) if next == other));
    bench.fill(other);
    assert_eq!(bench.path.dirty(), Pages(1));
}

#[test]
fn writes_of_one_page_are_filled_one_after_the_other_in_the_order_of_their_arrival() {
    let mut bench = Bench::new(1 << 20);
    let ids = [0, 2, 1, 4].map(|page| bench.ask(page * 4096, 8192, WriteMode::WriteBack));
    let told: Vec<_> = std::iter::from_fn(|| bench.step()).map(|(id, _)| id).collect();
    assert_eq!(told, [ids[0], ids[1], ids[3]], "the third has pages of both before it");
    bench.fill(ids[0]);
    assert_eq!(bench.step(), Some((ids[0], wrote(2))));
    assert_eq!(bench.step(), None);
    bench.fill(ids[1]);
    assert_eq!(bench.step(), Some((ids[1], wrote(2))));
    assert!(matches!(bench.step(), Some((id, WriteStep::Fill { .. })) if id == ids[2]));
}

#[test]
fn a_page_is_in_one_device_write_at_a_time_and_a_flush_gets_both_of_its_versions() {
    let mut bench = Bench::new(1 << 20);
    bench.write(0, 1, WriteMode::WriteBack);
    let early = bench.flush();
    let (first, ..) = bench.written().unwrap();
    bench.write(0, 1, WriteMode::WriteBack);
    let late = bench.flush();
    assert_eq!(bench.io(), None, "not beside the older one");
    bench.complete(first, Ok(4096));
    let steps: Vec<_> = std::iter::from_fn(|| bench.step()).collect();
    assert!(steps.contains(&(early, WriteStep::Act)));
    assert!(!steps.contains(&(late, WriteStep::Act)));
    let (second, ..) = bench.written().unwrap();
    bench.complete(second, Ok(4096));
    assert_eq!(bench.step(), Some((late, WriteStep::Act)));
}

#[test]
fn of_a_request_that_fails_only_the_bad_page_does_and_each_flush_says_so_until_it_is_written() {
    let mut bench = Bench::new(1 << 20);
    bench.write(4, 3, WriteMode::WriteBack);
    for _ in 0..2 {
        let flush = bench.flush();
        while let Some((tag, first, pages)) = bench.written() {
            let is_bad = first <= 5 && 5 < first + pages;
            bench.complete(tag, if is_bad { Err(5) } else { Ok(pages * 4096) });
        }
        assert_eq!(bench.step(), Some((flush, done(EIO))));
        assert_eq!(bench.path.dirty_pages(bench.file), Pages(1));
    }
    assert_eq!(bench.path.stats().write_retries, 3, "each of three, once");
    // It is retried on its own, but not at once.
    assert_eq!(bench.io(), None);
    bench.wait(5_000);
    let (tag, first, pages) = bench.written().unwrap();
    assert_eq!((first, pages), (5, 1));
    bench.complete(tag, Ok(4096));
    let flush = bench.flush();
    assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
    let now = bench.now();
    bench.path.acted(now, flush, Err(28));
    assert_eq!(bench.step(), Some((flush, done(Some(Fault::Io(28))))));
}

#[test]
fn a_write_that_went_through_is_done_when_the_device_has_it_and_fua_says_so_to_the_device() {
    let mut bench = Bench::new(1 << 20);
    let through = bench.write(0, 1, WriteMode::WriteThrough);
    let fua = bench.write(1, 1, WriteMode::Fua);
    assert_eq!(bench.step(), None);
    let ios = [bench.io().unwrap(), bench.io().unwrap()];
    assert_eq!(ios.map(|io| io.fua), [false, true], "they do not merge");
    bench.complete(ios[1].tag, Ok(4096));
    assert_eq!(bench.step(), Some((fua, wrote(1))));
    bench.complete(ios[0].tag, Err(5));
    let failed = WriteStep::Done { len: ByteCount(4096), fault: EIO };
    assert_eq!(bench.step(), Some((through, failed)));
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(1), "it stays dirty");
}

#[test]
fn a_writer_that_waits_for_room_has_the_flusher_write_and_goes_on() {
    let mut bench = Bench::new(64 << 20);
    bench.path.set("dirty_limit", "64K").unwrap();
    bench.path.set("dirty_background", "64K").unwrap();
    bench.write(0, 14, WriteMode::WriteBack);
    let waits = bench.ask(100 * 4096, 4 * 4096, WriteMode::WriteBack);
    assert_eq!(bench.step(), None);
    let (tag, _, pages) = bench.written().unwrap();
    bench.complete(tag, Ok(pages * 4096));
    assert!(matches!(bench.step(), Some((id, WriteStep::Fill { .. })) if id == waits));
    assert_eq!(bench.path.stats().writes_waited_for_room, 1);
}

#[test]
fn a_writer_that_waits_for_room_which_only_bad_pages_hold_gets_their_fault() {
    let mut bench = Bench::new(64 << 20);
    bench.path.set("dirty_limit", "64K").unwrap();
    for page in 0..16 {
        bench.write(page * 2, 1, WriteMode::WriteBack);
    }
    let waits = bench.ask(100 * 4096, 4096, WriteMode::WriteBack);
    while let Some((tag, ..)) = bench.written() {
        bench.complete(tag, Err(5));
        if let Some(step) = bench.step() {
            assert_eq!(step, (waits, done(EIO)));
            assert_eq!(bench.path.dirty(), Pages(16));
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn dirty_pages_survive_an_invalidation_but_not_a_close() {
    let mut bench = Bench::new(1 << 20);
    bench.write(1, 2, WriteMode::WriteBack);
    let now = bench.now();
    bench.path.invalidate(now, bench.file, PageIndex(0)..PageIndex(9));
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(2));
    let filling = bench.ask(0, 4096, WriteMode::WriteBack);
    assert!(matches!(bench.step(), Some((_, WriteStep::Fill { .. }))));
    let waits = bench.ask(0, 4096, WriteMode::WriteBack);
    let flush = bench.flush();
    let now = bench.now();
    bench.path.close(now, bench.file);
    let steps = [bench.step().unwrap(), bench.step().unwrap()];
    assert!(steps.contains(&(waits, done(Some(Fault::Short)))));
    assert!(steps.contains(&(flush, done(Some(Fault::Short)))));
    bench.fill(filling);
    assert_eq!(bench.step(), Some((filling, done(Some(Fault::Short)))));
    while let Some((tag, ..)) = bench.written() {
        bench.complete(tag, Ok(8192));
    }
    assert_eq!(bench.path.dirty(), Pages(0));
    assert_eq!(bench.path.idle_frames(), u64::from(bench.path.frame_count()));
}

#[test]
fn a_write_in_flight_may_end_after_its_device_was_removed() {
    for result in [Ok(8192), Ok(4096), Err(5)] {
        let mut bench = Bench::new(1 << 20);
        bench.write(1, 2, WriteMode::WriteBack);
        bench.wait(10_000);
        let io = bench.io().unwrap();
        let now = bench.now();
        bench.path.close(now, bench.file);
        bench.path.remove_device(now, io.device);
        bench.complete(io.tag, result);
        assert_eq!(bench.path.dirty(), Pages(0));
        assert_eq!(bench.path.idle_frames(), u64::from(bench.path.frame_count()));
    }
}

#[test]
fn a_file_that_is_cut_drops_what_is_dirty_behind_its_end_and_flushes_do_not_wait_for_it() {
    let mut bench = Bench::new(1 << 20);
    bench.write(0, 1, WriteMode::WriteBack);
    bench.write(9, 1, WriteMode::WriteBack);
    let now = bench.now();
    bench.path.set_len(now, bench.file, ByteCount(5_000));
    assert_eq!(bench.path.dirty_pages(bench.file), Pages(1));
    let flush = bench.flush();
    let (tag, first, _) = bench.written().unwrap();
    assert_eq!(first, 0);
    bench.complete(tag, Ok(4096));
    assert_eq!(bench.step(), Some((flush, WriteStep::Act)));
    let behind = bench.ask(5_000, 10, WriteMode::WriteBack);
    assert_eq!(bench.step(), Some((behind, done(None))), "a write never makes a file longer");
}

#[test]
fn the_short_page_at_the_end_of_a_file_is_the_last_of_its_request() {
    let (policy, max_window, rules) = (Policy::None, Pages(0), Rules::default());
    let mut path = IoPath::new(Config { memory: ByteCount(1 << 20), policy, max_window, rules });
    let device = path.add_device(Geometry::new(ByteCount(0)), &SchedulerKind::Noop);
    // The second file begins in the sector behind the end of the first.
    let files = [
        path.open_at(device, Sector(0), ByteCount(4096 + 512)).unwrap(),
        path.open_at(device, Sector(9), ByteCount(4096)).unwrap(),
    ];
    for file in files {
        let len = ByteCount(if file == files[0] { 4608 } else { 4096 });
        let id =
            path.write(Nanos(1), file, ByteCount(0), len, WriteMode::WriteThrough, Submitter(0));
        path.filled(Nanos(1), id);
    }
    let ios = [path.poll_dispatch(Nanos(2)).unwrap(), path.poll_dispatch(Nanos(2)).unwrap()];
    assert_eq!(ios.map(|io| (io.offset.0, io.len.0)), [(0, 4608), (4608, 4096)]);
}

#[test]
fn settings_are_said_as_they_are_taken_and_nonsense_is_refused() {
    let mut bench = Bench::new(1 << 20);
    for (name, value) in [("dirty_limit", "128K"), ("dirty_age", "7"), ("policy", "linux-6")] {
        bench.path.set(name, value).unwrap();
    }
    let settings = bench.path.settings();
    assert!(settings.contains(&("dirty_limit", "131072".into())));
    assert!(settings.contains(&("dirty_background", "65536".into())), "half of it");
    assert!(settings.contains(&("dirty_age", "7".into())));
    for (name, value) in &settings {
        bench.path.set(name, value).unwrap();
    }
    assert_eq!(bench.path.settings(), settings);
    for (name, value) in [("dirty_limit", "much"), ("writes_queued", "0"), ("policy", "best")] {
        assert!(matches!(bench.path.set(name, value), Err(InvalidSetting::Value { .. })));
    }
    assert!(matches!(bench.path.set("colour", "red"), Err(InvalidSetting::Unknown { .. })));
}
