//! Writes and flushes of a file, as futures: on a device that holds them, and fails them.

use foreread::testing::{Faults, Mishap};

use super::*;
use crate::blocking_pool::BlockingPool;

struct FileBench {
    faults: Arc<Faults>,
    pool: Arc<BlockingPool>,
    running: Running,
}

/// A server of a file whose device fails as it is told.
fn faulty() -> FileBench {
    let faults = Arc::new(Faults::default());
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::write(&disk, vec![0; LEN]).unwrap();
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let options = OpenOptions::new().buffered(true).write(true).faults(Arc::clone(&faults));
    let file = engine.open_with(&disk, &options).unwrap();
    let (name, description, range) = (String::new(), String::new(), 0..file.len());
    let export = Export { name, file, range, read_only: false, description };
    let mut server = Server::new(engine, export, ServerLimits::default());
    let path = dir.path().join("socket");
    server.unix(&path).unwrap();
    let (meter, stopper) = (server.counter_reader(), server.stopper());
    let (budget, pool) = (Arc::clone(&server.shared.budget), Arc::clone(&server.shared.pool));
    let thread = std::thread::spawn(move || server.run());
    FileBench { faults, pool, running: Running { path, budget, meter, stopper, thread, _dir: dir } }
}

const PAGE: u32 = 4096;

fn fua(page: u64) -> NbdRequest {
    let flags = wire::CMD_FLAG_FUA;
    NbdRequest { flags, ..ask(wire::CMD_WRITE, page, page * u64::from(PAGE), PAGE) }
}

/// Writes of whole pages from page 0 on, and as many flushes behind them.
fn writes_and_flushes(count: u64) -> Vec<(NbdRequest, &'static [u8])> {
    let writes = (0..count).map(|page| (fua(page), &[7; PAGE as usize][..]));
    let flushes = (0..count).map(|it| (ask(wire::CMD_FLUSH, count + it, 0, 0), &[][..]));
    writes.chain(flushes).collect()
}

/// Each waited in a thread of the blocking pool, of which there are 16: others of its kind waited
/// behind those that the device held.
#[test]
fn writes_and_flushes_that_a_device_holds_take_no_thread_and_delay_no_other() {
    const EACH: u64 = 40;
    let FileBench { faults, pool, running } = faulty();
    faults.inject_writes(0..EACH, 0..u32::MAX, Mishap::Hold);
    let mut session = running.session();
    session.send(&writes_and_flushes(EACH)).unwrap();
    faults.wait_held(1);
    let far = u64::from(PAGE) * 2 * EACH;
    session.send(&[(ask(wire::CMD_READ, 1000, far, 100), &[])]).unwrap();
    assert_eq!(answers(&mut session, 1), [(1000, 0)], "all others are held");
    let mut other = running.session();
    other.write(far, &[8; 4096], false).unwrap();
    assert_eq!(other.read(far, PAGE).unwrap(), [8; 4096], "another client is served");
    assert_eq!(pool.threads(), 0);
    faults.clear();
    faults.let_go();
    let mut done = answers(&mut session, 2 * usize::try_from(EACH).unwrap());
    done.sort_unstable();
    assert!(done.into_iter().eq((0..2 * EACH).map(|cookie| (cookie, 0))));
    assert_eq!(pool.threads(), 0);
    drop((session, other));
    let disk = running.path.with_file_name("disk");
    let bytes = std::fs::read(disk).unwrap();
    let far = usize::try_from(far).unwrap();
    assert!(bytes[..far / 2].iter().all(|byte| *byte == 7), "durable before the reply");
    let budget = Arc::clone(&running.budget);
    running.stop().unwrap();
    assert_eq!(budget.taken().0, 0);
}

#[test]
fn an_error_of_the_device_reaches_its_request_and_the_connection_goes_on() {
    let FileBench { faults, pool, running } = faulty();
    let mut session = running.session();
    let flush = ask(wire::CMD_FLUSH, 0, 0, 0);
    session.write(0, &[1; 4096], false).unwrap();
    faults.inject_syncs(0..1, Mishap::Errno(5));
    assert_eq!(session.ask(flush, &[]).unwrap(), Err(5));
    faults.clear();
    session.flush().expect("what was unstable is written again");
    faults.inject_writes(3..4, 0..u32::MAX, Mishap::Errno(28));
    let pages = 300_000 / PAGE;
    let request = NbdRequest { len: pages * PAGE, ..fua(0) };
    let bytes = vec![2; usize::try_from(request.len).unwrap()];
    assert_eq!(session.ask(request, &bytes).unwrap(), Err(28));
    faults.clear();
    assert!(session.ask(request, &bytes).unwrap().is_ok());
    assert!(session.read(0, request.len).unwrap() == bytes);
    assert_eq!((pool.threads(), running.meter.counters().errors), (0, 2));
    drop(session);
    running.stop().unwrap();
}

/// A client may send its last writes and close: it needs no answer.
#[test]
fn writes_and_flushes_of_a_client_that_has_left_are_done() {
    let FileBench { faults, pool, running } = faulty();
    faults.inject_writes(0..40, 0..u32::MAX, Mishap::Hold);
    let mut session = running.session();
    session.send(&writes_and_flushes(40)).unwrap();
    faults.wait_held(1);
    drop(session);
    faults.clear();
    faults.let_go();
    while running.meter.counters().connections > 0 {
        std::thread::yield_now();
    }
    assert_eq!(pool.threads(), 0);
    assert_eq!(running.budget.taken().0, 0, "its copies of payload are paid back");
    let bytes = std::fs::read(running.path.with_file_name("disk")).unwrap();
    assert!(bytes[..40 * 4096].iter().all(|byte| *byte == 7));
    running.stop().unwrap();
}
