//! Batches of planned reads: begun together, awaited together by one waiter.
//!
//! A batch holds no frames. Its reads are released as soon as they are ready, whether or not the
//! waiter has come, and the waiter finds their pages in the page table.
//!
//! ```text
//!   begin_batch --> read_planned ... --> ready: released, noted, waiter woken --> take_ended
//!                                                                                    |
//!   end_batch: cancels reads not yet started <---------------------------------------'
//! ```

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use foreread_core::path::{Fault, FileId, ReadId, ReadReady};
use foreread_core::units::PageIndex;

use super::Driver;
use crate::deferred_wake::{DeferredWake, KeepAlive};
use crate::id_hasher::IdHasher;
use crate::wait_table::{BatchId, Notification, Ticket, Waiter};
use crate::waiters::Delivery;

/// Batches of planned reads and the reads they have in flight.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    batches: HashMap<BatchId, Batch, BuildHasherDefault<IdHasher>>,
    /// Reads in flight.
    reads: HashMap<ReadId, ReadOwner, BuildHasherDefault<IdHasher>>,
    begun: u64,
}

#[derive(Debug, Default)]
struct Batch {
    /// In the order in which they began, including some that have ended.
    reads: Vec<ReadId>,
    ended: Vec<EndedRead>,
}

/// Owner of a planned read.
#[derive(Debug)]
enum ReadOwner {
    /// A batch, and the read's number in it.
    Batch(BatchId, u32),
    /// Abandoned. Keeps the file open until the device has answered.
    Abandoned(KeepAlive),
}

/// A read of a batch that has ended, successfully or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedRead {
    /// Number of the read in its batch.
    pub(crate) number: u32,
    pub(crate) fault: Option<Fault>,
}

impl Driver {
    /// Begins an empty batch.
    pub(crate) fn begin_batch(&mut self, waiter: Waiter) -> BatchId {
        let id = BatchId(self.batches.begun);
        self.batches.begun += 1;
        self.batches.batches.insert(id, Batch::default());
        self.waiting.add(Ticket::Batch(id), waiter);
        id
    }

    /// Starts read `number` of a batch.
    pub(crate) fn read_planned(
        &mut self,
        batch: BatchId,
        number: u32,
        file: FileId,
        pages: Range<PageIndex>,
    ) {
        let id = self.path.read_planned(self.now(), file, pages);
        let Batches { batches, reads, .. } = &mut self.batches;
        batches.get_mut(&batch).expect("a batch is there until it ends").reads.push(id);
        let before = reads.insert(id, ReadOwner::Batch(batch, number));
        assert!(before.is_none(), "a read begins once");
    }

    /// Returns the reads of a batch that have ended since the last call. If there are none, its
    /// waiter counts as waiting again.
    pub(crate) fn take_ended(&mut self, batch: BatchId) -> Vec<EndedRead> {
        let ticket = Ticket::Batch(batch);
        let _ = self.waiting.take_notification(ticket);
        let state = self.batches.batches.get_mut(&batch).expect("a batch is there until it ends");
        let ended = std::mem::take(&mut state.ended);
        if state.reads.len() > READS_KEPT {
            state.reads.retain(|id| self.batches.reads.contains_key(id));
        }
        if ended.is_empty() {
            self.waiting.set_away(ticket, false);
        }
        ended
    }

    /// Ends a batch: cancels reads that have not started, and lets reads in flight finish.
    pub(crate) fn end_batch(&mut self, batch: BatchId, file: &KeepAlive) {
        self.waiting.forget(Ticket::Batch(batch));
        let Some(Batch { reads, .. }) = self.batches.batches.remove(&batch) else { return };
        let mut is_any_left = false;
        // Last first: cancelling an earlier read would let a later one start.
        for id in reads.into_iter().rev() {
            let Some(owner) = self.batches.reads.get_mut(&id) else { continue };
            if !matches!(owner, ReadOwner::Batch(of, _) if *of == batch) {
                continue;
            }
            *owner = ReadOwner::Abandoned(KeepAlive::clone(file));
            is_any_left = true;
            if self.broken.is_none() {
                self.path.cancel_read(self.now(), id);
            }
        }
        if is_any_left {
            self.note_ready();
            self.start_all();
        }
    }

    /// Notes the end of a planned read. Returns false for a read of another kind.
    pub(super) fn note_planned(&mut self, ready: &ReadReady) -> bool {
        let Some(owner) = self.batches.reads.remove(&ready.id) else { return false };
        self.path.release(self.now(), ready.id);
        match owner {
            ReadOwner::Abandoned(file) => self.waiting.run_later(DeferredWake::Release(file)),
            ReadOwner::Batch(batch, number) => {
                let state = self.batches.batches.get_mut(&batch);
                let state = state.expect("a batch that has ended has abandoned its reads");
                state.ended.push(EndedRead { number, fault: ready.fault });
                let ticket = Ticket::Batch(batch);
                if !self.waiting.has_notification(ticket)
                    && let Delivery::SleepingLeader = self.waiting.note(ticket, Notification::Batch)
                {
                    self.ring.wake();
                }
            }
        }
        true
    }
}

/// Length of a batch's list of reads beyond which it drops the ended ones.
const READS_KEPT: usize = 2048;
