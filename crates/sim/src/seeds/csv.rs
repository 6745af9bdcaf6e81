//! Parser for the published tables.

/// Rows with named columns.
#[derive(Debug)]
pub(super) struct Csv {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(super) struct CsvRow<'t> {
    columns: &'t [String],
    fields: &'t [String],
}

impl Csv {
    /// Parses a table; a field with a comma is in quotes.
    pub(super) fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(split);
        let columns = lines.next().expect("a published table begins with its column names");
        let rows: Vec<_> = lines.collect();
        assert!(rows.iter().all(|row| row.len() == columns.len()), "a table has one width");
        Self { columns, rows }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.rows.iter().map(|fields| CsvRow { columns: &self.columns, fields })
    }
}

impl<'t> CsvRow<'t> {
    pub(super) fn text(&self, column: &str) -> &'t str {
        let index = self.columns.iter().position(|name| name == column);
        &self.fields[index.unwrap_or_else(|| panic!("no column {column}"))]
    }

    /// Returns the number in a column; None if the field is empty.
    pub(super) fn number(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("{text:?} is no number")))
    }
}

fn split(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("the list begins with one field").push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_in_quotes_keeps_its_comma() {
        let table = Csv::parse("name,size\n\"a, b\",4\nc,\n");
        let rows: Vec<_> = table.rows().map(|row| (row.text("name"), row.number("size"))).collect();
        assert_eq!(rows, [("a, b", Some(4.0)), ("c", None)]);
    }
}
