//! The interface of a device model: commands in, the times at which they end out.
//!
//! In:    commands and the time at which they are submitted.
//! Out:   the end of at most one command for each call.
//! Never: bytes, or a decision of the host. The scheduler has decided what a device is sent.

use foreread_core::path::Tag;
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};
use serde::Serialize;

use super::params::DeviceParams;

/// A command for a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCommand {
    /// Identifies the command when it ends.
    pub tag: Tag,
    /// Whether it reads or writes.
    pub op: Op,
    /// The first sector.
    pub start: Sector,
    /// The number of sectors.
    pub sectors: Sectors,
    /// Whether no reader waits for it: read-ahead.
    pub is_ahead: bool,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommandEnd {
    /// When it ends.
    pub at: Nanos,
    /// The tag of the command.
    pub tag: Tag,
    /// Of a device that transfers a command in pieces, when each is there; None: all at the end.
    pub pieces: Option<CommandPieces>,
}

/// The pieces in which the bytes of a command come: of one size, at equal distances.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommandPieces {
    /// When the first byte comes.
    pub from: Nanos,
    /// The size of a piece; the last one may be smaller.
    pub piece: ByteCount,
    /// The size of the command.
    pub total: ByteCount,
}

impl CommandEnd {
    /// The end of a command whose bytes come together.
    pub(super) fn whole(at: Nanos, tag: Tag) -> Self {
        Self { at, tag, pieces: None }
    }

    /// The piece that comes after `arrived` bytes: how many there are then, and when.
    pub(crate) fn next_piece(&self, arrived: ByteCount) -> Option<(ByteCount, Nanos)> {
        let CommandPieces { from, piece, total } = self.pieces?;
        let bytes = ByteCount((arrived.0 + piece.0).min(total.0));
        let span_ns = u128::from(self.at.0 - from.0);
        let ns = u64::try_from(span_ns * u128::from(bytes.0) / u128::from(total.0));
        let ns = ns.expect("a part of the time between two times");
        (arrived < total).then_some((bytes, Nanos(from.0 + ns)))
    }
}

/// What an object store was asked, and what that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreTotals {
    /// Requests, with refused ones, those sent again and second copies.
    pub requests: u64,
    /// Second copies of late requests.
    pub hedged: u64,
    /// Requests that the store refused because there were too many.
    pub throttled: u64,
    /// By the prices of the model.
    pub cost: f64,
}

/// A device model in operation.
///
/// ```text
///   submit ---> [ held: at most its depth ] ---> at work ---> CommandEnd ---> ended
/// ```
///
/// Each call returns the end of at most one command: a device with one arm works on one command at
/// a time, a device with several channels knows the end of each command when it is submitted, and a
/// store knows it when the first byte comes, for which it is woken.
pub trait BlockDevice: std::fmt::Debug {
    /// Takes a command.
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd>;

    /// Notes that a command has ended, at the time that was returned for it.
    fn ended(&mut self, now: Nanos, tag: Tag) -> Option<CommandEnd>;

    /// Notes that a reader has come to wait for a command that was submitted before.
    fn joined(&mut self, _now: Nanos, _tag: Tag) {}

    /// Returns when the device is to be woken, beside the ends of its commands.
    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    /// Does one of the things whose time has come. To be called at the time of
    /// [`Self::next_wake`], as long as that has come.
    fn wake(&mut self, _now: Nanos) -> Option<CommandEnd> {
        None
    }

    /// Returns what a store was asked so far; None of another device.
    fn store_totals(&self) -> Option<StoreTotals> {
        None
    }

    /// Changes the parameters for the commands that are submitted from `at` on. Calls come in the
    /// order of `at`.
    ///
    /// # Errors
    ///
    /// If the device cannot take these parameters.
    fn change(&mut self, _at: Nanos, _to: &DeviceParams) -> Result<(), String> {
        Err("change: wants flash, before and after".into())
    }
}

/// Returns the nanoseconds that a transfer of this size takes.
#[expect(clippy::cast_precision_loss, reason = "a command is small")]
pub(super) fn transfer_ns(bytes: ByteCount, mb_per_s: f64) -> f64 {
    bytes.0 as f64 * 1e3 / mb_per_s
}

/// Adds a duration to a time, rounded to the nanosecond.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
pub(super) fn later(from: Nanos, ns: f64) -> Nanos {
    assert!(ns >= 0.0, "virtual time does not go back");
    Nanos(from.0.saturating_add(ns.round() as u64))
}

/// Returns when a transfer of this size that begins at `from` has ended.
pub(crate) fn after_transfer(from: Nanos, bytes: ByteCount, mb_per_s: f64) -> Nanos {
    later(from, transfer_ns(bytes, mb_per_s))
}
