//! What the engine's tests share: files whose every byte is known, engines of both kinds, and an
//! end for tests that hang.
//!
//! In:    a number for each file; a test.
//! Out:   bytes that depend on the file and the offset, and on nothing else.
//! Never: a test that hangs: [`Watchdog`] says which one it was, and ends the process.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]
#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreread::testing::Faults;
use foreread::{Engine, File, IoBackend, OpenOptions};

pub use super::hang::{Watchdog, wait_until};

use super::common::{Need, needs};

pub const PAGE: u64 = 4096;

/// A number that looks random, from one that does not.
pub fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers that look random, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    /// One below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) % end
    }
}

/// What file number `file` has from `offset` on: no two pages of any two files are the same.
pub fn fill(file: u64, offset: u64, to: &mut [u8]) {
    let (mut word, mut skip) = (offset / 8, (offset % 8) as usize);
    let mut rest = to;
    while !rest.is_empty() {
        let bytes = &mix(word ^ file << 40).to_le_bytes()[skip..];
        let count = bytes.len().min(rest.len());
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&bytes[..count]);
        (rest, skip) = (later, 0);
        word += 1;
    }
}

/// Panics unless these are the bytes of the file at `offset`.
pub fn check(file: u64, offset: u64, got: &[u8]) {
    let mut want = vec![0; got.len()];
    fill(file, offset, &mut want);
    if got != want {
        let at = (0..got.len()).find(|&at| got[at] != want[at]).expect("they differ");
        panic!("file {file}: wrong from byte {} on, of {} at {offset}", at, got.len());
    }
}

/// Reads there, checks the bytes, and gives their number.
pub fn read_and_check(file: &File, number: u64, buffer: &mut [u8], offset: u64) -> usize {
    let got = file.read_at(buffer, offset).unwrap_or_else(|error| panic!("{error}"));
    check(number, offset, &buffer[..got]);
    got
}

/// File number `file`, of `len` bytes, on the disk.
pub fn write_file(dir: &Path, file: u64, len: u64) -> PathBuf {
    let path = dir.join(format!("file-{file}"));
    let mut content = vec![0; len as usize];
    fill(file, 0, &mut content);
    let mut to = fs::File::create(&path).unwrap();
    to.write_all(&content).unwrap();
    to.sync_all().unwrap();
    path
}

/// Appends to file number `file` what follows in it.
pub fn append(path: &Path, file: u64, len: u64) {
    let mut to = fs::File::options().append(true).open(path).unwrap();
    let mut content = vec![0; len as usize];
    fill(file, to.metadata().unwrap().len(), &mut content);
    to.write_all(&content).unwrap();
}

/// Runs a test with each kind of ring that works here.
pub fn with_each_io(test: &str, run: impl Fn(IoBackend)) {
    for io in [IoBackend::Threads, IoBackend::IoUring] {
        if io == IoBackend::Threads || needs(Need::IoUring, test) {
            let _watchdog = Watchdog::new(format!("{test}, {io:?}"));
            run(io);
        }
    }
}

/// A file whose device does as told.
pub fn open_faulty(engine: &Engine, path: &Path) -> (File, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let options = OpenOptions::new().faults(Arc::clone(&faults));
    (engine.open_with(path, &options).unwrap(), faults)
}

/// Waits until no frame is filled, dirty, held or pinned: nothing is in flight, and nothing has
/// leaked. Dirty pages are written at once instead of after five seconds.
pub fn wait_until_idle(engine: &Engine) {
    let settings = engine.settings().unwrap();
    let (_, age) = settings.iter().find(|(name, _)| *name == "dirty_age").expect("a setting");
    engine.set_by_name("dirty_age", "0").unwrap();
    wait_until(|| {
        let (idle, all) = engine.frames().unwrap();
        idle == all
    });
    engine.set_by_name("dirty_age", age).unwrap();
}

/// Waits until the file of these faults is closed, and its last read has ended.
pub fn wait_until_closed(faults: &Arc<Faults>) {
    wait_until(|| Arc::strong_count(faults) == 1);
}
