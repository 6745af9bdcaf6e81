//! A device mapped onto another one: a partition or a multipath device, with its own size. Sends
//! one command at a time to the device below; a command ends once all of its bios have been
//! completed.
//!
//! Readers of a block device submit bios to the kernel. A block-by-block reader submits one per
//! block, and the device size determines the block size (`core::geometry::block_size`). The kernel
//! maps the bios, and later completes them, one by one:
//!
//! ```text
//!   size 1870000 sectors    |== transfer of 128K ==|32 bios|
//!   size 1870001 sectors    |== transfer of 128K ==|========== 256 bios ==========|
//!   multi-block reader      |== transfer of 128K ==|1|
//! ```
//!
//! That time follows the transfer and does not overlap with it. Read-ahead requests the next window
//! while this one is in flight, which hides a reader's work before a request; but the next command
//! is dispatched only after this one's completion was handled.

use std::collections::VecDeque;

use foreread_core::path::Tag;
use foreread_core::units::{ByteCount, Nanos, SECTOR_SIZE, Sectors};

use super::model::{BlockDevice, CommandEnd, DeviceCommand, later};
use super::params::{BioSource, Mapped};

/// State of a mapped device.
#[derive(Debug)]
pub(super) struct Mapping {
    below: Box<dyn BlockDevice>,
    /// Offset of its sectors on the device below.
    shift: Sectors,
    /// None: one bio per command.
    block: Option<ByteCount>,
    bio_us: f64,
    is_busy: bool,
    waiting: VecDeque<DeviceCommand>,
}

impl Mapping {
    /// Creates an idle mapped device on top of `below`.
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

    /// Dispatches the next command to the device below. Only one is in flight there, so its end is
    /// known at once.
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
