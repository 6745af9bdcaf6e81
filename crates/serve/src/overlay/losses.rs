//! Lost writes of an overlay: blocks that no bit on disk has yet revert to the base.
//!
//! In:    the number of losses that the engine counts of the overlay's file; the owner's consent.
//! Out:   unsaved bits cleared once for each loss, before any other bit is saved.
//! Never: a loss that is accepted while the bits of lost blocks are still set.

use std::io;
use std::sync::{Arc, Mutex};

use foreread::File;

use super::block_map::BlockMap;
use super::lock::lock;

/// A file that may lose acknowledged writes when a device flush fails.
pub(super) trait LossyFile {
    /// Returns the number of times that it has.
    fn losses(&self) -> io::Result<u64>;
    /// Accepts the last one: flushes may succeed again.
    fn accept_lost(&self) -> io::Result<()>;
}

/// Lost writes of an overlay, for its owner. Clones are handles to the same overlay.
#[derive(Clone, Debug)]
pub struct OverlayLosses(pub(super) Losses<File>);

impl OverlayLosses {
    /// Accepts that acknowledged writes are lost, as
    /// [`LostWrites::accept`](foreread::LostWrites::accept) does: flushes may succeed again. A
    /// block that was written for the first time and never flushed reads as the base has it, unless
    /// it was written again after a flush reported the loss.
    ///
    /// # Errors
    ///
    /// In a process after `fork`, to which the engine does not belong.
    pub fn accept(&self) -> io::Result<()> {
        self.0.accept()
    }
}

/// Lost blocks of a file of any type.
#[derive(Clone, Debug)]
pub(super) struct Losses<F> {
    blocks: F,
    map: Arc<BlockMap>,
    first_writes: Arc<Mutex<()>>,
    /// The losses after which blocks have reverted.
    noticed: Arc<Mutex<u64>>,
}

impl<F: LossyFile> Losses<F> {
    pub(super) fn new(blocks: F, map: Arc<BlockMap>, first_writes: Arc<Mutex<()>>) -> Self {
        Self { blocks, map, first_writes, noticed: Arc::default() }
    }

    pub(super) fn accept(&self) -> io::Result<()> {
        self.notice()?;
        self.blocks.accept_lost()
    }

    /// Reverts unsaved blocks to the base if writes were lost since the last call: any of these
    /// blocks may be among them.
    pub(super) fn notice(&self) -> io::Result<()> {
        if self.blocks.losses()? == *lock(&self.noticed) {
            return Ok(());
        }
        let _lock = lock(&self.first_writes);
        let mut noticed = lock(&self.noticed);
        let losses = self.blocks.losses()?;
        if losses != *noticed {
            self.map.revert_unsaved();
            *noticed = losses;
        }
        Ok(())
    }
}
