//! Flash memory: no arm, a price for each command, and a bus that all its channels share.
//!
//! In:    commands.
//! Out:   when each ends.
//! Never: another order than that of arrival.
//!
//! ```text
//!   channel 0   |overhead, stall|== transfer ==|
//!   channel 1   |overhead, stall|. . . . . . . |== transfer ==|      the bus is busy
//! ```

use std::collections::VecDeque;

use foreread_core::path::Tag;
use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::{
    BlockDevice, CommandEnd, DeviceCommand, DeviceParams, check, check_common, is_rate, is_time,
    later, transfer_ns,
};
use crate::size::Size;

/// The parameters of a flash device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// How much it holds.
    pub capacity: Size,
    /// What its bus moves.
    pub mb_per_s: f64,
    /// What each command costs beside its transfer.
    #[serde(default)]
    pub overhead_us: f64,
    /// The largest command; more is cut.
    #[serde(default = "Size::one_gib")]
    pub max_command: Size,
    /// How many commands it works on at a time.
    #[serde(default = "one")]
    pub channels: u32,
    /// How many commands it holds at a time.
    #[serde(default = "one")]
    pub depth: u32,
    /// What a large command loses beside that: `stall_us` x size / (size + `stall_size`), as much
    /// as half of it at that size and never more than all of it.
    #[serde(default)]
    pub stall_us: f64,
    /// The size at which half of the stall is lost.
    #[serde(default)]
    pub stall_size: Size,
}

impl Flash {
    fn check(&self) -> Result<(), String> {
        check_common(self.capacity.0, self.max_command.0, self.depth)?;
        check(is_rate(self.mb_per_s), "mb_per_s", "0.001 to 1000000")?;
        check(is_time(self.overhead_us), "overhead_us", "0 to 10^9")?;
        check(is_time(self.stall_us), "stall_us", "0 to 10^9")?;
        check((1..=1024).contains(&self.channels), "channels", "1 to 1024")
    }

    /// What its host was told of it stays: how much it holds, how much it takes at once.
    fn can_become(&self, other: &Self) -> bool {
        let told = |flash: &Self| (flash.capacity, flash.max_command, flash.depth, flash.channels);
        told(self) == told(other)
    }
}

/// A flash device at work.
#[derive(Debug)]
pub struct Chips {
    model: Flash,
    /// When each channel is free.
    channels: Vec<Nanos>,
    bus: Nanos,
    /// What it will be, and from when on.
    coming: VecDeque<(Nanos, Flash)>,
}

impl Chips {
    /// One at rest.
    ///
    /// # Errors
    ///
    /// Which parameter is impossible.
    pub fn new(model: Flash) -> Result<Self, String> {
        model.check()?;
        let channels = vec![Nanos(0); model.channels as usize];
        Ok(Self { model, channels, bus: Nanos(0), coming: VecDeque::new() })
    }

    /// What a command of this size costs before its transfer, in ns.
    #[expect(clippy::cast_precision_loss, reason = "a command is small")]
    fn before_transfer_ns(&self, size: ByteCount) -> f64 {
        let (size, half) = (size.0 as f64, self.model.stall_size.0.0 as f64);
        (self.model.overhead_us + self.model.stall_us * size / (size + half)) * 1e3
    }
}

impl BlockDevice for Chips {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        while let Some((_, model)) = self.coming.pop_front_if(|(at, _)| *at <= now) {
            self.model = model;
        }
        let size = command.sectors.bytes();
        let before = self.before_transfer_ns(size);
        let free = self.channels.iter_mut().min().expect("at least one channel");
        let asked = later(now.max(*free), before);
        let at = later(asked.max(self.bus), transfer_ns(size, self.model.mb_per_s));
        *free = at;
        self.bus = at;
        Some(CommandEnd { at, tag: command.tag })
    }

    fn ended(&mut self, _now: Nanos, _tag: Tag) -> Option<CommandEnd> {
        None
    }

    fn change(&mut self, at: Nanos, to: &DeviceParams) -> Result<(), String> {
        let DeviceParams::Flash(to) = to else { return Err("change: wants flash".into()) };
        to.check()?;
        let wants = "the same capacity, max_command, depth and channels";
        check(self.model.can_become(to), "change", wants)?;
        let is_later = self.coming.back().is_none_or(|(last, _)| *last < at);
        check(is_later, "change", "one after the other")?;
        self.coming.push_back((at, to.clone()));
        Ok(())
    }
}

fn one() -> u32 {
    1
}
