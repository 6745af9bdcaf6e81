//! Devices as models: how long a command takes, and which of those it holds it does next.
//!
//! In:    commands, the time.
//! Out:   when one of them ends.
//! Never: bytes, a clock, a choice of the host's: what a device is sent, a scheduler has decided.
//!
//! Models, their parameters and what they were fitted to: docs/simulator.md.

pub mod flash;
pub mod hdd;
pub mod known;
pub mod mapped;

use foreread_core::geometry::Geometry;
use foreread_core::path::Tag;
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE, Pages, Sector, Sectors};
use serde::Deserialize;

/// What a device is told to do.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCommand {
    /// By what it is known.
    pub tag: Tag,
    /// Which way.
    pub op: Op,
    /// From where.
    pub start: Sector,
    /// How much.
    pub sectors: Sectors,
}

/// A command will end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommandEnd {
    /// When.
    pub at: Nanos,
    /// Which.
    pub tag: Tag,
}

/// A device that works.
///
/// ```text
///   submit ---> [ held: at most its depth ] ---> at work ---> Ending ---> ended
/// ```
///
/// Both calls say of at most one command when it will end: a device with one arm works on one at a
/// time, and one with several channels knows each command's end when it gets it.
pub trait BlockDevice: std::fmt::Debug {
    /// Takes a command.
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd>;

    /// A command has ended at the time that was said.
    fn ended(&mut self, now: Nanos, tag: Tag) -> Option<CommandEnd>;

    /// From a time on, for the commands that come then, it is another. Said in the order of time.
    ///
    /// # Errors
    ///
    /// If it cannot become that.
    fn change(&mut self, _at: Nanos, _to: &DeviceParams) -> Result<(), String> {
        Err("change: wants flash, before and after".into())
    }
}

/// A device by its parameters.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DeviceParams {
    /// A disk.
    Hdd(hdd::Hdd),
    /// Flash memory.
    Flash(flash::Flash),
    /// A device that stands for another.
    Mapped(mapped::Mapped),
}

impl DeviceParams {
    /// What the path must know of it.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let (capacity, max_command, depth) = match self {
            Self::Hdd(disk) => {
                (disk.capacity.0, disk.max_command.0, disk.depth + disk.in_controller)
            }
            Self::Flash(chips) => (chips.capacity.0, chips.max_command.0, chips.depth),
            Self::Mapped(mapped) => return mapped.geometry(),
        };
        let max_io = Pages(max_command.0 / PAGE_SIZE);
        Geometry { max_io, depth, ..Geometry::new(capacity) }
    }

    /// A device of this kind, at rest.
    ///
    /// # Errors
    ///
    /// Which parameter is impossible, and what would be possible.
    pub fn build(&self) -> Result<Box<dyn BlockDevice>, String> {
        match self {
            Self::Hdd(disk) => Ok(Box::new(hdd::SpinningDisk::new(disk.clone())?)),
            Self::Flash(chips) => Ok(Box::new(flash::Chips::new(chips.clone())?)),
            Self::Mapped(mapped) => Ok(Box::new(mapped::Mapping::new(mapped)?)),
        }
    }
}

/// Refuses what no device can be.
fn check(holds: bool, what: &str, wants: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: wants {wants}")) }
}

/// Checks what all devices have.
fn check_common(capacity: ByteCount, max_command: ByteCount, depth: u32) -> Result<(), String> {
    check(
        capacity.0 >= 512 && capacity.0.is_multiple_of(512),
        "capacity",
        "whole sectors, at least one",
    )?;
    let is_whole = max_command.0 >= PAGE_SIZE && max_command.0.is_multiple_of(PAGE_SIZE);
    check(is_whole, "max_command", "whole pages of 4K, at least one")?;
    check(max_command.0 <= 1 << 30, "max_command", "at most 1G")?;
    check((1..=4096).contains(&depth), "depth", "1 to 4096")
}

fn is_time(number: f64) -> bool {
    number.is_finite() && (0.0..=1e9).contains(&number)
}

fn is_rate(number: f64) -> bool {
    number.is_finite() && (1e-3..=1e6).contains(&number)
}

/// Nanoseconds that so many bytes take.
#[expect(clippy::cast_precision_loss, reason = "a command is small")]
fn transfer_ns(bytes: ByteCount, mb_per_s: f64) -> f64 {
    bytes.0 as f64 * 1e3 / mb_per_s
}

/// So much later, to the nanosecond.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn later(from: Nanos, ns: f64) -> Nanos {
    assert!(ns >= 0.0, "time goes on");
    Nanos(from.0.saturating_add(ns.round() as u64))
}

/// When so many bytes are through, from a time on.
pub(crate) fn after_transfer(from: Nanos, bytes: ByteCount, mb_per_s: f64) -> Nanos {
    later(from, transfer_ns(bytes, mb_per_s))
}
