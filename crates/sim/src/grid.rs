//! The grid: devices of every distance and width, with several readers, in virtual time.
//!
//! In:    which cells of it.
//! Out:   for each cell how fast learnt windows are, beside the best fixed window of `linux-6`.
//! Never: a device that was chosen because something is good at it.
//!
//! How windows are learnt, and the figures of the whole grid: docs/devices.md.

mod cell;
mod row;

pub use cell::{GridCell, GridLoad};
pub use row::{GridRow, GridSpread};

use foreread_core::prefetch::{Policy, Without};
use foreread_core::units::{ByteCount, Nanos};

use crate::parallel::run_in_order;
use crate::record::RecordMode;
use crate::rivals::PolicySetup;
use crate::run::SimRun;
use crate::time::seconds;

/// The windows that are fixed, in bytes: 128 KiB to 16 MiB.
pub const FIXED_WINDOWS: [u64; 8] =
    [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

/// How long a run took, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct GridTime {
    /// All of it.
    pub whole_s: f64,
    /// Its second half: from when half of the bytes were read.
    pub second_half_s: f64,
}

/// Runs one cell with one setup.
///
/// # Panics
///
/// If the scenario of the cell cannot be built.
#[must_use]
pub fn time(cell: &GridCell, how: &PolicySetup) -> GridTime {
    let mut scenario = cell.scenario();
    how.set(&mut scenario);
    let mut run =
        scenario.build(RecordMode::Hash).expect("the scenarios of the grid are well formed").run;
    let until = scenario.until();
    let half = cell.total_bytes() / 2;
    let read =
        |run: &SimRun| -> u64 { run.totals().processes.iter().map(|process| process.bytes).sum() };
    while read(&run) < half && run.go_some(STEPS, until) {}
    let middle = run.now();
    run.go(until);
    let end = run.end();
    assert!(end.unfinished == 0, "the readers of {cell:?} read to the end");
    // The run may go on to a change of its device after that.
    let last = end.processes.iter().filter_map(|process| process.ended).max().unwrap_or(end.end);
    let since = |from: Nanos| seconds(last.0.saturating_sub(from.0));
    GridTime { whole_s: since(Nanos(0)), second_half_s: since(middle) }
}

/// Runs one cell with some fixed windows of `linux-6`, in bytes, and with learnt ones.
///
/// # Panics
///
/// If there is no fixed window, or the scenario of the cell cannot be built.
#[must_use]
pub fn run(cell: &GridCell, windows: &[u64]) -> GridRow {
    let of_window = |window: u64| {
        let max_window = Some(ByteCount(window));
        let setup = PolicySetup { policy: Policy::Linux6, max_window, without: Without::default() };
        (window, time(cell, &setup))
    };
    let fixed: Vec<_> = windows.iter().map(|window| of_window(*window)).collect();
    let learnt =
        PolicySetup { policy: Policy::Adaptive, max_window: None, without: Without::default() };
    GridRow::new(cell, &fixed, time(cell, &learnt))
}

/// Runs these cells on so many threads; the rows come in the order of the cells. `progress` is told
/// how many have begun.
///
/// # Panics
///
/// If one of them does.
pub fn run_all(
    cells: &[GridCell],
    threads: usize,
    progress: &(dyn Fn(usize, &GridCell) + Sync),
) -> Vec<GridRow> {
    run_in_order(cells, threads, progress, &|cell| run(cell, &FIXED_WINDOWS))
}

/// How many events pass between two looks at how much was read.
const STEPS: u64 = 16;
