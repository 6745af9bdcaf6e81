//! Tables: columns that line up, not wider than the terminal.
//!
//! Headings are bold on a terminal. There are no frames, and words are never split.
//!
//! A table that is too wide first wraps its headings between words. If it still does not fit, the
//! remaining columns follow below, each part with the first column:
//!
//! ```text
//!   pattern   kernel buffered   O_DIRECT bare
//!   seq4k              30.0             0.9
//!
//!   pattern   foreread   to kernel
//!   seq4k         29.2      0.97 x
//! ```

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;

use crate::output::{Failure, Printer};
use crate::terminal::wrap;

/// Prints a table. The first column names the row and stays left, numbers go right.
pub fn print<const COLUMNS: usize>(
    out: &mut Printer,
    heading: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> Result<(), Failure> {
    let rows: Vec<[String; COLUMNS]> = rows.into_iter().collect();
    let cells = |column: usize| rows.iter().map(move |row| columns_of(&row[column])).max();
    let bodies: [usize; COLUMNS] = std::array::from_fn(|column| cells(column).unwrap_or(0));
    let wide = std::array::from_fn(|column| columns_of(heading[column]).max(bodies[column]));
    let Some(limit) = out.width() else {
        return part(out, &heading, &rows, &wide, 1..COLUMNS);
    };
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
    if total(&wide) <= limit {
        return part(out, &heading, &rows, &wide, 1..COLUMNS);
    }
    let longest = |text: &str| text.split(' ').map(columns_of).max().unwrap_or(0);
    let narrow: [usize; COLUMNS] =
        std::array::from_fn(|column| longest(heading[column]).max(bodies[column]));
    let mut from = 1;
    while from < COLUMNS {
        let mut upto = from + 1;
        while upto < COLUMNS && narrow[0] + GAP + total(&narrow[from..=upto]) <= limit {
            upto += 1;
        }
        if from > 1 {
            writeln!(out)?;
        }
        part(out, &heading, &rows, &narrow, from..upto)?;
        from = upto;
    }
    Ok(())
}

/// Prints the first column and some of the others.
fn part<const COLUMNS: usize>(
    out: &mut Printer,
    heading: &[&str; COLUMNS],
    rows: &[[String; COLUMNS]],
    widths: &[usize; COLUMNS],
    columns: Range<usize>,
) -> Result<(), Failure> {
    let shown = || std::iter::once(0).chain(columns.clone());
    let headings: Vec<Vec<String>> =
        shown().map(|column| heading_lines(heading[column], widths[column])).collect();
    let height = headings.iter().map(Vec::len).max().unwrap_or(1);
    for line in 0..height {
        // Short headings stand on the line above their cells.
        let cells = headings.iter().map(|lines| {
            let above = height - lines.len();
            line.checked_sub(above).map_or("", |at| lines[at].as_str())
        });
        let text = aligned(shown().zip(cells), widths);
        if out.is_coloured() {
            writeln!(out, "{BOLD}{text}{PLAIN}")?;
        } else {
            writeln!(out, "{text}")?;
        }
    }
    for row in rows {
        let text = aligned(shown().map(|column| (column, row[column].as_str())), widths);
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// Splits a heading between words to fit its column.
fn heading_lines(heading: &str, width: usize) -> Vec<String> {
    if columns_of(heading) <= width { vec![heading.to_owned()] } else { wrap("", heading, width) }
}

/// Formats a line: the first column left-aligned, the others right-aligned.
fn aligned<'c>(cells: impl Iterator<Item = (usize, &'c str)>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, cell) in cells {
        let blank = " ".repeat(widths[column].saturating_sub(columns_of(cell)));
        if column == 0 {
            line += cell;
            line += &blank;
        } else {
            line += &" ".repeat(GAP);
            line += &blank;
            line += cell;
        }
    }
    line.trim_end().to_owned()
}

fn columns_of(text: &str) -> usize {
    text.chars().count()
}

/// Formats a value, or `-` for none.
pub fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Spaces between two columns.
const GAP: usize = 2;

/// ECMA-48: bold, and everything back to normal.
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
