//! The whole path, cache and scheduler included, for a program that has an event loop of its own.
//!
//!     cargo run -p foreread-core --example own_loop [FILE]
//!
//! `IoPath` never waits and never reads: it says what to read (`poll_dispatch`), is told what
//! became of it (`complete`), and says who can go on (`poll_ready`). This loop uses plain `pread`,
//! one at a time; yours uses io_uring, SPDK, a network, or virtual time.

#![expect(clippy::disallowed_methods, reason = "the program is who tells the core the time")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory, and 584 years")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Instant as Clock;

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, IoPath, Ready};
use foreread_core::readahead::Policy;
use foreread_core::trace::What;
use foreread_core::units::{Bytes, Instant, Pages};

const PAGE: usize = 4096;

fn main() -> std::io::Result<()> {
    let path = std::env::args()
        .nth(1)
        .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").to_owned() + "/src/path.rs");
    let file = File::open(&path)?;
    let len = Bytes(file.metadata()?.len());

    let mut core = IoPath::new(Config {
        memory: Bytes(4 << 20),
        policy: Policy::Linux6,
        max_window: Pages(32),
    });
    // The memory is the program's: the core only names frames.
    let mut frames = vec![0; core.frame_count() as usize * PAGE];
    let device = core.add_device(Geometry::new(len));
    let opened = core.open(device, len).expect("one file is not too many");
    let stream = core.stream(opened);
    core.set_trace(1000);

    let started = Clock::now();
    let now = || Instant(started.elapsed().as_nanos() as u64);
    let (mut pos, mut lines, mut prev_pos) = (Bytes(0), 0, None);
    while pos < len {
        let id = core.read(now(), stream, pos, Bytes(8192).min(len - pos), prev_pos);
        let ready = drive(&mut core, &file, &mut frames, now)?;
        assert_eq!((ready.id, ready.fault), (id, None));
        for (i, frame) in core.frames(id).iter().enumerate() {
            let start = frame.0 as usize * PAGE;
            let part = (ready.len.0 as usize - i * PAGE).min(PAGE);
            lines += frames[start..start + part].iter().filter(|byte| **byte == b'\n').count();
        }
        core.release(now(), id);
        pos += ready.len;
        prev_pos = Some(pos);
    }
    while let Some(event) = core.poll_trace() {
        match event.what {
            What::Decided { decided, .. } => println!("{decided}"),
            What::Dispatched { start, pages, .. } => println!("  read {pages} pages at {start}"),
            What::Completed { .. } => {}
        }
    }
    println!("{path}: {lines} lines, {} device reads", core.stats().device_reads);
    Ok(())
}

/// Does what the core asks for until a read is ready.
fn drive(
    core: &mut IoPath,
    file: &File,
    frames: &mut [u8],
    now: impl Fn() -> Instant,
) -> std::io::Result<Ready> {
    loop {
        if let Some(ready) = core.poll_ready() {
            return Ok(ready);
        }
        let io = core.poll_dispatch(now()).expect("a read that is not ready waits for a device");
        let mut bytes = vec![0; io.len.0 as usize];
        let mut got = 0;
        let result = loop {
            match file.read_at(&mut bytes[got..], io.offset.0 + got as u64) {
                Ok(0) => break Ok(Bytes(got as u64)),
                Ok(more) => got += more,
                Err(error) => break Err(error.raw_os_error().unwrap_or(5)),
            }
        };
        for (page, bytes) in core.pages(io.tag).iter().zip(bytes.chunks(PAGE)) {
            let start = page.filling.frame().0 as usize * PAGE;
            frames[start..start + PAGE].copy_from_slice(bytes);
        }
        core.complete(now(), io.tag, result);
    }
}
