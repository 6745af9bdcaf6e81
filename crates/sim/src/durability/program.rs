//! Random programs of operations on the path, its devices and its drivers.
//!
//! In:    random numbers.
//! Out:   one operation after the other.
//! Never: an operation that depends on the state of the world: numbers are taken modulo its size.

use foreread_core::path::WriteMode;

use crate::rng::Rng;

/// One step of a program.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProgramOp {
    Write {
        file: u64,
        sector: u64,
        sectors: u64,
        mode: WriteMode,
    },
    Read {
        file: u64,
        sector: u64,
        sectors: u64,
    },
    Flush {
        file: u64,
    },
    Zero {
        file: u64,
        page: u64,
        pages: u64,
        is_discard: bool,
    },
    /// Sets the length of a file.
    ChangeLen {
        file: u64,
        how: u64,
        sectors: u64,
    },
    /// Starts an append, or a write `behind` sectors past the end.
    Append {
        file: u64,
        behind: Option<usize>,
        sectors: usize,
        mode: WriteMode,
    },
    /// Starts the next piece of an append.
    GoOn {
        which: u64,
        sectors: usize,
    },
    /// Abandons an append at any point.
    Leave {
        which: u64,
        fills_first: bool,
    },
    /// Copies the bytes of a write.
    Fill {
        which: u64,
    },
    /// Applies a command at its device.
    Effect {
        which: u64,
        how: Effect,
    },
    /// Reports the end of a command to the path.
    Report {
        which: u64,
    },
    /// Skips a step of the driver because its caller has left.
    Skip {
        which: u64,
    },
    /// Destages part of the device's cache.
    Destage,
    /// Drops cached pages, as if memory were short.
    Invalidate {
        file: u64,
    },
    AcceptLost {
        file: u64,
    },
    /// Makes the device refuse all writes for a while, with ENOSPC or an error.
    Refuse {
        requests: u64,
        errno: i32,
    },
    /// Scans the largest file, which evicts pages.
    Scan,
    Set {
        name: &'static str,
        value: u64,
    },
    Wait {
        ms: u64,
    },
}

/// Fate of a command at its device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    Good,
    /// Part of it, in 64ths, is done and reported as done.
    Short(u64),
    /// An error; part of it, in 64ths, may have been done.
    Error(u64),
    /// The flush in a durable command fails and drops part of the cache.
    FlushError,
}

/// End of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunEnd {
    /// A power cut: any part of the device's cache and of the commands in flight survives.
    PowerCut,
    /// A kill: the device keeps its cache, and commands in flight may complete.
    Kill,
    /// A settling phase: no call may hang, and a flush makes everything durable.
    Settle,
}

/// Deliberate bug of a driver or a device, which the campaign must detect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sabotage {
    /// No planted bug.
    None,
    /// The driver reports flushes that it did not do.
    NoFlush,
    /// The device treats FUA writes as plain writes.
    NoFua,
    /// The driver reports a failed flush as a success.
    HiddenFailure,
    /// The driver hides a failed FUA write: it sends the bytes again without FUA and flushes. That
    /// is the natural repair, and it loses data that was cached before.
    RepairedFua,
    /// A flush makes bytes durable and leaves lengths in the device's cache.
    NoLength,
    /// The driver appends in two independent calls: a length, then bytes.
    LengthFirst,
    /// The driver trusts FUA writes on file systems that acknowledge them and only cache them.
    TrustFua,
}

pub(super) fn draw(rng: &mut Rng) -> ProgramOp {
    let (file, which) = (rng.below(4), rng.any());
    // Mostly the same places, so that pages are written again while in flight.
    let sector = if rng.below(3) == 0 { rng.any() } else { rng.below(96) };
    match rng.below(104) {
        0..14 => {
            let sectors = [1 + rng.below(8), 8, 1 + rng.below(120)];
            let sectors = sectors[pick(rng, 3)];
            let sector = if rng.below(2) == 0 { sector / 8 * 8 } else { sector };
            ProgramOp::Write { file, sector, sectors, mode: draw_mode(rng) }
        }
        14..17 => ProgramOp::Read { file, sector, sectors: 1 + rng.below(64) },
        17..23 => ProgramOp::Flush { file },
        23..25 => {
            let is_discard = rng.below(2) == 0;
            ProgramOp::Zero { file, page: sector / 8, pages: 1 + rng.below(6), is_discard }
        }
        25..39 => ProgramOp::Fill { which },
        39..63 => ProgramOp::Effect { which, how: draw_effect(rng) },
        63..82 => ProgramOp::Report { which },
        82 => ProgramOp::Skip { which },
        83..99 => draw_growth(rng, file, which),
        99 => ProgramOp::Destage,
        100 => ProgramOp::Invalidate { file },
        101 => ProgramOp::AcceptLost { file },
        _ => draw_rare(rng),
    }
}

fn draw_growth(rng: &mut Rng, file: u64, which: u64) -> ProgramOp {
    match rng.below(16) {
        0 | 1 => {
            let sectors = [1 + rng.below(8), rng.below(200), rng.any()][pick(rng, 3)];
            ProgramOp::ChangeLen { file, how: rng.below(3), sectors }
        }
        2..6 => {
            let behind = (rng.below(3) == 0).then(|| pick(rng, 20));
            let sectors = [1 + pick(rng, 8), 1 + pick(rng, 50)][pick(rng, 2)];
            ProgramOp::Append { file, behind, sectors, mode: draw_mode(rng) }
        }
        6 => ProgramOp::Leave { which, fills_first: rng.below(2) == 0 },
        _ => {
            let sectors = [1 + pick(rng, 6), 8, 1 + pick(rng, 40)];
            ProgramOp::GoOn { which, sectors: sectors[pick(rng, 3)] }
        }
    }
}

fn draw_rare(rng: &mut Rng) -> ProgramOp {
    match rng.below(12) {
        0 | 1 => ProgramOp::Set { name: "dirty_age", value: rng.below(50) },
        2 => ProgramOp::Set { name: "dirty_limit", value: rng.below(300_000) },
        3 => ProgramOp::Set { name: "dirty_background", value: rng.below(200_000) },
        4 => {
            let errno = if rng.below(2) == 0 { ENOSPC } else { EIO };
            ProgramOp::Refuse { requests: rng.below(100), errno }
        }
        5 => ProgramOp::Scan,
        _ => ProgramOp::Wait { ms: rng.below(60) },
    }
}

/// Draws an event of the driver, the device or the clock.
pub(super) fn draw_event(rng: &mut Rng) -> ProgramOp {
    let which = rng.any();
    match rng.below(64) {
        0..18 => ProgramOp::Fill { which },
        18..38 => ProgramOp::Effect { which, how: draw_effect(rng) },
        38..56 => ProgramOp::Report { which },
        56 => ProgramOp::Destage,
        57 => ProgramOp::Invalidate { file: 0 },
        58 => draw_rare(rng),
        _ => ProgramOp::Wait { ms: rng.below(60) },
    }
}

fn draw_mode(rng: &mut Rng) -> WriteMode {
    let modes =
        [WriteMode::WriteBack, WriteMode::WriteBack, WriteMode::WriteThrough, WriteMode::Fua];
    modes[pick(rng, 4)]
}

fn draw_effect(rng: &mut Rng) -> Effect {
    match rng.below(16) {
        0 => Effect::Short(rng.below(64)),
        1 => Effect::Error(rng.below(64)),
        2 | 3 => Effect::FlushError,
        _ => Effect::Good,
    }
}

pub(super) fn draw_end(rng: &mut Rng) -> RunEnd {
    [RunEnd::PowerCut, RunEnd::PowerCut, RunEnd::Kill, RunEnd::Settle][pick(rng, 4)]
}

fn pick(rng: &mut Rng, of: u64) -> usize {
    usize::try_from(rng.below(of)).expect("a number below a small bound")
}

pub(super) const EIO: i32 = 5;
pub(super) const ENOSPC: i32 = 28;
