//! The tables of the seeds for people: on a terminal, or as a page.

use std::io::Write as _;

use foreread_sim::seeds::SeedTable;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;
use foreread_cli::terminal::{DOCUMENT, wrap};

pub(super) fn print(out: &mut Printer, tables: &[SeedTable]) -> Result<(), Failure> {
    for table in tables {
        out.paragraph("", &format!("{}: {}", table.table, table.title))?;
        writeln!(out)?;
        table::print(out, HEADING, lines(table))?;
        for note in &table.notes {
            writeln!(out)?;
            out.paragraph("  ", note)?;
        }
        writeln!(out)?;
        out.paragraph("", &verdict(table))?;
        writeln!(out)?;
    }
    if tables.len() > 1 {
        table::print(out, SUMMARY_HEADING, tables.iter().map(summary))?;
    }
    Ok(())
}

pub(super) fn markdown(out: &mut Printer, tables: &[SeedTable]) -> Result<(), Failure> {
    writeln!(out, "{INTRODUCTION}")?;
    writeln!(
        out,
        "| table | cells | published | median error | largest | holds |\n|---|---|---|---|---|---|"
    )?;
    for line in tables.iter().map(summary) {
        writeln!(out, "| {} |", line.join(" | "))?;
    }
    for table in tables {
        writeln!(out, "\n## {}\n\n{}\n", table.table, in_document(&table.title))?;
        writeln!(out, "| row | | column | seed | ours | error |\n|---|---|---|---|---|---|")?;
        for [row, mark, column, seed, ours, error] in lines(table) {
            writeln!(out, "| {row} | {mark} | {column} | {seed} | {ours} | {error} |")?;
        }
        for note in &table.notes {
            writeln!(out, "\n{}", in_document(note))?;
        }
        writeln!(out, "\n{}", in_document(&verdict(table)))?;
    }
    Ok(())
}

/// Returns the cells of a table, one per line; a row is named once.
pub(super) fn lines(table: &SeedTable) -> impl Iterator<Item = [String; 6]> {
    let mut last = "";
    table.cells.iter().map(move |cell| {
        let row = if cell.row == last { "" } else { &cell.row };
        last = &cell.row;
        [
            row.to_owned(),
            if cell.is_marked { "==>" } else { "" }.to_owned(),
            cell.column.clone(),
            table::or_dash(cell.seed.map(figure)),
            figure(cell.ours),
            table::or_dash(cell.error_percent.map(|percent| format!("{percent:+.1} %"))),
        ]
    })
}

/// Returns the errors of its cells in percent, in ascending order.
pub(super) fn errors(table: &SeedTable) -> Vec<f64> {
    let errors = table.cells.iter().filter_map(|cell| cell.error_percent).map(f64::abs);
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors
}

pub(super) fn summary(table: &SeedTable) -> [String; 6] {
    let errors = errors(table);
    let percent = |error: Option<&f64>| table::or_dash(error.map(|error| format!("{error:.1} %")));
    [
        table.table.to_owned(),
        table.cells.len().to_string(),
        table.cells.iter().filter(|cell| cell.seed.is_some()).count().to_string(),
        percent(errors.get(errors.len() / 2)),
        percent(errors.last()),
        if table.verdict.holds { "yes" } else { "no" }.to_owned(),
    ]
}

pub(super) fn verdict(table: &SeedTable) -> String {
    let holds = if table.verdict.holds { "Holds" } else { "Does not hold" };
    format!("{holds}: {}", table.verdict.why)
}

/// Formats a figure with four digits, or all digits of its whole part.
fn figure(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e15 {
        format!("{value}")
    } else if size >= 1000.0 {
        format!("{value:.0}")
    } else if size >= 100.0 {
        format!("{value:.1}")
    } else if size >= 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// Formats a paragraph of the page.
fn in_document(text: &str) -> String {
    wrap("", text, DOCUMENT).join("\n")
}

pub(super) const SUMMARY_HEADING: [&str; 6] =
    ["table", "cells", "published", "median error", "largest", "holds"];

pub(super) const HEADING: [&str; 6] = ["row", "", "column", "seed", "ours", "error"];

const INTRODUCTION: &str = "\
# The seeds

The policies of foreread come from five threads on kernel mailing lists, 2002 to 2012. This page
shows every table published in them next to the simulator's results for the same experiment, cell by
cell.

    foreread-lab seeds

prints the same in a few seconds, without a disk; this page is `foreread-lab seeds --markdown`. The
scenarios are in `scenarios/`; [simulator.md](simulator.md) describes the device models and their
fits. `==>` marks the row that the author of a table marked.

Errors cover all published cells of a table, also those without a target. The verdict below each
table says which targets it checks.
";
