//! Random programs: what is done to the path, and by its devices and drivers.
//!
//! In:    random numbers.
//! Out:   one operation after the other.
//! Never: an operation that depends on the world: numbers are taken modulo what there is.

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
    /// A file gets another length.
    ChangeLen {
        file: u64,
        how: u64,
        sectors: u64,
    },
    /// A caller begins to append, or to write so many sectors `behind` the end.
    Append {
        file: u64,
        behind: Option<usize>,
        sectors: usize,
        mode: WriteMode,
    },
    /// The caller of an append writes its next piece.
    GoOn {
        which: u64,
        sectors: usize,
    },
    /// The caller of an append leaves, whatever is written of it.
    Leave {
        which: u64,
        fills_first: bool,
    },
    /// The driver copies what a write is to be filled with.
    Fill {
        which: u64,
    },
    /// A command takes effect at its device.
    Effect {
        which: u64,
        how: Effect,
    },
    /// The driver reports the end of a command to the path.
    Report {
        which: u64,
    },
    /// The driver does not do what it was told, because its caller has left.
    Skip {
        which: u64,
    },
    /// Some of the device's cache reaches the medium by itself.
    Destage,
    /// Cached pages are dropped, as if memory were short.
    Invalidate {
        file: u64,
    },
    AcceptLost {
        file: u64,
    },
    /// The device refuses all writes for a while, without room or with an error.
    Refuse {
        requests: u64,
        errno: i32,
    },
    /// A scan of the largest file, which evicts pages.
    Scan,
    Set {
        name: &'static str,
        value: u64,
    },
    Wait {
        ms: u64,
    },
}

/// What a device does with a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Effect {
    Good,
    /// Some of it, in 64ths, and that is what it says.
    Short(u64),
    /// An error; some of it, in 64ths, may have been done.
    Error(u64),
    /// Of a durable command: its flush fails, and drops some of the cache.
    FlushError,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunEnd {
    /// The power fails: of the device's cache, and of what is in flight, any part survives.
    PowerCut,
    /// The process is killed: the device keeps its cache, commands in flight may happen.
    Kill,
    /// Everything ends well: nothing may hang, and a flush makes all durable.
    Settle,
}

/// What a driver or a device does wrong on purpose, to see that it is found out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sabotage {
    /// Nothing.
    None,
    /// The driver reports flushes that it did not do.
    NoFlush,
    /// The device treats a FUA write as any other.
    NoFua,
    /// The driver reports a failed flush as a success.
    HiddenFailure,
    /// The driver does not say that a FUA write has failed: it sends its bytes again, without FUA,
    /// and flushes. That is the natural repair, and it loses what was cached before.
    RepairedFua,
    /// A flush makes bytes durable, and leaves lengths in the device's cache.
    NoLength,
    /// The driver appends by two calls that do not know of each other: a length, then bytes.
    LengthFirst,
    /// The driver trusts FUA writes on file systems that answer them and have only cached them.
    TrustFua,
}

pub(super) fn draw(rng: &mut Rng) -> ProgramOp {
    let (file, which) = (rng.below(4), rng.any());
    // Mostly the same places, so that pages are written again while they are on their way.
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
