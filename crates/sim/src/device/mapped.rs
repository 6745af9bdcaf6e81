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

use foreread_core::geometry::{Geometry, block_size};
use foreread_core::path::Tag;
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, SECTOR_SIZE, Sectors};
use serde::Deserialize;

use super::known::ModelChoice;
use super::{BlockDevice, CommandEnd, DeviceCommand, DeviceParams, check, is_time, later};
use crate::size::Size;

/// The parameters of a mapped device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Mapped {
    /// The device below: a known one by its name, or `hdd` or `flash` with parameters.
    pub on: Box<ModelChoice>,
    /// Its own size.
    pub capacity: Size,
    /// Where it begins on the device below.
    #[serde(default)]
    pub at: Size,
    /// What gives it its bios.
    pub reader: BioSource,
    /// What each bio costs.
    pub bio_us: f64,
}

/// What gives a device its bios.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum BioSource {
    /// One for each block, as kernels did that read block devices through buffers.
    PerBlock,
    /// One for each run of blocks, as kernels do now.
    MultiBlock,
}

/// A mapped device at work.
#[derive(Debug)]
pub struct Mapping {
    below: Box<dyn BlockDevice>,
    /// How far its sectors lie up there.
    shift: Sectors,
    /// None: a command is one bio.
    block: Option<ByteCount>,
    bio_us: f64,
    is_busy: bool,
    waiting: VecDeque<DeviceCommand>,
}

impl Mapped {
    pub(super) fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity.0, ..self.on.model.geometry() }
    }

    /// How large its blocks are.
    #[must_use]
    pub fn block(&self) -> ByteCount {
        block_size(self.capacity.0, ByteCount(SECTOR_SIZE), ByteCount(PAGE_SIZE))
    }
}

impl Mapping {
    /// One at rest.
    ///
    /// # Errors
    ///
    /// Which parameter is impossible.
    pub fn new(model: &Mapped) -> Result<Self, String> {
        let is_plain = !matches!(model.on.model, DeviceParams::Mapped(_));
        check(is_plain, "on", "a device that is not mapped; bio_us may be the sum of two")?;
        let below = model.on.model.build().map_err(|why| format!("on: {why}"))?;
        let room = model.on.model.geometry().capacity;
        let Size(at) = model.at;
        let is_sector = |bytes: ByteCount| bytes.0.is_multiple_of(SECTOR_SIZE);
        check(is_sector(at), "at", "whole sectors")?;
        let Size(size) = model.capacity;
        check(size.0 >= SECTOR_SIZE && is_sector(size), "capacity", "whole sectors, at least one")?;
        let fits = at.0.checked_add(size.0).is_some_and(|end| end <= room.0);
        check(fits, "capacity", "no more than the device below has from there on")?;
        check(is_time(model.bio_us), "bio_us", "0 to 10^9")?;
        Ok(Self {
            below,
            shift: Sectors(at.0 / SECTOR_SIZE),
            block: (model.reader == BioSource::PerBlock).then(|| model.block()),
            bio_us: model.bio_us,
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
        let done = self.below.submit(now, below).expect("it had nothing else to do");
        let bios_ns = self.bios(command.sectors.bytes()) * self.bio_us * 1e3;
        Some(CommandEnd { at: later(done.at, bios_ns), tag: done.tag })
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
