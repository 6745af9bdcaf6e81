//! The mixed load on a real device: 64 writer threads and one reader.
//!
//! No wait is unbounded. A thread stuck in the device cannot be killed; after a while it is
//! abandoned, and it holds nothing but the nameless file.
//!
//! ```text
//!   writers   |--- fill the device's queue ---|--------------- go on ---------------|
//!   reader    |--- reads that do not count ---|-- read --|-- read --| .. |-- read --|
//!                                             ^ after 64 writes           the last one ends
//! ```
//!
//! A run ends with a read, not at a fixed time. Otherwise the slow reads, the ones in question,
//! would not count.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};

use super::buffer::AlignedBuffer;
use super::mixed_load::{MixedLoad, MixedSample, WRITE, ns};
use super::scratch::{PAGE, ScratchFile, noise};
use crate::probe::Stopped;
use crate::rng::Rng;
use crate::setting::DeviceSetting;
use crate::sysfs::{Queue, SystemRoot};

/// A real device under the mixed load.
pub struct RealMixedLoad<'a> {
    scratch: ScratchFile,
    sys: SystemRoot,
    device: String,
    set: &'a mut dyn FnMut(&DeviceSetting) -> io::Result<()>,
    clock: fn() -> Nanos,
    interrupted: Arc<AtomicBool>,
    runs: u64,
}

impl<'a> RealMixedLoad<'a> {
    /// Creates the load on the whole device `device`, which holds `scratch`. `set` makes one
    /// setting, and should be able to restore it if this process is killed.
    pub fn new(
        scratch: ScratchFile,
        sys: SystemRoot,
        device: &str,
        set: &'a mut dyn FnMut(&DeviceSetting) -> io::Result<()>,
        clock: fn() -> Nanos,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        Self { scratch, sys, device: device.to_owned(), set, clock, interrupted, runs: 0 }
    }

    /// Starts all threads. Each holds a sender, so the channel closes when all threads have ended.
    fn start(&mut self, time: Duration) -> io::Result<(Arc<LoadThreads>, Receiver<ThreadMessage>)> {
        let scratch = &self.scratch;
        self.runs += 1;
        let shared = Arc::new(LoadThreads {
            file: scratch.file.try_clone()?,
            align: usize::try_from(scratch.align).map_err(io::Error::other)?,
            written_from: scratch.written_from(),
            size: scratch.size.0,
            clock: self.clock,
            is_over: AtomicBool::new(false),
            interrupted: Arc::clone(&self.interrupted),
            written: AtomicU64::new(0),
        });
        let (sender, receiver) = channel();
        for number in 0..=WRITERS {
            let (mine, sender) = (Arc::clone(&shared), sender.clone());
            let rng = Rng(self.runs << 32 | number);
            let work = move || mine.work(number, time, rng, &sender);
            let started = thread::Builder::new().stack_size(STACK).spawn(work);
            if let Err(error) = started {
                shared.is_over.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok((shared, receiver))
    }
}

impl MixedLoad for RealMixedLoad<'_> {
    fn now(&self) -> Nanos {
        (self.clock)()
    }

    fn queue(&self) -> Queue {
        self.sys.device(&self.device).map(|device| device.queue).unwrap_or_default()
    }

    fn set(&mut self, setting: &DeviceSetting) -> io::Result<()> {
        (self.set)(setting)
    }

    fn run(&mut self, time: Duration) -> Result<MixedSample, Stopped> {
        let started = self.start(time);
        let (shared, said) =
            started.map_err(|error| Stopped::Failed(format!("cannot start threads: {error}")))?;
        let mut outcome = Err(Stopped::Interrupted);
        let until = Nanos((self.clock)().0 + ns(time + STARVED));
        let (mut silent, mut before) = (Duration::ZERO, 0);
        loop {
            match said.recv_timeout(LOOK) {
                Ok(ThreadMessage::Failed(doing, error)) => {
                    outcome = Err(self.scratch.failed(doing, &error));
                }
                // The reader was merely stopped; its result does not reflect the failure.
                Ok(ThreadMessage::Read(_)) if matches!(outcome, Err(Stopped::Failed(_))) => {}
                Ok(ThreadMessage::Read(sample)) => outcome = Ok(sample),
                Err(RecvTimeoutError::Disconnected) => return outcome,
                Err(RecvTimeoutError::Timeout) => silent += LOOK,
            }
            let written = shared.written.load(Ordering::Relaxed);
            if written != before {
                (before, silent) = (written, Duration::ZERO);
            }
            if (self.clock)() >= until {
                shared.is_over.store(true, Ordering::Relaxed);
            }
            let is_interrupted = self.interrupted.load(Ordering::Relaxed);
            if is_interrupted && silent >= PATIENCE_WHEN_INTERRUPTED {
                return Err(Stopped::Interrupted);
            }
            if silent >= PATIENCE {
                shared.is_over.store(true, Ordering::Relaxed);
                let what = format!("{}: no answer for {} s", self.device, PATIENCE.as_secs());
                return Err(Stopped::Failed(what));
            }
        }
    }
}

/// Message from a thread.
enum ThreadMessage {
    Read(MixedSample),
    Failed(&'static str, io::Error),
}

/// State shared by the threads of one run.
struct LoadThreads {
    file: File,
    align: usize,
    written_from: u64,
    size: u64,
    clock: fn() -> Nanos,
    is_over: AtomicBool,
    interrupted: Arc<AtomicBool>,
    /// Bytes written so far.
    written: AtomicU64,
}

impl LoadThreads {
    /// Runs one thread: number 0 reads, the others write. The first to end ends all.
    fn work(&self, number: u64, time: Duration, rng: Rng, said: &Sender<ThreadMessage>) {
        let outcome = match number {
            0 => self.read(time, rng),
            _ => self.write(number, rng).map(|()| None),
        };
        self.is_over.store(true, Ordering::Relaxed);
        // Fails if the run was abandoned.
        let _ = match outcome {
            Ok(Some(sample)) => said.send(ThreadMessage::Read(sample)),
            Ok(None) => Ok(()),
            Err(error) => said.send(ThreadMessage::Failed(
                if number == 0 { "reading" } else { "writing" },
                error,
            )),
        };
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && !self.interrupted.load(Ordering::Relaxed)
    }

    fn write(&self, number: u64, mut rng: Rng) -> io::Result<()> {
        let mut buffer = AlignedBuffer::new(
            usize::try_from(WRITE.0).expect("64 KiB fit any address space"),
            self.align,
        );
        noise(buffer.bytes_mut(), number);
        let places = (self.size - self.written_from) / WRITE.0;
        while self.goes_on() {
            let place = self.written_from + rng.below(places) * WRITE.0;
            buffer.bytes_mut()[..8].copy_from_slice(&rng.any().to_le_bytes());
            self.file.write_all_at(buffer.bytes(), place)?;
            self.written.fetch_add(WRITE.0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads the chain. None if it was interrupted; a chain that starved includes the starving
    /// read.
    fn read(&self, time: Duration, mut rng: Rng) -> io::Result<Option<MixedSample>> {
        let unit = self.align as u64;
        let mut buffer = AlignedBuffer::new(self.align, self.align);
        let places = self.written_from / unit;
        let began = (self.clock)().0;
        let mut is_warm = false;
        let (mut from, mut written_before) = (began, 0);
        let mut sample = MixedSample::default();
        loop {
            let place = rng.below(places) * unit;
            let asked = (self.clock)().0;
            self.file.read_exact_at(buffer.bytes_mut(), place)?;
            let now = (self.clock)().0;
            let written = self.written.load(Ordering::Relaxed);
            if self.interrupted.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let is_ended = self.is_over.load(Ordering::Relaxed);
            if is_warm || is_ended {
                sample.reads_ns.push(now.saturating_sub(asked));
                sample.ns = now.saturating_sub(from);
                sample.written = ByteCount(written - written_before);
            } else if now - began >= ns(WARM_UP) && written >= WRITERS * WRITE.0 {
                (is_warm, from, written_before) = (true, now, written);
            }
            let is_enough = sample.reads_ns.len() >= LEAST_READS;
            if is_ended || is_enough && sample.ns >= ns(time) {
                return Ok(Some(sample));
            }
        }
    }
}

/// Number of writers in the published runs: more than a disk queues, fewer than the kernel does.
const WRITERS: u64 = 64;

/// A thread calls `pwrite` and little else.
const STACK: usize = 64 * 1024;

/// Minimum duration of the flood before reads count.
const WARM_UP: Duration = Duration::from_millis(50);

/// Fewest reads of a meaningful run.
const LEAST_READS: usize = 3;

/// Polling interval of a run.
const LOOK: Duration = Duration::from_millis(50);

/// A read that waits longer starves; its exact latency no longer matters.
const STARVED: Duration = Duration::from_secs(20);

/// A device that writes nothing for this long has failed. The kernel's own request timeout is 30 s
/// on most disks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Limit after Ctrl-C: a user who interrupts will not wait for a hanging device.
const PATIENCE_WHEN_INTERRUPTED: Duration = Duration::from_secs(5);

const _: () = assert!(WRITE.0.is_multiple_of(PAGE));
