//! What is known of a file that grows: what was begun, where it is, what is durable.
//!
//! In:    notes, in the order in which each thread makes them.
//! Out:   whether bytes and a length are what a crash may leave.
//! Never: a note of what is durable before it is, or of what was begun after it has.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Neither whole sectors nor whole pages: neighbours share both.
pub const RECORD: u64 = 1000;

/// What a thread says of its work.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// The file is going to have this length, and whole records behind it.
    Epoch { epoch: u32, start: u64 },
    /// A record is going to be appended (version 0) or overwritten.
    Begun { epoch: u32, thread: u32, seq: u32, version: u32 },
    /// A record was appended there.
    At { thread: u32, seq: u32, offset: u64 },
    /// This version of a record, or a later one, survives a crash from now on.
    Durable { thread: u32, seq: u32, version: u32 },
    /// So does this epoch, and in it this length.
    Length { epoch: u32, len: u64 },
}

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct Books {
    epochs: Vec<Epoch>,
    records: HashMap<(u32, u32), Record>,
    /// The newest epoch that survives a crash.
    durable_epoch: u32,
    durable_len: u64,
    /// How often a record was said to be durable.
    pub acknowledged: u64,
}

#[derive(Clone, Debug)]
struct Epoch {
    start: u64,
    /// Appends that were begun in it.
    appends: u64,
    /// Its length was set: something was begun afterwards. A kill may come before that.
    has_begun: bool,
}

#[derive(Clone, Debug)]
struct Record {
    epoch: u32,
    offset: Option<u64>,
    newest: u32,
    durable: Option<u32>,
}

/// The bytes of a record: one word, over and over.
pub fn content(epoch: u32, thread: u32, seq: u32, version: u32) -> Vec<u8> {
    assert!(epoch < 1 << 16 && thread < 1 << 4 && seq < 1 << 24 && version < 1 << 20);
    let word = u64::from(epoch) << 48
        | u64::from(thread) << 44
        | u64::from(seq) << 20
        | u64::from(version + 1);
    word.to_le_bytes().repeat(RECORD as usize / 8)
}

impl Books {
    /// Those of an empty file.
    pub fn new() -> Self {
        Self { epochs: vec![Epoch { start: 0, appends: 0, has_begun: true }], ..Self::default() }
    }

    pub fn last_epoch(&self) -> u32 {
        self.epochs.len() as u32 - 1
    }

    pub fn note(&mut self, note: Note) {
        match note {
            Note::Epoch { epoch, start } => {
                assert_eq!(epoch as usize, self.epochs.len(), "one after the other");
                self.epochs.push(Epoch { start, appends: 0, has_begun: false });
            }
            Note::Begun { epoch, thread, seq, version } => {
                let of = &mut self.epochs[epoch as usize];
                of.appends += u64::from(version == 0);
                of.has_begun = true;
                let new = Record { epoch, offset: None, newest: 0, durable: None };
                self.records.entry((thread, seq)).or_insert(new).newest = version;
            }
            Note::At { thread, seq, offset } => self.record(thread, seq).offset = Some(offset),
            Note::Durable { thread, seq, version } => {
                self.acknowledged += 1;
                // It may have been cut off, for good, before its thread could say so.
                if let Some(record) = self.records.get_mut(&(thread, seq)) {
                    record.durable = record.durable.max(Some(version));
                }
            }
            Note::Length { epoch, len } => {
                if epoch > self.durable_epoch {
                    (self.durable_epoch, self.durable_len) = (epoch, 0);
                    self.forget_cut_records();
                }
                if epoch == self.durable_epoch {
                    self.durable_len = self.durable_len.max(len);
                }
            }
        }
    }

    /// What was cut off for good is never seen again.
    fn forget_cut_records(&mut self) {
        let Self { epochs, records, durable_epoch, .. } = self;
        records.retain(|_, record| {
            let cuts = &epochs[record.epoch as usize + 1..];
            let cuts = cuts.iter().take((*durable_epoch).saturating_sub(record.epoch) as usize);
            let cuts = cuts.filter(|epoch| epoch.has_begun);
            let cut = cuts.map(|epoch| epoch.start).min().unwrap_or(u64::MAX);
            record.offset.is_none_or(|offset| offset < cut)
        });
    }

    fn record(&mut self, thread: u32, seq: u32) -> &mut Record {
        self.records.get_mut(&(thread, seq)).expect("it was begun")
    }

    /// Panics unless a crash may leave this: `self` was known before it, `after` after it.
    pub fn check(&self, after: &Self, bytes: &[u8], context: &str) {
        self.check_length(after, bytes.len() as u64, context);
        let (mut same, mut end) = (0, 0);
        for (at, word) in (0..).step_by(8).zip(bytes.as_chunks::<8>().0) {
            let word = u64::from_le_bytes(*word);
            if word != same || at >= end {
                (same, end) = (word, self.check_word(after, at, word, context));
            }
        }
        for (&(thread, seq), record) in &self.records {
            let Some(version) = record.durable else { continue };
            let offset = record.offset.expect("what is durable has come to its place");
            let later = &after.epochs[record.epoch as usize + 1..];
            let cut = later.iter().map(|epoch| epoch.start).min().unwrap_or(u64::MAX);
            for at in (offset..(offset + RECORD).min(cut)).step_by(8) {
                let word = bytes.get(at as usize..at as usize + 8);
                let word = word.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
                let kept = word.is_some_and(|word| {
                    let (of, found) = decode(word);
                    of == (record.epoch, thread, seq) && found.is_some_and(|it| it >= version)
                });
                assert!(kept, "{context}: {record:?} of {thread} {seq} is lost at {at}: {word:x?}");
            }
        }
    }

    /// It is one that the file was given since the last one that is durable.
    fn check_length(&self, after: &Self, len: u64, context: &str) {
        let epochs = after.epochs.iter().enumerate().skip(self.durable_epoch as usize);
        let is_known = epochs.clone().any(|(epoch, it)| {
            let is_shorter = epoch as u32 == self.durable_epoch && len < self.durable_len;
            let behind = len.checked_sub(it.start);
            let is_record =
                behind.is_some_and(|behind| behind % RECORD == 0 && behind / RECORD <= it.appends);
            is_record && !is_shorter
        });
        assert!(is_known, "{context}: a length of {len} from nowhere: {:?}", epochs);
    }

    /// It is zeros, or of a record that may be there. Returns where that ends.
    fn check_word(&self, after: &Self, at: u64, word: u64, context: &str) -> u64 {
        let ((epoch, thread, seq), version) = decode(word);
        let Some(version) = version else {
            assert_eq!(word, 0, "{context}: at {at}");
            return u64::MAX;
        };
        let record = after.records.get(&(thread, seq)).or(self.records.get(&(thread, seq)));
        let record = record.filter(|record| record.epoch == epoch);
        let Some(record) = record else { panic!("{context}: {word:x} at {at} is no record's") };
        assert!(version <= record.newest, "{context}: {version} of {record:?}");
        let start = after.epochs[epoch as usize].start;
        assert!(at >= start, "{context}: {record:?} at {at}, before {start}");
        let slot = start + (at - start) / RECORD * RECORD;
        assert!(record.offset.is_none_or(|it| it == slot), "{context}: {record:?} at {at}");
        let cuts = &after.epochs[epoch as usize + 1..=self.durable_epoch.max(epoch) as usize];
        let cuts = cuts.iter().filter(|cut| cut.has_begun);
        let cut = cuts.map(|cut| cut.start).min().unwrap_or(u64::MAX);
        assert!(at < cut, "{context}: {record:?} at {at} is back, after it was cut off");
        cut.min(slot + RECORD)
    }
}

/// Whose word it is, and which version; None of zeros.
fn decode(word: u64) -> ((u32, u32, u32), Option<u32>) {
    let of = ((word >> 48) as u32, (word >> 44 & 0xf) as u32, (word >> 20 & 0xff_ffff) as u32);
    (of, ((word & 0xf_ffff) as u32).checked_sub(1))
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Epoch { epoch, start } => write!(f, "@epoch {epoch} {start}"),
            Self::Begun { epoch, thread, seq, version } => {
                write!(f, "@begun {epoch} {thread} {seq} {version}")
            }
            Self::At { thread, seq, offset } => write!(f, "@at {thread} {seq} {offset}"),
            Self::Durable { thread, seq, version } => {
                write!(f, "@durable {thread} {seq} {version}")
            }
            Self::Length { epoch, len } => write!(f, "@length {epoch} {len}"),
        }
    }
}

impl FromStr for Note {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (what, numbers) = line.split_once(' ').ok_or(line)?;
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        let numbers = numbers.map_err(|error| format!("{line}: {error}"))?;
        let small = |which: usize| numbers[which] as u32;
        Ok(match (what, numbers.len()) {
            ("@epoch", 2) => Self::Epoch { epoch: small(0), start: numbers[1] },
            ("@begun", 4) => {
                let (epoch, thread, seq, version) = (small(0), small(1), small(2), small(3));
                Self::Begun { epoch, thread, seq, version }
            }
            ("@at", 3) => Self::At { thread: small(0), seq: small(1), offset: numbers[2] },
            ("@durable", 3) => Self::Durable { thread: small(0), seq: small(1), version: small(2) },
            ("@length", 2) => Self::Length { epoch: small(0), len: numbers[1] },
            _ => return Err(line.to_owned()),
        })
    }
}
