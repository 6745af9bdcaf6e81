//! Tables: columns that line up.
//!
//! In:    a heading and rows of cells.
//! Out:   text; the heading bold if a person looks at it.
//! Never: frames, or colour where a program reads.

use std::fmt::Display;
use std::io::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use crate::output::{Failure, Printer};

/// Prints a table. The first column names the row and stays left, numbers go right.
pub(crate) fn print<const COLUMNS: usize>(
    out: &mut Printer,
    heading: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(heading).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    let mut lines = text.lines().map(str::trim_end);
    let heading = lines.next().unwrap_or_default();
    if out.is_coloured() {
        writeln!(out, "{BOLD}{heading}{PLAIN}")?;
    } else {
        writeln!(out, "{heading}")?;
    }
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A cell that may have nothing to say.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// ECMA-48: bold, and everything back to normal.
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
