//! `foreread-lab sim grid`: learnt windows on devices of every distance and width.
//!
//! Every cell is shown.

mod args;

pub(crate) use args::GridArgs;

use std::io::Write as _;
use std::num::NonZero;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_sim::grid::{self, GridCell, GridRow, GridSpread};

use foreread_cli::output::{Failure, Printer};
use foreread_cli::progress::spinner;
use foreread_cli::table;

/// Cells of the grid to run.
struct GridPlan {
    cells: Vec<GridCell>,
    json: bool,
}

pub(super) fn run(args: &GridArgs, out: &mut Printer) -> Result<(), Failure> {
    let GridPlan { cells, json } = args.resolve()?;
    let bar = spinner();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let rows = grid::run_all(&cells, threads, &|count, cell| {
        bar.set_message(format!("{count} of {}: {}", cells.len(), cell.device()));
    });
    bar.finish_and_clear();
    if json {
        return out.json("sim grid", &rows);
    }
    let heading = ["device", "readers", "best window", "best", "learnt", "whole", "2nd half"];
    table::print(out, heading, rows.iter().map(columns))?;
    writeln!(out)?;
    let spread = |of: fn(&GridRow) -> f64| GridSpread::of(rows.iter().map(of));
    for (name, spread) in
        [("whole", spread(|row| row.whole)), ("2nd half", spread(|row| row.second_half))]
    {
        let Some(GridSpread { min, median, below_90, below_95, below_97 }) = spread else {
            continue;
        };
        let text = format!(
            "least {min:.3}, median {median:.3}; of {} cells {below_90} below 0.90, {below_95} \
             below 0.95, {below_97} below 0.97",
            rows.len()
        );
        out.entry(&format!("{name}: "), &text)?;
    }
    Ok(())
}

fn columns(row: &GridRow) -> [String; 7] {
    [
        row.cell.device(),
        row.cell.readers.to_string(),
        Exact(ByteCount(row.best_window)).to_string(),
        format!("{:.1}", row.best_mb_per_s),
        format!("{:.1}", row.learnt_mb_per_s),
        format!("{:.3}", row.whole),
        format!("{:.3}", row.second_half),
    ]
}
