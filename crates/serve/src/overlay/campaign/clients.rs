//! A client of an overlay: random requests, one at a time, which it reports to the oracle. Clients
//! share blocks, and never write each other's sectors.

use std::sync::{Arc, Mutex};

use foreread_sim::durability::SteppedFile;
use foreread_sim::rng::Rng;

use super::stepped::{
    SimFile, SimWorld, USED_SECTORS, WINDOW_SECTORS, bytes_of, offset_of, stamps_of,
};
use super::{CLIENTS, locked};
use crate::overlay::blocks::OverlayBlocks;

pub(super) struct OverlayClient<'o> {
    number: usize,
    rng: Rng,
    overlay: &'o OverlayBlocks<SimFile>,
    world: &'o Arc<Mutex<SimWorld>>,
    next_stamp: u32,
}

impl<'o> OverlayClient<'o> {
    pub(super) fn new(
        number: usize,
        seed: u64,
        overlay: &'o OverlayBlocks<SimFile>,
        world: &'o Arc<Mutex<SimWorld>>,
    ) -> Self {
        let rng = Rng::named(seed, ["first", "second", "third"][number]);
        // Distinct from the numbers of the base and of other clients.
        let client = u32::try_from(number + 1).expect("few clients");
        let life = u32::try_from(seed % 64).expect("below 64");
        let next_stamp = SteppedFile::FIRST_STAMP + (client << 22) + (life << 16);
        Self { number, rng, overlay, world, next_stamp }
    }

    /// Sends a random number of requests, or until the server is gone.
    pub(super) fn run(&mut self) {
        for _ in 0..4 + self.rng.below(20) {
            if locked(self.world).is_over() {
                return;
            }
            locked(self.world).tally.calls += 1;
            match self.rng.below(16) {
                0..6 => self.write(false),
                6 | 7 => self.write(true),
                8 => self.zero(),
                9 if self.rng.below(2) == 0 => self.discard(),
                9..12 => self.read(),
                12..15 => self.flush(),
                _ => self.accept(),
            }
            locked(self.world).note_losses();
        }
    }

    /// Draws sectors of this client: part of a block that all share, or private blocks.
    fn sectors(&mut self) -> std::ops::Range<usize> {
        let window = self.below(2) * WINDOW_SECTORS;
        if self.rng.below(2) == 0 {
            let own = [0..3, 3..6, 6..8][self.number].clone();
            let (block, start) = (self.below(3), own.start + self.below(own.len()));
            let end = start + 1 + self.below(own.end - start);
            return window + block * 8 + start..window + block * 8 + end;
        }
        let (first, len) = (window + 24 + self.number * 24, 24);
        let mut start = first + self.below(len);
        if self.rng.below(2) == 0 {
            start -= start % 8;
        }
        let mut end = start + 1 + self.below(first + len - start);
        if self.rng.below(2) == 0 {
            end = end.next_multiple_of(8);
        }
        start.min(USED_SECTORS - 1)..end.min(USED_SECTORS)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).expect("below a length")
    }

    fn write(&mut self, fua: bool) {
        let sectors = self.sectors();
        let stamps: Vec<_> = sectors.clone().map(|_| self.stamp()).collect();
        let (bytes, at) = (bytes_of(&stamps), offset_of(sectors.start));
        let begun = locked(self.world).oracle.begin_write(sectors.start, &stamps);
        let is_tried = !fua && self.rng.below(3) == 0;
        let taken = if is_tried { self.overlay.try_write(&bytes, at).unwrap_or(0) } else { 0 };
        let is_done = taken == bytes.len()
            || self.overlay.write(&bytes[taken..], at + taken as u64, fua).is_ok();
        let mut world = locked(self.world);
        world.note_losses();
        world.oracle.end_write(&begun, is_done, fua);
        world.tally.count(fua, is_done);
    }

    fn zero(&mut self) {
        let sectors = self.sectors();
        let begun = locked(self.world).oracle.begin_write(sectors.start, &vec![0; sectors.len()]);
        let range = offset_of(sectors.start)..offset_of(sectors.end - 1) + 512;
        let is_done = self.overlay.zero(range, self.rng.below(2) == 0).is_ok();
        let mut world = locked(self.world);
        world.note_losses();
        world.oracle.end_write(&begun, is_done, false);
        if !is_done {
            world.oracle.set_undefined(sectors);
        }
        world.tally.count(false, is_done);
    }

    fn discard(&mut self) {
        let sectors = self.sectors();
        locked(self.world).oracle.set_undefined(sectors.clone());
        let range = offset_of(sectors.start)..offset_of(sectors.end - 1) + 512;
        let is_done = self.overlay.discard(range).is_ok();
        let mut world = locked(self.world);
        world.oracle.set_undefined(sectors);
        world.tally.count(false, is_done);
    }

    fn read(&mut self) {
        let sectors = self.sectors();
        let mut bytes = vec![0; sectors.len() * 512];
        let is_done = self.overlay.read(&mut bytes, offset_of(sectors.start)).is_ok();
        let mut world = locked(self.world);
        world.note_losses();
        if is_done {
            for (at, found) in sectors.zip(stamps_of(&bytes)) {
                let checked = world.oracle.check_read(at, found);
                world.note(checked);
            }
        }
        world.tally.count(false, is_done);
    }

    fn flush(&self) {
        let flushed = locked(self.world).oracle.begin_flush();
        let is_done = self.overlay.flush().is_ok();
        let mut world = locked(self.world);
        world.note_losses();
        if is_done {
            world.oracle.end_flush(&flushed);
        }
        world.tally.count(true, is_done);
    }

    fn accept(&self) {
        let is_done = self.overlay.losses.accept().is_ok();
        locked(self.world).tally.count(false, is_done);
    }

    fn stamp(&mut self) -> u32 {
        self.next_stamp += 1;
        self.next_stamp
    }
}

const _: () = assert!(CLIENTS == 3, "each has a part of a block");
