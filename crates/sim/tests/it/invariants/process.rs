//! A process of a random scenario: what it does, and what it counts.
//!
//! In:    its shape, its file, random numbers.
//! Out:   reads, writes, hints and pins; the counts of those that begin and end.
//! Never: a wait for ever: a process that does not end is a bug.

use std::cell::Cell;
use std::rc::Rc;

use foreread_core::path::DeviceId;
use foreread_core::prefetch::Advice;
use foreread_core::sched::{Class, Op};
use foreread_core::units::{ByteCount, PageIndex, Sector, Sectors};
use foreread_sim::process::Process;
use foreread_sim::reader::SimReader;
use foreread_sim::rng::Rng;
use foreread_sim::run::SimFile;

/// A process: what it does, with which file, how often, how much at most at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessShape {
    pub(crate) does: Does,
    pub(crate) file: usize,
    pub(crate) times: u64,
    pub(crate) largest: u64,
    pub(crate) think_us: u64,
    pub(crate) class: Class,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    ReadOn,
    ReadInTurns,
    ReadAnywhere,
    ReadPast,
    WritePast { slots: u32 },
    Hint,
    Forget,
    Pin,
}

/// What the processes of a run counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) begun: Cell<u64>,
    pub(crate) ended: Cell<u64>,
    pub(crate) pins: Cell<u64>,
    /// Pins whose page was forgotten meanwhile.
    pub(crate) pins_forgotten: Cell<u64>,
}

/// A process at work.
pub(crate) struct Life {
    pub(crate) shape: ProcessShape,
    pub(crate) file: SimFile,
    pub(crate) len: u64,
    pub(crate) start: Sector,
    pub(crate) device: DeviceId,
    pub(crate) is_forgotten: bool,
    pub(crate) tally: Rc<Tally>,
}

impl Life {
    pub(crate) async fn live(self, process: &Process, mut rng: Rng) {
        let reader = process.open(self.file);
        let mut cursors = [0, rng.below(self.len)];
        for time in 0..self.shape.times {
            match self.shape.does {
                Does::ReadOn => cursors[0] = self.read(&reader, cursors[0], &mut rng).await,
                Does::ReadInTurns => {
                    let turn = usize::from(time % 2 == 1);
                    cursors[turn] = self.read(&reader, cursors[turn], &mut rng).await;
                }
                Does::ReadAnywhere => {
                    if rng.below(10) == 0 {
                        reader.seeked();
                        reader.advise(Advice::ALL[index(&mut rng, Advice::ALL.len())]);
                    }
                    let pos = rng.below(self.len);
                    self.read(&reader, pos, &mut rng).await;
                }
                Does::ReadPast => {
                    let (start, sectors) = self.place(&mut rng);
                    self.tally.begun.set(self.tally.begun.get() + 1);
                    process.direct(self.device, Op::Read, start, sectors).await.unwrap();
                    self.tally.ended.set(self.tally.ended.get() + 1);
                }
                Does::WritePast { slots } => self.write_all(process, slots, &mut rng).await,
                Does::Hint => {
                    let pos = rng.below(self.len);
                    reader.will_need(ByteCount(pos), ByteCount(1 + rng.below(self.shape.largest)));
                    self.read(&reader, pos, &mut rng).await;
                }
                Does::Forget => {
                    let pos = rng.below(self.len);
                    reader.forget(ByteCount(pos), ByteCount(1 + rng.below(1 << 20)));
                    process.pass_ns(300_000).await;
                }
                Does::Pin => self.pin(process, &reader, &mut rng).await,
            }
            if self.shape.think_us > 0 {
                process.pass_ns(self.shape.think_us * 1000).await;
            }
        }
    }

    /// Reads at `pos`, and says where the next one goes on.
    async fn read(&self, reader: &SimReader, pos: u64, rng: &mut Rng) -> u64 {
        let len = 1 + rng.below(self.shape.largest);
        self.tally.begun.set(self.tally.begun.get() + 1);
        let got = reader.read(ByteCount(pos), ByteCount(len)).await.unwrap();
        self.tally.ended.set(self.tally.ended.get() + 1);
        assert_eq!(got, ByteCount(len.min(self.len.saturating_sub(pos))), "{pos}+{len}");
        if pos + got.0 >= self.len { 0 } else { pos + got.0 }
    }

    /// Some pages that are pinned, and read after read of others: the former stay where they are.
    async fn pin(&self, process: &Process, reader: &SimReader, rng: &mut Rng) {
        let mut pins = Vec::new();
        for _ in 0..1 + rng.below(8) {
            let pos = rng.below(self.len);
            self.read(reader, pos, rng).await;
            pins.extend(process.pin(self.file, PageIndex(pos / 4096)));
        }
        self.tally.pins.set(self.tally.pins.get() + pins.len() as u64);
        for _ in 0..10 {
            let pos = rng.below(self.len);
            self.read(reader, pos, rng).await;
            let gone = pins.iter().filter(|pin| !pin.is_in_place()).count();
            assert!(gone == 0 || self.is_forgotten, "{gone} pinned pages were taken");
        }
        let gone = pins.iter().filter(|pin| !pin.is_in_place()).count();
        self.tally.pins_forgotten.set(self.tally.pins_forgotten.get() + gone as u64);
    }

    /// Asynchronous writes, at most so many at a time, and then a wait for all of them.
    async fn write_all(&self, process: &Process, slots: u32, rng: &mut Rng) {
        let places = process.slots(slots);
        let is_run = rng.below(2) == 0;
        let (mut start, mut sectors) = self.place(rng);
        for _ in 0..u64::from(slots) + 4 {
            process.post(places, self.device, Op::Write, start, sectors).await;
            let next = start + sectors;
            (start, sectors) = self.place(rng);
            start = if is_run { next } else { start };
        }
        for _ in 0..slots {
            process.take_slot(places).await;
        }
    }

    /// Somewhere in the file, or what lies behind it: whole sectors.
    fn place(&self, rng: &mut Rng) -> (Sector, Sectors) {
        let sectors = Sectors(1 + rng.below(self.shape.largest / 512));
        (self.start + Sectors(rng.below(self.len / 512 + 1)), sectors)
    }
}

pub(crate) fn index(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("an index")
}

pub(crate) fn pick<T: Copy, const N: usize>(rng: &mut Rng, from: [T; N]) -> T {
    from[index(rng, N)]
}

/// The file whose pages are forgotten, if any are.
pub(crate) const FORGOTTEN: usize = 0;
