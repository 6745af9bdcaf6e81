//! Writes through the server: what was answered is read back, what was flushed is in the file.

use crate::support;

use std::os::unix::fs::FileExt as _;

use foreread::{Engine, OpenOptions};
use foreread_serve::client::{ReplyPiece, Session};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use foreread_serve::{Export, Server, ServerLimits};
use support::{Random, bytes, read};

const LEN: usize = (2 << 20) + 777;

/// A disk that clients write, and what it should hold.
struct Disk {
    dir: tempfile::TempDir,
    model: Vec<u8>,
    engine: Engine,
    stopper: foreread_serve::Stopper,
    thread: std::thread::JoinHandle<Result<(), foreread_serve::ServeError>>,
}

impl Disk {
    fn new(memory: u64) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let model = bytes(0, LEN);
        std::fs::write(dir.path().join("disk"), &model).expect("a file");
        let engine = Engine::builder().memory(memory).build().expect("an engine");
        let options = OpenOptions::new().buffered(true).write(true);
        let file = engine.open_with(dir.path().join("disk"), &options).expect("it is there");
        let (name, description) = (String::new(), String::new());
        let export = Export { name, range: 0..file.len(), file, read_only: false, description };
        let mut server = Server::new(engine.clone(), export, ServerLimits::default());
        server.unix(dir.path().join("socket")).expect("a socket");
        let stopper = server.stopper();
        let thread = std::thread::spawn(move || server.run());
        Self { dir, model, engine, stopper, thread }
    }

    fn session(&self) -> Session {
        let path = self.dir.path().join("socket");
        let client = foreread_serve::client::Client::connect(path.to_str().expect("text"));
        client.expect("it listens").go(true).expect("the export")
    }

    fn file(&self) -> std::fs::File {
        std::fs::File::open(self.dir.path().join("disk")).expect("it is there")
    }

    /// Stops the server: the file has it all.
    fn stop(self) {
        self.stopper.stop();
        self.thread.join().expect("no panic").expect("all is flushed");
        let file = std::fs::read(self.dir.path().join("disk")).expect("it is there");
        assert!(file == self.model, "the file is not what was written");
        let (idle, all) = self.engine.frames().unwrap();
        assert_eq!(idle, all, "frames are left behind");
    }
}

fn random_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
}

#[test]
fn what_was_written_is_read_back_by_all_and_is_in_the_file_once_flushed() {
    let mut disk = Disk::new(4 << 20);
    let (mut writer, mut reader) = (disk.session(), disk.session());
    assert!(!writer.agreed().read_only);
    let mut random = Random(5);
    for round in 0..150_u64 {
        let most = if round % 10 == 0 { 600_000 } else { 20_000 };
        let len = usize::try_from(1 + random.below(most)).expect("small");
        let offset = random.below((LEN - len) as u64);
        let at = usize::try_from(offset).expect("small");
        let written = random_bytes(&mut random, len);
        let is_fua = round % 7 == 0;
        writer.write(offset, &written, is_fua).expect("within the disk");
        disk.model[at..at + len].copy_from_slice(&written);
        let len = u32::try_from(len).expect("small");
        assert!(reader.read(offset, len).expect("it is there") == written, "another client reads");
        if is_fua {
            let mut durable = vec![0; written.len()];
            disk.file().read_exact_at(&mut durable, offset).expect("it is there");
            assert!(durable == written, "it was to be durable");
        }
        if round % 20 == 19 {
            reader.flush().expect("the device is well");
            let file = std::fs::read(disk.dir.path().join("disk")).expect("it is there");
            assert!(file == disk.model, "a flush by one is a flush of all");
        }
    }
    drop((writer, reader));
    disk.stop();
}

#[test]
fn zeroes_read_as_zeroes_and_trims_are_answered() {
    let mut disk = Disk::new(4 << 20);
    let mut session = disk.session();
    let mut random = Random(6);
    for round in 0..40_u16 {
        let len = 1 + random.below(200_000);
        let offset = random.below(LEN as u64 - len);
        let at = usize::try_from(offset).expect("small");
        let end = at + usize::try_from(len).expect("small");
        let flags = round & (wire::CMD_FLAG_FUA | wire::CMD_FLAG_NO_HOLE);
        let len = u32::try_from(len).expect("small");
        let command = wire::CMD_WRITE_ZEROES;
        let zero = NbdRequest { command, flags, offset, len, cookie: 0 };
        assert_eq!(session.ask(zero, &[]).expect("it goes on"), Ok(Vec::new()));
        disk.model[at..end].fill(0);
        let got = session.read(offset, len).expect("it is there");
        assert!(got.iter().all(|byte| *byte == 0), "{offset}, {len}");
    }
    // What is there after a trim is anything: it is written again.
    let trim =
        NbdRequest { command: wire::CMD_TRIM, offset: 5000, len: 300_000, ..NbdRequest::default() };
    assert_eq!(session.ask(trim, &[]).expect("it goes on"), Ok(Vec::new()));
    session.write(5000, &disk.model[5000..305_000], false).expect("within the disk");
    let status =
        NbdRequest { command: wire::CMD_BLOCK_STATUS, len: 1 << 20, ..NbdRequest::default() };
    let extents = session.ask(status, &[]).expect("it goes on").expect("there are some");
    let lens = extents.chunks(8).map(|extent| u32::from_be_bytes(*extent.first_chunk().unwrap()));
    assert!(lens.sum::<u32>() <= 1 << 20);
    drop(session);
    disk.stop();
}

/// The cache is small: writes wait for their device all the time, in the blocking pool.
#[test]
fn a_flood_of_writes_and_reads_in_one_pipeline_ends_with_the_right_bytes() {
    let mut disk = Disk::new(1 << 20);
    let mut session = disk.session();
    let mut random = Random(7);
    for _ in 0..20 {
        // Places of their own, so that the order among them does not matter.
        let mut asked = Vec::new();
        for part in 0..40_u64 {
            let len = usize::try_from(1 + random.below(40_000)).expect("small");
            let offset = part * 50_000 + random.below(10_000);
            let cookie = part + 1;
            if random.below(3) == 0 {
                asked.push((read(cookie, offset, u32::try_from(len).unwrap()), Vec::new()));
            } else {
                let at = usize::try_from(offset).expect("small");
                let written = random_bytes(&mut random, len);
                disk.model[at..at + len].copy_from_slice(&written);
                let flags = u16::from(random.below(4) == 0);
                let len = u32::try_from(len).unwrap();
                let command = wire::CMD_WRITE;
                asked.push((NbdRequest { command, flags, cookie, offset, len }, written));
            }
        }
        let all: Vec<_> = asked.iter().map(|(request, written)| (*request, &written[..])).collect();
        session.send(&all).expect("it is there");
        let mut done = 0;
        while done < asked.len() {
            let answer = |_, answer: ReplyPiece<'_>| match answer {
                ReplyPiece::Data(offset, data) => {
                    let at = usize::try_from(offset).expect("small");
                    assert!(data == &disk.model[at..at + data.len()]);
                }
                ReplyPiece::Done => {}
                other
                @ (ReplyPiece::Zeroes(..) | ReplyPiece::Extents(_) | ReplyPiece::Error(_)) => {
                    panic!("{other:?}")
                }
            };
            done += session.receive(answer).expect("it is there");
        }
    }
    drop(session);
    disk.stop();
}
