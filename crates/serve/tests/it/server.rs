//! What well-behaved clients get: the file's bytes, whatever they ask, however much at a time.

use crate::support;

use std::collections::HashMap;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use foreread::OpenOptions;
use foreread::testing::Mishap;
use foreread_files::FileError;
use foreread_serve::client::{Client, ReplyPiece, Session};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use foreread_serve::{Export, ServeError, Server, ServerLimits};
use support::{Random, bytes, check, read, serve, serve_with};

const LEN: u64 = (3 << 20) + 777;

/// Sends many reads at once and takes the answers in any order.
fn batch(session: &mut Session, reads: &[(u64, u32)]) {
    let asked = (1..).zip(reads).map(|(cookie, (offset, len))| read(cookie, *offset, *len));
    let asked: Vec<_> = asked.collect();
    let requests: Vec<_> = asked.iter().map(|request| (*request, &[][..])).collect();
    session.send(&requests).expect("the server is there");
    let mut got: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut done = 0;
    while done < asked.len() {
        let take = |cookie, answer: ReplyPiece<'_>| match answer {
            ReplyPiece::Data(offset, data) => {
                let request = asked[usize::try_from(cookie).unwrap() - 1];
                let part = got.entry(cookie).or_default();
                assert_eq!(offset, request.offset + part.len() as u64, "pieces are in order");
                check(offset, data);
                part.extend_from_slice(data);
            }
            ReplyPiece::Done => done += 1,
            other @ (ReplyPiece::Zeroes(..) | ReplyPiece::Extents(_) | ReplyPiece::Error(_)) => {
                panic!("{cookie}: {other:?}")
            }
        };
        session.receive(take).expect("the server is there");
    }
    for request in &asked {
        assert_eq!(got[&request.cookie].len(), request.len as usize);
    }
}

#[test]
fn reads_of_all_alignments_have_the_bytes_of_the_file() {
    let running = serve(LEN, 8 << 20, ServerLimits::default());
    for structured in [true, false] {
        let mut session = running.session(structured);
        assert_eq!(session.agreed().size, LEN);
        assert!(session.agreed().read_only);
        for offset in [0, 1, 511, 512, 4095, 4096, 4097, 65_535, LEN - 70_000] {
            for len in [1, 2, 511, 512, 4095, 4096, 4097, 16_384, 16_385, 65_537] {
                check(offset, &session.read(offset, len).expect("within the file"));
            }
        }
        // The whole file, which goes in pieces; its last byte.
        check(0, &session.read(0, u32::try_from(LEN).unwrap()).expect("within the file"));
        check(LEN - 1, &session.read(LEN - 1, 1).expect("the last byte"));
        session.leave().expect("it is there");
    }
    // A connection has counted all it did when it has ended, not when its client has the reply.
    let meter = running.meter.clone();
    assert!(running.stop().is_empty());
    let counters = meter.counters();
    assert_eq!((counters.accepted, counters.errors, counters.writes), (2, 0, 0));
    assert_eq!(counters.reads, 2 * (9 * 10 + 2));
}

#[test]
fn many_reads_at_once_are_all_answered() {
    // The cache holds a third of the file: there are hits and misses all the time.
    let running = serve(LEN, 1 << 20, ServerLimits::default());
    let mut random = Random(1);
    for structured in [true, false] {
        let mut session = running.session(structured);
        for _ in 0..20 {
            let reads: Vec<_> = (0..64)
                .map(|_| {
                    let most = if random.below(8) == 0 { 150_000 } else { 9000 };
                    let len = 1 + random.below(most);
                    (random.below(LEN - len), u32::try_from(len).unwrap())
                })
                .collect();
            batch(&mut session, &reads);
        }
    }
    assert!(running.stop().is_empty());
}

#[test]
fn a_hit_overtakes_a_miss_that_its_device_holds() {
    const FAR: u64 = 500;

    let running = serve(LEN, 1 << 20, ServerLimits::default());
    for (turn, structured) in (0..).zip([true, false]) {
        let mut session = running.session(structured);
        check(0, &session.read(0, 4096).expect("from here on it is in memory"));
        let page = FAR + 100 * turn;
        running.faults.inject(page..page + 1, 0..1, Mishap::Hold);
        // In one piece, so that the server has both before it answers the first.
        let reads = [read(7, page * 4096, 4096), read(8, 0, 4096)];
        session.send(&reads.map(|read| (read, &[][..]))).expect("the server is there");
        let mut order = Vec::new();
        while order.len() < 2 {
            let done = |cookie, piece: ReplyPiece<'_>| {
                if piece == ReplyPiece::Done {
                    order.push(cookie);
                }
            };
            session.receive(done).expect("the server is there");
            if order == [8] {
                running.faults.let_go();
            }
        }
        assert_eq!(order, [8, 7]);
    }
    assert!(running.stop().is_empty());
}

#[test]
fn a_client_that_asks_for_more_than_may_be_in_hand_gets_it_all() {
    let limits = ServerLimits { requests: 3, reply_bytes: 10_000, ..ServerLimits::default() };
    let running = serve(LEN, 1 << 20, limits);
    let mut session = running.session(true);
    let mut random = Random(9);
    let reads: Vec<_> = (0..500).map(|_| (random.below(LEN - 60_000), 60_000)).collect();
    for reads in reads.chunks(100) {
        batch(&mut session, reads);
    }
    drop(session);
    assert!(running.stop().is_empty());
}

#[test]
fn a_sequential_client_is_read_ahead_for_alone_and_in_pipelines() {
    for depth in [1, 8] {
        let running = serve(LEN, 8 << 20, ServerLimits::default());
        let mut session = running.session(true);
        let reads: Vec<_> = (0..LEN / 4096).map(|page| (page * 4096, 4096)).collect();
        for reads in reads.chunks(depth) {
            batch(&mut session, reads);
        }
        drop(session);
        let stats = running.engine.counters().unwrap().path;
        assert!(stats.device_reads < LEN / 4096 / 8, "{depth}: {stats:?}");
        assert!(stats.markers > 0, "{depth}: {stats:?}");
        running.stop();
    }
}

#[test]
fn wrong_requests_have_errors_and_the_connection_goes_on() {
    let running = serve(LEN, 1 << 20, ServerLimits::default());
    for structured in [true, false] {
        let mut session = running.session(structured);
        let mut refused = |command, offset, len, payload: &[u8]| {
            let request = NbdRequest { command, offset, len, ..NbdRequest::default() };
            let errno = session.ask(request, payload).expect("it goes on").expect_err("wrong");
            let read = session.read(7, 9).expect("the next one is right");
            assert_eq!(read, bytes(7, 9));
            errno
        };
        assert_eq!(refused(wire::CMD_READ, LEN - 1, 2, &[]), 22);
        assert_eq!(refused(wire::CMD_READ, u64::MAX, 2, &[]), 22);
        assert_eq!(refused(wire::CMD_READ, 0, 0, &[]), 22);
        assert_eq!(refused(99, 0, 1, &[]), 22);
        assert_eq!(refused(wire::CMD_FLUSH, 1, 1, &[]), 22);
        // Bytes of a write that is refused are no requests, even if they look like some.
        let payload = read(5, 0, 1).bytes().repeat(20_000);
        let len = u32::try_from(payload.len()).unwrap();
        assert_eq!(refused(wire::CMD_WRITE, 0, len, &payload), 1);
        assert_eq!(refused(wire::CMD_TRIM, 0, 1, &[]), 1);
        assert_eq!(refused(wire::CMD_WRITE_ZEROES, 0, 1, &[]), 1);
        session.flush().expect("of nothing");
        let cache = NbdRequest { command: wire::CMD_CACHE, len: 1 << 20, ..NbdRequest::default() };
        assert_eq!(session.ask(cache, &[]).expect("it goes on"), Ok(Vec::new()));
    }
    let mut session = running.session(true);
    let whole = NbdRequest { flags: wire::CMD_FLAG_DF, len: 2 << 20, ..NbdRequest::default() };
    assert_eq!(session.ask(whole, &[]).expect("it goes on"), Err(75));
    let status =
        NbdRequest { command: wire::CMD_BLOCK_STATUS, len: 1 << 20, ..NbdRequest::default() };
    let extents = session.ask(status, &[]).expect("it goes on").expect("there are some");
    assert_eq!(extents.len() % 8, 0);
    assert!(extents.len() >= 8);
    drop(session);
    assert!(running.stop().is_empty());
}

#[test]
fn control_requests_are_answered_over_the_same_socket_and_not_over_tcp() {
    let mut addr = None;
    let running = serve_with(LEN, 1 << 20, ServerLimits::default(), |server| {
        addr = Some(server.tcp("127.0.0.1:0".parse().unwrap()).expect("a free port"));
        server.on_control(Box::new(|text| match text {
            "stats" => Ok("{}".repeat(50_000)),
            other => Err(format!("{other}: unknown")),
        }));
    });
    let mut client = running.client();
    assert_eq!(client.control("stats").expect("known").len(), 100_000);
    let error = client.control("x=1").expect_err("unknown");
    assert_eq!(error.to_string(), "x=1: unknown");
    assert_eq!(client.list().expect("one"), ["disk"]);
    check(5, &client.go(true).expect("the export").read(5, 5000).expect("the bytes"));

    let uri = format!("nbd://{}/disk", addr.expect("prepared"));
    let mut client = Client::connect(&uri).expect("it listens");
    let error = client.control("stats").expect_err("over TCP");
    assert_eq!(error.to_string(), "control requests are not allowed on this connection");
    check(5, &client.go(true).expect("the export").read(5, 3 << 20).expect("the bytes"));
    let wrong = Client::connect(&uri.replace("disk", "other")).expect("it listens");
    assert!(wrong.go(true).expect_err("another name").to_string().contains("no export"));
    let path = running.path();
    let uri = format!("nbd+unix:///%64isk?socket={}", path.display());
    Client::connect(&uri).expect("it listens").go(false).expect("the export");
    assert!(running.stop().is_empty());
}

fn server_of(dir: &std::path::Path) -> Server {
    std::fs::write(dir.join("disk"), bytes(0, 8192)).expect("a file");
    let engine = foreread::Engine::builder().memory(1 << 20).build().expect("an engine");
    let options = OpenOptions::new().buffered(true);
    let file = engine.open_with(dir.join("disk"), &options).expect("it is there");
    let (name, description, range) = (String::new(), String::new(), 0..file.len());
    let export = Export { name, file, range, read_only: true, description };
    Server::new(engine, export, ServerLimits::default())
}

#[test]
fn a_sockets_file_is_its_owners_a_dead_ones_is_replaced_a_live_ones_is_not() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = dir.path().join("socket");
    // Dropped, the listener leaves its file.
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    let mut server = server_of(dir.path());
    server.unix(&path).expect("no server is there");
    let is = std::fs::symlink_metadata(&path).expect("a socket");
    assert!(is.file_type().is_socket());
    assert_eq!(is.permissions().mode() & 0o777, 0o600);

    let mut second = server_of(dir.path());
    assert!(matches!(second.unix(&path), Err(ServeError::Unix(FileError::InUse { .. }))));
    assert!(matches!(
        second.unix(dir.path().join("disk")),
        Err(ServeError::Unix(FileError::NotOurs { .. }))
    ));
    assert!(matches!(
        second.unix(dir.path().join("a/b")),
        Err(ServeError::Unix(FileError::System { .. }))
    ));
    let long = dir.path().join("x".repeat(200));
    assert!(matches!(second.unix(long), Err(ServeError::Unix(FileError::NotOurs { .. }))));
    // The server that replaced it keeps it.
    std::fs::remove_file(&path).expect("it is there");
    second.unix(&path).expect("the name is free");
    drop(server);
    assert!(path.exists(), "it is another server's by now");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_server_that_was_stopped_before_it_ran_does_not_run() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut server = server_of(dir.path());
    server.unix(dir.path().join("socket")).expect("a free name");
    server.stopper().stop();
    server.run().expect("nothing to do");
    assert!(!dir.path().join("socket").exists());
}
