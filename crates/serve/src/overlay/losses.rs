//! Lost writes of an overlay: blocks that no bit on disk has yet revert to the base.
//!
//! In:    the number of losses that the engine counts of the overlay's file; the owner's consent.
//! Out:   unsaved bits cleared once for each loss, before any other bit is saved.
//! Never: a loss that is accepted while the bits of lost blocks are still set.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use foreread::File;

use super::block_map::BlockMap;

/// Lost writes of an overlay, for its owner. Clones are handles to the same overlay.
#[derive(Clone, Debug)]
pub struct OverlayLosses {
    blocks: File,
    map: Arc<BlockMap>,
    first_writes: Arc<Mutex<()>>,
    /// The losses after which blocks have reverted.
    noticed: Arc<Mutex<u64>>,
}

impl OverlayLosses {
    pub(super) fn new(blocks: File, map: Arc<BlockMap>, first_writes: Arc<Mutex<()>>) -> Self {
        Self { blocks, map, first_writes, noticed: Arc::default() }
    }

    /// Accepts that acknowledged writes are lost, as [`File::accept_lost`] does: flushes may
    /// succeed again. A block that was written for the first time and never flushed reads as the
    /// base has it, unless it was written again after a flush reported the loss.
    ///
    /// # Errors
    ///
    /// In a process after `fork`, to which the engine does not belong.
    pub fn accept(&self) -> io::Result<()> {
        self.notice()?;
        Ok(self.blocks.accept_lost()?)
    }

    /// Reverts unsaved blocks to the base if writes were lost since the last call: any of these
    /// blocks may be among them.
    pub(super) fn notice(&self) -> io::Result<()> {
        if self.losses()? == *self.lock() {
            return Ok(());
        }
        let _lock = self.first_writes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut noticed = self.lock();
        let losses = self.losses()?;
        if losses != *noticed {
            self.map.revert_unsaved();
            *noticed = losses;
        }
        Ok(())
    }

    fn losses(&self) -> io::Result<u64> {
        self.blocks.losses().map_err(io::Error::other)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        self.noticed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
