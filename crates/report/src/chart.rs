//! Charts: the same values as an SVG picture, in words, and as a table.
//!
//! Charts are readable at widths from 340 to 640 pixels. No value depends on colour alone: lines
//! have letters, and every chart has its table.

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

/// A chart with its words and table.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportChart {
    /// Horizontal bars.
    Bars(BarChart),
    /// Lines over an axis.
    Lines(LineChart),
    /// Cells of a plane by their kind.
    Map(MapChart),
}

/// A rendered chart.
pub(crate) struct DrawnChart {
    pub(crate) title: String,
    /// Caption of the picture.
    pub(crate) words: String,
    /// Text alternative for screen readers.
    pub(crate) aria: String,
    /// Legend entries with their colour index.
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
