//! The grid: devices over a range of latencies and parallelism, with one or several readers, in
//! virtual time. The devices form a full grid, not a selection that favours the result.
//!
//! In:    the cells to run.
//! Out:   for each cell the throughput of learnt windows, relative to the best fixed window of
//!        `linux-6`.
//!
//! The learning of windows, and the figures of the whole grid: docs/design/devices.md.

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

/// Fixed windows, in bytes: 128 KiB to 16 MiB.
pub const FIXED_WINDOWS: [u64; 8] =
    [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

/// Duration of a run, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct GridTime {
    /// Whole run.
    pub whole_s: f64,
    /// Second half of the run: from the point at which half of the bytes had been read.
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
    // The run may continue to a device change after that.
    let last = end.processes.iter().filter_map(|process| process.ended).max().unwrap_or(end.end);
    let since = |from: Nanos| seconds(last.0.saturating_sub(from.0));
    GridTime { whole_s: since(Nanos(0)), second_half_s: since(middle) }
}

/// Runs one cell with several fixed windows of `linux-6`, in bytes, and with learnt windows.
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

/// Runs these cells on the given number of threads. Rows are in the order of the cells. `progress`
/// receives the number of cells that have begun, and the latest.
///
/// # Panics
///
/// If a run panics.
pub fn run_all(
    cells: &[GridCell],
    threads: usize,
    progress: &(dyn Fn(usize, &GridCell) + Sync),
) -> Vec<GridRow> {
    run_in_order(cells, threads, progress, &|cell| run(cell, &FIXED_WINDOWS))
}

/// Number of events between two samples of the bytes read.
const STEPS: u64 = 16;
