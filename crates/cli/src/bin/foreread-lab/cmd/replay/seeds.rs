//! Replays with several seeds: means and their intervals.
//!
//! Ratios are paired by seed.

use std::io::Write as _;

use foreread_sim::comparison::{ComparedFigure, ReplayComparisonRow};

use super::report::{HEADING, headline, memory_words, print_each};
use crate::intervals::{about_means, mean, ratio, some_mean};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

/// Prints a table for each trace.
pub(super) fn print(out: &mut Printer, rows: &[ReplayComparisonRow]) -> Result<(), Failure> {
    let of_one = |row: &ReplayComparisonRow| row.setup.policy == rows[0].setup.policy;
    let is_compared = !rows.iter().all(of_one);
    let print = |out: &mut Printer, of_trace: &[ReplayComparisonRow]| -> Result<_, Failure> {
        out.entry("", &headline(&of_trace[0].runs[0]))?;
        writeln!(out)?;
        if is_compared {
            table::print(out, COMPARED_HEADING, of_trace.iter().map(compared_cells))?;
        } else {
            table::print(out, HEADING, of_trace.iter().map(cells))?;
        }
        Ok(Some(legend(of_trace, is_compared)))
    };
    print_each(out, rows, |row| &row.setup.trace, print)
}

fn legend(rows: &[ReplayComparisonRow], is_compared: bool) -> String {
    let means = about_means(rows[0].seeds);
    if !is_compared {
        return format!("{means}.");
    }
    let first = &rows[0].setup.policy;
    format!("{means}; x waited is times that of {first}, paired by seed, with its 95 % interval.")
}

fn cells(row: &ReplayComparisonRow) -> [String; HEADING.len()] {
    let least = row.least_waited_s;
    [
        row.setup.label.clone(),
        memory_words(row.setup.memory),
        percent(row.waits, row.reads),
        mean(row.waited_s, 3),
        least.map_or_else(|| "-".to_owned(), |least| format!("{least:.3}")),
        some_mean(row.wait_p50_ms, 2),
        some_mean(row.wait_p99_ms, 2),
        some_mean(row.wait_p999_ms, 2),
        mean(row.requests, 1),
        some_mean(row.requests_over_fewest, 2),
        mean(row.device_s, 2),
        mean(row.amplification, 3),
        some_mean(row.bytes_over_fewest, 2),
        mean(row.evicted_unread, 1),
        mean(row.elapsed_s, 1),
    ]
}

/// Reads that waited in percent of all, as in the table of one seed.
#[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
fn percent(waits: ComparedFigure, reads: u64) -> String {
    let of_all = |count: f64| count / reads.max(1) as f64 * 100.0;
    let mean = of_all(waits.over_seeds.mean);
    match waits.over_seeds.half_width.map(of_all) {
        Some(half_width) => format!("{mean:.1} +-{half_width:.1} %"),
        None => format!("{mean:.1} %"),
    }
}

/// Returns the same cells, and the ratio to the first policy.
fn compared_cells(row: &ReplayComparisonRow) -> [String; COMPARED_HEADING.len()] {
    let mut cells = cells(row).into_iter().chain([ratio(row.waited_s.over_first)]);
    std::array::from_fn(|_| cells.next().expect("there are as many cells as columns"))
}

const COMPARED_HEADING: [&str; HEADING.len() + 1] = {
    let mut heading = ["x waited"; HEADING.len() + 1];
    let mut column = 0;
    while column < HEADING.len() {
        heading[column] = HEADING[column];
        column += 1;
    }
    heading
};
