//! Writeback: dirty pages, how many there may be, when their device gets them, and what a flush
//! waits for.
//!
//! In:    a range of a file and how far it must get; the driver's word that it has copied or acted;
//!        the ends of write requests.
//! Out:   steps: copy into these frames, act now, it is over; write requests.
//! Never: a page's bytes, a blocking act, an error of its own.
//!
//! ```text
//!   write        --> its pages, budget, frames, old bytes --> Fill --> filled --> Done
//!   change_len   --> its pages, device writes there end   --> SetLen --> acted --> Done
//!   write_zeroes --> its pages, device writes there end   --> Act  --> acted  --> Done
//!   flush        --> all that was written before is out   --> Act  --> acted  --> Done
//! ```
//!
//! Design, table of cases, promises: docs/writes.md.

mod appends;
mod cancel;
mod command;
pub(crate) mod dirty_budget;
mod dirty_file;
mod dirty_page;
pub(crate) mod dirty_pages;
mod durability;
mod filled;
mod flush;
mod flush_domain;
mod flusher;
mod invariants;
mod lengths;
mod refusals;
mod refused;
mod rewrite;
pub(crate) mod settings;
mod start;
mod steps;
mod write_ends;
mod zeroes;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use self::command::WriteCommand;
use self::dirty_budget::DirtyBudget;
use self::dirty_file::DirtyFiles;
use self::dirty_pages::DirtyPages;
pub(crate) use self::durability::DurableEnd;
use self::flush_domain::FlushDomain;
use self::settings::WritebackSettings;
use crate::cache::FlushInterval;
use crate::driver_io::{Fault, WriteReady};
use crate::ids::{DomainId, DomainKind, FileId, WriteId, WriteIdKind};
use crate::slab::Slab;
use crate::units::Nanos;

/// The flush domain of a path's devices.
type Domain = FlushDomain<DurableEnd>;

/// All that a path has which writes, beside what it has which reads.
#[derive(Debug)]
pub(crate) struct Writeback {
    writes: Slab<WriteIdKind, WriteCommand>,
    /// What is kept of each file that was written.
    files: DirtyFiles,
    dirty: DirtyPages,
    budget: DirtyBudget,
    settings: WritebackSettings,
    domains: Slab<DomainKind, Domain>,
    /// Those with pages that have no budget to be written again yet: the ones that were unstable
    /// when a flush failed, at the end of this interval.
    rewriting: Vec<(DomainId, FlushInterval)>,
    /// Files of which the flusher may write something, now or later.
    flusher_line: VecDeque<FileId>,
    /// When the flusher next looks at what ages.
    next_due: Nanos,
    /// How a device last refused a page.
    last_fault: Fault,
    /// What the drivers of writes are to do.
    steps: VecDeque<WriteReady>,
    /// Writes that have their pages and nothing else yet.
    unlocked: VecDeque<WriteId>,
}

impl Writeback {
    /// Without writes, for a cache of so many frames.
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            writes: Slab::new(),
            files: DirtyFiles::default(),
            dirty: DirtyPages::new(frames),
            budget: DirtyBudget::new(frames),
            settings: WritebackSettings::default(),
            domains: Slab::new(),
            rewriting: Vec::new(),
            flusher_line: VecDeque::new(),
            next_due: NEVER,
            last_fault: Fault::Short,
            steps: VecDeque::new(),
            unlocked: VecDeque::new(),
        }
    }
}

/// Nothing is due.
const NEVER: Nanos = Nanos(u64::MAX);
