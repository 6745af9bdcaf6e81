//! Servers whose device holds requests back, or refuses them: they end in time, with an error.
//!
//! In:    a server of a file whose device does as told; both kinds of ring.
//! Out:   what `Server::run` gives, what clients see.
//! Never: a sleep; a claim about time, but for the watchdog's.

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "../../engine/tests/hang/mod.rs"]
mod hang;
#[path = "../../engine/tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use foreread::testing::{Faults, Mishap};
use foreread::{Engine, IoBackend, OpenOptions};
use foreread_serve::client::{Client, Session};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use foreread_serve::{CounterReader, Export, ServeError, Server, ServerLimits, Stopper};
use support::with_each_io;
use tempfile::TempDir;

const LEN: usize = 1 << 20;
const ALWAYS: std::ops::Range<u32> = 0..u32::MAX;
const SOON: Duration = Duration::from_millis(100);

struct Running {
    faults: Arc<Faults>,
    path: PathBuf,
    meter: CounterReader,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    /// The file, which outlives the engine's thread that may still write there.
    _dir: TempDir,
}

impl Running {
    fn new(io: IoBackend) -> Self {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let disk = dir.path().join("disk");
        std::fs::write(&disk, vec![0; LEN]).unwrap();
        let age = Duration::from_secs(3600);
        let engine =
            Engine::builder().memory(4 << 20).dirty_age(age).io_backend(io).build().unwrap();
        let faults = Arc::new(Faults::default());
        let options = OpenOptions::new().write(true).faults(Arc::clone(&faults));
        let file = engine.open_with(&disk, &options).unwrap();
        let (name, description) = (String::new(), "the disk".to_owned());
        let export = Export { name, range: 0..file.len(), file, read_only: false, description };
        let limits =
            ServerLimits { stop_timeout: SOON, exit_timeout: SOON, ..ServerLimits::default() };
        let mut server = Server::new(engine, export, limits);
        let path = dir.path().join("socket");
        server.unix(&path).unwrap();
        let (meter, stopper) = (server.counter_reader(), server.stopper());
        let thread = Some(std::thread::spawn(move || server.run()));
        Self { faults, path, meter, stopper, thread, _dir: dir }
    }

    fn session(&self) -> Session {
        Client::connect(self.path.to_str().unwrap()).unwrap().go(false).unwrap()
    }

    fn stop(mut self) -> Result<(), ServeError> {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Threads that were left behind end.
        self.faults.let_go();
        self.stopper.stop();
    }
}

#[test]
fn a_server_whose_writes_are_never_answered_ends_and_says_how_much_is_lost() {
    with_each_io("a_server_whose_writes_are_never_answered_ends", |io| {
        let running = Running::new(io);
        running.faults.inject_writes(0..256, ALWAYS, Mishap::Hold);
        let mut session = running.session();
        session.write(0, &[7; 3 * 4096], false).unwrap();
        let faults = Arc::clone(&running.faults);
        let error = running.stop().expect_err("it cannot be flushed");
        let ServeError::NotFlushed { target, bytes, after } = &error else { panic!("{error}") };
        assert_eq!((target.as_str(), *bytes, *after), ("the disk", Some(3 * 4096), SOON));
        faults.let_go();
    });
}

#[test]
fn a_server_whose_device_never_ends_a_flush_ends() {
    with_each_io("a_server_whose_device_never_ends_a_flush_ends", |io| {
        let running = Running::new(io);
        running.faults.inject_syncs(ALWAYS, Mishap::Hold);
        running.session().write(0, &[7; 4096], false).unwrap();
        let faults = Arc::clone(&running.faults);
        let error = running.stop().expect_err("it cannot be flushed");
        assert!(matches!(error, ServeError::NotFlushed { .. }), "{error}");
        faults.let_go();
    });
}

/// Reads, flushes and FUA writes that the device holds back: their clients are cut off.
#[test]
fn requests_in_hand_that_are_never_answered_end_with_their_connection() {
    with_each_io("requests_in_hand_that_are_never_answered_end", |io| {
        let running = Running::new(io);
        running.faults.inject_writes(0..256, ALWAYS, Mishap::Hold);
        running.faults.inject(0..256, ALWAYS, Mishap::Hold);
        let request =
            |command, flags, offset, len| NbdRequest { command, cookie: 1, offset, len, flags };
        // The read is of another page than the write, which would make it a hit.
        let asks = [
            (request(wire::CMD_READ, 0, 100 * 4096, 4096), vec![]),
            (request(wire::CMD_WRITE, wire::CMD_FLAG_FUA, 0, 4096), vec![1; 4096]),
            (request(wire::CMD_FLUSH, 0, 0, 0), vec![]),
        ];
        running.session().write(8 * 4096, &[7; 4096], false).unwrap();
        let clients = asks.map(|(request, payload)| {
            let mut session = running.session();
            std::thread::spawn(move || session.ask(request, &payload).is_err())
        });
        support::wait_until(|| {
            let counters = running.meter.counters();
            counters.flushes == 1 && counters.reads == 1 && counters.writes == 2
        });
        let faults = Arc::clone(&running.faults);
        assert!(running.stop().is_err());
        for client in clients {
            assert!(client.join().unwrap(), "its connection was closed");
        }
        faults.let_go();
    });
}

/// Each write and each flush has its answer, and the end is told.
#[test]
fn a_server_whose_device_refuses_everything_answers_and_ends() {
    with_each_io("a_server_whose_device_refuses_everything_answers_and_ends", |io| {
        let running = Running::new(io);
        running.faults.inject_writes(0..256, ALWAYS, Mishap::Errno(28));
        let mut session = running.session();
        for page in (0..200).step_by(2) {
            session.write(page * 4096, &[7; 4096], false).unwrap();
        }
        let flush = NbdRequest { command: wire::CMD_FLUSH, cookie: 1, offset: 0, len: 0, flags: 0 };
        for _ in 0..3 {
            assert_eq!(session.ask(flush, &[]).unwrap(), Err(28));
        }
        assert!(session.write(4096, &[7; 4096], true).is_err());
        drop(session);
        let error = running.stop().expect_err("there is no room");
        let ServeError::Flush { bytes, .. } = &error else { panic!("{error}") };
        assert_eq!(*bytes, Some(101 * 4096));
        assert!(error.to_string().contains("the disk: 413696 bytes"), "{error}");
    });
}
