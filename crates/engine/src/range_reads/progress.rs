//! Progress of a read of many ranges: sweep, plan, requests in flight, copies. It never waits,
//! plans or copies under the engine's mutex.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use foreread_core::path::Fault;
use foreread_core::ranges::{CostModel, RequestLimits, plan};

use super::results::{RangeResult, RangeResults};
use super::sweep::{MissingRun, PortionLimit, RangePart, Sweep, page_and_offset};
use crate::deferred_wake::KeepAlive;
use crate::driver::EndedRead;
use crate::engine_state::DriverGuard;
use crate::error::{ForkedError, ReadError, ReadErrorKind};
use crate::file_state::{FileState, pages_of};
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::owned_read::OwnedRead;
use crate::pool::PAGE;
use crate::reader::{copy_page, error};
use crate::stream::ReadStream;
use crate::wait_table::{BatchId, Ticket, Waiter};

/// A read of many ranges in flight.
#[derive(Debug)]
pub(super) struct RangeReads {
    /// Reads parts that the planned requests did not deliver: their pages failed, or were evicted
    /// before the copy.
    stream: ReadStream,
    results: RangeResults,
    sweep: Sweep,
    /// The caller takes ranges one by one, so that no more is copied ahead than necessary.
    one_by_one: bool,
    batch: Option<BatchId>,
    /// The requests in flight, by their number in the batch.
    requests: HashMap<u32, RequestParts>,
    begun: u32,
    /// Total bytes of these requests.
    in_flight: u64,
    /// Parts to be read without a plan.
    unplanned: VecDeque<RangePart>,
    /// The first of them, while an asynchronous caller reads it.
    reading: Option<(RangePart, OwnedRead)>,
}

/// A planned request.
#[derive(Debug)]
struct RequestParts {
    bytes: u64,
    /// The parts of ranges that it delivers.
    parts: Vec<RangePart>,
}

impl RangeReads {
    pub(super) fn new(
        handle: &Arc<Handle>,
        ranges: &[Range<u64>],
        one_by_one: bool,
    ) -> Result<Self, ReadError> {
        let forked = |ForkedError| ReadErrorKind::Forked.of(handle.path.clone());
        handle.file.engine.check_process().map_err(forked)?;
        let results = RangeResults::new(handle, ranges);
        Ok(Self {
            stream: results.stream_of_parts(handle),
            sweep: Sweep::new(&results),
            results,
            one_by_one,
            batch: None,
            requests: HashMap::new(),
            begun: 0,
            in_flight: 0,
            unplanned: VecDeque::new(),
            reading: None,
        })
    }

    /// Returns the number of ranges.
    pub(super) fn len(&self) -> usize {
        self.results.len()
    }

    /// Returns true if the caller has taken all ranges.
    pub(super) fn is_done(&self) -> bool {
        self.results.is_done()
    }

    /// Takes a complete range.
    pub(super) fn pop(&mut self) -> Option<(usize, RangeResult)> {
        let (number, result, is_hit) = self.results.pop(self.stream.handle.file.len().0)?;
        if is_hit {
            self.stream.reader.hits.add_one();
        }
        Some((number, result))
    }

    /// Fails all incomplete ranges for the same reason.
    pub(super) fn fail_all(&mut self, why: &ReadError) {
        let path = &self.stream.handle.path;
        self.results.fail_all(|offset| again(why, path, offset));
    }

    /// Performs the next step, blocking the thread.
    pub(super) fn wait(&mut self) -> Result<(), ReadError> {
        if let Some(part) = self.unplanned.pop_front() {
            self.read_unplanned(part);
            return Ok(());
        }
        let file = Arc::clone(&self.stream.handle.file);
        let begun = self.begin_more(&file, || Waiter::Thread(std::thread::current()))?;
        let Some(batch) = self.batch.filter(|_| !self.requests.is_empty()) else { return Ok(()) };
        let mut driver = match begun {
            Some(driver) => driver,
            None => self.drive(&file)?,
        };
        let ticket = Ticket::Batch(batch);
        driver.waiting.set_away(ticket, false);
        driver.waiting.set_waiter(ticket, Waiter::Thread(std::thread::current()));
        let (mut driver, news) = file.engine.wait_for_notification(driver, ticket);
        match news {
            Ok(_) => {
                let ended = driver.take_ended(batch);
                drop(driver);
                self.take(ended);
                Ok(())
            }
            Err(why) => {
                drop(driver);
                Err(self.not_ready(why))
            }
        }
    }

    /// Makes progress without blocking. Ready when a range is complete, or all are.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Result<Poll<()>, ReadError> {
        let file = Arc::clone(&self.stream.handle.file);
        // The background thread drives while all tasks wait.
        file.engine.background.start().map_err(|source| self.io_error(source))?;
        while !self.results.has_complete() && !self.results.is_done() {
            if self.poll_unplanned(context) {
                continue;
            }
            let looked_at = self.sweep.is_done();
            let begun = self.begin_more(&file, || Waiter::Task(context.waker().clone()))?;
            let mut driver = match begun {
                Some(driver) => driver,
                None => self.drive(&file)?,
            };
            driver.start_all();
            if let Some(batch) = self.batch {
                let ended = driver.take_ended(batch);
                if !ended.is_empty() {
                    drop(driver);
                    self.take(ended);
                    continue;
                }
                let waiter = Waiter::Task(context.waker().clone());
                driver.waiting.set_waiter(Ticket::Batch(batch), waiter);
            }
            drop(driver);
            if !self.requests.is_empty() || self.reading.is_some() {
                return Ok(Poll::Pending);
            }
            let is_over = self.results.has_complete() || self.results.is_done();
            assert!(!looked_at || is_over, "what is not complete is on its way");
        }
        Ok(Poll::Ready(()))
    }

    /// Sweeps the next pages if too few bytes are in flight, and starts the planned requests for
    /// missing pages. Returns None if there are none.
    fn begin_more<'f>(
        &mut self,
        file: &'f FileState,
        waiter: impl FnOnce() -> Waiter,
    ) -> Result<Option<DriverGuard<'f>>, ReadError> {
        let window = file.engine.planned_budget;
        while self.in_flight <= window / 2
            && self.requests.len() <= REQUESTS_MAX / 2
            && !self.sweep.is_done()
            && !(self.one_by_one && self.results.has_complete())
        {
            let (bytes, one_range) = (window - self.in_flight, self.one_by_one);
            let limit = PortionLimit { bytes, runs: PORTION_RUNS, one_range };
            let advised = self.stream.advised.get();
            let Self { stream, results, sweep, .. } = self;
            let runs = sweep.portion(&stream.handle, advised, results, limit);
            if !runs.is_empty() {
                let (model, limits) = self.planning(file)?;
                let requests = requests_of(&runs, &model, &limits);
                return self.begin(file, requests, waiter).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the device's cost model and the limits of a request.
    fn planning(&self, file: &FileState) -> Result<(CostModel, RequestLimits), ReadError> {
        let mut driver = self.drive(file)?;
        driver.take_events();
        driver.reap_unless_led();
        Ok(driver.path.planning(file.id).expect("a file is open as long as it has a handle"))
    }

    fn begin<'f>(
        &mut self,
        file: &'f FileState,
        requests: Vec<(Range<u64>, Vec<RangePart>)>,
        waiter: impl FnOnce() -> Waiter,
    ) -> Result<DriverGuard<'f>, ReadError> {
        let mut driver = self.drive(file)?;
        let batch = match self.batch {
            Some(batch) => batch,
            None => driver.begin_batch(waiter()),
        };
        self.batch = Some(batch);
        for (range, parts) in requests {
            let (number, bytes) = (self.begun, range.end - range.start);
            self.begun = self.begun.wrapping_add(1);
            self.in_flight += bytes;
            let before = self.requests.insert(number, RequestParts { bytes, parts });
            assert!(before.is_none(), "of 2^32 requests the first has ended");
            driver.read_planned(batch, number, file.id, pages_of(&range));
        }
        driver.note_ready();
        Ok(driver)
    }

    /// Becomes the driver, unless the ring is broken.
    fn drive<'f>(&self, file: &'f FileState) -> Result<DriverGuard<'f>, ReadError> {
        let forked = |ForkedError| ReadErrorKind::Forked.of(self.stream.handle.path.clone());
        let driver = file.engine.drive().map_err(forked)?;
        match driver.broken() {
            Some(errno) => Err(error(&self.stream.handle, 0, Fault::Io(errno))),
            None => Ok(driver),
        }
    }

    /// Copies completed requests to their ranges. Failed or evicted pages are read again without a
    /// plan, so that a range never fails because of a page that only the plan added.
    fn take(&mut self, ended: Vec<EndedRead>) {
        for EndedRead { number, fault } in ended {
            let request = self.requests.remove(&number);
            let RequestParts { bytes, parts } = request.expect("a request ends once");
            self.in_flight -= bytes;
            for RangePart { number, bytes: part } in parts {
                let came = if fault.is_none() { self.copy(number, &part) } else { part.start };
                if came < part.end && !self.results.is_over(number) {
                    self.unplanned.push_back(RangePart { number, bytes: came..part.end });
                }
            }
        }
    }

    /// Copies a part of a range from the cache. Returns the offset of its first missing page.
    fn copy(&mut self, number: u32, part: &Range<u64>) -> u64 {
        let handle = &self.stream.handle;
        let Some(to) = self.results.buffer(handle, number, part) else { return part.end };
        let mut rest = to;
        let mut at = part.start;
        while at < part.end {
            let (page, from) = page_and_offset(at);
            let len = rest.len().min(PAGE - from);
            // The read that brought in the page counts as its use.
            if copy_page(&handle.file, page, from, &mut rest[..len]).is_none() {
                break;
            }
            rest = &mut rest[len..];
            at += len as u64;
        }
        self.results.came(number, at - part.start);
        at
    }

    fn read_unplanned(&mut self, RangePart { number, bytes: part }: RangePart) {
        let handle = Arc::clone(&self.stream.handle);
        let Some(to) = self.results.buffer(&handle, number, &part) else { return };
        let read = self.stream.read_at(to, part.start);
        self.took(number, &part, read);
    }

    /// Makes progress on unplanned reads. Returns true if one of them has ended.
    fn poll_unplanned(&mut self, context: &Context<'_>) -> bool {
        if self.reading.is_none()
            && let Some(part) = self.unplanned.pop_front()
        {
            let len = usize::try_from(part.bytes.end - part.bytes.start);
            let len = len.expect("a part of a buffer is no longer than that");
            self.reading =
                Some((part.clone(), self.stream.read_owned(vec![0; len], part.bytes.start)));
        }
        let Some((_, read)) = &mut self.reading else { return false };
        let Poll::Ready(result) = read.poll(&self.stream, context) else { return false };
        let (RangePart { number, bytes: part }, read) = self.reading.take().expect("it was polled");
        let bytes = read.into_buffer();
        if let Some(to) = self.results.buffer(&self.stream.handle, number, &part) {
            to.copy_from_slice(&bytes);
            self.took(number, &part, result);
        }
        true
    }

    /// Records the result of an unplanned read.
    fn took(&mut self, number: u32, part: &Range<u64>, read: Result<usize, ReadError>) {
        let (handle, len) = (&self.stream.handle, part.end - part.start);
        match read {
            Ok(bytes) if bytes as u64 == len => self.results.came(number, len),
            // The file may end before the part begins.
            Ok(0) => {
                let end = part.start.min(handle.file.len().0);
                self.results.ended_at(handle, number, end, len);
            }
            Ok(bytes) => self.results.ended_at(handle, number, part.start + bytes as u64, len),
            Err(error) => self.results.fail(number, error),
        }
    }

    /// Returns the error of a wait that ended without a notification.
    fn not_ready(&self, why: NotReady) -> ReadError {
        let handle = &self.stream.handle;
        let parts = self.requests.values().flat_map(|request| &request.parts);
        let offset = parts.map(|part| part.bytes.start).min().unwrap_or(0);
        match why {
            NotReady::Fault(fault) => error(handle, offset, fault),
            NotReady::TimedOut => {
                let after = handle.file.engine.timeout.unwrap_or_default();
                ReadErrorKind::TimedOut { offset, after }.of(handle.path.clone())
            }
        }
    }

    fn io_error(&self, source: io::Error) -> ReadError {
        ReadErrorKind::Io { offset: 0, source }.of(self.stream.handle.path.clone())
    }
}

impl Drop for RangeReads {
    /// Requests in flight continue, and later reads hit their pages; queued ones are cancelled.
    fn drop(&mut self) {
        let Some(batch) = self.batch else { return };
        let file = &self.stream.handle.file;
        if let Some(mut driver) = file.engine.drive_in_drop() {
            let keep_open: KeepAlive = Arc::<FileState>::clone(file);
            driver.end_batch(batch, &keep_open);
        }
    }
}

/// Plans requests for runs of pages, each with the parts of ranges that it delivers.
fn requests_of(
    runs: &[MissingRun],
    model: &CostModel,
    limits: &RequestLimits,
) -> Vec<(Range<u64>, Vec<RangePart>)> {
    let wanted: Vec<_> = runs.iter().map(|run| run.bytes.clone()).collect();
    let plan = plan(&wanted, model, limits);
    let with_parts = |request: &Range<u64>| (request.clone(), Vec::new());
    let mut requests: Vec<_> = plan.requests().iter().map(with_parts).collect();
    for RangePart { number, bytes } in runs.iter().flat_map(|run| &run.parts) {
        for (request, part) in plan.parts(bytes.clone()) {
            requests[request].1.push(RangePart { number: *number, bytes: part });
        }
    }
    requests
}

/// Copies an error for another range.
fn again(why: &ReadError, path: &std::path::Path, offset: u64) -> ReadError {
    let path = path.to_path_buf();
    let kind = match &why.kind {
        ReadErrorKind::Forked => ReadErrorKind::Forked,
        ReadErrorKind::Io { source, .. } => {
            let known = source.raw_os_error().map(io::Error::from_raw_os_error);
            let source = known.unwrap_or_else(|| io::Error::new(source.kind(), source.to_string()));
            ReadErrorKind::Io { offset, source }
        }
        ReadErrorKind::TimedOut { after, .. } => ReadErrorKind::TimedOut { offset, after: *after },
        ReadErrorKind::Short { len, .. } => ReadErrorKind::Short { offset, len: *len },
        ReadErrorKind::PastEnd { .. }
        | ReadErrorKind::Range { .. }
        | ReadErrorKind::UnexpectedEnd { .. }
        | ReadErrorKind::PinLimit { .. } => unreachable!("a range has that error alone: {why}"),
    };
    kind.of(path)
}

/// Runs of pages planned at a time: planning time grows faster than the number of ranges.
const PORTION_RUNS: usize = 256;

/// Request window of one call: it starts no more requests while over half of the window is in
/// flight.
const REQUESTS_MAX: usize = 512;
