//! A table as plain values, without markup.

/// A table. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable {
    /// Text alternative for screen readers.
    pub caption: String,
    /// Column names.
    pub heading: Vec<String>,
    /// Rows; at most [`ReportTable::MAX_ROWS`] are shown.
    pub rows: Vec<TableRow>,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// Cells.
    pub cells: Vec<String>,
    /// The report highlights this row.
    pub is_marked: bool,
}

impl ReportTable {
    /// Most rows shown.
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
