//! A hard disk: a moving arm, a rotating platter, and a queue. Serves one command at a time, and
//! picks the next among the at most `depth` commands that it holds.
//!
//! ```text
//!   |- overhead -|--- seek ---|-- turn ----|== transfer ==|
//!                 arm moves    until the    at the zone's rate
//!                              sector comes
//! ```
//!
//! A sequential command needs no rotation if the drive held it when the previous one ended, or has
//! a buffer: the drive keeps reading ahead, and accepts a write before it is on the platter.

use std::collections::VecDeque;
use std::ops::Range;

use foreread_core::path::Tag;
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, SECTOR_SIZE, Sector, Sectors};

use super::model::{BlockDevice, CommandEnd, DeviceCommand, later, transfer_ns};
use super::params::{Hdd, Pick};

/// State of a disk.
#[derive(Debug)]
pub(super) struct SpinningDisk {
    model: Hdd,
    zones: Vec<Zone>,
    turn_ns: f64,
    in_controller: VecDeque<DeviceCommand>,
    held: Vec<QueuedCommand>,
    at_work: Option<QueuedCommand>,
    /// Time at which the last sector of the current command is under the head, in ns.
    reading_ns: f64,
    /// Arm position after the last command, its time and operation.
    last: HeadPosition,
    /// Sectors that the last read left in the buffer; empty without `read_on`.
    buffered: Range<Sector>,
}

/// Tracks of equal length.
#[derive(Debug)]
struct Zone {
    start: u64,
    sectors_per_track: u64,
    mb_per_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct QueuedCommand {
    command: DeviceCommand,
    arrival: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct HeadPosition {
    end: Sector,
    at: Nanos,
    /// Time at which its last sector was under the head, in ns: before `at` for a buffer hit.
    read_ns: f64,
    /// None before the first command: nothing has been buffered.
    op: Option<Op>,
}

impl SpinningDisk {
    /// Creates an idle disk with its arm at the outermost track.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range.
    pub(super) fn new(model: Hdd) -> Result<Self, String> {
        model.check()?;
        let turn_ns = 60e9 / model.rpm;
        let zones = zones(&model, turn_ns);
        let last = HeadPosition { end: Sector(0), at: Nanos(0), read_ns: 0.0, op: None };
        let buffered = Sector(0)..Sector(0);
        let (in_controller, held) = (VecDeque::new(), Vec::new());
        let (at_work, reading_ns) = (None, 0.0);
        Ok(Self { model, zones, turn_ns, in_controller, held, at_work, reading_ns, last, buffered })
    }

    /// Accepts commands from the controller while the queue has room.
    fn fill(&mut self, now: Nanos) {
        let is_free = |disk: &Self| {
            disk.held.len() + usize::from(disk.at_work.is_some()) < disk.model.depth as usize
        };
        while is_free(self)
            && let Some(command) = self.in_controller.pop_front()
        {
            self.held.push(QueuedCommand { command, arrival: now });
        }
    }

    /// Starts the next command, if one is queued.
    fn begin(&mut self, now: Nanos) -> Option<CommandEnd> {
        assert!(self.at_work.is_none(), "one at a time");
        let index = match self.model.pick {
            _ if self.held.is_empty() => return None,
            Pick::Oldest => 0,
            Pick::Nearest => self.nearest(now),
        };
        let held = self.held.remove(index);
        self.at_work = Some(held);
        let at = later(now, self.service_ns(now, &held));
        self.reading_ns = self.read_on_ns(now, &held).unwrap_or(at.0 as f64);
        Some(CommandEnd::whole(at, held.command.tag))
    }

    /// Returns the command with the shortest positioning time; `age_weight` credits waiting time.
    /// Ties go to the oldest.
    fn nearest(&self, now: Nanos) -> usize {
        let cost = |held: &QueuedCommand| {
            let waited = ns_between(held.arrival, now);
            let transfer = self.transfer_ns(held.command.start, held.command.sectors.bytes());
            self.service_ns(now, held) - transfer - waited * self.model.age_weight
        };
        let costs = self.held.iter().map(cost).enumerate();
        costs.min_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(0, |(index, _)| index)
    }

    /// Returns the service time of a command that starts now.
    fn service_ns(&self, now: Nanos, held: &QueuedCommand) -> f64 {
        let overhead = self.model.overhead_us * 1e3;
        let rest = self.not_buffered(held.command);
        if rest.sectors == Sectors::ZERO {
            // The bus is so much faster than the platter that its time is ignored; but time must
            // advance.
            return overhead.max(1.0);
        }
        if let Some(read_ns) = self.read_on_ns(now, held) {
            return overhead.max(read_ns - now.0 as f64);
        }
        let transfer = self.transfer_ns(rest.start, rest.sectors.bytes());
        match self.goes_on(rest, held.arrival) {
            // The platter has kept turning since the last command ended, and filled the buffer.
            Some(buffer) => {
                let reading_on = ns_between(now, now.max(self.last.at));
                let since = ns_between(self.last.at.min(now), now);
                let ahead = since.min(self.transfer_ns(rest.start, buffer));
                overhead + reading_on + (transfer - ahead).max(0.0)
            }
            None => {
                let free = now.max(self.last.at);
                ns_between(now, free) + self.reach_ns(free, rest) + transfer
            }
        }
    }

    /// Returns the time at which a drive with endless read-ahead has the last sector of a command
    /// that continues the previous one, in ns; None if the drive stops at a full buffer, or does
    /// not read ahead.
    ///
    /// ```text
    ///   platter  |== last ==|== next ==|.. reads on ..         |== next ==|..
    ///                       |<---- buffer ---->|               ^ it has come round
    ///                        next is here       ^ next is overwritten: a turn later
    /// ```
    fn read_on_ns(&self, now: Nanos, held: &QueuedCommand) -> Option<f64> {
        let command = held.command;
        let is_read = command.op == Op::Read && self.model.buffer_overruns;
        let buffer = self.goes_on(command, held.arrival).filter(|_| is_read)?;
        let rate = self.zone_of(command.start).mb_per_s;
        let size_ns = transfer_ns(command.sectors.bytes(), rate);
        let full_ns = self.last.read_ns + transfer_ns(buffer, rate);
        let late_ns = (now.0 as f64 - full_ns).max(0.0);
        let turns = (late_ns / self.turn_ns).ceil();
        Some(self.last.read_ns + turns * self.turn_ns + size_ns)
    }

    /// Returns the part of a command that needs the platter.
    fn not_buffered(&self, command: DeviceCommand) -> DeviceCommand {
        let is_hit = command.op == Op::Read && self.buffered.contains(&command.start);
        if !is_hit {
            return command;
        }
        let sectors = command.sectors.min(self.buffered.end - command.start);
        let (start, sectors) = (command.start + sectors, command.sectors - sectors);
        DeviceCommand { start, sectors, ..command }
    }

    /// Returns None if a command needs a seek or a rotation, else the number of bytes that the
    /// drive may have transferred before the request.
    fn goes_on(&self, command: DeviceCommand, arrival: Nanos) -> Option<ByteCount> {
        if command.start != self.last.end || Some(command.op) != self.last.op {
            return None;
        }
        let was_held = arrival < self.last.at;
        match command.op {
            Op::Read => {
                let buffer = self.model.read_buffer.0;
                (was_held || buffer > ByteCount::ZERO).then_some(buffer)
            }
            Op::Write => (was_held || self.model.write_buffer).then_some(ByteCount::ZERO),
        }
    }

    fn transfer_ns(&self, start: Sector, bytes: ByteCount) -> f64 {
        transfer_ns(bytes, self.zone_of(start).mb_per_s)
    }

    /// Returns the time until the first sector of a command is under the head.
    fn reach_ns(&self, now: Nanos, command: DeviceCommand) -> f64 {
        let ready = self.model.overhead_us * 1e3 + self.seek_ns(command.start);
        let turned = (later(now, ready).0 as f64 / self.turn_ns).fract();
        let wait = (self.angle_of(command.start) - turned).rem_euclid(1.0);
        ready + wait * self.turn_ns
    }

    /// ```text
    ///   ms
    ///   max |              . * '       root share 1: all curve; 0: a straight line
    ///       |        . '
    ///   min |  *  '
    ///     0 *---------------------- distance, as a part of the whole
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "a part of the whole")]
    fn seek_ns(&self, to: Sector) -> f64 {
        let (zone, from_track) = (self.zone_of(to), self.track_of(self.last.end));
        if zone.start == self.zone_of(self.last.end).start && from_track == self.track_of(to) {
            return 0.0;
        }
        let distance = to.0.abs_diff(self.last.end.0) as f64;
        let part = (distance * SECTOR_SIZE as f64 / self.model.capacity.0.0 as f64).min(1.0);
        let share = self.model.seek_root_share;
        let way = share * part.sqrt() + (1.0 - share) * part;
        (self.model.seek_min_ms + (self.model.seek_max_ms - self.model.seek_min_ms) * way) * 1e6
    }

    /// Updates the arm position and the buffer after a command.
    fn note_done(&mut self, now: Nanos, command: DeviceCommand) {
        if self.not_buffered(command).sectors == Sectors::ZERO {
            return;
        }
        let DeviceCommand { op, start, .. } = command;
        let end = start + command.sectors;
        self.last = HeadPosition { end, at: now, read_ns: self.reading_ns, op: Some(op) };
        match op {
            Op::Read if self.model.read_on.0 > ByteCount::ZERO => {
                let capacity = Sector(self.model.capacity.0.0 / SECTOR_SIZE);
                // The last page of a file may end past a device that contains only a part of it.
                let rest = Sectors(capacity.0.saturating_sub(end.0));
                let on = (Sectors(self.model.read_on.0.0 / SECTOR_SIZE)).min(rest);
                self.last.end = end + on;
                self.last.at = later(now, self.transfer_ns(end, on.bytes()));
                self.buffered = start..self.last.end;
            }
            Op::Read => {}
            Op::Write => {
                let is_apart = end <= self.buffered.start || self.buffered.end <= start;
                if !is_apart {
                    self.buffered = start..start;
                }
            }
        }
    }

    fn zone_of(&self, sector: Sector) -> &Zone {
        let next = self.zones.partition_point(|zone| zone.start <= sector.0);
        &self.zones[next.saturating_sub(1)]
    }

    fn track_of(&self, sector: Sector) -> u64 {
        let zone = self.zone_of(sector);
        (sector.0 - zone.start) / zone.sectors_per_track
    }

    /// Returns the angle of a sector, as a fraction of a rotation.
    #[expect(clippy::cast_precision_loss, reason = "a part of a turn")]
    fn angle_of(&self, sector: Sector) -> f64 {
        let zone = self.zone_of(sector);
        ((sector.0 - zone.start) % zone.sectors_per_track) as f64 / zone.sectors_per_track as f64
    }
}

impl BlockDevice for SpinningDisk {
    fn submit(&mut self, now: Nanos, command: DeviceCommand) -> Option<CommandEnd> {
        self.in_controller.push_back(command);
        self.fill(now);
        if self.at_work.is_some() {
            return None;
        }
        self.begin(now)
    }

    fn ended(&mut self, now: Nanos, tag: Tag) -> Option<CommandEnd> {
        let QueuedCommand { command, .. } =
            self.at_work.take().expect("a command ends only while it is at work");
        assert!(command.tag == tag, "one at a time");
        self.note_done(now, command);
        self.fill(now);
        self.begin(now)
    }
}

/// Returns the zones of a disk: enough that neighbours differ little.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sectors of a track"
)]
fn zones(model: &Hdd, turn_ns: f64) -> Vec<Zone> {
    let sectors = model.capacity.0.0 / SECTOR_SIZE;
    (0..ZONES)
        .map(|index| {
            let part = index as f64 / (ZONES - 1) as f64;
            let mb_per_s =
                model.outer_mb_per_s + (model.inner_mb_per_s - model.outer_mb_per_s) * part;
            let per_turn = mb_per_s * turn_ns / 1e3 / SECTOR_SIZE as f64;
            let sectors_per_track = (per_turn.round() as u64).max(1);
            Zone { start: sectors / ZONES * index, sectors_per_track, mb_per_s }
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are a hundred days")]
fn ns_between(from: Nanos, to: Nanos) -> f64 {
    (to.0 - from.0) as f64
}

/// Typical of drives of the time.
const ZONES: u64 = 16;
