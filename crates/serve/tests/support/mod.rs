//! What the server's tests share: a file whose every byte is known, a server of it, bare sockets.
//!
//! In:    limits; what a hostile client sends.
//! Out:   replies; what is left behind.
//! Never: a sleep. A test that hangs is ended by its socket's time-out or by the watchdog of its
//!        server, and says where.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

#[path = "../../../engine/tests/hang/mod.rs"]
mod hang;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use foreread::testing::Faults;
use foreread::{Engine, OpenOptions};
use foreread_serve::client::{Client, Session};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::{peer, wire};
use foreread_serve::{CounterReader, Export, ServeError, Server, ServerLimits, Stopper};
use hang::{Watchdog, wait_until};
use tempfile::TempDir;

/// Running server of a file of [`byte`]s.
pub struct Running {
    pub engine: Engine,
    pub meter: CounterReader,
    pub stopper: Stopper,
    pub lines: Arc<Mutex<Vec<String>>>,
    pub dir: TempDir,
    /// What the device below does wrong.
    pub faults: Arc<Faults>,
    _watchdog: Watchdog,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

/// What the file has there.
pub fn byte(offset: u64) -> u8 {
    let word = (offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[(offset % 8) as usize]
}

pub fn bytes(offset: u64, len: usize) -> Vec<u8> {
    (offset..).take(len).map(byte).collect()
}

/// Panics unless these are the file's bytes.
pub fn check(offset: u64, got: &[u8]) {
    if let Some(at) = (0..got.len()).find(|&at| got[at] != byte(offset + at as u64)) {
        panic!("wrong from byte {at} on, of {} at {offset}", got.len());
    }
}

/// Numbers that look random, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16) % end
    }
}

pub fn serve(len: u64, memory: u64, limits: ServerLimits) -> Running {
    serve_with(len, memory, limits, |_| ())
}

pub fn serve_with(
    len: u64,
    memory: u64,
    limits: ServerLimits,
    prepare: impl FnOnce(&mut Server),
) -> Running {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = dir.path().join("disk");
    let len = usize::try_from(len).expect("small");
    std::fs::write(&path, bytes(0, len)).expect("a file");
    let engine = Engine::builder().memory(memory).build().expect("an engine");
    // Whether the file system of the build has O_DIRECT is no matter of these tests.
    let faults = Arc::new(Faults::default());
    let its_faults = Some(Arc::clone(&faults));
    let options = OpenOptions::new().buffered(true).faults(its_faults);
    let file = engine.open_with(&path, &options).expect("it is there");
    let (name, description) = ("disk".into(), "a disk".into());
    let export = Export { name, range: 0..file.len(), file, read_only: true, description };
    let mut server = Server::new(engine.clone(), export, limits);
    server.unix(dir.path().join("socket")).expect("a socket");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    server.on_log(Box::new(move |line| sink.lock().expect("whole").push(line.to_owned())));
    prepare(&mut server);
    let (meter, stopper) = (server.counter_reader(), server.stopper());
    let thread = Some(std::thread::spawn(move || server.run()));
    let test = std::thread::current().name().unwrap_or("a test of the server").to_owned();
    let _watchdog = Watchdog::new(test);
    Running { engine, meter, stopper, lines, dir, faults, _watchdog, thread }
}

impl Running {
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub fn client(&self) -> Client {
        Client::connect(self.path().to_str().expect("text")).expect("it listens")
    }

    pub fn session(&self, structured: bool) -> Session {
        self.client().go(structured).expect("the export is there")
    }

    /// A socket on which nothing was said yet.
    pub fn socket(&self) -> UnixStream {
        let socket = UnixStream::connect(self.path()).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        socket
    }

    /// A socket on which requests may follow; simple replies.
    pub fn raw(&self) -> UnixStream {
        let mut socket = self.socket();
        let mut greeting = [0; peer::GREETING];
        socket.read_exact(&mut greeting).expect("a greeting");
        let mut out = 3_u32.to_be_bytes().to_vec();
        peer::option(&mut out, wire::OPT_EXPORT_NAME, &[b"disk"]);
        socket.write_all(&out).expect("it listens");
        let mut export = [0; 10];
        socket.read_exact(&mut export).expect("size and flags");
        socket
    }

    /// Stops it, and gives what [`Server::run`] gave; nothing may be left behind.
    pub fn stop(mut self) -> Vec<String> {
        self.stopper.stop();
        let ended = self.thread.take().expect("once").join().expect("no panic");
        ended.expect("nothing is lost");
        assert!(!self.path().exists(), "the socket's file is gone");
        assert_eq!(self.meter.counters().connections, 0);
        self.assert_idle();
        std::mem::take(&mut *self.lines.lock().expect("whole"))
    }

    /// All frames have come back, those of abandoned reads with their device.
    pub fn assert_idle(&self) {
        wait_until(|| {
            let (idle, all) = self.engine.frames().unwrap();
            idle == all
        });
    }

    /// Waits until it is so, which takes as long as threads take.
    pub fn until(&self, mut is_so: impl FnMut(&Self) -> bool) {
        wait_until(|| is_so(self));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A read request.
pub fn read(cookie: u64, offset: u64, len: u32) -> NbdRequest {
    NbdRequest { command: wire::CMD_READ, cookie, offset, len, flags: 0 }
}

/// Reads to the end, which has to come.
pub fn until_closed(socket: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    match socket.read_to_end(&mut all) {
        Ok(_) => all,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => all,
        Err(error) => panic!("the server did not close: {error}"),
    }
}
