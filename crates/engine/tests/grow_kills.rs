//! The kill test of files that grow: what was acknowledged is there after `kill -9`, wherever that
//! hits, and the length is one that the file had.
//!
//! ```text
//!   child    @begun append @at .. @begun write .. flush @durable @length .. @epoch set_len ..
//!   parent   reads the child's notes, kills it after so many, reads the rest, looks at the file
//! ```
//!
//! The next child goes on with the file as the kill has left it.

#![allow(clippy::cast_possible_truncation, reason = "choices are small")]

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, RwLock};

mod common;
mod growing;
mod hang;
mod support;

use foreread::{Engine, IoBackend, OpenOptions, WriteMode};
use growing::{Books, Crew, Note};
use rustix::fs::{Advice, FallocateFlags};
use rustix::io::Errno;
use support::{Random, Watchdog};
use tempfile::TempDir;

use crate::common::Command;

const THREADS: u32 = 4;
/// Records of one child at the most.
const RECORDS: u32 = 100_000;

#[test]
fn what_was_acknowledged_survives_20_kills() {
    survives("what_was_acknowledged_survives_20_kills", 1, 20);
}

#[test]
#[ignore = "a minute; ./dev test runs it"]
fn what_was_acknowledged_survives_200_kills() {
    survives("what_was_acknowledged_survives_200_kills", 2, 200);
}

fn survives(test: &str, seed: u64, kills: u64) {
    if let Some(path) = env::var_os(PATH) {
        work(Path::new(&path));
        return;
    }
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, []).expect("a file");
    let (mut books, mut random) = (Books::new(), Random(seed));
    let mut lengths = Vec::new();
    for kill in 0..kills {
        let _watchdog = Watchdog::new(format!("{test}, kill {kill}"));
        let notes = 1 + random.below(3000);
        until_a_kill(test, &path, (seed * 1000 + kill, kill), notes, &mut books);
        let bytes = settled(&path);
        books.check(&books, &bytes, &format!("kill {kill} after {notes} notes"));
        lengths.push(bytes.len());
    }
    // It is a test of nothing if nothing was acknowledged, or all children left the same.
    assert!(books.acknowledged > kills * 10, "{} acknowledgements", books.acknowledged);
    assert!(books.last_epoch() > 2, "{} changes of length", books.last_epoch());
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() as u64 > kills / 4, "{} lengths", lengths.len());
}

/// Starts a child and kills it after so many of its notes.
fn until_a_kill(test: &str, path: &Path, (seed, kill): (u64, u64), notes: u64, books: &mut Books) {
    let mut child = Command::new(env::current_exe().expect("this test has a path"))
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(PATH, path)
        .env(SEED, seed.to_string())
        .env(FIRST, format!("{} {}", books.last_epoch(), kill * u64::from(RECORDS) % SEQS))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut left = notes;
    for line in output.split(b'\n') {
        let line = String::from_utf8(line.expect("bytes")).expect("text");
        if !line.starts_with('@') || !line.ends_with(';') {
            // The harness's own; or the last one, of which a part was written.
            continue;
        }
        books.note(line.trim_end_matches(';').parse().expect("a note"));
        left = left.saturating_sub(1);
        if left == 0 {
            // What it has said until now is still read.
            child.kill().expect("it runs");
        }
    }
    let ended = child.wait().expect("it has ended");
    assert!(!ended.success() && ended.code().is_none(), "{ended}: it was killed");
}

/// The child: works until it is killed.
fn work(path: &Path) {
    let text = |name| env::var(name).expect("the parent says so");
    let seed = text(SEED).parse().expect("a number");
    let first = text(FIRST);
    let (epoch, seq) = first.split_once(' ').expect("two numbers");
    let (epoch, first_seq) = (epoch.parse().expect("a number"), seq.parse().expect("a number"));
    let mut random = Random(seed);
    let age = [1, 20, 3_600_000][random.below(3) as usize];
    let io = [IoBackend::Threads, IoBackend::Probe][random.below(2) as usize];
    let engine = Engine::builder()
        .memory(1 << 20)
        .dirty_age(std::time::Duration::from_millis(age))
        .io_backend(io)
        .build()
        .expect("an engine");
    let is_buffered = random.below(5) == 0;
    let open = |mode| {
        let options = OpenOptions::new().write(true).write_mode(mode).buffered(is_buffered);
        engine.open_with(path, &options).expect("it is there")
    };
    let output = Mutex::new(std::io::stdout());
    let note = |note: Note| {
        let mut output = output.lock().expect("a thread that panics ends the test");
        // In one piece, so that only the last one may be cut.
        output.write_all(format!("\n{note};\n").as_bytes()).expect("the parent reads it");
        output.flush().expect("the parent reads it");
    };
    let crew = Crew {
        files: [WriteMode::WriteBack, WriteMode::Fua].map(open),
        epoch: RwLock::new(epoch),
        note: &note,
        first_seq,
        is_over: &|| false,
    };
    // What the kill has left is no whole number of records: a length of its own.
    crew.begin_epoch(&mut random);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let crew = &crew;
            scope.spawn(move || crew.work(thread, seed << 8 | u64::from(thread)));
        }
    });
}

/// What is in the file once the kernel is done: it may still write for a process that is gone.
fn settled(path: &Path) -> Vec<u8> {
    let file = fs::File::options().read(true).write(true).open(path).expect("it is there");
    // It changes nothing, and file systems wait for what goes around their page cache first.
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 4096) {
        Ok(()) | Err(Errno::OPNOTSUPP) => {}
        Err(errno) => panic!("{errno}"),
    }
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("a hint");
    fs::read(path).expect("it is there")
}

const PATH: &str = "FOREREAD_GROW_PATH";
const SEED: &str = "FOREREAD_GROW_SEED";
const FIRST: &str = "FOREREAD_GROW_FIRST";
/// A record's number has 24 bits.
const SEQS: u64 = 1 << 24;
