//! Drawing code shared by all charts: area, mesh and texts.
//!
//! Fonts are the page reader's, so the widths of texts are estimates.

use plotters::chart::ChartContext;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _,
    IntoTextStyle as _, SVGBackend, TextStyle,
};
use plotters::style::RGBColor;

use super::axis::AxisRange;
use crate::colour::{GRID, INK};

/// Charts are side by side on a wide screen, and fill the width of a narrow one.
pub(super) const WIDTH: u32 = 480;

pub(super) type SvgArea<'t> = DrawingArea<SVGBackend<'t>, Shift>;
pub(super) type DrawError = DrawingAreaErrorKind<std::io::Error>;
pub(super) type DrawResult = Result<(), DrawError>;
pub(super) type SvgChart<'a, 't> =
    ChartContext<'a, SVGBackend<'t>, Cartesian2d<TickedAxis, TickedAxis>>;

/// Axis with given ticks, for plotters.
pub(super) struct TickedAxis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

/// Runs `draw`, and returns the SVG.
pub(super) fn svg(height: u32, draw: impl FnOnce(&SvgArea<'_>) -> DrawResult) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        draw(&area).expect("a string takes every drawing");
        area.present().expect("a string takes every drawing");
    }
    // SVG inside HTML needs no name space, and gets its size from the page. Quotes in texts are
    // escaped, so only attributes match.
    let text = text.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let text = text.replacen(&format!(" width=\"{WIDTH}\" height=\"{height}\""), "", 1);
    let mut text = text.replacen("<svg", "<svg aria-hidden=\"true\"", 1);
    for same in [" opacity=\"1\"", " stroke=\"none\"", " font-family=\"sans-serif\""] {
        text = text.replace(same, "");
    }
    text
}

/// Draws the mesh and the ticks, and returns the chart.
pub(super) fn mesh<'a, 't>(
    area: &'a SvgArea<'t>,
    (x, x_name): (&AxisRange, &str),
    (y, y_name): (&AxisRange, &str),
) -> Result<SvgChart<'a, 't>, DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .margin_right(28)
        .margin_top(18)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(
            TickedAxis { range: x.from..x.to, ticks: x.ticks.clone() },
            TickedAxis { range: y.from..y.to, ticks: y.ticks.clone() },
        )?;
    chart
        .configure_mesh()
        .axis_style(INK.rgb())
        .bold_line_style(GRID.rgb())
        .label_style(text_style(INK.rgb()))
        .x_label_formatter(&|position| x.words(*position))
        .y_label_formatter(&|position| y.words(*position))
        .x_desc(x_name)
        .y_desc(y_name)
        .axis_desc_style(text_style(INK.rgb()))
        .draw()?;
    Ok(chart)
}

impl Ranged for TickedAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    #[expect(clippy::cast_possible_truncation, reason = "a pixel of the chart")]
    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        from + (share.clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light lines between them would only add ink.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

pub(super) fn text_style(colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).with_color(colour).into_text_style(&(WIDTH, WIDTH))
}

/// In plotters' unit, 1.24 times that of SVG: 14 pixels at full size, 11 on a narrow screen.
const TEXT_SIZE: f64 = 17.4;
