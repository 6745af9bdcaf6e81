//! A report as values.
//!
//! In:    what a command found.
//! Out:   the same, for [`render`](crate::render).
//! Never: markup: texts are texts.

use crate::chart::ReportChart;
use crate::table::ReportTable;

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportPage {
    /// The command and its subject, as in `foreread replay: program.frt`.
    pub title: String,
    /// One sentence that says what to do.
    pub headline: String,
    /// What a reader has to know before the figures.
    pub notes: Vec<String>,
    /// The parts of the report, in their order.
    pub sections: Vec<ReportSection>,
    /// How it was made: the version and the command line.
    pub made_by: String,
}

/// A part of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportSection {
    /// Its heading.
    pub heading: String,
    /// What it holds. Charts that follow each other are placed side by side where there is room.
    pub blocks: Vec<ReportBlock>,
}

/// A block of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportBlock {
    /// A smaller heading.
    Heading(String),
    /// A paragraph.
    Paragraph(String),
    /// Commands or output, as they are.
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
