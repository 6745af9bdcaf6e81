//! A device that stands for another: a partition, a path of several, with a size of its own.
//!
//! In:    commands.
//! Out:   when each ends, after the device below has done it and its bios have been ended.
//! Never: two commands below at a time.
//!
//! A bio is what a reader of a block device gives to its kernel. One that goes block by block gives
//! one for each block, and the size of the device says how large a block is
//! (`core::geometry::block_size`). Each is mapped and, in the end, ended one by one:
//!
//! ```text
//!   size 1870000 sectors    |== transfer of 128K ==|32 bios|
//!   size 1870001 sectors    |== transfer of 128K ==|========== 256 bios ==========|
//!   multi-block reader      |== transfer of 128K ==|1|
//! ```
//!
//! That time comes after the transfer and is not hidden by it. Read-ahead asks for the next window
//! while this one is in flight, which hides a reader's work before a request; but the next command
//! is sent only after this one's completion was handled.

use std::collections::VecDeque;

use foreread_core::path::Tag;
use foreread_core::units::{ByteCount, Nanos, SECTOR_SIZE, Sectors};

use super::model::{BlockDevice, CommandEnd, DeviceCommand, later};
use super::params::{BioSource, Mapped};

/// A mapped device at work.
#[derive(Debug)]
pub(super) struct Mapping {
    below: Box<dyn BlockDevice>,
    /// How far its sectors lie up there.
    shift: Sectors,
    /// None: a command is one bio.
    block: Option<ByteCount>,
    bio_us: f64,
    is_busy: bool,
    waiting: VecDeque<DeviceCommand>,
}

impl Mapping {
    /// Returns a mapped device at rest, over `below`.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and its range.
    pub(super) fn new(params: &Mapped, below: Box<dyn BlockDevice>) -> Result<Self, String> {
        params.check()?;
        Ok(Self {
            below,
            shift: Sectors(params.at.0.0 / SECTOR_SIZE),
            block: (params.reader == BioSource::PerBlock).then(|| params.block()),
            bio_us: params.bio_us,
            is_busy: false,
            waiting: VecDeque::new(),
        })
    }

    /// Gives the device below its next command. It has one at a time, so it knows at once when that
    /// one ends.
    fn begin(&mut self, now: Nanos) -> Option<CommandEnd> {
        assert!(!self.is_busy, "one at a time");
        let command = self.waiting.pop_front()?;
        self.is_busy = true;
        let below = DeviceCommand { start: command.start + self.shift, ..command };
        let done = self
            .below
            .submit(now, below)
            .expect("the device below is idle, so it returns the end at once");
        let bios_ns = self.bios(command.sectors.bytes()) * self.bio_us * 1e3;
        Some(CommandEnd::whole(later(done.at, bios_ns), done.tag))
    }

    #[expect(clippy::cast_precision_loss, reason = "a command is small")]
    fn bios(&self, size: ByteCount) -> f64 {
        self.block.map_or(1.0, |block| size.0.div_ceil(block.0) as f64)
    }
}

impl BlockDevice for Mapping {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        self.waiting.push_back(command);
        if self.is_busy { None } else { self.begin(now) }
    }

    fn ended(&mut self, now: Nanos, tag: Tag) -> Option<CommandEnd> {
        assert!(self.is_busy, "something was at work");
        let next = self.below.ended(now, tag);
        assert!(next.is_none(), "one at a time");
        self.is_busy = false;
        self.begin(now)
    }
}
