//! Writeback: tracks dirty pages, limits their number, writes them to their devices, and completes
//! flushes.
//!
//! In:    a range of a file and the required durability; the driver's reports that it has copied or
//!        acted; the ends of write requests.
//! Out:   steps for the driver (copy into these frames, act now, done); write requests.
//! Never: a page's bytes, a blocking call, an error of its own.
//!
//! ```text
//!   write        --> its pages, budget, frames, old bytes --> Fill --> filled --> Done
//!   change_len   --> its pages, device writes there end   --> SetLen --> acted --> Done
//!   write_zeroes --> its pages, device writes there end   --> Act  --> acted  --> Done
//!   flush        --> all earlier writes are on the device --> Act  --> acted  --> Done
//! ```
//!
//! Design, table of cases, promises: docs/design/writes.md.

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

/// The state that a path needs for writes, apart from the state for reads.
#[derive(Debug)]
pub(crate) struct Writeback {
    writes: Slab<WriteIdKind, WriteCommand>,
    /// State of each file that was written.
    files: DirtyFiles,
    dirty: DirtyPages,
    budget: DirtyBudget,
    settings: WritebackSettings,
    domains: Slab<DomainKind, Domain>,
    /// Domains with pages to be written again after a failed flush that have no budget yet. These
    /// pages were unstable at the end of the interval.
    rewriting: Vec<(DomainId, FlushInterval)>,
    /// Files with work for the flusher, now or later.
    flusher_line: VecDeque<FileId>,
    /// Time at which the flusher next looks for aged pages.
    next_due: Nanos,
    /// Fault of the last page that a device refused.
    last_fault: Fault,
    /// Steps for the drivers of writes.
    steps: VecDeque<WriteReady>,
    /// Writes that have just got their pages.
    unlocked: VecDeque<WriteId>,
}

impl Writeback {
    /// Creates the state for a cache of `frames` frames.
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

/// No page is due.
const NEVER: Nanos = Nanos(u64::MAX);
