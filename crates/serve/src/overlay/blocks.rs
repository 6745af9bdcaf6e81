//! Reads, writes, zeroes and flushes of an overlay, from any thread, over any files. A first write
//! copies the rest of its blocks from the base.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::block_map::{BitsFile, BlockMap};
use super::format::{BLOCK, BLOCK_BYTES, OverlayLayout};
use super::lock::lock;
use super::losses::{Losses, LossyFile};
use crate::nbd::NbdErrno;
use crate::store::errno_of;

/// File below an overlay: the base, or the file of written blocks.
pub(super) trait BlocksFile: BitsFile + LossyFile {
    /// Fills `to`, or fails.
    fn read_all(&self, to: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes as many bytes as possible without blocking and returns their number.
    fn try_write(&self, from: &[u8], offset: u64) -> io::Result<usize>;
    fn zero(&self, range: Range<u64>, may_unmap: bool) -> io::Result<()>;
    fn discard(&self, range: Range<u64>) -> io::Result<()>;
}

/// Allocates space in the overlay's file for a range of bytes.
pub(super) type MakeRoom = Box<dyn Fn(Range<u64>) -> io::Result<()> + Send + Sync>;

/// Base, and a file with the blocks written over it.
pub(super) struct OverlayBlocks<F> {
    pub(super) base: F,
    /// File of blocks and bits.
    pub(super) blocks: F,
    pub(super) layout: OverlayLayout,
    pub(super) map: Arc<BlockMap>,
    make_room: MakeRoom,
    /// Held by first writes of blocks, and while lost blocks revert to the base.
    first_writes: Arc<Mutex<()>>,
    pub(super) losses: Losses<F>,
}

impl<F: BlocksFile + Clone> OverlayBlocks<F> {
    pub(super) fn new(
        base: F,
        blocks: F,
        layout: OverlayLayout,
        map: BlockMap,
        make_room: MakeRoom,
    ) -> Self {
        let (map, first_writes) = (Arc::new(map), Arc::default());
        let losses = Losses::new(blocks.clone(), Arc::clone(&map), Arc::clone(&first_writes));
        Self { base, blocks, layout, map, make_room, first_writes, losses }
    }

    fn read_once(&self, to: &mut [u8], offset: u64) -> Result<(), NbdErrno> {
        let end = offset + to.len() as u64;
        let mut rest = to;
        for (run, is_there) in self.map.runs(blocks_of(offset..end)) {
            let (start, end) = ((run.start * BLOCK).max(offset), (run.end * BLOCK).min(end));
            let len = usize::try_from(end - start).expect("a part of a buffer");
            let (part, tail) = rest.split_at_mut(len);
            rest = tail;
            let (file, at) = if is_there {
                (&self.blocks, self.layout.data_at + start)
            } else {
                (&self.base, start)
            };
            file.read_all(part, at).map_err(|error| errno_of(&error))?;
        }
        assert!(rest.is_empty(), "the runs of a range are all of it");
        Ok(())
    }

    fn write_once(
        &self,
        from: &[u8],
        offset: u64,
        fua: bool,
        reverts: u64,
    ) -> Result<(), NbdErrno> {
        let blocks = blocks_of(offset..offset + from.len() as u64);
        if self.map.has_all(blocks.clone()) {
            let written = self.blocks.write(from, self.layout.data_at + offset, fua);
            written.map_err(|error| errno_of(&error))?;
        } else {
            self.write_first(from, offset, fua)?;
        }
        if fua {
            // The blocks are durable now; others may be lost.
            self.losses.notice().map_err(|error| errno_of(&error))?;
            let saved = self.map.save_these(&self.blocks, blocks, reverts);
            saved.map_err(|error| errno_of(&error))?;
        }
        Ok(())
    }

    /// Writes a range with blocks that were never written.
    fn write_first(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno> {
        let end = offset + from.len() as u64;
        let all = blocks_of(offset..end);
        // The base never changes, so the rest of the edge blocks can be read without the lock.
        let before = self.beside(all.start * BLOCK..offset)?;
        let behind = self.beside(end..(all.end * BLOCK).min(self.layout.size))?;
        let _lock = lock(&self.first_writes);
        // Another first write may have won the race for an edge block: keep its bytes.
        let is_new = |block: u64| !self.map.has_any(block..block + 1);
        let before = if is_new(all.start) { &before[..] } else { &[] };
        let behind = if is_new(all.end - 1) { &behind[..] } else { &[] };
        self.take_room(&all)?;
        let at = self.layout.data_at + offset - before.len() as u64;
        let whole;
        let bytes = if before.is_empty() && behind.is_empty() {
            from
        } else {
            whole = [before, from, behind].concat();
            &whole[..]
        };
        let written = self.blocks.write(bytes, at, fua);
        written.map_err(|error| errno_of(&error))?;
        self.map.set(all);
        Ok(())
    }

    /// Reads bytes of the base next to a write, in the same block.
    fn beside(&self, range: Range<u64>) -> Result<Vec<u8>, NbdErrno> {
        let len = range.end.saturating_sub(range.start);
        let len = usize::try_from(len).expect("a part of a block of 4 KiB");
        let mut bytes = vec![0; len];
        self.base.read_all(&mut bytes, range.start).map_err(|error| errno_of(&error))?;
        Ok(bytes)
    }

    /// Allocates space for the blocks of a range that were never written, so that a full disk fails
    /// the write before it is acknowledged.
    fn take_room(&self, blocks: &Range<u64>) -> Result<(), NbdErrno> {
        for (run, is_there) in self.map.runs(blocks.clone()) {
            if is_there {
                continue;
            }
            let end = (run.end * BLOCK).min(self.layout.size);
            let range = self.layout.data_at + run.start * BLOCK..self.layout.data_at + end;
            (self.make_room)(range).map_err(|error| errno_of(&error))?;
        }
        Ok(())
    }

    pub(super) fn is_in_file(&self, range: &Range<u64>) -> bool {
        !self.map.has_any(blocks_of(range.clone()))
    }

    pub(super) fn read(&self, to: &mut [u8], offset: u64) -> Result<(), NbdErrno> {
        self.map.unless_reverted(|_| self.read_once(to, offset))
    }

    pub(super) fn try_write(&self, from: &[u8], offset: u64) -> Result<usize, NbdErrno> {
        let range = offset..offset + from.len() as u64;
        // Read before the bits, so that a revert between the two is noticed.
        let reverts = self.map.reverts();
        if !self.map.has_all(blocks_of(range)) {
            return Ok(0);
        }
        let written = self.blocks.try_write(from, self.layout.data_at + offset);
        let written = written.map_err(|error| errno_of(&error))?;
        // The caller writes the rest again.
        Ok(if self.map.reverts() == reverts { written } else { 0 })
    }

    pub(super) fn write(&self, from: &[u8], offset: u64, fua: bool) -> Result<(), NbdErrno> {
        if from.is_empty() {
            return Ok(());
        }
        self.map.unless_reverted(|reverts| self.write_once(from, offset, fua, reverts))
    }

    pub(super) fn flush(&self) -> io::Result<()> {
        let saved = self.map.save(&self.blocks, || self.losses.notice());
        if saved.is_err() {
            self.losses.notice()?;
        }
        saved
    }

    pub(super) fn waits_for_base(&self, range: &Range<u64>, is_write: bool) -> bool {
        let Range { start, end } = *range;
        if !is_write {
            return !self.map.has_all(blocks_of(start..end));
        }
        let is_end = end == self.layout.size;
        let edges =
            [(start, start % BLOCK == 0), (end.saturating_sub(1), end % BLOCK == 0 || is_end)];
        let block = |at: u64| at / BLOCK..at / BLOCK + 1;
        edges.into_iter().any(|(at, is_edge)| !is_edge && !self.map.has_all(block(at)))
    }

    /// Discards written blocks of a range; those of the base use no space.
    pub(super) fn discard(&self, range: Range<u64>) -> Result<(), NbdErrno> {
        let at = self.layout.data_at;
        for (run, is_there) in self.map.runs(blocks_of(range.clone())) {
            let start = (run.start * BLOCK).max(range.start);
            let end = (run.end * BLOCK).min(range.end);
            if is_there {
                let discarded = self.blocks.discard(at + start..at + end);
                discarded.map_err(|error| errno_of(&error))?;
            }
        }
        Ok(())
    }

    pub(super) fn zero(&self, range: Range<u64>, may_unmap: bool) -> Result<(), NbdErrno> {
        let first = range.start.next_multiple_of(BLOCK).min(range.end);
        let is_at_end = range.end == self.layout.size;
        let last = if is_at_end { range.end } else { range.end - range.end % BLOCK }.max(first);
        for part in [range.start..first, last..range.end] {
            let len = usize::try_from(part.end - part.start).expect("a part of a block");
            self.write(&[0; BLOCK_BYTES][..len], part.start, false)?;
        }
        if first == last {
            return Ok(());
        }
        let blocks = blocks_of(first..last);
        let _lock = lock(&self.first_writes);
        if !may_unmap {
            self.take_room(&blocks)?;
        }
        let at = self.layout.data_at;
        let zeroed = self.blocks.zero(at + first..at + last, may_unmap);
        zeroed.map_err(|error| errno_of(&error))?;
        self.map.set(blocks);
        Ok(())
    }
}

/// Returns the blocks that a range of bytes touches.
fn blocks_of(range: Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}
