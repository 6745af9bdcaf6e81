//! A report as plain values, without markup, for [`render`](crate::render).

use crate::chart::ReportChart;
use crate::table::ReportTable;

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportPage {
    /// Command and subject, as in `foreread-lab replay: program.frt`.
    pub title: String,
    /// One sentence with the recommended action.
    pub headline: String,
    /// Notes to read before the figures.
    pub notes: Vec<String>,
    /// Sections in order.
    pub sections: Vec<ReportSection>,
    /// Version and command line that made the report.
    pub made_by: String,
}

/// A section of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportSection {
    /// Heading.
    pub heading: String,
    /// Contents. Consecutive charts are placed side by side where there is room.
    pub blocks: Vec<ReportBlock>,
}

/// A block of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportBlock {
    /// A smaller heading.
    Heading(String),
    /// A paragraph.
    Paragraph(String),
    /// Commands or output, verbatim.
    Code(String),
    /// A table.
    Table(ReportTable),
    /// A chart.
    Chart(ReportChart),
}

impl ReportPage {
    /// Returns a report without sections.
    #[must_use]
    pub fn new(title: &str, headline: &str) -> Self {
        Self { title: title.to_owned(), headline: headline.to_owned(), ..Self::default() }
    }
}

impl ReportSection {
    /// Returns a section without blocks.
    #[must_use]
    pub fn new(heading: &str) -> Self {
        Self { heading: heading.to_owned(), blocks: Vec::new() }
    }
}
