//! What a disk may look like after a kill: for each sector, which writes of it may be seen.
//!
//! In:    requests and their answers; the file after a kill.
//! Out:   requests that tell their number in each sector.
//! Never: two requests at a time for one sector: then writes of a sector have an order.
//!
//! A write has a number, even if it writes data and odd if it writes zeroes; later ones have larger
//! numbers. Each sector of its data begins with the number, and the rest follows from that and from
//! where the sector lies: a sector of two halves is found out.

use std::collections::HashMap;
use std::ops::Range;

use foreread_serve::client::ReplyPiece;
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;

pub(crate) const SECTOR: usize = 512;

/// What the test knows of a disk.
pub(crate) struct Disk {
    sectors: Vec<Sector>,
    waiting: HashMap<u64, Waiting>,
    /// Answered since the last flush was sent or before, and not known to be flushed.
    answered: Vec<Done>,
    number: u64,
    cookie: u64,
    /// Writes that were answered as flushed.
    pub(crate) flushed: u64,
    /// Writes that were answered, not flushed, and of which a sector was lost.
    pub(crate) lost: u64,
}

/// A sector's writes.
#[derive(Clone)]
struct Sector {
    /// It is this one, or a later one.
    flushed: u64,
    /// Those sent after it, oldest first.
    later: Vec<u64>,
    is_busy: bool,
}

/// A request that is not answered yet.
struct Waiting {
    kind: Kind,
    sectors: Range<u64>,
    number: u64,
    /// Of a flush: what it covers.
    covers: Vec<Done>,
}

/// A write that was answered.
#[derive(Clone)]
struct Done {
    sectors: Range<u64>,
    number: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Read,
    Write { fua: bool },
    Zero { fua: bool },
    Flush,
}

pub(crate) struct Ask {
    pub(crate) request: NbdRequest,
    pub(crate) payload: Vec<u8>,
}

impl Disk {
    /// All zeroes, as if written by the first of all zeroings.
    pub(crate) fn new(sectors: u64) -> Self {
        let sector = Sector { flushed: 1, later: Vec::new(), is_busy: false };
        Self {
            sectors: vec![sector; usize::try_from(sectors).unwrap()],
            waiting: HashMap::new(),
            answered: Vec::new(),
            number: 2,
            cookie: 0,
            flushed: 0,
            lost: 0,
        }
    }

    /// A request for these sectors, or for as many of them as nothing else is on its way for. If
    /// that is none: a flush.
    pub(crate) fn ask(&mut self, kind: Kind, sectors: Range<u64>) -> Ask {
        let free = self.of(&sectors).iter().take_while(|sector| !sector.is_busy).count() as u64;
        let sectors = sectors.start..sectors.start + free;
        let kind = if free == 0 { Kind::Flush } else { kind };
        self.cookie += 1;
        let number = match kind {
            Kind::Write { .. } => self.next_number(0),
            Kind::Zero { .. } => self.next_number(1),
            Kind::Read | Kind::Flush => 0,
        };
        let mut payload = Vec::new();
        let (command, flags) = match kind {
            Kind::Read => (wire::CMD_READ, 0),
            Kind::Write { fua } => {
                sectors.clone().for_each(|sector| payload.extend(content(number, sector)));
                (wire::CMD_WRITE, if fua { wire::CMD_FLAG_FUA } else { 0 })
            }
            Kind::Zero { fua } => {
                (wire::CMD_WRITE_ZEROES, if fua { wire::CMD_FLAG_FUA } else { 0 })
            }
            Kind::Flush => (wire::CMD_FLUSH, 0),
        };
        let is_flush = kind == Kind::Flush;
        let (offset, len) = if is_flush { (0, 0) } else { (sectors.start, free) };
        let request = NbdRequest {
            command,
            flags,
            cookie: self.cookie,
            offset: offset * SECTOR as u64,
            len: u32::try_from(len * SECTOR as u64).unwrap(),
        };
        let covers = if is_flush { self.answered.clone() } else { Vec::new() };
        let sectors = if is_flush { 0..0 } else { sectors };
        for sector in self.of(&sectors) {
            sector.is_busy = true;
            if number > 0 {
                sector.later.push(number);
            }
        }
        self.waiting.insert(self.cookie, Waiting { kind, sectors, number, covers });
        Ask { request, payload }
    }

    /// A piece of an answer.
    pub(crate) fn answered(&mut self, cookie: u64, answer: ReplyPiece<'_>) {
        match answer {
            ReplyPiece::Data(offset, data) => self.check_read(offset, data),
            ReplyPiece::Done => self.done(cookie),
            ReplyPiece::Zeroes(..) | ReplyPiece::Extents(_) | ReplyPiece::Error(_) => {
                panic!("{:?}: {answer:?}", self.waiting[&cookie].kind)
            }
        }
    }

    /// A read sees what was written last, flushed or not.
    fn check_read(&mut self, offset: u64, data: &[u8]) {
        let start = offset / SECTOR as u64;
        for (sector, data) in (start..).zip(data.chunks_exact(SECTOR)) {
            let known = &self.of(&(sector..sector + 1))[0];
            let last = known.later.last().copied().unwrap_or(known.flushed);
            assert!(holds(data, last, sector), "a read of sector {sector}: not write {last}");
        }
    }

    fn done(&mut self, cookie: u64) {
        let Waiting { kind, sectors, number, covers } =
            self.waiting.remove(&cookie).expect("an answer to a question");
        self.of(&sectors).iter_mut().for_each(|sector| sector.is_busy = false);
        match kind {
            Kind::Read => {}
            Kind::Write { fua: false } | Kind::Zero { fua: false } => {
                self.answered.push(Done { sectors, number });
            }
            Kind::Write { fua: true } | Kind::Zero { fua: true } => {
                self.flushed(&Done { sectors, number });
            }
            Kind::Flush => {
                covers.iter().for_each(|write| self.flushed(write));
                let is_flushed =
                    |write: &Done| covers.iter().any(|covered| covered.number == write.number);
                self.answered.retain(|write| !is_flushed(write));
            }
        }
    }

    fn flushed(&mut self, write: &Done) {
        self.flushed += 1;
        for sector in self.of(&write.sectors) {
            if write.number > sector.flushed {
                sector.flushed = write.number;
                sector.later.retain(|number| *number > write.number);
            }
        }
    }

    /// Each sector of the file is one that may be seen. What is seen stays.
    pub(crate) fn look_after_a_kill(&mut self, file: &[u8], context: &str) {
        assert_eq!(file.len(), self.sectors.len() * SECTOR, "{context}");
        let mut lost = Vec::new();
        for (at, data) in (0_u64..).zip(file.chunks_exact(SECTOR)) {
            let sector = &mut self.sectors[usize::try_from(at).unwrap()];
            let may_be = sector.later.iter().rev().chain([&sector.flushed]);
            let seen = may_be.copied().find(|number| holds(data, *number, at));
            let Some(seen) = seen else {
                let first: Vec<u64> = data.chunks_exact(8).map(word).collect();
                panic!(
                    "{context}: sector {at} is neither write {} nor one of {:?}: it has {first:x?}",
                    sector.flushed, sector.later
                );
            };
            lost.extend(sector.later.iter().filter(|number| **number > seen));
            *sector = Sector { flushed: seen, later: Vec::new(), is_busy: false };
        }
        lost.sort_unstable();
        let is_lost = |write: &&Done| lost.binary_search(&write.number).is_ok();
        self.lost += self.answered.iter().filter(is_lost).count() as u64;
        self.answered.clear();
        self.waiting.clear();
    }

    fn next_number(&mut self, odd: u64) -> u64 {
        self.number += 2;
        self.number + odd
    }

    fn of(&mut self, sectors: &Range<u64>) -> &mut [Sector] {
        let at = |sector: u64| usize::try_from(sector).unwrap();
        &mut self.sectors[at(sectors.start)..at(sectors.end)]
    }
}

/// Whether a sector is all of what this write put there.
fn holds(data: &[u8], number: u64, sector: u64) -> bool {
    if number % 2 == 1 {
        return data.iter().all(|byte| *byte == 0);
    }
    // The number first: nearly all that do not match end there.
    word(&data[..8]) == number && data == content(number, sector)
}

fn content(number: u64, sector: u64) -> [u8; SECTOR] {
    let mut data = [0; SECTOR];
    let seed = mix(number ^ sector.rotate_left(40));
    for (at, place) in (0..).zip(data.chunks_exact_mut(8)) {
        let word = if at == 0 { number } else { seed.wrapping_mul(2 * at + 1) };
        place.copy_from_slice(&word.to_le_bytes());
    }
    data
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// A number that looks random, from one that does not.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
