//! Writes that wait, fail and panic: with a store that does as it is told.

mod file_work;
mod memory;

use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};

use foreread::{Engine, OpenOptions};

use super::*;
use crate::budget::SharedBudget;
use crate::client::{Client, ReplyPiece, Session};
use crate::nbd::NbdErrno;
use crate::nbd::request::NbdRequest;
use crate::nbd::wire;
use crate::store::Store;

/// Bytes in memory. What waits, waits until it is let go.
#[derive(Default)]
struct Slow {
    bytes: Mutex<Vec<u8>>,
    /// How many may go on; None: all.
    permits: Mutex<Option<u64>>,
    changed: Condvar,
    /// How many bytes are taken without waiting.
    room: usize,
    fails: Mutex<Option<NbdErrno>>,
    panics: AtomicBool,
    /// Extents that were looked up.
    looked_up: AtomicU64,
}

impl Slow {
    fn new(len: usize, room: usize) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(vec![0; len]), room, ..Self::default() })
    }

    fn hold(&self) {
        *self.permits.lock().unwrap() = Some(0);
    }

    fn let_go(&self, count: Option<u64>) {
        *self.permits.lock().unwrap() = count;
        self.changed.notify_all();
    }

    fn wait(&self) -> Result<(), NbdErrno> {
        let permits = self.permits.lock().unwrap();
        let held = |permits: &mut Option<u64>| *permits == Some(0);
        let mut permits = self.changed.wait_while(permits, held).unwrap();
        if let Some(permits) = &mut *permits {
            *permits -= 1;
        }
        drop(permits);
        assert!(!self.panics.swap(false, Ordering::AcqRel), "a panic that was asked for");
        match *self.fails.lock().unwrap() {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }

    fn put(&self, from: &[u8], offset: u64) {
        let at = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
    }
}

impl Store for Slow {
    fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno> {
        let taken = from.len().min(self.room);
        self.put(&from[..taken], offset);
        Ok(taken)
    }

    fn write(&self, from: &[u8], offset: u64, _fua: bool) -> Result<(), NbdErrno> {
        self.wait()?;
        self.put(from, offset);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.wait().map_err(|errno| io::Error::from_raw_os_error(errno as i32))
    }

    fn discard(&self, _range: Range<u64>) -> Result<(), NbdErrno> {
        self.wait()
    }

    fn zero(&self, _range: Range<u64>, _may_unmap: bool) -> Result<(), NbdErrno> {
        self.wait()
    }

    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        self.wait()?;
        let page =
            |start: u64| (start..(start + 4096).min(range.end), (start / 4096).is_multiple_of(2));
        let extents: Vec<_> = (range.start..range.end).step_by(4096).map(page).collect();
        self.looked_up.fetch_add(extents.len() as u64, Ordering::AcqRel);
        Ok(extents)
    }

    fn first_extent(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        self.extents(range.start..(range.start + 4096).min(range.end))
    }
}

const LEN: usize = 2 << 20;

struct Running {
    path: std::path::PathBuf,
    budget: Arc<SharedBudget>,
    meter: CounterReader,
    stopper: Stopper,
    thread: std::thread::JoinHandle<Result<(), ServeError>>,
    _dir: tempfile::TempDir,
}

fn serve(store: &Arc<Slow>) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::write(&disk, vec![0; LEN]).unwrap();
    let engine = Engine::builder().memory(1 << 20).build().unwrap();
    let options = OpenOptions::new().buffered(true).write(true);
    let file = engine.open_with(&disk, &options).unwrap();
    let (name, description, range) = (String::new(), String::new(), 0..file.len());
    let export = Export { name, file, range, read_only: false, description };
    let mut server =
        Server::new(engine, export, ServerLimits::default()).with_store(Arc::clone(store) as _);
    let path = dir.path().join("socket");
    server.unix(&path).unwrap();
    let (meter, stopper) = (server.counter_reader(), server.stopper());
    let budget = Arc::clone(&server.shared.budget);
    let thread = std::thread::spawn(move || server.run());
    Running { path, budget, meter, stopper, thread, _dir: dir }
}

impl Running {
    fn session(&self) -> Session {
        Client::over(UnixStream::connect(&self.path).unwrap()).unwrap().go(true).unwrap()
    }

    fn stop(self) -> Result<(), ServeError> {
        self.stopper.stop();
        self.thread.join().unwrap()
    }
}

fn ask(command: u16, cookie: u64, offset: u64, len: u32) -> NbdRequest {
    NbdRequest { command, cookie, offset, len, flags: 0 }
}

/// The next answers, by cookie, with the number of their error.
fn answers(session: &mut Session, count: usize) -> Vec<(u64, u32)> {
    let (mut answers, mut failed) = (Vec::new(), None);
    while answers.len() < count {
        session
            .receive(|cookie, answer| match answer {
                ReplyPiece::Error(errno) => failed = Some(errno),
                ReplyPiece::Done => answers.push((cookie, failed.take().unwrap_or(0))),
                ReplyPiece::Data(..) | ReplyPiece::Zeroes(..) | ReplyPiece::Extents(_) => {}
            })
            .unwrap();
    }
    answers
}

#[test]
fn a_flush_that_waits_holds_no_read_up() {
    let store = Slow::new(LEN, LEN);
    let running = serve(&store);
    let mut session = running.session();
    store.hold();
    let flush = ask(wire::CMD_FLUSH, 1, 0, 0);
    let read = ask(wire::CMD_READ, 2, 5000, 100);
    session.send(&[(flush, &[]), (read, &[])]).unwrap();
    assert_eq!(answers(&mut session, 1), [(2, 0)]);
    store.let_go(None);
    assert_eq!(answers(&mut session, 1), [(1, 0)]);
    drop(session);
    running.stop().unwrap();
}

#[test]
fn a_write_that_finds_no_room_waits_for_it_and_others_of_its_client_wait_behind() {
    let store = Slow::new(LEN, 1000);
    let running = serve(&store);
    let mut session = running.session();
    let (first, second) = (vec![7; 700_000], vec![8; 300]);
    store.hold();
    let write = |cookie, offset, bytes: &[u8]| {
        ask(wire::CMD_WRITE, cookie, offset, u32::try_from(bytes.len()).unwrap())
    };
    let asked = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let asks = [(write(1, 512, &first), &first[..]), (write(2, 999_000, &second), &second)];
            session.send(&asks).unwrap();
            session
        });
        // Another client is served all the time.
        let mut other = running.session();
        other.read(0, 4096).unwrap();
        store.let_go(None);
        sender.join().unwrap()
    });
    let mut session = asked;
    assert_eq!(answers(&mut session, 2), [(1, 0), (2, 0)]);
    let bytes = store.bytes.lock().unwrap();
    assert!(bytes[512..700_512] == first);
    assert!(bytes[999_000..999_300] == second);
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 700_300);
    drop(bytes);
    drop(session);
    running.stop().unwrap();
}

#[test]
fn an_error_is_its_requests_alone_and_a_panic_is_an_error() {
    let store = Slow::new(LEN, 0);
    let running = serve(&store);
    let mut session = running.session();
    for (errno, number) in [(NbdErrno::NoSpc, 28), (NbdErrno::Io, 5)] {
        *store.fails.lock().unwrap() = Some(errno);
        let bytes = vec![7; 300_000];
        let write = ask(wire::CMD_WRITE, 0, 0, 300_000);
        assert_eq!(session.ask(write, &bytes).unwrap(), Err(number));
        let fua = NbdRequest { flags: wire::CMD_FLAG_FUA, ..write };
        assert_eq!(session.ask(fua, &bytes).unwrap(), Err(number));
        assert_eq!(session.ask(ask(wire::CMD_FLUSH, 0, 0, 0), &[]).unwrap(), Err(number));
        assert_eq!(session.ask(ask(wire::CMD_TRIM, 0, 0, 9), &[]).unwrap(), Err(number));
        assert_eq!(session.ask(ask(wire::CMD_WRITE_ZEROES, 0, 0, 9), &[]).unwrap(), Err(number));
        assert_eq!(session.ask(ask(wire::CMD_BLOCK_STATUS, 0, 0, 9), &[]).unwrap(), Err(number));
    }
    *store.fails.lock().unwrap() = None;
    for command in [wire::CMD_FLUSH, wire::CMD_BLOCK_STATUS] {
        store.panics.store(true, Ordering::Release);
        let len = if command == wire::CMD_FLUSH { 0 } else { 9 };
        assert_eq!(session.ask(ask(command, 0, 0, len), &[]).unwrap(), Err(5));
    }
    store.panics.store(true, Ordering::Release);
    assert_eq!(session.ask(ask(wire::CMD_WRITE, 0, 0, 9), &[1; 9]).unwrap(), Err(5));
    session.write(0, &[1; 9], true).expect("it goes on");
    drop(session);
    assert_eq!(running.meter.counters().errors, 15);
    running.stop().unwrap();
}

#[test]
fn extents_are_as_many_as_one_reply_has_room_for_and_the_first_if_that_is_wanted() {
    let store = Slow::new(LEN, LEN);
    let running = serve(&store);
    let mut session = running.session();
    let whole = ask(wire::CMD_BLOCK_STATUS, 0, 100, 20_000);
    let extents = session.ask(whole, &[]).unwrap().unwrap();
    let lens: Vec<u32> =
        extents.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
    let (data, hole) = (0, 3);
    assert_eq!(lens, [4096, data, 4096, hole, 4096, data, 4096, hole, 3616, data]);
    let one = NbdRequest { flags: wire::CMD_FLAG_REQ_ONE, ..whole };
    assert_eq!(session.ask(one, &[]).unwrap().unwrap().len(), 8);
    drop(session);
    running.stop().unwrap();
}

/// A request for one extent looked up as many as a full reply has room for, and took the memory of
/// such a reply.
#[test]
fn one_extent_costs_the_look_up_of_one_and_no_memory_of_the_budget() {
    let store = Slow::new(LEN, LEN);
    let running = serve(&store);
    let mut session = running.session();
    let whole = ask(wire::CMD_BLOCK_STATUS, 0, 0, u32::try_from(LEN).unwrap());
    let one = NbdRequest { flags: wire::CMD_FLAG_REQ_ONE, ..whole };
    for _ in 0..10 {
        assert_eq!(session.ask(one, &[]).unwrap().unwrap().len(), 8);
    }
    assert_eq!(store.looked_up.load(Ordering::Acquire), 10);
    assert_eq!(running.budget.taken(), (0, 0), "none is taken, and none ever was");
    session.ask(whole, &[]).unwrap().unwrap();
    assert_eq!(store.looked_up.load(Ordering::Acquire), 10 + LEN as u64 / 4096);
    drop(session);
    running.stop().unwrap();
}

#[test]
fn a_client_that_leaves_while_its_write_waits_delays_no_other_and_a_failed_last_flush_is_told() {
    let store = Slow::new(LEN, 0);
    let running = serve(&store);
    let mut session = running.session();
    store.hold();
    session.send(&[(ask(wire::CMD_WRITE, 1, 0, 100), &[7; 100])]).unwrap();
    drop(session);
    let mut other = running.session();
    other.read(0, 100).unwrap();
    drop(other);
    // It counts until what it gave away is done: its memory is in use so long.
    *store.fails.lock().unwrap() = Some(NbdErrno::Io);
    store.let_go(None);
    while running.meter.counters().connections > 0 {
        std::thread::yield_now();
    }
    assert!(matches!(running.stop(), Err(ServeError::Flush { .. })));
}
