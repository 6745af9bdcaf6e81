//! What hostile clients get, and what it costs the others: nothing.

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use foreread_serve::ServerLimits;
use foreread_serve::client::Client;
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use support::{Random, Running, check, read, serve, serve_with, until_closed};

const LEN: u64 = 3 << 20;

/// ServerLimits under which hostile clients are found out soon.
fn strict() -> ServerLimits {
    let soon = Duration::from_millis(50);
    ServerLimits { handshake_timeout: soon, stop_timeout: soon, ..ServerLimits::default() }
}

/// Another client is served meanwhile.
fn others_are_served(running: &Running) {
    let mut session = running.session(true);
    check(12_345, &session.read(12_345, 100_000).expect("others are served"));
    session.leave().expect("it is there");
}

#[test]
fn garbage_of_any_kind_is_closed_with_one_line() {
    let running = serve(LEN, 1 << 20, ServerLimits::default());
    let mut random = Random(4);
    for round in 0..100 {
        let mut socket = if round % 2 == 0 { running.socket() } else { running.raw() };
        let mut garbage: Vec<u8> =
            (0..64).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        garbage[0] |= 0x80;
        socket.write_all(&garbage).expect("it listens");
        until_closed(&mut socket);
    }
    others_are_served(&running);
    running.until(|it| it.meter.counters().connections == 0);
    assert_eq!(running.meter.counters().misbehaved, 100);
    let lines = running.stop();
    assert_eq!(lines.len(), 100);
    assert!(lines.iter().all(|line| line.starts_with("client ") && line.contains("closed: ")));
}

#[test]
fn a_client_that_is_silent_in_the_handshake_is_closed_after_a_while() {
    let running = serve(LEN, 1 << 20, strict());
    let mut silent = running.socket();
    let mut half = running.socket();
    half.write_all(&3_u32.to_be_bytes()).expect("it listens");
    half.write_all(&wire::OPTION_MAGIC.to_be_bytes()).expect("it listens");
    assert_eq!(until_closed(&mut silent).len(), 18, "the greeting");
    assert_eq!(until_closed(&mut half).len(), 18, "the greeting");
    let lines = running.stop();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].ends_with("its handshake took too long"), "{}", lines[0]);
}

/// Each of its options has an answer, none of which it takes.
#[test]
fn a_client_that_asks_in_the_handshake_and_does_not_listen_is_closed_after_a_while() {
    let running = serve(LEN, 1 << 20, strict());
    let mut socket = running.socket();
    socket.set_write_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    let mut asks = 3_u32.to_be_bytes().to_vec();
    for _ in 0..50_000 {
        foreread_serve::nbd::peer::option(&mut asks, wire::OPT_LIST, &[]);
    }
    let error = socket.write_all(&asks).expect_err("it is not answered without end");
    assert!(matches!(error.kind(), std::io::ErrorKind::BrokenPipe), "{error}");
    assert_eq!(running.stop().len(), 1);
}

#[test]
fn lengths_that_lie_are_errors_or_the_end() {
    let running = serve(LEN, 1 << 20, ServerLimits::default());
    // A write beyond the limit: its bytes are thrown away, then it goes on.
    let mut socket = running.raw();
    let len = wire::MAX_PAYLOAD + 1;
    let write = NbdRequest { command: wire::CMD_WRITE, cookie: 1, len, ..NbdRequest::default() };
    socket.write_all(&write.bytes()).expect("it listens");
    let chunk = vec![0x25; 1 << 20];
    for _ in 0..32 {
        socket.write_all(&chunk).expect("it listens");
    }
    socket.write_all(&[0x25]).expect("it listens");
    socket.write_all(&read(2, 0, 1).bytes()).expect("it listens");
    let mut replies = [0; 33];
    socket.read_exact(&mut replies).expect("two replies");
    assert_eq!(replies[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 1], "read-only comes first");
    assert_eq!(replies[16..24], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    // One that ends in the middle.
    socket.write_all(&write.bytes()).expect("it listens");
    socket.write_all(&[0; 1000]).expect("it listens");
    socket.shutdown(Shutdown::Write).expect("it is there");
    until_closed(&mut socket);
    // Half a request.
    let mut socket = running.raw();
    socket.write_all(&read(1, 0, 1).bytes()[..27]).expect("it listens");
    socket.shutdown(Shutdown::Write).expect("it is there");
    until_closed(&mut socket);
    others_are_served(&running);
    let lines = running.stop();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.ends_with("in the middle of a request")), "{lines:?}");
}

/// What it asked for and does not take is bounded, and no page is held for it.
#[test]
fn a_client_that_never_reads_stalls_alone() {
    let limits = ServerLimits { reply_bytes: 1 << 20, ..strict() };
    let running = serve(LEN, 1 << 20, limits);
    let mut sockets = Vec::new();
    for len in [4096, 65_536, 300_000, 1 << 20, 3 << 20] {
        let mut socket = running.raw();
        socket.set_nonblocking(true).expect("a flag");
        let mut asked = 0;
        // Until the server takes no more of its requests.
        running.until(|_| {
            let request = read(asked, (asked * 7919 * 512) % (LEN + 1 - u64::from(len)), len);
            match socket.write(&request.bytes()) {
                Ok(28) => asked += 1,
                Ok(_) => return true,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(error) => panic!("{error}"),
            }
            false
        });
        sockets.push(socket);
    }
    // All pages are free: nothing is pinned, nothing held.
    running.until(|it| it.engine.frames().unwrap().0 == it.engine.frames().unwrap().1);
    others_are_served(&running);
    let sent = running.meter.counters().bytes_read;
    // Output, a socket's buffer and one piece for each; the other client's reads.
    assert!(sent < 5 * (4 << 20), "{sent} bytes for clients that took none");
    let lines = running.stop();
    assert!(lines.is_empty(), "{lines:?}");
    drop(sockets);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let running = serve(LEN, 1 << 20, ServerLimits::default());
    let mut random = Random(8);
    for round in 0..200_u64 {
        let mut socket = running.raw();
        let mut asks = Vec::new();
        for cookie in 0..64 {
            let len = 1 + random.below(100_000);
            let offset = random.below(LEN - len);
            asks.extend_from_slice(&read(cookie, offset, u32::try_from(len).unwrap()).bytes());
        }
        let cut = usize::try_from(random.below(asks.len() as u64)).unwrap();
        socket.write_all(&asks[..cut]).expect("it listens");
        if round % 3 == 0 && cut >= NbdRequest::LEN {
            let _ = socket.read(&mut [0; 1000]).expect("some bytes, or none");
        }
        drop(socket);
    }
    others_are_served(&running);
    running.until(|it| it.meter.counters().connections == 0);
    running.assert_idle();
    running.stop();
}

#[test]
fn a_flood_of_requests_is_served_within_the_limits() {
    let limits = ServerLimits { requests: 16, reply_bytes: 1 << 20, ..ServerLimits::default() };
    let running = serve(LEN, 1 << 20, limits);
    let socket = running.raw();
    let mut writer = socket.try_clone().expect("a descriptor");
    const ASKED: u64 = 30_000;
    let flood = std::thread::spawn(move || {
        for first in (0..ASKED).step_by(1000) {
            let asks: Vec<u8> = (first..first + 1000)
                .flat_map(|cookie| {
                    // Most make no sense.
                    let command = if cookie % 100 == 0 { wire::CMD_READ } else { 77 };
                    NbdRequest { command, cookie, len: 512, ..NbdRequest::default() }.bytes()
                })
                .collect();
            writer.write_all(&asks).expect("it goes on");
        }
        writer.shutdown(Shutdown::Write).expect("it is there");
    });
    others_are_served(&running);
    let replies = until_closed(&mut socket.try_clone().expect("a descriptor"));
    flood.join().expect("no panic");
    let reads = usize::try_from(ASKED / 100).unwrap();
    assert_eq!(replies.len(), usize::try_from(ASKED).unwrap() * 16 + reads * 512);
    assert!(running.stop().is_empty());
}

#[test]
fn one_connection_too_many_is_closed_and_the_others_go_on() {
    let running = serve(LEN, 1 << 20, ServerLimits { connections: 2, ..ServerLimits::default() });
    let mut first = running.session(true);
    let second = running.session(true);
    assert!(running.client().go(true).is_err(), "it is closed when it asks for the export");
    first.read(0, 1000).expect("it goes on");
    drop(second);
    running.until(|it| it.meter.counters().connections == 1);
    others_are_served(&running);
    let lines = running.stop();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].ends_with("refused: 2 connections are open"), "{}", lines[0]);
}

#[test]
fn a_silent_client_is_closed_where_that_is_wanted() {
    let soon = Duration::from_millis(50);
    let running =
        serve(LEN, 1 << 20, ServerLimits { idle_timeout: Some(soon), ..ServerLimits::default() });
    assert!(until_closed(&mut running.raw()).is_empty());
    assert_eq!(running.stop().len(), 1);
}

/// Requests that came before the stop are answered; a client that takes no reply delays no other.
#[test]
fn a_stop_answers_what_is_in_hand_and_waits_for_no_client_forever() {
    let running = serve(LEN, 1 << 20, strict());
    let mut served = running.raw();
    let asks: Vec<u8> = (0..50).flat_map(|page| read(page, page * 4096, 4096).bytes()).collect();
    served.write_all(&asks).expect("it listens");
    let mut deaf = running.raw();
    deaf.write_all(&read(1, 0, 3 << 20).bytes()).expect("it listens");
    running.until(|it| it.meter.counters().reads == 51);
    running.stop();
    assert_eq!(until_closed(&mut served).len(), 50 * (16 + 4096));
}

/// A server with these limits that answers control requests, and listens on TCP, too.
fn with_network(connections: usize) -> (Running, SocketAddr) {
    let mut addr = None;
    let limits = ServerLimits { connections, ..ServerLimits::default() };
    let running = serve_with(LEN, 1 << 20, limits, |server| {
        server.on_control(Box::new(|text| Ok(text.to_owned())));
        addr = Some(server.tcp(([127, 0, 0, 1], 0).into()).expect("a port"));
    });
    (running, addr.expect("it listens"))
}

fn network_client(addr: SocketAddr) -> Client {
    Client::connect(&format!("nbd://{addr}")).expect("a greeting")
}

/// Clients of one kind that did nothing held all connections: the owner got neither statistics nor
/// settings, and no other client was served.
#[test]
fn idle_clients_of_one_kind_keep_out_neither_control_requests_nor_clients_of_the_other() {
    let (running, addr) = with_network(3);
    let remote: Vec<_> = (0..3).map(|_| network_client(addr).go(true).expect("a place")).collect();
    let mut refused = TcpStream::connect(addr).expect("it listens");
    assert_eq!(refused.read(&mut [0; 18]).expect("an end"), 0, "not even a greeting");
    for _ in 0..5 {
        assert_eq!(running.client().control("stats").expect("an answer"), "stats");
    }
    let local: Vec<_> = (0..3).map(|_| running.session(true)).collect();
    assert!(running.client().go(true).is_err(), "the local places are taken, too");
    for _ in 0..5 {
        assert_eq!(running.client().control("set").expect("an answer"), "set");
    }
    drop((remote, local));
    running.until(|it| it.meter.counters().connections == 0);
    network_client(addr).go(true).expect("a place").leave().expect("it is there");
    assert_eq!(running.stop().len(), 2, "a line for each that was refused");
}

/// Clients that never end their handshake kept new ones out until their time was over, again and
/// again.
#[test]
fn a_handshake_that_never_ends_is_closed_for_a_newer_client() {
    let (running, addr) = with_network(2);
    let session = network_client(addr).go(true).expect("a place");
    for _ in 0..20 {
        let mut silent = network_client(addr);
        let mut dribble = TcpStream::connect(addr).expect("it listens");
        dribble.write_all(&[0, 0]).expect("it listens");
        network_client(addr).go(true).expect("a place").leave().expect("it is there");
        assert!(silent.control("stats").is_err(), "it was closed");
        running.until(|it| it.meter.counters().connections == 1);
    }
    // The same on the Unix socket: handshakes fill the room of control requests.
    let silent: Vec<_> = (0..30).map(|_| running.client()).collect();
    assert_eq!(running.client().control("stats").expect("an answer"), "stats");
    running.session(true).leave().expect("it is there");
    drop((silent, session));
    running.stop();
}
