//! What all CSV files of the program have in common.
//!
//! In:    names, and values that may be unknown.
//! Out:   cells.
//! Never: a heading that a reader without options takes for something else. No comment lines.

/// The value of the column `version`, the first of each table: it grows when a column goes or
/// changes its meaning (docs/json.md).
pub(crate) const CSV_VERSION: u32 = 1;

/// A cell with text.
pub(crate) fn text_cell(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A cell with a value; empty if there is none.
pub(crate) fn value_cell(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
