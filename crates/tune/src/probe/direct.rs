//! Reads with `O_DIRECT`, with the requests that kernel read-ahead would make. It changes neither
//! page cache nor settings, so it needs no privileges.
//!
//! ```text
//!   reader      | window 0 | window 1 | window 2 |     a window is used when it and those before
//!   on its way  | 0  1     | 1  2     | 2  3     |     it have come; then the next but one starts
//! ```
//!
//! The kernel's read-ahead works the same way: the marker is on a window's first page, and when the
//! reader reaches it, the next window starts before the reader waits for this one. The kernel
//! splits a read of a whole window into the same requests as its read-ahead, and sends all at once.

use std::fs::File;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::buffered::one;
use super::laps::Laps;
use super::read_offsets::ReadOffsets;
use super::run::ProbeRun;
use super::{ProbeSample, RandomReads, SequentialRead, Stopped};
use crate::clock::now;
use crate::parallel_reads::{AtOnceSample, ReadsAtOnce};

/// Reads one stream.
pub(super) fn sequential(
    run: &ProbeRun,
    places: &mut ReadOffsets,
    ask: &SequentialRead,
) -> Result<ProbeSample, Stopped> {
    let file = run.open_direct()?;
    let window = ask.window.0.max(PAGE_SIZE);
    let window = window.min(places.bytes() / 8 / PAGE_SIZE * PAGE_SIZE).max(PAGE_SIZE);
    let mut laps =
        Laps::new(&SequentialRead { window: ByteCount(window), ..*ask }, run.zero, now());
    let mut read_before = 0;
    while !laps.is_enough(now()) {
        let parts = places.onwards();
        let long = parts.iter().find(|part| part.end - part.start >= 8 * window);
        let longest = || parts.iter().max_by_key(|part| part.end - part.start);
        let Some(part) = long.or_else(longest).cloned() else { break };
        let is_short = part.end - part.start < 4 * window;
        let (at, result) = stream(run, &file, window, part.clone(), is_short, &mut laps);
        if is_short {
            laps.close(now());
        } else {
            laps.pause();
        }
        read_before += places.read(part.start..at);
        places.read(at..at + 2 * window);
        places.go_on_from(at + 2 * window);
        result?;
    }
    Ok(ProbeSample { slices: laps.slices(now()), read_before: ByteCount(read_before) })
}

/// State shared by two readers that alternate between windows.
struct WindowPipe<'a> {
    run: &'a ProbeRun,
    file: &'a File,
    part: Range<u64>,
    window: u64,
    state: Mutex<PipeState<'a>>,
    turn: Condvar,
}

struct PipeState<'a> {
    /// Number of windows that have arrived, up to the first that has not.
    used: u64,
    /// Bytes of the next two windows, once they have arrived.
    come: [Option<u64>; 2],
    laps: &'a mut Laps,
    /// Result, once the stream has ended.
    end: Option<Result<(), Stopped>>,
}

/// Reads one stream; returns its length and the reason for its end.
fn stream(
    run: &ProbeRun,
    file: &File,
    window: u64,
    part: Range<u64>,
    is_short: bool,
    laps: &mut Laps,
) -> (u64, Result<(), Stopped>) {
    if is_short {
        laps.count_from(now());
    }
    let state = PipeState { used: 0, come: [None; 2], laps, end: None };
    let pipe =
        WindowPipe { run, file, part, window, state: Mutex::new(state), turn: Condvar::new() };
    // A window of one page contains no marker that the reader could reach early.
    let readers = if window > PAGE_SIZE { 2 } else { 1 };
    std::thread::scope(|scope| {
        for first in 1..readers {
            let pipe = &pipe;
            scope.spawn(move || pipe.read_every(readers, first, is_short));
        }
        pipe.read_every(readers, 0, is_short);
    });
    let state = pipe.lock();
    let at = (pipe.part.start + state.used * window).min(pipe.part.end);
    (at, state.end.clone().unwrap_or(Ok(())))
}

impl<'a> WindowPipe<'a> {
    fn read_every(&self, readers: u64, first: u64, is_short: bool) {
        let mut memory = match self.run.memory(self.window) {
            Ok(memory) => memory,
            Err(stopped) => return self.end(Err(stopped)),
        };
        let mut copy = vec![0; 64 << 10];
        let mut number = first;
        loop {
            let at = self.part.start + number * self.window;
            let len = self.part.end.saturating_sub(at).min(self.window);
            if len == 0 || !self.may_start(number, readers) {
                return;
            }
            let to = &mut memory.bytes()[..usize::try_from(len)
                .expect("a request is no larger than its buffer, which was allocated")];
            let result = one(self.run, self.file, to, at);
            // Copies piece by piece, as the kernel copies from the cache.
            for piece in to.chunks(copy.len()) {
                copy[..piece.len()].copy_from_slice(std::hint::black_box(piece));
            }
            self.has_come(number, result.map(|_| len), is_short);
            number += readers;
        }
    }

    /// Blocks until the reader reaches the marker that starts this window.
    fn may_start(&self, number: u64, readers: u64) -> bool {
        let mut state = self.lock();
        while state.end.is_none() && state.used + readers <= number {
            state = self.turn.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.end.is_none()
    }

    fn end(&self, result: Result<(), Stopped>) {
        self.lock().end = Some(result);
        self.turn.notify_all();
    }

    fn has_come(&self, number: u64, result: Result<u64, Stopped>, is_short: bool) {
        let mut state = self.lock();
        let state = &mut *state;
        match result {
            Ok(len) => state.come[usize::from(number % 2 == 1)] = Some(len),
            Err(stopped) => state.end = Some(Err(stopped)),
        }
        let time = now();
        while let Some(len) = state.come[usize::from(state.used % 2 == 1)].take() {
            state.used += 1;
            state.laps.add(len, time);
            if state.used == 2 && !is_short {
                state.laps.count_from(time);
            }
        }
        if state.end.is_none() {
            let go_on = self.run.go_on();
            state.end = (go_on.is_err() || state.laps.is_enough(time)).then_some(go_on);
        }
        self.turn.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, PipeState<'a>> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Reads at random offsets, one read after the other.
pub(super) fn random(
    run: &ProbeRun,
    places: &mut ReadOffsets,
    ask: &RandomReads,
) -> Result<Vec<u64>, Stopped> {
    let file = run.open_direct()?;
    let mut memory = run.memory(ask.size.0)?;
    let mut latencies = Vec::new();
    let began = now();
    for _ in 0..ask.count {
        if now().duration_since(began) >= ask.at_most && !latencies.is_empty() {
            break;
        }
        run.go_on()?;
        // A fragmented file may have no part large enough.
        let Some(place) = places.anywhere(ask.size.0) else { break };
        latencies.push(one(run, &file, memory.bytes(), place.start)?);
        places.read(place);
    }
    Ok(latencies)
}

/// Reads at random offsets, several at a time, with a thread for each.
pub(super) fn at_once(
    run: &ProbeRun,
    places: &ReadOffsets,
    ask: &ReadsAtOnce,
) -> Result<AtOnceSample, Stopped> {
    let file = run.open_direct()?;
    let began = now();
    let until = began + ask.time;
    let reader = |number: u32| {
        let mut places = places.elsewhere(u64::from(number));
        let mut memory = run.memory(ask.size.0)?;
        let mut reads = 0_u64;
        while reads == 0 || now() < until {
            run.go_on()?;
            let Some(place) = places.anywhere(ask.size.0) else { break };
            one(run, &file, memory.bytes(), place.start)?;
            reads += 1;
        }
        Ok(reads)
    };
    let counts = std::thread::scope(|scope| {
        let reader = &reader;
        let start = |number| scope.spawn(move || reader(number));
        let threads: Vec<_> = (0..ask.at_once).map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|count| count.expect("a reader does not panic")).collect::<Vec<_>>()
    });
    let reads = counts.into_iter().sum::<Result<u64, Stopped>>()?;
    let ns = u64::try_from(now().duration_since(began).as_nanos()).unwrap_or(u64::MAX);
    Ok(AtOnceSample { reads, ns })
}
