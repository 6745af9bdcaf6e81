//! A disk with a volatile cache that a power cut empties, sector by sector.
//!
//! ```text
//!   write ---> volatile ---- flush, or at any earlier time ------> durable
//!   fua   -------------------------------------------------------->
//!   cut        each sector is lost, or was just in time
//! ```

use std::collections::BTreeMap;

pub(crate) const SECTOR: usize = 512;

pub(crate) struct Disk {
    durable: Vec<u8>,
    volatile: BTreeMap<usize, Vec<u8>>,
}

impl Disk {
    /// Creates a disk of this size with distinct sectors.
    pub(crate) fn new(bytes: usize) -> Self {
        let durable = (0..bytes.next_multiple_of(4096) + 4096)
            .map(|at| (at / SECTOR * 7 + at % SECTOR * 31 + at / 65_536) as u8)
            .collect();
        Self { durable, volatile: BTreeMap::new() }
    }

    pub(crate) fn sector(&self, sector: usize) -> &[u8] {
        let durable = &self.durable[sector * SECTOR..][..SECTOR];
        self.volatile.get(&sector).map_or(durable, |bytes| bytes)
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let first = offset / SECTOR;
        let mut bytes: Vec<u8> = (first..(offset + len).div_ceil(SECTOR))
            .flat_map(|s| self.sector(s).to_vec())
            .collect();
        bytes.drain(..offset % SECTOR);
        bytes.truncate(len);
        bytes
    }

    /// Writes up to a sector; the rest of the sector stays unchanged.
    pub(crate) fn write(&mut self, sector: usize, bytes: &[u8], fua: bool) {
        let mut whole = self.sector(sector).to_vec();
        whole[..bytes.len()].copy_from_slice(bytes);
        if fua {
            self.volatile.remove(&sector);
            self.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&whole);
        } else {
            self.volatile.insert(sector, whole);
        }
    }

    pub(crate) fn flush(&mut self) {
        while let Some((sector, bytes)) = self.volatile.pop_first() {
            self.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
    }

    /// Makes some cached sectors durable.
    pub(crate) fn destage(&mut self, mut which: impl FnMut() -> bool) {
        let sectors: Vec<_> = self.volatile.keys().copied().filter(|_| which()).collect();
        for sector in sectors {
            let bytes = self.volatile.remove(&sector).unwrap();
            self.durable[sector * SECTOR..][..SECTOR].copy_from_slice(&bytes);
        }
    }

    /// Cuts the power.
    pub(crate) fn cut(&mut self, survives: impl FnMut() -> bool) {
        self.destage(survives);
        self.volatile.clear();
    }
}
