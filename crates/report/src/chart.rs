//! Charts: the same values as a picture, in words, and as a table.
//!
//! In:    bars, lines or cells of a plane.
//! Out:   SVG that is readable at widths from 340 to 640 pixels; words; rows.
//! Never: a value that only colour tells: lines have letters, and every chart has its table.

mod axis;
mod bars;
mod drawing;
mod lines;
mod map;

pub use axis::{AxisScale, AxisUnit, ChartAxis};
pub use bars::{BarChart, BarGroup, ChartBar};
pub use lines::{ChartLine, ChartMark, LineChart, LinePoint};
pub use map::{MapCell, MapChart, MapKind};

use crate::table::ReportTable;

/// A chart: the same values as a picture, in words, and as a table.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportChart {
    /// Horizontal bars.
    Bars(BarChart),
    /// Lines over an axis.
    Lines(LineChart),
    /// Cells of a plane by their kind.
    Map(MapChart),
}

/// A chart, ready for the page.
pub(crate) struct DrawnChart {
    pub(crate) title: String,
    /// What the picture shows.
    pub(crate) words: String,
    /// The same for readers who cannot see it.
    pub(crate) aria: String,
    /// Series by the number of their colour.
    pub(crate) legend: Vec<(usize, String)>,
    pub(crate) svg: String,
    pub(crate) table: ReportTable,
}

pub(crate) fn draw(chart: &ReportChart) -> DrawnChart {
    match chart {
        ReportChart::Bars(chart) => chart.drawn(),
        ReportChart::Lines(chart) => chart.drawn(),
        ReportChart::Map(chart) => chart.drawn(),
    }
}
