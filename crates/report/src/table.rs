//! A table as values.
//!
//! In:    cells.
//! Out:   the same, for the page and beside each chart.
//! Never: markup: cells are texts.

/// A table. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable {
    /// What it holds, for readers who cannot see it.
    pub caption: String,
    /// The names of the columns.
    pub heading: Vec<String>,
    /// The rows; at most [`ReportTable::MAX_ROWS`] are shown.
    pub rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// Its cells.
    pub cells: Vec<String>,
    /// Whether it is the row that the report points at.
    pub is_marked: bool,
}

impl ReportTable {
    /// Rows that are shown.
    pub const MAX_ROWS: usize = 2000;

    /// Returns a table without rows.
    #[must_use]
    pub fn new(caption: &str, heading: &[&str]) -> Self {
        let heading = heading.iter().map(|cell| (*cell).to_owned()).collect();
        Self { caption: caption.to_owned(), heading, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(TableRow { cells: cells.into_iter().collect(), is_marked: false });
    }
}
