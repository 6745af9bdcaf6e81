//! Reports: values in, one HTML file out.
//!
//! In:    a headline, sections of text, tables and charts, as plain values.
//! Out:   HTML below [`MAX_BYTES`] with its styles and SVG charts inside: no network, no script.
//! Never: a measurement, a path, a word of the caller's text that could become markup.
//!
//! ```
//! use foreread_report::{ReportBlock, ReportPage, ReportSection, is_report, render};
//!
//! let mut page = ReportPage::new("foreread-lab replay: a.frt", "With 64M, adaptive saves 71 %.");
//! let mut section = ReportSection::new("Waiting");
//! section.blocks.push(ReportBlock::Paragraph("The sum of all waits <of reads>.".to_owned()));
//! page.sections.push(section);
//! let html = render(&page);
//! assert!(html.contains("waits &lt;of reads&gt;"));
//! assert!(is_report(html.as_bytes()));
//! ```

mod chart;
mod colour;
mod html;
mod page;
mod table;

pub use chart::{
    AxisScale, AxisUnit, BarChart, BarGroup, ChartAxis, ChartBar, ChartLine, ChartMark, LineChart,
    LinePoint, MapCell, MapChart, MapKind, ReportChart,
};
pub use html::{MAX_BYTES, is_report, render};
pub use page::{ReportBlock, ReportPage, ReportSection};
pub use table::{ReportTable, TableRow};
