//! A hundred thousand futures of every kind, dropped at random points: before the first poll, while
//! they wait, when they were woken, or after their end.
//!
//! In:    seeds.
//! Out:   bytes that some order of the writes explains; frames, wakers, buffers and memory counted.
//! Never: another test: a process of its own, so that what is counted is the engine's.
//!
//! A write takes effect between its first poll and its end or its drop, or, if it was dropped,
//! never. So a sector may have the bytes of write `v` as long as no write to it has ended that
//! began after the end of `v`.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

mod allocations;
mod common;
mod hang;
mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use allocations::allocated_bytes;
use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use support::{Random, wait_until, wait_until_idle, with_each_io};
use tempfile::TempDir;

/// What is written whole or not at all.
const SECTOR: usize = 512;
const SECTORS: u64 = 8 * 1024;
/// How many futures are dropped in one round, and how many rounds there are.
const EACH: u64 = 10_000;
const ROUNDS: u64 = 10;
/// How many there are at a time.
const BESIDE: usize = 24;

/// What exists now of what futures hold.
static WAKERS: AtomicUsize = AtomicUsize::new(0);
static BUFFERS: AtomicUsize = AtomicUsize::new(0);

/// A waker that is counted.
struct Counted(AtomicBool);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Counted {
    fn new() -> Arc<Self> {
        WAKERS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self(AtomicBool::new(false)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WAKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A buffer that is counted.
struct Buffer(Vec<u8>);

impl Buffer {
    fn new(bytes: Vec<u8>) -> Self {
        BUFFERS.fetch_add(1, Ordering::Relaxed);
        Self(bytes)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        BUFFERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a future came to.
enum Ended {
    Read(Buffer),
    Wrote,
    Flushed,
}

/// A future on its way.
struct Running {
    future: Pin<Box<dyn Future<Output = Ended>>>,
    waker: Arc<Counted>,
    sectors: std::ops::Range<u64>,
    /// The number of the write; none of a read or a flush.
    write: Option<u32>,
    /// When it was first polled.
    began: Option<u64>,
}

/// A write as one sector knows it.
#[derive(Clone, Copy)]
struct Version {
    write: u32,
    ended: u64,
    /// Since when no read finds it that begins then.
    hidden: u64,
}

const NEVER: u64 = u64::MAX;

/// Which writes each sector may have.
struct Model {
    sectors: Vec<Vec<Version>>,
    now: u64,
}

impl Model {
    fn began(&mut self, sectors: std::ops::Range<u64>, write: u32) {
        for sector in sectors {
            let versions = &mut self.sectors[sector as usize];
            versions.push(Version { write, ended: NEVER, hidden: NEVER });
        }
    }

    /// The write has ended, or was dropped on its way.
    fn ended(&mut self, sectors: std::ops::Range<u64>, write: u32, began: u64, is_done: bool) {
        let now = self.now;
        for sector in sectors {
            let versions = &mut self.sectors[sector as usize];
            for version in versions.iter_mut() {
                if version.write == write {
                    version.ended = now;
                } else if is_done && version.ended < began {
                    version.hidden = version.hidden.min(now);
                }
            }
            versions.retain(|version| version.hidden == NEVER || version.hidden + OLD > now);
        }
    }

    /// These bytes were read by a read that began then.
    fn check(&self, first: u64, bytes: &[u8], began: u64) {
        for (sector, bytes) in (first..).zip(bytes.chunks(SECTOR)) {
            let write = u32::from_le_bytes(bytes[..4].try_into().unwrap());
            assert!(bytes == stamp(write, sector), "sector {sector} is torn");
            let versions = &self.sectors[sector as usize];
            let is_right = |it: &&Version| it.write == write && it.hidden >= began;
            assert!(versions.iter().any(|it| is_right(&it)), "sector {sector} has write {write}");
        }
    }
}

/// How long a version is known after it was hidden: longer than any read runs.
const OLD: u64 = 4000;

/// What a write has in a sector.
fn stamp(write: u32, sector: u64) -> [u8; SECTOR] {
    let mut bytes = [write as u8 ^ sector as u8; SECTOR];
    bytes[..4].copy_from_slice(&write.to_le_bytes());
    bytes[4..12].copy_from_slice(&sector.to_le_bytes());
    bytes
}

fn stamps(write: u32, sectors: std::ops::Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((sectors.end - sectors.start) as usize * SECTOR);
    for sector in sectors {
        bytes.extend_from_slice(&stamp(write, sector));
    }
    bytes
}

fn start(file: &File, random: &mut Random, number: u32) -> Running {
    let first = random.below(SECTORS);
    let sectors = first..(first + 1 + random.below(40)).min(SECTORS);
    let (at, len) = (first * SECTOR as u64, (sectors.end - first) as usize * SECTOR);
    let modes = [WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::Fua];
    let (file, mode) = (file.clone(), modes[random.below(40).saturating_sub(37) as usize]);
    let kind = random.below(60) / 4;
    let bytes = if kind < 9 { stamps(number, sectors.clone()) } else { vec![0; len] };
    let mut buffer = Buffer::new(bytes);
    let future: Pin<Box<dyn Future<Output = Ended>>> = match kind {
        0..3 => Box::pin(async move {
            let write = file.write_at_async(&buffer.0, at).with_mode(mode);
            assert_eq!(write.await.unwrap(), len);
            Ended::Wrote
        }),
        3..5 => Box::pin(async move {
            file.write_all_at_async(&buffer.0, at).with_mode(mode).await.unwrap();
            Ended::Wrote
        }),
        5..9 => Box::pin(async move {
            let (_, written) = file.write_from(buffer, at).with_mode(mode).await;
            assert_eq!(written.unwrap(), len);
            Ended::Wrote
        }),
        9..12 => Box::pin(async move {
            assert_eq!(file.read_at_async(&mut buffer.0, at).await.unwrap(), len);
            Ended::Read(buffer)
        }),
        12..14 => Box::pin(async move {
            let (buffer, got) = file.read_into(buffer, at).await;
            assert_eq!(got.unwrap(), len);
            Ended::Read(buffer)
        }),
        _ => Box::pin(async move {
            file.sync_data_async().await.unwrap();
            Ended::Flushed
        }),
    };
    let write = (kind < 9).then_some(number);
    Running { future, waker: Counted::new(), sectors, write, began: None }
}

/// Polls it; whether it has ended, and is to be dropped.
fn poll(running: &mut Running, model: &mut Model) -> bool {
    model.now += 1;
    if running.began.is_none() {
        running.began = Some(model.now);
        if let Some(write) = running.write {
            model.began(running.sectors.clone(), write);
        }
    }
    let began = running.began.unwrap();
    running.waker.0.store(false, Ordering::Release);
    let waker = Waker::from(Arc::clone(&running.waker));
    let Poll::Ready(ended) = running.future.as_mut().poll(&mut Context::from_waker(&waker)) else {
        return false;
    };
    match ended {
        Ended::Read(buffer) => model.check(running.sectors.start, &buffer.0, began),
        Ended::Wrote => model.ended(running.sectors.clone(), running.write.unwrap(), began, true),
        Ended::Flushed => {}
    }
    true
}

/// Drops a future that has not ended.
fn abandon(running: Running, model: &mut Model) {
    let Running { future, sectors, write, began, .. } = running;
    drop(future);
    model.now += 1;
    if let (Some(write), Some(began)) = (write, began) {
        model.ended(sectors, write, began, false);
    }
}

/// Where each future was dropped.
#[derive(Debug, Default)]
struct Dropped {
    not_polled: u64,
    waiting: u64,
    woken: u64,
    ended: u64,
}

/// One round: as many futures as that end, one way or the other.
fn round(file: &File, random: &mut Random, numbers: &mut u32, old: &[u32], dropped: &mut Dropped) {
    let version = |&write: &u32| vec![Version { write, ended: 0, hidden: NEVER }];
    let mut model = Model { sectors: old.iter().map(version).collect(), now: 1 };
    let mut running: Vec<Running> = Vec::new();
    let mut ended = 0;
    while ended < EACH {
        if running.len() < BESIDE {
            *numbers += 1;
            running.push(start(file, random, *numbers));
        }
        let at = random.below(running.len() as u64) as usize;
        match random.below(8) {
            0..4 => {
                if poll(&mut running[at], &mut model) {
                    dropped.ended += 1;
                    running.swap_remove(at);
                    ended += 1;
                }
            }
            4..6 => {
                let gone = running.swap_remove(at);
                let is_woken = gone.waker.0.load(Ordering::Acquire);
                match (gone.began, is_woken) {
                    (None, _) => dropped.not_polled += 1,
                    (Some(_), false) => dropped.waiting += 1,
                    (Some(_), true) => dropped.woken += 1,
                }
                abandon(gone, &mut model);
                ended += 1;
            }
            6 => std::thread::yield_now(),
            _ => {
                // Until it is woken, while others are polled that it may wait for.
                while running[at].began.is_some() && !running[at].waker.0.load(Ordering::Acquire) {
                    let woken = running.iter().position(|it| it.waker.0.load(Ordering::Acquire));
                    let Some(other) = woken else {
                        std::thread::yield_now();
                        continue;
                    };
                    if other == at {
                        break;
                    }
                    if poll(&mut running[other], &mut model) {
                        abandon_ended(&mut running, other);
                        dropped.ended += 1;
                        ended += 1;
                        break;
                    }
                }
            }
        }
    }
    for gone in running {
        abandon(gone, &mut model);
    }
    file.sync_data().unwrap();
    let mut all = vec![0; SECTORS as usize * SECTOR];
    file.read_at(&mut all, 0).unwrap();
    model.check(0, &all, model.now);
}

fn abandon_ended(running: &mut Vec<Running>, at: usize) {
    drop(running.swap_remove(at));
}

/// The write that each sector has.
fn writes_of(file: &File) -> Vec<u32> {
    let mut all = vec![0; SECTORS as usize * SECTOR];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), all.len());
    all.chunks(SECTOR).map(|it| u32::from_le_bytes(it[..4].try_into().unwrap())).collect()
}

/// Nothing is on its way, and what is counted is gone.
fn wait_until_nothing_is_left(engine: &Engine) {
    wait_until_idle(engine);
    wait_until(|| WAKERS.load(Ordering::Relaxed) == 0 && BUFFERS.load(Ordering::Relaxed) == 0);
}

fn drop_futures(dir: &TempDir, io: IoBackend) {
    let path = dir.path().join(format!("{io:?}"));
    std::fs::write(&path, stamps(0, 0..SECTORS)).unwrap();
    let before = allocated_bytes();
    let engine = Engine::builder().memory(1 << 20).dirty_limit(128 << 10).io_backend(io);
    let engine = engine.build().unwrap();
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).unwrap();
    let (mut random, mut numbers, mut dropped) = (Random(18 << 32), 0, Dropped::default());
    let mut settled = 0;
    for number in 0..ROUNDS {
        let old = writes_of(&file);
        round(&file, &mut random, &mut numbers, &old, &mut dropped);
        drop(old);
        wait_until_nothing_is_left(&engine);
        let allocated = allocated_bytes() - before;
        if number < 2 {
            settled = settled.max(allocated);
        }
        assert!(allocated < settled + SLACK, "round {number}: {allocated} after {settled} bytes");
    }
    let Dropped { not_polled, waiting, woken, ended } = dropped;
    assert_eq!(not_polled + waiting + woken + ended, EACH * ROUNDS);
    let least = EACH * ROUNDS / 200;
    assert!(not_polled.min(waiting).min(woken).min(ended) > least, "{dropped:?}");
    let disk = std::fs::read(&path).unwrap();
    let on_disk = disk.chunks(SECTOR).map(|it| u32::from_le_bytes(it[..4].try_into().unwrap()));
    assert!(on_disk.eq(writes_of(&file)), "a flush has acknowledged other bytes");
    drop((file, engine));
    println!("{io:?}: {dropped:?}");
}

/// What queues and lists may keep for the next time. A leak of a byte for each future is more.
const SLACK: u64 = 64 << 10;

#[test]
fn futures_dropped_at_random_points_leave_nothing_behind() {
    // In memory, where there is such a place: no device is waited for, and more is in flight.
    let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    with_each_io("futures_dropped_at_random_points", |io| drop_futures(&dir, io));
}
