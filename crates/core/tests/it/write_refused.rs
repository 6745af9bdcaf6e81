//! Devices that refuse writes, in virtual time: the requests that a flush costs, and the time of
//! the next retry. The path has at most 1024 dirty pages.

#![cfg(not(loom))]

mod files;
mod starvation;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, Fault, FileId, IoPath, Tag, WriteId, WriteMode, WriteStep};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{Op, SchedulerKind, Submitter};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EIO: i32 = 5;
const MS: u64 = 1_000_000;

/// A device that serves one request at a time, and refuses those with a page that `takes` rejects.
struct Bench<'t> {
    path: IoPath,
    file: FileId,
    now: u64,
    /// Time of a request.
    service_ms: u64,
    takes: Box<dyn Fn(u64) -> bool + 't>,
    errno: i32,
    /// Write requests that reached the device, and those it refused.
    requests: usize,
    refused: usize,
    /// Completed flushes and writes, with their fault.
    over: Vec<(WriteId, Option<Fault>)>,
}

impl<'t> Bench<'t> {
    fn new(errno: i32, takes: impl Fn(u64) -> bool + 't) -> Self {
        let (policy, max_window, rules) = (Policy::None, Pages(0), Rules::default());
        let mut path =
            IoPath::new(Config { memory: ByteCount(17 << 20), policy, max_window, rules });
        let geometry = Geometry { max_io: Pages(64), depth: 8, ..Geometry::new(ByteCount(0)) };
        let device = path.add_device(geometry, &SchedulerKind::Noop);
        let file = path.open(device, ByteCount(64 << 20)).unwrap();
        let (requests, refused, over, service_ms) = (0, 0, Vec::new(), 7);
        let takes = Box::new(takes);
        Self { path, file, now: 1, service_ms, takes, errno, requests, refused, over }
    }

    fn now(&mut self) -> Nanos {
        self.now += 1;
        Nanos(self.now)
    }

    fn write(&mut self, page: u64, pages: u64, mode: WriteMode) -> WriteId {
        let now = self.now();
        let (pos, len) = (ByteCount(page * 4096), ByteCount(pages * 4096));
        let id = self.path.write(now, self.file, pos, len, mode, Submitter(1));
        self.take_steps();
        id
    }

    fn flush(&mut self) -> WriteId {
        let now = self.now();
        let id = self.path.flush(now, self.file);
        self.take_steps();
        id
    }

    fn take_steps(&mut self) {
        while let Some(ready) = self.path.poll_write() {
            let now = self.now();
            match ready.step {
                WriteStep::Fill { .. } => self.path.filled(now, ready.id),
                WriteStep::Act | WriteStep::SetLen { .. } => {
                    self.path.acted(now, ready.id, Ok(()));
                }
                WriteStep::Done { fault, .. } => self.over.push((ready.id, fault)),
            }
        }
    }

    /// Serves the next request; returns false if there is none.
    fn serve_one(&mut self) -> bool {
        let now = self.now();
        let Some(io) = self.path.poll_dispatch(now) else { return false };
        assert_eq!(io.op, Op::Write);
        self.requests += 1;
        self.now += self.service_ms * MS;
        let first = io.offset.0 / 4096;
        let is_taken = (first..first + io.len.0 / 4096).all(|page| (self.takes)(page));
        self.refused += usize::from(!is_taken);
        let now = self.now();
        let result = if is_taken { Ok(io.len) } else { Err(self.errno) };
        self.path.complete(now, io.tag, result);
        if self.path.poll_timeout().is_some_and(|at| at <= now) {
            self.path.timeout(now);
        }
        self.take_steps();
        true
    }

    /// Serves requests until this write is over; returns its fault.
    fn serve_until_over(&mut self, id: WriteId) -> Option<Fault> {
        for _ in 0..20_000 {
            if let Some((_, fault)) = self.over.iter().find(|(other, _)| *other == id) {
                return *fault;
            }
            assert!(self.serve_one(), "it waits for nothing");
        }
        panic!("it does not end");
    }

    /// Advances to the next time-out, and serves the requests sent then; returns the time passed
    /// and the number of requests.
    fn wait_for_probe(&mut self) -> Option<(u64, usize)> {
        let at = self.path.poll_timeout()?;
        let waited = at.0.saturating_sub(self.now);
        self.now = self.now.max(at.0);
        let now = self.now();
        self.path.timeout(now);
        let before = self.requests;
        while self.serve_one() {}
        Some((waited / MS, self.requests - before))
    }

    /// Takes the next request: its tag, first page and length, and whether it is durable.
    fn dispatch(&mut self) -> Option<(Tag, u64, ByteCount, bool)> {
        let now = self.now();
        let io = self.path.poll_dispatch(now)?;
        Some((io.tag, io.offset.0 / 4096, io.len, io.fua))
    }

    fn complete(&mut self, tag: Tag, result: Result<ByteCount, i32>) {
        let now = self.now();
        self.path.complete(now, tag, result);
        self.take_steps();
    }

    fn dirty(&self) -> u64 {
        self.path.dirty_pages(self.file).0
    }
}

/// 32 refusals in a row, and the requests that may be queued or in flight by then.
const MOST: usize = 32 + 64;

#[test]
fn a_flush_on_a_full_device_costs_a_bounded_number_of_requests() {
    // Single pages, and pages in runs as long as a request may be.
    for (runs, pages, gap) in [(900, 1, 2), (14, 64, 65), (100, 8, 9)] {
        let mut bench = Bench::new(ENOSPC, |_| false);
        for run in 0..runs {
            bench.write(run * gap, pages, WriteMode::WriteBack);
        }
        let dirty = bench.dirty();
        assert_eq!(dirty, runs * pages);
        for _ in 0..3 {
            bench.requests = 0;
            let flush = bench.flush();
            let fault = bench.serve_until_over(flush);
            assert_eq!(fault, Some(Fault::Io(ENOSPC)));
            assert!(bench.requests <= MOST, "{} requests for {dirty} pages", bench.requests);
            assert_eq!(bench.dirty(), dirty, "all of it stays");
        }
    }
}

/// A refusal took 7 ms, and failed pages were sent again after `dirty_age`. With more pages than
/// could be refused in that time, there was no moment at which all had failed.
#[test]
fn a_flush_ends_although_failed_pages_come_of_age_while_it_waits() {
    let mut bench = Bench::new(ENOSPC, |_| false);
    bench.path.set("dirty_age", "200").unwrap();
    for page in 0..400 {
        bench.write(page * 2, 1, WriteMode::WriteBack);
    }
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(ENOSPC)));
    assert!(bench.now < 2_000 * MS, "after {} ms", bench.now / MS);
}

/// Some blocks are allocated already, and are overwritten.
#[test]
fn a_flush_writes_the_pages_that_a_full_device_still_accepts() {
    let mut bench = Bench::new(ENOSPC, |page| page % 64 < 16);
    for run in 0..8 {
        bench.write(run * 64, 64, WriteMode::WriteBack);
    }
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(ENOSPC)));
    assert_eq!(bench.dirty(), 8 * 48, "16 pages of each run were taken");
    assert!(bench.requests <= 8 * (1 + MOST), "{} requests", bench.requests);
}

#[test]
fn one_bad_page_costs_its_neighbours_nothing() {
    for bad in [0, 1, 31, 62, 63] {
        let mut bench = Bench::new(EIO, |page| page != bad);
        bench.write(0, 64, WriteMode::WriteBack);
        let flush = bench.flush();
        assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(EIO)));
        assert_eq!(bench.dirty(), 1, "page {bad}");
        assert!(bench.requests <= 16, "{} requests", bench.requests);
    }
}

#[test]
fn a_full_device_is_asked_for_one_page_at_growing_intervals() {
    let is_full = std::cell::Cell::new(true);
    let mut bench = Bench::new(ENOSPC, |_| !is_full.get());
    bench.path.set("dirty_age", "200").unwrap();
    bench.write(0, 64, WriteMode::WriteBack);
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(ENOSPC)));
    while bench.serve_one() {}
    let mut waited = Vec::new();
    for _ in 0..9 {
        let (ms, requests) = bench.wait_for_probe().unwrap();
        assert_eq!(requests, 1, "a probe is one request");
        waited.push(ms.next_multiple_of(100));
    }
    assert!(waited.is_sorted() && waited[0] <= 1000, "{waited:?}");
    assert!(waited[7..].iter().all(|ms| (59_000..=60_000).contains(ms)), "{waited:?}");
    is_full.set(false);
    bench.wait_for_probe().unwrap();
    assert_eq!(bench.dirty(), 0, "one page was taken, and the others followed");
    assert_eq!(bench.path.poll_timeout(), None);
}

#[test]
fn a_permanent_error_is_left_alone_until_a_flush_or_a_write_of_the_page() {
    let is_read_only = std::cell::Cell::new(true);
    let mut bench = Bench::new(EROFS, |_| !is_read_only.get());
    bench.write(3, 2, WriteMode::WriteBack);
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(EROFS)));
    while bench.serve_one() {}
    assert_eq!(bench.path.poll_timeout(), None, "no probe");
    bench.requests = 0;
    bench.write(3, 1, WriteMode::WriteBack);
    while bench.serve_one() {}
    assert_eq!(bench.requests, 1, "the page that was written is tried");
    is_read_only.set(false);
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), None);
    assert_eq!(bench.dirty(), 0);
}

/// Each is a reason to send failed pages again, for which the first flush need not wait.
#[test]
fn a_flush_ends_although_others_flush_and_write_the_same_pages_all_the_time() {
    let mut bench = Bench::new(ENOSPC, |_| false);
    for page in 0..200 {
        bench.write(page * 2, 1, WriteMode::WriteBack);
    }
    let first = bench.flush();
    for turn in 0_usize.. {
        if let Some((_, fault)) = bench.over.iter().find(|(id, _)| *id == first) {
            assert_eq!(*fault, Some(Fault::Io(ENOSPC)));
            break;
        }
        assert!(turn < MOST + 16, "it is kept waiting");
        bench.serve_one();
        bench.flush();
        bench.write(turn as u64 % 200 * 2, 1, WriteMode::WriteBack);
    }
}

/// A FUA write gets its own result: if the device accepts it, it succeeds.
#[test]
fn a_fua_write_of_a_page_that_a_full_device_takes_succeeds() {
    let mut bench = Bench::new(ENOSPC, |page| page == 500);
    for page in 0..200 {
        bench.write(page * 2, 1, WriteMode::WriteBack);
    }
    let flush = bench.flush();
    let fua = bench.write(500, 1, WriteMode::Fua);
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(ENOSPC)));
    assert_eq!(bench.serve_until_over(fua), None);
}

/// Its user frees space and retries: the write must not wait a minute for the next probe.
#[test]
fn a_writer_that_is_refused_for_want_of_room_brings_the_next_probe_forward() {
    let is_full = std::cell::Cell::new(true);
    let mut bench = Bench::new(ENOSPC, |_| !is_full.get());
    bench.path.set("dirty_limit", "64K").unwrap();
    for page in 0..16 {
        bench.write(page * 2, 1, WriteMode::WriteBack);
    }
    let flush = bench.flush();
    assert_eq!(bench.serve_until_over(flush), Some(Fault::Io(ENOSPC)));
    while bench.wait_for_probe().unwrap().0 < 30_000 {}
    let refused = bench.write(100, 1, WriteMode::WriteBack);
    assert_eq!(bench.serve_until_over(refused), Some(Fault::Io(ENOSPC)));
    is_full.set(false);
    let (waited_ms, _) = bench.wait_for_probe().unwrap();
    assert!(waited_ms <= 1000, "{waited_ms} ms");
    let taken = bench.write(100, 1, WriteMode::WriteBack);
    assert_eq!(bench.serve_until_over(taken), None);
}

/// 32 refusals of pages of a later epoch move a failed page on its list. Its own flush still gets
/// its fault.
#[test]
fn a_flush_is_told_of_its_refused_page_however_many_later_ones_are_refused() {
    let mut bench = Bench::new(ENOSPC, |_| false);
    bench.write(0, 1, WriteMode::WriteBack);
    bench.write(10, 1, WriteMode::WriteBack);
    let flush = bench.flush();
    let (refused, slow) = (bench.dispatch().unwrap(), bench.dispatch().unwrap());
    assert_eq!((refused.1, slow.1), (0, 10));
    bench.complete(refused.0, Err(ENOSPC));
    for page in 0..200 {
        bench.write(100 + 2 * page, 1, WriteMode::WriteBack);
    }
    bench.path.set("dirty_background", "0").unwrap();
    let now = bench.now();
    bench.path.timeout(now);
    let mut count = 0;
    while let Some((tag, ..)) = bench.dispatch() {
        count += 1;
        bench.complete(tag, Err(ENOSPC));
    }
    assert!(count >= 32, "{count}");
    bench.complete(slow.0, Ok(ByteCount(4096)));
    let told = bench.over.iter().find(|(id, _)| *id == flush);
    assert_eq!(told, Some(&(flush, Some(Fault::Io(ENOSPC)))));
}
