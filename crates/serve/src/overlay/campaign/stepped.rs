//! The file below an overlay: the core's write path in virtual time, with the bytes of bits.
//!
//! In:    calls of the overlay, from the client whose turn it is.
//! Out:   their results, some turns later; the first thing that a power cut must not leave.
//! Never: blocks that no client uses: the file has a few of each page of bits.
//!
//! ```text
//!   overlay   | header | bits 0, 0, 1, 1 | ..  | blocks 0..12 | ..  | 12 around the next page |
//!   sim                | 4 pages         | 12 pages           | 12 pages |
//! ```

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use foreread_sim::durability::{RunEnd, Sabotage, SteppedCall, SteppedEnd, SteppedFile};
use foreread_sim::rng::Rng;

use super::oracle::Oracle;
use super::{OverlayTally, Wrong, locked};
use crate::overlay::block_map::{BitsFile, BlockMap};
use crate::overlay::blocks::BlocksFile;
use crate::overlay::format::{BLOCK, BLOCK_BYTES, BitsPage, OverlayLayout, PAGE_WORDS};
use crate::overlay::losses::LossyFile;
use crate::overlay::turns;

/// State shared by all clients.
pub(super) struct SimWorld {
    file: SteppedFile,
    pub(super) oracle: Oracle,
    pub(super) tally: OverlayTally,
    /// The first thing that is wrong.
    pub(super) found: Option<String>,
    map: Option<Arc<BlockMap>>,
    rng: Rng,
    wrong: Wrong,
    /// Events until the server is gone.
    left: u64,
    /// Losses, reverts, and drops of the device that the oracle knows.
    seen: (u64, u64, u64),
    bits: InternedBits,
    /// Clients whose last write was of bits.
    bits_writers: HashSet<ThreadId>,
}

/// The numbers of the sectors of bits.
#[derive(Default)]
struct InternedBits {
    numbers: BTreeMap<Vec<u8>, u32>,
    contents: Vec<Vec<u8>>,
}

/// The base of an overlay, or its file.
#[derive(Clone)]
pub(super) struct SimFile {
    world: Arc<Mutex<SimWorld>>,
    is_base: bool,
}

pub(super) fn layout() -> OverlayLayout {
    OverlayLayout::new((SECOND + WINDOW) * BLOCK - 5 * SECTOR)
}

/// The sector of the disk with this number among those that clients use, and its offset there.
pub(super) fn offset_of(sector: usize) -> u64 {
    let (window, rest) = (sector / WINDOW_SECTORS, sector % WINDOW_SECTORS);
    [0, SECOND][window] * BLOCK + rest as u64 * SECTOR
}

impl SimWorld {
    pub(super) fn new(seed: u64, wrong: Wrong) -> Self {
        let sabotage = if let Wrong::Device(sabotage) = wrong { sabotage } else { Sabotage::None };
        let mut bits = InternedBits::default();
        let empty = |page| BitsPage { layout: layout(), page }.encode(&[0; PAGE_WORDS]);
        let stamps: Vec<_> =
            [0, 0, 1, 1].into_iter().flat_map(|page| bits.stamps(&empty(page))).collect();
        let file = SteppedFile::new(seed, BITS_SECTORS + USED_SECTORS, sabotage);
        Self {
            file: file.with_sectors(seed, 0, &stamps),
            oracle: Oracle::new((0..USED_SECTORS).map(base_stamp)),
            tally: OverlayTally::default(),
            found: None,
            map: None,
            rng: Rng::named(seed, "overlay world"),
            wrong,
            left: 0,
            seen: (0, 0, 0),
            bits,
            bits_writers: HashSet::new(),
        }
    }

    /// Reads the bits of a file that was just opened.
    pub(super) fn read_map(&self) -> Result<BlockMap, String> {
        self.map_of(&self.file.sectors())
    }

    fn map_of(&self, sectors: &[u32]) -> Result<BlockMap, String> {
        let read = |bytes: &mut [u8], at: u64| {
            let first = sector_in_file(at);
            self.bits.fill(bytes, &sectors[first..first + SECTORS]);
            Ok(())
        };
        BlockMap::read(read, layout()).expect("reads of memory do not fail")
    }

    pub(super) fn begin_life(&mut self, map: Arc<BlockMap>) {
        (self.map, self.left) = (Some(map), 50 + self.rng.below(1200));
        self.seen = (0, 0, 0);
    }

    /// A server is about to take its first request.
    pub(super) fn open(&mut self) {
        self.oracle.open(base_stamp);
    }

    /// The server is gone, with all that it had in memory; another one opens the file.
    pub(super) fn restart(&mut self, end: RunEnd) -> Result<(), String> {
        let outcome = self.file.outcome();
        self.tally.injected += outcome.injected;
        self.tally.flush_failures += outcome.flush_failures;
        self.tally.losses += self.file.losses();
        self.map = None;
        let spare = SteppedFile::new(0, 8, Sabotage::None);
        self.file = std::mem::replace(&mut self.file, spare).restart(end);
        let found = self.disk(&self.file.sectors())?;
        for (at, found) in found.iter().enumerate() {
            self.oracle.check_survivor(at, *found)?;
        }
        self.oracle.restart(found.into_iter(), base_stamp);
        Ok(())
    }

    /// The sectors of the disk that another server finds.
    fn disk(&self, sectors: &[u32]) -> Result<Vec<u32>, String> {
        let map = self.map_of(sectors)?;
        let find = |at: usize| {
            let block = offset_of(at) / BLOCK;
            let is_there = map.has_all(block..block + 1);
            if is_there { sectors[BITS_SECTORS + at] } else { base_stamp(at) }
        };
        Ok((0..USED_SECTORS).map(find).collect())
    }

    fn check_cut(&mut self) -> Result<(), String> {
        let sectors = self.file.after_cut();
        self.tally.cuts += 1;
        for (at, found) in self.disk(&sectors)?.into_iter().enumerate() {
            self.oracle.check_survivor(at, found)?;
        }
        Ok(())
    }

    /// One event of the driver or the device, after which the power may fail.
    fn step(&mut self) -> Result<(), String> {
        self.file.step()?;
        self.note_losses();
        self.left -= 1;
        if self.rng.below(40) == 0 { self.check_cut() } else { Ok(()) }
    }

    pub(super) fn note_losses(&mut self) {
        let reverts = self.map.as_ref().map_or(0, |map| map.reverts());
        let now = (self.file.losses(), reverts, self.file.drops());
        if (now.0, now.1) != (self.seen.0, self.seen.1) {
            self.oracle.lose(now.1 != self.seen.1);
        }
        if now.2 != self.seen.2 {
            self.oracle.drop_cached();
        }
        self.seen = now;
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0 || self.found.is_some()
    }

    /// Notes what is wrong, if it is the first thing.
    pub(super) fn note(&mut self, result: Result<(), String>) {
        if let Err(why) = result {
            self.left = 0;
            self.found.get_or_insert(why);
        }
    }
}

impl SimFile {
    pub(super) fn new(world: &Arc<Mutex<SimWorld>>, is_base: bool) -> Self {
        Self { world: Arc::clone(world), is_base }
    }

    /// Begins a call, and lets it go on a step at each turn until it is over.
    fn call(&self, begin: impl FnOnce(&mut SimWorld) -> SteppedCall) -> io::Result<SteppedEnd> {
        let gone = || io::Error::other("the server is gone");
        let call = {
            let mut world = locked(&self.world);
            if world.is_over() {
                return Err(gone());
            }
            begin(&mut world)
        };
        loop {
            turns::pass();
            let mut world = locked(&self.world);
            for _ in 0..1 + world.rng.below(3) {
                if world.is_over() {
                    return Err(gone());
                }
                let stepped = world.step();
                world.note(stepped);
                if let Some(end) = world.file.take_end(call) {
                    return if end.is_good { Ok(end) } else { Err(io::Error::other("a fault")) };
                }
            }
        }
    }

    fn zero_pages(&self, range: &Range<u64>, is_discard: bool) -> io::Result<()> {
        let pages = range.start.div_ceil(BLOCK) * BLOCK..if range.end == layout().end() {
            range.end
        } else {
            range.end / BLOCK * BLOCK
        };
        if pages.start >= pages.end {
            return Ok(());
        }
        let first = sector_in_file(pages.start) / SECTORS;
        let count = usize::try_from((pages.end - pages.start).div_ceil(BLOCK)).expect("a few");
        self.call(|world| world.file.begin_zero(first..first + count, is_discard)).map(drop)
    }
}

impl BitsFile for SimFile {
    fn write(&self, bytes: &[u8], at: u64, fua: bool) -> io::Result<()> {
        let (mut stamps, first) = {
            let mut world = locked(&self.world);
            let client = std::thread::current().id();
            if at < layout().data_at {
                world.bits_writers.insert(client);
            } else {
                world.bits_writers.remove(&client);
            }
            (world.bits.stamps(bytes), sector_in_file(at))
        };
        let mut at = first;
        while !stamps.is_empty() {
            let end = self.call(|world| world.file.begin_write(at, &stamps, fua))?;
            stamps.drain(..end.sectors);
            at += end.sectors;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let is_skipped = {
            let mut world = locked(&self.world);
            let is_of_bits = world.bits_writers.remove(&std::thread::current().id());
            match world.wrong {
                Wrong::BitsFirst => !is_of_bits,
                Wrong::BothCopies => is_of_bits,
                Wrong::Nothing | Wrong::Device(_) | Wrong::DeafToLosses | Wrong::NoRepair => false,
            }
        };
        if is_skipped { Ok(()) } else { self.call(|world| world.file.begin_flush()).map(drop) }
    }
}

impl LossyFile for SimFile {
    fn losses(&self) -> io::Result<u64> {
        let world = locked(&self.world);
        Ok(if world.wrong == Wrong::DeafToLosses { 0 } else { world.file.losses() })
    }

    fn accept_lost(&self) -> io::Result<()> {
        locked(&self.world).file.accept_lost();
        Ok(())
    }
}

impl BlocksFile for SimFile {
    fn read_all(&self, to: &mut [u8], offset: u64) -> io::Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let mut sectors = to.len() / SECTOR_BYTES;
        let mut stamps = Vec::with_capacity(sectors);
        if self.is_base {
            let first = sector_of_disk(offset);
            stamps.extend((first..first + sectors).map(base_stamp));
            sectors = 0;
        }
        let mut at = if self.is_base { 0 } else { sector_in_file(offset) };
        while sectors > 0 {
            let end = self.call(|world| world.file.begin_read(at, sectors))?;
            at += end.sectors;
            sectors -= end.sectors;
            stamps.extend(end.stamps);
        }
        locked(&self.world).bits.fill(to, &stamps);
        Ok(())
    }

    fn try_write(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        if locked(&self.world).rng.below(2) == 0 {
            return Ok(0);
        }
        self.write(from, offset, false).map(|()| from.len())
    }

    fn zero(&self, range: Range<u64>, _: bool) -> io::Result<()> {
        self.zero_pages(&range, false)
    }

    fn discard(&self, range: Range<u64>) -> io::Result<()> {
        self.zero_pages(&range, true)
    }
}

impl InternedBits {
    /// The number of each sector. Those of a client's bytes are in the bytes.
    fn stamps(&mut self, bytes: &[u8]) -> Vec<u32> {
        let stamp = |sector: &[u8]| {
            let (number, rest) = sector.split_at(4);
            let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
            let is_client = rest.iter().all(|byte| *byte == MARK) || sector == [0; SECTOR_BYTES];
            if is_client {
                return number;
            }
            let next = BITS_STAMP + u32::try_from(self.contents.len()).expect("few bits change");
            *self.numbers.entry(sector.to_vec()).or_insert_with(|| {
                self.contents.push(sector.to_vec());
                next
            })
        };
        bytes.chunks_exact(SECTOR_BYTES).map(stamp).collect()
    }

    fn fill(&self, bytes: &mut [u8], stamps: &[u32]) {
        for (sector, stamp) in bytes.chunks_exact_mut(SECTOR_BYTES).zip(stamps) {
            let bits = stamp.checked_sub(BITS_STAMP);
            match bits.and_then(|number| self.contents.get(number as usize)) {
                Some(content) => sector.copy_from_slice(content),
                None if SteppedFile::is_zeroed(*stamp) => sector.fill(0),
                None => {
                    sector.fill(MARK);
                    sector[..4].copy_from_slice(&stamp.to_le_bytes());
                }
            }
        }
    }
}

/// The bytes of a client's sectors, and the other way round.
pub(super) fn bytes_of(stamps: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; stamps.len() * SECTOR_BYTES];
    InternedBits::default().fill(&mut bytes, stamps);
    bytes
}

pub(super) fn stamps_of(bytes: &[u8]) -> Vec<u32> {
    let number = |it: &[u8]| u32::from_le_bytes(it[..4].try_into().expect("four bytes"));
    bytes.chunks_exact(SECTOR_BYTES).map(number).collect()
}

fn base_stamp(sector: usize) -> u32 {
    SteppedFile::FIRST_STAMP + u32::try_from(sector).expect("a small disk")
}

fn sector_of_disk(offset: u64) -> usize {
    let is_second = offset >= SECOND * BLOCK;
    let rest = (offset - if is_second { SECOND * BLOCK } else { 0 }) / SECTOR;
    let rest = usize::try_from(rest).expect("a sector that clients use");
    assert!(rest < WINDOW_SECTORS, "clients use no sector at {offset}");
    rest + if is_second { WINDOW_SECTORS } else { 0 }
}

fn sector_in_file(offset: u64) -> usize {
    match offset.checked_sub(layout().data_at) {
        Some(offset) => BITS_SECTORS + sector_of_disk(offset),
        None => usize::try_from((offset - layout().bits_at(0, 0)) / SECTOR).expect("bits"),
    }
}

const SECTOR: u64 = 512;
const SECTOR_BYTES: usize = 512;
/// Of a page.
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
const BITS_SECTORS: usize = 4 * SECTORS;
/// Blocks of a part of the disk that clients use; the second part begins four blocks before the
/// second page of bits.
const WINDOW: u64 = 12;
const SECOND: u64 = PAGE_WORDS as u64 * 64 - 4;
pub(super) const WINDOW_SECTORS: usize = 12 * SECTORS;
pub(super) const USED_SECTORS: usize = 2 * WINDOW_SECTORS - 5;
const BITS_STAMP: u32 = 1 << 30;
/// What a client's sector has behind its number.
const MARK: u8 = 0xc5;
