//! Flash memory: no seeks, a fixed cost per command, and a bus shared by all channels. Serves
//! commands in order of arrival.
//!
//! ```text
//!   channel 0   |overhead, stall|== transfer ==|
//!   channel 1   |overhead, stall|. . . . . . . |== transfer ==|      the bus is busy
//! ```

use std::collections::VecDeque;

use foreread_core::path::Tag;
use foreread_core::units::{ByteCount, Nanos};

use super::model::{BlockDevice, CommandEnd, DeviceCommand, later, transfer_ns};
use super::params::{DeviceParams, Flash};
use crate::rng::Rng;
use crate::validate::check;

/// State of a flash device.
#[derive(Debug)]
pub(super) struct Chips {
    model: Flash,
    /// By channel: time at which it becomes idle.
    channels: Vec<Nanos>,
    bus: Nanos,
    /// Scheduled parameter changes, with the time from which each applies.
    coming: VecDeque<(Nanos, Flash)>,
    /// Source of the variation between commands.
    rng: Rng,
}

impl Chips {
    /// Creates an idle device.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range.
    pub(super) fn new(model: Flash, run_seed: u64) -> Result<Self, String> {
        model.check()?;
        let channels = vec![Nanos(0); model.channels as usize];
        let rng = Rng::of_device(1, run_seed);
        Ok(Self { model, channels, bus: Nanos(0), coming: VecDeque::new(), rng })
    }

    /// Returns the time of a command of this size before its transfer, in ns.
    #[expect(clippy::cast_precision_loss, reason = "a command is small")]
    fn before_transfer_ns(&mut self, size: ByteCount) -> f64 {
        let (size, half) = (size.0 as f64, self.model.stall_size.0.0 as f64);
        let mut overhead_us = self.model.overhead_us;
        if self.model.jitter > 0.0 {
            overhead_us *= 1.0 + self.model.jitter * (2.0 * self.rng.unit() - 1.0);
        }
        (overhead_us + self.model.stall_us * size / (size + half)) * 1e3
    }
}

impl BlockDevice for Chips {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        while let Some((_, model)) = self.coming.pop_front_if(|(at, _)| *at <= now) {
            self.model = model;
        }
        let size = command.sectors.bytes();
        let before = self.before_transfer_ns(size);
        let free = self.channels.iter_mut().min().expect("Flash::check wants a channel");
        let asked = later(now.max(*free), before);
        let at = later(asked.max(self.bus), transfer_ns(size, self.model.mb_per_s));
        *free = at;
        self.bus = at;
        Some(CommandEnd::whole(at, command.tag))
    }

    fn ended(&mut self, _now: Nanos, _tag: Tag) -> Option<CommandEnd> {
        None
    }

    fn change(&mut self, at: Nanos, to: &DeviceParams) -> Result<(), String> {
        let DeviceParams::Flash(to) = to else {
            return Err("change: a flash device can change to flash only".into());
        };
        to.check()?;
        let wants = "a device of the same capacity, max_command, depth and channels";
        check(self.model.can_become(to), "change", wants)?;
        let is_later = self.coming.back().is_none_or(|(last, _)| *last < at);
        check(is_later, "change", "later than the change before it")?;
        self.coming.push_back((at, to.clone()));
        Ok(())
    }
}
