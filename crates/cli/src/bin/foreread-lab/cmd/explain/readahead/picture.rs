//! Decisions as a picture: one row a decision, one column a page or a few.
//!
//! A drawing is limited to a few rows.

use std::io::Write as _;
use std::ops::Range;

use foreread_core::prefetch::walk::PageSet as _;
use foreread_core::prefetch::{Decided, Policy, Residency as _};
use foreread_core::units::{PageIndex, Pages};

use crate::cmd::explain::pages::ResidentPages;
use foreread_cli::output::{Failure, Printer};

/// Pages that a hint brought, and before which decision it did.
pub(super) struct Hint {
    pub(super) before: usize,
    pub(super) pages: Range<PageIndex>,
}

/// Draws the decisions.
///
/// ```text
///   0           : 1001
///   #+++        :              initial0
///   =#+++M++++++:              the requested page, and a window with a marker
///   ============:#             another part of the file
/// ```
pub(super) fn draw(
    out: &mut Printer,
    policy: Policy,
    end: PageIndex,
    mut resident: ResidentPages,
    decisions: &[Decided],
    hints: &[Hint],
) -> Result<(), Failure> {
    let shown = &decisions[..decisions.len().min(MOST_ROWS)];
    let parts = parts(shown, end, &resident);
    if parts.is_empty() {
        return Ok(());
    }
    if parts.len() > MOST_PARTS {
        writeln!(out, "\n(no picture: the reads are in {} places)", parts.len())?;
        return Ok(());
    }
    let pages: u64 = parts.iter().map(|part| part.end.0 - part.start.0).sum();
    let column = Pages(pages.div_ceil(MOST_COLUMNS));

    writeln!(out, "\n  {}", heading(&parts, column))?;
    for (number, decided) in shown.iter().enumerate() {
        for hint in hints.iter().filter(|hint| hint.before == number) {
            resident.insert(hint.pages.clone());
        }
        writeln!(out, "  {}", row(policy, end, &resident, decided, &parts, column))?;
        resident.insert(read_by(decided, end));
    }
    if shown.len() < decisions.len() {
        writeln!(out, "  .. and {} more", decisions.len() - shown.len())?;
    }
    let unit = if column == Pages(1) { "a page".to_owned() } else { format!("{column} pages") };
    writeln!(out, "  # asked for  + read  M read and marked  = resident; a column is {unit}")?;
    Ok(())
}

/// Returns the parts of the file to draw: the pages of all decisions in order, some resident pages
/// before them, and short gaps.
fn parts(decisions: &[Decided], end: PageIndex, resident: &ResidentPages) -> Vec<Range<PageIndex>> {
    let mut ranges: Vec<_> = decisions
        .iter()
        .flat_map(|decided| {
            let asked = decided.ask.page;
            let history = resident.history(asked, SHOWN_HISTORY);
            let first = PageIndex(asked.0 - history.0);
            [first..asked + Pages(1), read_by(decided, end)]
        })
        .filter(|range| !range.is_empty())
        .collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut parts: Vec<Range<PageIndex>> = Vec::new();
    for range in ranges {
        match parts.last_mut() {
            Some(part) if range.start <= part.end + SHORT_GAP => part.end = part.end.max(range.end),
            Some(_) | None => parts.push(range),
        }
    }
    parts
}

/// Returns the pages of a decision's window that are in the file.
fn read_by(decided: &Decided, end: PageIndex) -> Range<PageIndex> {
    let window = decided.decision.window;
    window.start.min(end)..window.end().min(end)
}

/// Formats the number of each part's first page, where it fits.
fn heading(parts: &[Range<PageIndex>], column: Pages) -> String {
    let label = |part: &Range<PageIndex>| {
        let width = columns(part, column).count();
        let number = part.start.to_string();
        if number.len() <= width { format!("{number:<width$}") } else { " ".repeat(width) }
    };
    parts.iter().map(label).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn row(
    policy: Policy,
    end: PageIndex,
    resident: &ResidentPages,
    decided: &Decided,
    parts: &[Range<PageIndex>],
    column: Pages,
) -> String {
    let read = read_by(decided, end);
    let marker = policy.marker(decided.decision.window, end);
    let marker = marker.filter(|page| !resident.is_resident(*page));
    let letter = |pages: Range<PageIndex>| {
        let common = pages.start.max(read.start)..pages.end.min(read.end);
        let is_read = !common.is_empty()
            && resident.next_hole(common.start, common.end - common.start).is_some();
        if pages.contains(&decided.ask.page) {
            '#'
        } else if marker.is_some_and(|page| pages.contains(&page)) {
            'M'
        } else if is_read {
            '+'
        } else if resident.touches(pages) {
            '='
        } else {
            '.'
        }
    };
    let part = |part: &Range<PageIndex>| columns(part, column).map(letter).collect::<String>();
    let drawn: Vec<_> = parts.iter().map(part).collect();
    format!("{}  {}", drawn.join(":"), decided.decision.pattern.name())
}

/// Returns the pages of each column of a part.
fn columns(part: &Range<PageIndex>, column: Pages) -> impl Iterator<Item = Range<PageIndex>> {
    let Range { start, end } = *part;
    let count = (end - start).0.div_ceil(column.0);
    (0..count).map(move |index| {
        let first = start + Pages(index * column.0);
        first..(first + column).min(end)
    })
}

/// A screen is about as high.
const MOST_ROWS: usize = 24;

/// And a line about as wide, with the pattern's name behind.
const MOST_COLUMNS: u64 = 64;

/// Largest number of positions in a picture; more would be illegible.
const MOST_PARTS: usize = 16;

/// Pages of history shown: as many as in a window of the default size.
const SHOWN_HISTORY: Pages = Pages(32);

/// Two windows with less between them belong together.
const SHORT_GAP: Pages = Pages(16);
