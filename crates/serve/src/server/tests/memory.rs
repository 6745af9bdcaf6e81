//! What clients may cost together.

use std::io::Write as _;

use super::*;
use crate::budget::SharedBudget;
use crate::buffer_memory::BufferMemory;

const DISK: u64 = 33 << 20;
const SHARED: usize = 3 << 20;

struct Bounded {
    budget: Arc<SharedBudget>,
    buffers: BufferMemory,
    running: Running,
}

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A server of a file of [`byte`]s.
fn bounded() -> Bounded {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::write(&disk, (0..DISK).map(byte).collect::<Vec<u8>>()).unwrap();
    let engine = Engine::builder().memory(8 << 20).build().unwrap();
    let options = OpenOptions::new().buffered(true).write(true);
    let file = engine.open_with(&disk, &options).unwrap();
    let (name, description, range) = (String::new(), String::new(), 0..file.len());
    let export = Export { name, file, range, read_only: false, description };
    let limits = ServerLimits { shared_bytes: Some(SHARED), ..ServerLimits::default() };
    let mut server = Server::new(engine, export, limits);
    let path = dir.path().join("socket");
    server.unix(&path).unwrap();
    let (budget, meter, stopper) =
        (Arc::clone(&server.shared.budget), server.counter_reader(), server.stopper());
    let buffers = server.shared.buffers.clone();
    let thread = std::thread::spawn(move || server.run());
    Bounded {
        budget: Arc::clone(&budget),
        buffers,
        running: Running { path, budget, meter, stopper, thread, _dir: dir },
    }
}

impl Bounded {
    /// A client that may send requests, and the others of whose bytes are its own.
    fn deaf(&self) -> UnixStream {
        use std::io::Read as _;
        let mut socket = UnixStream::connect(&self.running.path).unwrap();
        let mut out = 3_u32.to_be_bytes().to_vec();
        crate::nbd::peer::option(&mut out, wire::OPT_EXPORT_NAME, &[b""]);
        socket.write_all(&out).unwrap();
        socket.read_exact(&mut [0; crate::nbd::peer::GREETING + 10]).unwrap();
        socket
    }

    fn end(self) {
        let Self { budget, buffers, running } = self;
        running.stop().unwrap();
        assert_eq!(budget.taken().0, 0, "everything has come back");
        assert!(budget.taken().1 <= SHARED, "{:?}", budget.taken());
        assert_eq!(buffers.mapped_bytes(), 0, "no buffer outlives its connection");
    }
}

fn read_all(session: &mut Session) {
    for (offset, len) in [(0, 32 << 20), (5000, 3000), (12_345, 100_000), (1 << 20, 1 << 20)] {
        let got = session.read(offset, len).unwrap();
        assert!(got.iter().copied().eq((offset..).take(len as usize).map(byte)), "{offset}+{len}");
    }
}

/// Each could hold 8 MiB: 1.6 GiB in all.
#[test]
fn clients_that_never_read_cost_no_more_than_the_budget_and_the_others_go_on() {
    const DEAF: u64 = 200;
    let bounded = bounded();
    let mut deaf: Vec<UnixStream> = Vec::new();
    for number in 0..DEAF {
        let mut socket = bounded.deaf();
        // In one piece, in some, and in many small ones.
        let (count, len) =
            [(1, 32 << 20), (40, 800_000), (128, 250_000), (128, 10_000)][(number % 4) as usize];
        for cookie in 0..count {
            let offset = (cookie * 99_991) % (DISK + 1 - len);
            let len = u32::try_from(len).unwrap();
            socket.write_all(&ask(wire::CMD_READ, cookie, offset, len).bytes()).unwrap();
        }
        deaf.push(socket);
    }
    while bounded.running.meter.counters().reads < DEAF {
        std::thread::yield_now();
    }
    for structured in [false, true] {
        let client = Client::over(UnixStream::connect(&bounded.running.path).unwrap()).unwrap();
        let mut session = client.go(structured).unwrap();
        read_all(&mut session);
        let bytes: Vec<u8> = (1 << 20..).take(2 << 20).map(byte).collect();
        session.write(1 << 20, &bytes, false).unwrap();
        session.write(1 << 20, &bytes, true).unwrap();
        session.write(777 + (1 << 20), &bytes[777..300_000], true).unwrap();
        session.flush().unwrap();
        if structured {
            let whole = ask(wire::CMD_READ, 0, 4096, 1 << 20);
            let whole = NbdRequest { flags: wire::CMD_FLAG_DF, ..whole };
            let got = session.ask(whole, &[]).unwrap().unwrap();
            assert!(got.iter().copied().eq((4096..).take(1 << 20).map(byte)));
            let extents = ask(wire::CMD_BLOCK_STATUS, 0, 0, 1 << 20);
            assert!(!session.ask(extents, &[]).unwrap().unwrap().is_empty());
        }
        read_all(&mut session);
    }
    assert!(bounded.budget.taken().1 > SHARED / 2, "it was used");
    drop(deaf);
    while bounded.running.meter.counters().connections > 0 {
        std::thread::yield_now();
    }
    bounded.end();
}

/// Buffers of clients that had left stayed in the heap, which gave none of it back to the system:
/// 238 MiB after 1000 clients that did not read.
#[test]
fn buffers_of_clients_that_have_left_are_unmapped() {
    const EACH: u64 = 10;
    const REPLIES: usize = 192 << 10;
    let bounded = bounded();
    let mut clients: Vec<UnixStream> = Vec::new();
    for _ in 0..EACH {
        let mut reader = bounded.deaf();
        reader.write_all(&ask(wire::CMD_READ, 1, 0, 32 << 20).bytes()).unwrap();
        let mut writer = bounded.deaf();
        writer.write_all(&ask(wire::CMD_WRITE, 1, 0, 1 << 20).bytes()).unwrap();
        // The rest of the payload never comes.
        writer.write_all(&[7; 70_000]).unwrap();
        clients.extend([reader, writer]);
    }
    let counters = || bounded.running.meter.counters();
    while counters().reads < EACH || counters().writes < EACH {
        std::thread::yield_now();
    }
    // A read is counted before its head goes to the buffer of replies.
    let all_readers = usize::try_from(EACH).unwrap() * REPLIES;
    while bounded.buffers.mapped_bytes() < all_readers {
        std::thread::yield_now();
    }
    drop(clients);
    while counters().connections > 0 {
        std::thread::yield_now();
    }
    assert_eq!(bounded.buffers.mapped_bytes(), 0);
    bounded.end();
}

/// A connection that had to do without, and has all its replies, takes part again.
#[test]
fn what_comes_back_wakes_the_connections_that_wait() {
    let bounded = bounded();
    let mut sessions: Vec<Session> = (0..12).map(|_| bounded.running.session()).collect();
    for round in 0..2 {
        for session in &mut sessions {
            let asks: Vec<_> = (0..8)
                .map(|cookie| {
                    (ask(wire::CMD_READ, cookie, cookie * 500_000 + round, 700_000), &[][..])
                })
                .collect();
            session.send(&asks).unwrap();
        }
        for session in &mut sessions {
            let mut done = 0;
            while done < 8 {
                done += session
                    .receive(|_, answer| match answer {
                        ReplyPiece::Data(at, data) => {
                            let mut each = data.iter().zip(at..).step_by(997);
                            assert!(each.all(|(&got, at)| got == byte(at)), "at {at}");
                        }
                        ReplyPiece::Done => {}
                        other @ (ReplyPiece::Zeroes(..)
                        | ReplyPiece::Extents(_)
                        | ReplyPiece::Error(_)) => {
                            panic!("{other:?}")
                        }
                    })
                    .unwrap();
            }
        }
    }
    drop(sessions);
    bounded.end();
}
