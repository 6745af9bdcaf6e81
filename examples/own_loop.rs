//! The whole read path, cache and scheduler included, for a program with its own event loop.
//!
//!     cargo run -p foreread-core --example own_loop [FILE]
//!
//! `IoPath` never waits and does no I/O. It returns requests (`poll_dispatch`), takes their results
//! (`complete`) and returns the reads that are ready (`poll_ready`). This loop starts all requests
//! at once; two threads execute them with plain `pread`, and they may complete in any order. Yours
//! may use io_uring, SPDK, a network or virtual time.

#![expect(clippy::disallowed_methods, reason = "the program tells the core the time")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory, and 584 years")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant as Clock;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, DeviceIo, IoPath, ReadReady, Tag};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::SchedulerKind;
use foreread_core::trace::EventKind;
use foreread_core::units::{ByteCount, Nanos, Pages};

const PAGE: usize = 4096;

/// A completed request: its tag, and its bytes or the error number.
type Done = (Tag, Result<Vec<u8>, i32>);

/// The core, the memory of its frames, and the channels to and from the device.
struct Loop {
    core: IoPath,
    frames: Vec<u8>,
    to_device: Sender<DeviceIo>,
    from_device: Receiver<Done>,
    started: Clock,
}

fn main() -> io::Result<()> {
    let own_source = || concat!(env!("CARGO_MANIFEST_DIR"), "/src/path.rs").to_owned();
    let path = std::env::args().nth(1).unwrap_or_else(own_source);
    let file = File::open(&path)?;
    let len = ByteCount(file.metadata()?.len());

    let memory = ByteCount(4 << 20);
    let (policy, max_window, rules) = (Policy::Adaptive, Pages(32), Rules::default());
    let mut core = IoPath::new(Config { memory, policy, max_window, rules });
    let device = core.add_device(Geometry::new(len), &SchedulerKind::Noop);
    let opened = core.open(device, len).expect("one file is not too many");
    let stream = core.stream(opened);
    core.set_trace(1000);
    let frames = vec![0; core.frame_count() as usize * PAGE];
    let (to_device, from_device) = start_device(file);
    let mut driver = Loop { core, frames, to_device, from_device, started: Clock::now() };

    let (mut pos, mut lines, mut prev_pos) = (ByteCount(0), 0, None);
    while pos < len {
        let now = driver.now();
        let id = driver.core.read(now, stream, pos, ByteCount(8192).min(len - pos), prev_pos);
        let ready = driver.wait_for_one();
        assert_eq!(ready.id, id, "one reader, one read at a time");
        if let Some(fault) = ready.fault {
            return Err(io::Error::other(format!("{path}: at byte {pos}: {fault:?}")));
        }
        lines += driver.newlines(&ready);
        driver.core.release(driver.now(), id);
        pos += ready.len;
        prev_pos = Some(pos);
    }
    while let Some(event) = driver.core.poll_trace() {
        match event.what {
            EventKind::Decided { decided, .. } => println!("{decided}"),
            EventKind::Dispatched { start, sectors, .. } => {
                println!("  to the device: {} bytes from {}", sectors.bytes(), start.offset());
            }
            EventKind::Arrived { .. } | EventKind::Completed { .. } => {}
        }
    }
    println!("{path}: {lines} lines, {} device reads", driver.core.stats().device_reads);
    Ok(())
}

impl Loop {
    /// Starts the requests of all readers and takes completions until a read is ready.
    ///
    /// Each iteration also starts read-ahead: the next window is in flight while this one is
    /// copied.
    fn wait_for_one(&mut self) -> ReadReady {
        loop {
            while let Some(io) = self.core.poll_dispatch(self.now()) {
                self.to_device.send(io).expect("the device lives as long as the loop");
            }
            while let Ok(done) = self.from_device.try_recv() {
                self.complete(done);
            }
            if let Some(ready) = self.core.poll_ready() {
                return ready;
            }
            let done = self.from_device.recv().expect("a read that is not ready is on its way");
            self.complete(done);
        }
    }

    fn complete(&mut self, (tag, result): Done) {
        if let Ok(bytes) = &result {
            for (page, bytes) in self.core.pages(tag).iter().zip(bytes.chunks(PAGE)) {
                let start = page.filling.frame().0 as usize * PAGE;
                self.frames[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
        let result = result.map(|bytes| ByteCount(bytes.len() as u64));
        self.core.complete(self.now(), tag, result);
    }

    fn newlines(&self, ready: &ReadReady) -> usize {
        let mut left = ready.len.0 as usize;
        let mut count = 0;
        for frame in self.core.frames(ready.id) {
            let start = frame.0 as usize * PAGE;
            let part = left.min(PAGE);
            count += self.frames[start..start + part].iter().filter(|byte| **byte == b'\n').count();
            left -= part;
        }
        count
    }

    fn now(&self) -> Nanos {
        Nanos(self.started.elapsed().as_nanos() as u64)
    }
}

/// Starts two threads that execute requests.
fn start_device(file: File) -> (Sender<DeviceIo>, Receiver<Done>) {
    let (to_device, requests) = channel::<DeviceIo>();
    let (done, from_device) = channel();
    let (file, requests) = (Arc::new(file), Arc::new(Mutex::new(requests)));
    for _ in 0..2 {
        let (file, requests, done) = (Arc::clone(&file), Arc::clone(&requests), done.clone());
        std::thread::spawn(move || {
            let next = || requests.lock().expect("no thread panics holding it").recv().ok();
            while let Some(io) = next() {
                if done.send((io.tag, read(&file, &io))).is_err() {
                    return;
                }
            }
        });
    }
    (to_device, from_device)
}

/// Reads the bytes of a request; fewer at the end of the file.
fn read(file: &File, io: &DeviceIo) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; io.len.0 as usize];
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], io.offset.0 + got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.raw_os_error().unwrap_or(5)),
        }
    }
    bytes.truncate(got);
    Ok(bytes)
}
