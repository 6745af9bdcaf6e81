//! Exports of a part of a file: clients see its bytes alone, and change no other.
//!
//! In:    parts that begin and end inside of pages; each command, both kinds of replies.
//! Out:   the part's bytes; the whole file afterwards.
//! Never: a partition table: that is the command's.

use crate::support;

use std::ops::Range;

use foreread::{Engine, OpenOptions};
use foreread_serve::client::{Client, Session};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use foreread_serve::{Export, Server, ServerLimits, Stopper};
use support::{Random, byte, bytes, check};
use tempfile::TempDir;

const LEN: usize = (6 << 20) + 777;

struct Part {
    dir: TempDir,
    range: Range<u64>,
    stopper: Stopper,
    thread: std::thread::JoinHandle<Result<(), foreread_serve::ServeError>>,
}

impl Part {
    fn serve(range: Range<u64>) -> Self {
        let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        std::fs::write(dir.path().join("disk"), bytes(0, LEN)).expect("a file");
        let engine = Engine::builder().memory(2 << 20).build().expect("an engine");
        let options = OpenOptions::new().buffered(true).write(true);
        let file = engine.open_with(dir.path().join("disk"), &options).expect("it is there");
        let (name, description) = (String::new(), String::new());
        let export = Export { name, file, range: range.clone(), read_only: false, description };
        let mut server = Server::new(engine, export, ServerLimits::default());
        server.unix(dir.path().join("socket")).expect("a socket");
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run());
        Self { dir, range, stopper, thread }
    }

    fn session(&self, structured: bool) -> Session {
        let path = self.dir.path().join("socket");
        Client::connect(path.to_str().expect("text"))
            .and_then(|client| client.go(structured))
            .expect("it listens")
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Stops the server, and returns what the file has.
    fn stop(self) -> Vec<u8> {
        self.stopper.stop();
        self.thread.join().expect("no panic").expect("all is flushed");
        std::fs::read(self.dir.path().join("disk")).expect("it is there")
    }
}

/// Within pages, at the end of the file, and of a page alone.
const PARTS: [Range<u64>; 3] = [63 * 512..(5 << 20) + 100, (1 << 20) + 1..LEN as u64, 8192..12_288];

#[test]
fn reads_are_of_the_part_however_they_are_answered() {
    for range in PARTS {
        let (part, len) = (Part::serve(range.clone()), range.end - range.start);
        // Twice, so that there are misses and hits; small, pinned, and in pieces.
        for (structured, size) in [true, false]
            .into_iter()
            .flat_map(|it| [(it, 100), (it, 9000), (it, 70_000), (it, LEN)])
        {
            let mut session = part.session(structured);
            assert_eq!(session.agreed().size, len);
            let size = (size as u64).min(len);
            for offset in [0, (len - size) / 2, len - size] {
                for _ in 0..2 {
                    let got = session.read(offset, u32::try_from(size).expect("small"));
                    check(range.start + offset, &got.expect("inside of the part"));
                }
            }
            assert!(session.read(len - size + 1, u32::try_from(size).expect("small")).is_err());
            session.leave().expect("it is there");
        }
        assert!(part.stop() == bytes(0, LEN), "{range:?}: reads change nothing");
    }
}

#[test]
fn nothing_outside_of_the_part_changes() {
    for (seed, range) in (1..).zip(PARTS) {
        let (part, mut random) = (Part::serve(range.clone()), Random(seed));
        let mut model = bytes(0, LEN);
        let mut session = part.session(true);
        for round in 0..120_u16 {
            let len = 1 + random.below(part.len().min(150_000));
            let offset = match round % 3 {
                0 => 0,
                1 => part.len() - len,
                _ => random.below(part.len() - len + 1),
            };
            let at = usize::try_from(range.start + offset).expect("small");
            let target = &mut model[at..at + usize::try_from(len).expect("small")];
            let len = u32::try_from(len).expect("small");
            let flags = round & wire::CMD_FLAG_FUA;
            let command = |command| NbdRequest { command, flags, offset, len, cookie: 0 };
            let mut ask = |request, payload: &[u8]| {
                let done = session.ask(request, payload).expect("it goes on");
                assert!(done.is_ok(), "{request:?}: {done:?}");
            };
            if round % 8 == 7 {
                ask(command(wire::CMD_WRITE_ZEROES), &[]);
                target.fill(0);
                continue;
            }
            if round % 8 == 3 {
                // What it leaves is anything: it is written at once.
                ask(command(wire::CMD_TRIM), &[]);
            }
            target.fill(u8::try_from(round).expect("small"));
            ask(command(wire::CMD_WRITE), target);
            ask(NbdRequest { flags: 0, ..command(wire::CMD_CACHE) }, &[]);
        }
        let request =
            |command, offset, len| NbdRequest { command, offset, len, ..NbdRequest::default() };
        // Up to the end of the part, and not one byte more.
        for command in [wire::CMD_WRITE, wire::CMD_WRITE_ZEROES, wire::CMD_TRIM] {
            let payload = if command == wire::CMD_WRITE { &[9; 2][..] } else { &[] };
            let beyond = session.ask(request(command, part.len() - 1, 2), payload);
            assert!(beyond.expect("it goes on").is_err(), "{command}");
        }
        let status = request(wire::CMD_BLOCK_STATUS, 0, u32::try_from(part.len()).expect("small"));
        let extents = session.ask(status, &[]).expect("it goes on").expect("there are some");
        let lens = extents
            .chunks(8)
            .map(|it| u64::from(u32::from_be_bytes(*it[..4].first_chunk().unwrap())));
        assert!((1..=part.len()).contains(&lens.sum::<u64>()));
        drop(session);
        let (start, end) = (range.start, range.end);
        let got = part.stop();
        let is_changed = |(at, got): &(u64, &u8)| !(start..end).contains(at) && **got != byte(*at);
        let changed = (0..).zip(&got).find(is_changed);
        assert_eq!(changed, None, "{range:?}: a byte outside of the part has changed");
        assert!(got == model, "{range:?}: the part is not what was written");
    }
}

/// The last page of such a file could not be read.
#[test]
fn the_longest_file_is_served_to_its_last_byte() {
    const LONGEST: u64 = i64::MAX as u64;
    let dir = TempDir::new_in("/dev/shm").expect("a folder in memory");
    let path = dir.path().join("disk");
    std::fs::File::create(&path).and_then(|file| file.set_len(LONGEST)).expect("a sparse file");
    let engine = Engine::builder().memory(2 << 20).build().expect("an engine");
    let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
    let (name, description) = (String::new(), String::new());
    let export = Export { name, file, range: 0..LONGEST, read_only: false, description };
    let mut server = Server::new(engine, export, ServerLimits::default());
    server.unix(dir.path().join("socket")).expect("a socket");
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || server.run());
    let socket = dir.path().join("socket");
    let client = Client::connect(socket.to_str().expect("text")).expect("it listens");
    let mut session = client.go(true).expect("the export");
    assert_eq!(session.agreed().size, LONGEST);
    assert_eq!(session.read(LONGEST - 70_000, 70_000).expect("zeros"), [0; 70_000]);
    for fua in [false, true] {
        session.write(LONGEST - 3, &[1 + u8::from(fua); 3], fua).expect("room");
        let end = [&[0; 4997][..], &[1 + u8::from(fua); 3]].concat();
        assert_eq!(session.read(LONGEST - 5000, 5000).expect("its end"), end);
        session.flush().expect("memory takes it");
    }
    assert!(session.write(LONGEST - 3, &[1; 4], false).is_err());
    let zero = NbdRequest {
        command: wire::CMD_WRITE_ZEROES,
        offset: LONGEST - 9000,
        len: 9000,
        ..NbdRequest::default()
    };
    assert_eq!(session.ask(zero, &[]).expect("it goes on"), Ok(Vec::new()));
    let status = NbdRequest { command: wire::CMD_BLOCK_STATUS, ..zero };
    assert!(session.ask(status, &[]).expect("it goes on").is_ok());
    assert_eq!(session.read(LONGEST - 5000, 5000).expect("its end"), [0; 5000]);
    session.leave().expect("it is there");
    stopper.stop();
    thread.join().expect("no panic").expect("all is flushed");
}
