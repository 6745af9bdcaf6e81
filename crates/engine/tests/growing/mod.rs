//! Threads that append to a file, overwrite their records, flush, grow and cut it; and what a crash
//! at any moment may leave of it.
//!
//! In:    a file; a log of what was begun and what was acknowledged, noted before and after.
//! Out:   a panic for bytes or a length that no crash may leave.
//! Never: a record whose words are those of another, or of another place.
//!
//! ```text
//!   epoch 4   |rrrr|rrrr|rrrr|rrrr|          each change of length that is no append begins an
//!   epoch 5   |rrrr|rr|                      epoch: from its start on, the file has whole records
//!                     |rrrr|rrrr|            of that epoch
//! ```
//!
//! Include it beside `mod support;`.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]
#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

mod books;

use std::sync::RwLock;

pub use books::{Books, Note, RECORD, content};
use foreread::{File, WriteMode};

use crate::support::Random;

/// More than the memory of the engines.
const MOST: u64 = 3 << 19;

/// A record of a thread, as it last wrote it.
#[derive(Clone, Copy, Debug)]
struct Own {
    epoch: u32,
    seq: u32,
    version: u32,
    offset: u64,
}

/// What all threads share.
pub struct Crew<'c> {
    /// One that writes back, one whose writes are durable.
    pub files: [File; 2],
    /// The epoch. Appends and writes hold it for reading; what begins a new one, for writing.
    pub epoch: RwLock<u32>,
    pub note: &'c (dyn Fn(Note) + Sync),
    /// The first number of a record.
    pub first_seq: u32,
    pub is_over: &'c (dyn Fn() -> bool + Sync),
}

impl Crew<'_> {
    /// The work of one thread, until all is over.
    pub fn work(&self, thread: u32, seed: u64) {
        let mut random = Random(seed);
        let (mut own, mut seq) = (Vec::new(), self.first_seq);
        while !(self.is_over)() {
            let is_long = self.files[0].len() > MOST;
            match random.below(40) {
                0 if thread == 0 => self.begin_epoch(&mut random),
                1..3 => self.flush(thread, &own, &mut random),
                3..20 if !is_long => {
                    own.push(self.append(thread, seq, &mut random));
                    seq += 1;
                }
                20..32 => self.overwrite(thread, &mut own, &mut random),
                32..35 => self.read(thread, &mut own, &mut random),
                _ if is_long && thread == 0 => self.begin_epoch(&mut random),
                _ => {}
            }
        }
    }

    /// Cuts the file, or makes it longer.
    pub fn begin_epoch(&self, random: &mut Random) {
        let mut epoch = self.epoch.write().expect("a thread that panics ends the test");
        let len = self.files[0].len();
        let start = match random.below(4) {
            0 => random.below(len + 20_000),
            1 => len.saturating_sub(random.below(3000)),
            _ => random.below(len + 1),
        };
        let start = start / 8 * 8;
        *epoch += 1;
        (self.note)(Note::Epoch { epoch: *epoch, start });
        self.files[0].set_len(start).expect("room");
    }

    fn append(&self, thread: u32, seq: u32, random: &mut Random) -> Own {
        let epoch = self.epoch.read().expect("a thread that panics ends the test");
        (self.note)(Note::Begun { epoch: *epoch, thread, seq, version: 0 });
        let is_durable = random.below(8) == 0;
        let bytes = content(*epoch, thread, seq, 0);
        let offset = self.files[usize::from(is_durable)].append(&bytes).expect("room");
        (self.note)(Note::At { thread, seq, offset });
        if is_durable {
            (self.note)(Note::Durable { thread, seq, version: 0 });
            (self.note)(Note::Length { epoch: *epoch, len: offset + RECORD });
        }
        Own { epoch: *epoch, seq, version: 0, offset }
    }

    fn overwrite(&self, thread: u32, own: &mut Vec<Own>, random: &mut Random) {
        let held = self.epoch.read().expect("a thread that panics ends the test");
        let Some(record) = choose(*held, own, random) else { return };
        record.version += 1;
        let Own { epoch, seq, version, offset } = *record;
        (self.note)(Note::Begun { epoch, thread, seq, version });
        let mode = match random.below(12) {
            0 => WriteMode::Fua,
            1 => WriteMode::WriteThrough,
            _ => WriteMode::WriteBack,
        };
        let bytes = content(epoch, thread, seq, version);
        self.files[0].write_all_at_with(&bytes, offset, mode).expect("room");
        if mode == WriteMode::Fua {
            (self.note)(Note::Durable { thread, seq, version });
            (self.note)(Note::Length { epoch, len: offset + RECORD });
        }
    }

    /// What it wrote is what it reads.
    fn read(&self, thread: u32, own: &mut Vec<Own>, random: &mut Random) {
        let held = self.epoch.read().expect("a thread that panics ends the test");
        let Some(&mut Own { epoch, seq, version, offset }) = choose(*held, own, random) else {
            return;
        };
        let mut got = [0; RECORD as usize];
        self.files[0].read_exact_at(&mut got, offset).expect("it is there");
        assert!(got[..] == content(epoch, thread, seq, version), "{thread} {seq} {version}");
    }

    fn flush(&self, thread: u32, own: &[Own], random: &mut Random) {
        let (epoch, len) = {
            let held = self.epoch.read().expect("a thread that panics ends the test");
            (*held, self.files[0].len())
        };
        let file = &self.files[random.below(2) as usize];
        let flushed = if random.below(4) == 0 { file.sync_all() } else { file.sync_data() };
        flushed.expect("room");
        for &Own { seq, version, .. } in own {
            (self.note)(Note::Durable { thread, seq, version });
        }
        (self.note)(Note::Length { epoch, len });
    }
}

/// One of a thread's records of this epoch; those of others may be cut off.
fn choose<'o>(epoch: u32, own: &'o mut Vec<Own>, random: &mut Random) -> Option<&'o mut Own> {
    own.retain(|it| it.epoch == epoch);
    let which = random.below(own.len().max(1) as u64);
    own.get_mut(which as usize)
}
