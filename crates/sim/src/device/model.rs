//! The interface of a device model: takes commands, and returns the times at which they complete.

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
    /// Read or write.
    pub op: Op,
    /// The first sector.
    pub start: Sector,
    /// The number of sectors.
    pub sectors: Sectors,
    /// True for read-ahead: no reader waits for it.
    pub is_ahead: bool,
}

/// Completion of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommandEnd {
    /// Time of the completion.
    pub at: Nanos,
    /// Tag of the command.
    pub tag: Tag,
    /// Arrival of the pieces, for a device that transfers a command piecewise; None: all at the
    /// end.
    pub pieces: Option<CommandPieces>,
}

/// Pieces in which the bytes of a command arrive: equal sizes, at equal intervals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CommandPieces {
    /// Time at which the first byte arrives.
    pub from: Nanos,
    /// Size of a piece; the last one may be smaller.
    pub piece: ByteCount,
    /// Size of the command.
    pub total: ByteCount,
}

impl CommandEnd {
    /// Creates the completion of a command whose bytes arrive together.
    pub(super) fn whole(at: Nanos, tag: Tag) -> Self {
        Self { at, tag, pieces: None }
    }

    /// Returns the next piece after `arrived` bytes: the new total, and its time.
    pub(crate) fn next_piece(&self, arrived: ByteCount) -> Option<(ByteCount, Nanos)> {
        let CommandPieces { from, piece, total } = self.pieces?;
        let bytes = ByteCount((arrived.0 + piece.0).min(total.0));
        let span_ns = u128::from(self.at.0 - from.0);
        let ns = u64::try_from(span_ns * u128::from(bytes.0) / u128::from(total.0));
        let ns = ns.expect("a part of the time between two times");
        (arrived < total).then_some((bytes, Nanos(from.0 + ns)))
    }
}

/// Requests to an object store, and their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreTotals {
    /// Number of requests, including refusals, retries and hedged copies.
    pub requests: u64,
    /// Number of hedged copies of late requests.
    pub hedged: u64,
    /// Number of requests that the store throttled.
    pub throttled: u64,
    /// Total cost, by the prices of the model.
    pub cost: f64,
}

/// A device model in operation.
///
/// ```text
///   submit ---> [ held: at most its depth ] ---> at work ---> CommandEnd ---> ended
/// ```
///
/// Each call returns the completion of at most one command: a device with one arm serves one
/// command at a time, a device with several channels can compute each completion at submission, and
/// a store learns it when the first byte arrives, for which it must be woken.
pub trait BlockDevice: std::fmt::Debug {
    /// Submits a command.
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd>;

    /// Reports that a command has completed, at the time returned for it.
    fn ended(&mut self, now: Nanos, tag: Tag) -> Option<CommandEnd>;

    /// Reports that a reader now waits for a command submitted earlier.
    fn joined(&mut self, _now: Nanos, _tag: Tag) {}

    /// Returns the next time at which [`Self::wake`] must be called; completions do not count.
    fn next_wake(&self) -> Option<Nanos> {
        None
    }

    /// Handles one event that is due. The caller calls it at the time of [`Self::next_wake`],
    /// repeatedly while that is due.
    fn wake(&mut self, _now: Nanos) -> Option<CommandEnd> {
        None
    }

    /// Returns the store's totals so far; None for other devices.
    fn store_totals(&self) -> Option<StoreTotals> {
        None
    }

    /// Changes the parameters of commands submitted from `at` on. Calls must be in order of `at`.
    ///
    /// # Errors
    ///
    /// If the device cannot take these parameters.
    fn change(&mut self, _at: Nanos, _to: &DeviceParams) -> Result<(), String> {
        Err("change: only a flash device can change, and only to flash".into())
    }
}

/// Returns the duration of a transfer of this size, in ns.
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

/// Returns the end of a transfer of this size that begins at `from`.
pub(crate) fn after_transfer(from: Nanos, bytes: ByteCount, mb_per_s: f64) -> Nanos {
    later(from, transfer_ns(bytes, mb_per_s))
}
