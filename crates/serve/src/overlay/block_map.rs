//! Bit map of the written blocks of an overlay, in memory and on disk.
//!
//! In:    written blocks; flushes.
//! Out:   runs of blocks that are written, or not.
//! Never: a bit on disk before its block is durable; a saved bit that is cleared; a change of one
//!        copy of a page of bits while the other one is not durable.
//!
//! ```text
//!   bits     used by reads                  set when a block is in the engine's cache
//!   saved    written to the file            set when a block is durable
//!
//!   a save   copy 0 | flush | copy 1 | flush     a torn write leaves the other copy
//!   failed at copy 1                             the next save begins with copy 1
//!   opened with copies that differ               both are written before the first request
//! ```
//!
//! The bits go through the engine like the blocks, so a device flush that fails while bits are
//! saved also covers blocks written at that time, and the other way round.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::format::{BitsPage, OverlayLayout, PAGE_WORDS};

/// Bit map of written blocks.
pub(super) struct BlockMap {
    layout: OverlayLayout,
    bits: Box<[AtomicU64]>,
    /// For each page of bits: true if some may not be saved.
    changed: Box<[AtomicBool]>,
    /// Number of times that unsaved bits were cleared.
    reverts: AtomicU64,
    /// Held while bits are written.
    saved: Mutex<SavedBits>,
}

/// Bits that are in the file, or are being written to it.
struct SavedBits {
    words: Box<[u64]>,
    pages: Box<[SavedPage]>,
}

/// State of a page of bits on the device.
#[derive(Clone, Copy)]
struct SavedPage {
    /// Both copies are durable and equal to `words`.
    is_saved: bool,
    /// Copy to write next: the one that may be torn.
    next_copy: u64,
}

/// File of the bits. Writes are ordered with those of the blocks.
pub(super) trait BitsFile {
    /// Writes a page; with `fua`, it is durable on return.
    fn write(&self, bytes: &[u8], at: u64, fua: bool) -> io::Result<()>;
    /// Makes all earlier writes durable, of blocks and bits.
    fn flush(&self) -> io::Result<()>;
}

impl BlockMap {
    /// Reads the bits of a file with `read`. The inner error names the page without a valid copy.
    pub(super) fn read(
        read: impl Fn(&mut [u8], u64) -> io::Result<()>,
        layout: OverlayLayout,
    ) -> io::Result<Result<Self, String>> {
        let pages = layout.bits_pages();
        let count = usize::try_from(pages).map_err(io::Error::other)?;
        let mut words = vec![0_u64; count * PAGE_WORDS].into_boxed_slice();
        let mut states = Vec::with_capacity(count);
        let mut bytes = [0; BitsPage::BYTES];
        for (page, words) in (0..pages).zip(words.chunks_exact_mut(PAGE_WORDS)) {
            let mut copies = [None, None];
            for (copy, found) in (0..2).zip(&mut copies) {
                read(&mut bytes, layout.bits_at(page, copy))?;
                *found = BitsPage { layout, page }.decode(&bytes);
            }
            let next_copy = next_copy(&copies);
            let is_saved = copies[0].is_some() && copies[0] == copies[1];
            if copies == [None, None] {
                return Ok(Err(super::format::damaged_bits(page)));
            }
            // A bit that one copy has belongs to a durable block: the other copy was to follow.
            for found in copies.into_iter().flatten() {
                words.iter_mut().zip(found).for_each(|(word, found)| *word |= found);
            }
            states.push(SavedPage { is_saved, next_copy });
        }
        // No bit is set behind the last block.
        for block in layout.blocks()..pages * PAGE_BITS {
            words[word(block)] &= !bit(block);
        }
        let bits = words.iter().map(|word| AtomicU64::new(*word)).collect();
        let changed = states.iter().map(|page| AtomicBool::new(!page.is_saved)).collect();
        let saved = Mutex::new(SavedBits { words, pages: states.into() });
        Ok(Ok(Self { layout, bits, changed, reverts: AtomicU64::new(0), saved }))
    }

    /// Makes both copies of each page of bits equal and durable. Runs before the first request:
    /// bits that clients have found missing must not appear when a later torn write completes the
    /// copy that a power cut left incomplete. Returns the number of pages that it wrote.
    pub(super) fn repair(&self, file: &impl BitsFile) -> io::Result<usize> {
        let mut saved = self.lock();
        let pages = saved.pages.iter().enumerate().filter(|(_, page)| !page.is_saved);
        let pages: Vec<usize> = pages.map(|(page, _)| page).collect();
        self.write(&mut saved, &pages, file, false)?;
        pages.iter().for_each(|page| self.changed[*page].store(false, Ordering::Release));
        Ok(pages.len())
    }

    pub(super) fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum()
    }

    pub(super) fn has_any(&self, blocks: Range<u64>) -> bool {
        words(blocks).any(|(word, mask)| self.bits[word].load(Ordering::Acquire) & mask != 0)
    }

    pub(super) fn has_all(&self, blocks: Range<u64>) -> bool {
        words(blocks).all(|(word, mask)| self.bits[word].load(Ordering::Acquire) & mask == mask)
    }

    /// Returns runs of blocks in order, written (true) or not.
    pub(super) fn runs(&self, blocks: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
        let is_there =
            |block: u64| self.bits[word(block)].load(Ordering::Acquire) & bit(block) != 0;
        let mut at = blocks.start;
        std::iter::from_fn(move || {
            let start = at;
            let is_first = at < blocks.end && is_there(at);
            while at < blocks.end && is_there(at) == is_first {
                at += 1;
            }
            (start < at).then_some((start..at, is_first))
        })
    }

    /// Marks blocks as written: from now on, reads find them in the file.
    pub(super) fn set(&self, blocks: Range<u64>) {
        for (word, mask) in words(blocks) {
            self.bits[word].fetch_or(mask, Ordering::AcqRel);
            self.changed[word / PAGE_WORDS].store(true, Ordering::Release);
        }
    }

    /// Clears the bits that are not saved: their blocks may be lost, and revert to the base. The
    /// caller holds the lock of first writes.
    pub(super) fn revert_unsaved(&self) {
        let saved = self.lock();
        for (bits, saved) in self.bits.iter().zip(&saved.words) {
            bits.store(*saved, Ordering::Release);
        }
        self.reverts.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of times that unsaved blocks reverted to the base.
    pub(super) fn reverts(&self) -> u64 {
        self.reverts.load(Ordering::SeqCst)
    }

    /// Runs `act`, and again if blocks reverted to the base during it.
    pub(super) fn unless_reverted<E>(
        &self,
        mut act: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let reverts = self.reverts();
            act(reverts)?;
            if self.reverts() == reverts {
                return Ok(());
            }
        }
    }

    /// Makes all earlier writes durable: the blocks first, then their bits. `notice` reverts blocks
    /// that were lost since its last call.
    pub(super) fn save(
        &self,
        file: &impl BitsFile,
        notice: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let reverts = self.reverts();
        // A snapshot: the flush may not cover blocks that are written later.
        let changed = self.changed.iter().enumerate();
        let durable: Vec<(usize, u64)> = changed
            .filter(|(_, changed)| changed.load(Ordering::Acquire))
            .flat_map(|(page, _)| page * PAGE_WORDS..(page + 1) * PAGE_WORDS)
            .map(|index| (index, self.bits[index].load(Ordering::Acquire)))
            .collect();
        file.flush()?;
        notice()?;
        let mut saved = self.lock();
        if self.reverts() != reverts {
            return Err(io::Error::other("blocks that were not flushed are lost"));
        }
        let pages = saved.add(&durable);
        self.write(&mut saved, &pages, file, false)?;
        for page in durable.chunk_by(|a, b| a.0 / PAGE_WORDS == b.0 / PAGE_WORDS) {
            let page = page[0].0 / PAGE_WORDS;
            // In this order, a concurrent write sets the flag again, or is seen below.
            self.changed[page].store(false, Ordering::SeqCst);
            let words = page * PAGE_WORDS..(page + 1) * PAGE_WORDS;
            let is_new =
                |index: usize| self.bits[index].load(Ordering::SeqCst) != saved.words[index];
            if words.clone().any(is_new) {
                self.changed[page].store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Saves the bits of these durable blocks only. No-op if the number of reverts is no longer
    /// `reverts`, because the blocks must then be written again.
    pub(super) fn save_these(
        &self,
        file: &impl BitsFile,
        blocks: Range<u64>,
        reverts: u64,
    ) -> io::Result<()> {
        let mut saved = self.lock();
        if self.reverts() != reverts {
            return Ok(());
        }
        let durable: Vec<_> = words(blocks).collect();
        let pages = saved.add(&durable);
        self.write(&mut saved, &pages, file, true)
    }

    /// Writes both copies of pages, one after the other. After an error, the next save begins with
    /// the copy that failed: the other one has all acknowledged bits.
    fn write(
        &self,
        saved: &mut SavedBits,
        pages: &[usize],
        file: &impl BitsFile,
        fua: bool,
    ) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        pages.iter().for_each(|page| saved.pages[*page].is_saved = false);
        for _ in 0..2 {
            for &page in pages {
                let words = &saved.words[page * PAGE_WORDS..(page + 1) * PAGE_WORDS];
                let bits_page = BitsPage { layout: self.layout, page: page as u64 };
                let at = self.layout.bits_at(page as u64, saved.pages[page].next_copy);
                file.write(&bits_page.encode(words), at, fua)?;
            }
            if !fua {
                file.flush()?;
            }
            pages.iter().for_each(|page| saved.pages[*page].next_copy ^= 1);
        }
        pages.iter().for_each(|page| saved.pages[*page].is_saved = true);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, SavedBits> {
        super::lock::lock(&self.saved)
    }
}

impl SavedBits {
    /// Adds bits of durable blocks and returns the pages to write.
    fn add(&mut self, durable: &[(usize, u64)]) -> Vec<usize> {
        let mut pages = Vec::new();
        for &(index, mask) in durable {
            let page = index / PAGE_WORDS;
            let is_new = self.words[index] & mask != mask;
            self.words[index] |= mask;
            let is_listed = pages.last() == Some(&page);
            if !is_listed && (is_new || !self.pages[page].is_saved) {
                pages.push(page);
            }
        }
        pages
    }
}

/// Returns the copy to write first: the one that is damaged or lacks bits. The other one keeps all
/// bits in the file during the write. Saves only add bits, so one of two valid copies has all.
fn next_copy(copies: &[Option<Vec<u64>>; 2]) -> u64 {
    let [Some(first), Some(second)] = copies else { return u64::from(copies[0].is_some()) };
    let has_all = first.iter().zip(second).all(|(first, second)| first & second == *second);
    u64::from(has_all)
}

/// Returns the words that hold the bits of these blocks, each with a mask.
fn words(blocks: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let Range { start, end } = blocks;
    let indices = if start < end { word(start)..word(end - 1) + 1 } else { 0..0 };
    indices.map(move |index| {
        let first = index as u64 * 64;
        let from = start.saturating_sub(first);
        let to = (end - first).min(64);
        let low = |count: u64| if count == 64 { u64::MAX } else { (1 << count) - 1 };
        (index, low(to) & !low(from))
    })
}

fn word(block: u64) -> usize {
    usize::try_from(block / 64).expect("the words of all blocks are in memory")
}

fn bit(block: u64) -> u64 {
    1 << (block % 64)
}

impl fmt::Debug for BlockMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockMap").field("blocks", &self.count()).finish_non_exhaustive()
    }
}

const PAGE_BITS: u64 = PAGE_WORDS as u64 * 64;

#[cfg(test)]
mod tests;
