//! Line charts with letters at the ends of lines, bands and a mark.
//!
//! A line with more than [`LineChart::MAX_POINTS`] points keeps the extremes of each piece.

use plotters::prelude::{Circle, Color as _, PathElement, Polygon, Text};
use plotters::style::ShapeStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::DrawnChart;
use super::axis::{AxisRange, ChartAxis};
use super::drawing::{DrawError, DrawResult, SvgArea, SvgChart, mesh, svg, text_style};
use crate::colour::{INK, series};
use crate::table::ReportTable;

/// Lines over an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title.
    pub title: String,
    /// One sentence of explanation.
    pub words: String,
    /// Horizontal axis.
    pub x: ChartAxis,
    /// Vertical axis.
    pub y: ChartAxis,
    /// Lines; at most [`LineChart::MAX_LINES`] are drawn.
    pub lines: Vec<ChartLine>,
    /// Position highlighted by the report.
    pub mark: Option<ChartMark>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// Name.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<LinePoint>,
    /// A value holds until the next one.
    pub is_stepped: bool,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    /// Horizontal position.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Range of the value.
    pub between: Option<(f64, f64)>,
}

/// A mark on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartMark {
    /// Position.
    pub x: f64,
    /// Text of the mark: `==> 1M`.
    pub text: String,
}

impl LinePoint {
    /// Returns a point.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, between: None }
    }
}

impl LineChart {
    /// Most lines drawn. The title mentions the number of omitted lines.
    pub const MAX_LINES: usize = 8;

    /// Most points of a line in the table.
    pub const MAX_LISTED: usize = 24;

    /// Most points of a line drawn.
    pub const MAX_POINTS: usize = 240;

    pub(super) fn drawn(&self) -> DrawnChart {
        let lines = &self.lines[..self.lines.len().min(Self::MAX_LINES)];
        let thinned: Vec<ChartLine> = lines.iter().map(ChartLine::thinned).collect();
        let legend = |(number, line): (usize, &ChartLine)| {
            (number, format!("{}: {}", letter(number), line.name))
        };
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let mark = self.mark.as_ref().map_or_else(String::new, |mark| format!(" {}.", mark.text));
        let words = match self.lines.len() - lines.len() {
            0 => self.words.clone(),
            more => format!("{} {more} more lines are left out.", self.words),
        };
        DrawnChart {
            title: self.title.clone(),
            words,
            aria: format!(
                "Line chart: {}. {} over {} of {}.{mark}",
                self.title,
                self.y.label,
                self.x.label,
                names.join(", ")
            ),
            legend: lines.iter().enumerate().map(legend).collect(),
            svg: svg(HEIGHT, |area| self.draw(area, &thinned)),
            table: self.table(&thinned),
        }
    }

    fn table(&self, lines: &[ChartLine]) -> ReportTable {
        let mut table = ReportTable::new(&self.title, &["line", &self.x.label, &self.y.label]);
        let has_bands =
            lines.iter().any(|line| line.points.iter().any(|point| point.between.is_some()));
        if has_bands {
            table.heading.extend(["from".to_owned(), "to".to_owned()]);
        }
        for line in lines {
            let every = line.points.len().div_ceil(Self::MAX_LISTED).max(1);
            for LinePoint { x, y, between } in line.points.iter().step_by(every) {
                let mut cells =
                    vec![line.name.clone(), self.x.unit.words(*x), self.y.unit.words(*y)];
                if has_bands {
                    let (from, to) = between.unwrap_or((*y, *y));
                    cells.extend([self.y.unit.words(from), self.y.unit.words(to)]);
                }
                table.push(cells);
            }
        }
        table
    }

    fn draw(&self, area: &SvgArea<'_>, lines: &[ChartLine]) -> DrawResult {
        let points = || lines.iter().flat_map(|line| &line.points);
        let marked = self.mark.iter().map(|mark| mark.x);
        let x = self.x.range(points().map(|point| point.x).chain(marked));
        let tops = points().map(|point| point.between.map_or(point.y, |(_, to)| to.max(point.y)));
        let y = self.y.range(tops.chain(points().map(|point| point.y)));
        let mut chart = mesh(area, (&x, &self.x.label), (&y, &self.y.label))?;
        for (number, line) in lines.iter().enumerate() {
            self.draw_band(&mut chart, (&x, &y), number, line)?;
        }
        let mut places = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let place = self.draw_line(&mut chart, (&x, &y), number, line)?;
            places.extend(place.map(|place| (number, place)));
        }
        draw_letters(&mut chart, &y, places)?;
        if let Some(mark) = self.mark.as_ref().filter(|mark| self.x.is_shown(mark.x)) {
            let at = x.position(mark.x);
            let line = PathElement::new([(at, y.from), (at, y.to)], INK.rgb());
            chart.draw_series([line])?;
            // On the side away from the nearer edge.
            let is_right = at > (x.from + x.to) / 2.0;
            let (to, text) = if is_right {
                (HPos::Right, format!("{} ", mark.text))
            } else {
                (HPos::Left, format!(" {}", mark.text))
            };
            let style = text_style(INK.rgb()).pos(Pos::new(to, VPos::Bottom));
            chart.draw_series([Text::new(text, (at, y.from), style)])?;
        }
        Ok(())
    }

    fn draw_band(
        &self,
        chart: &mut SvgChart<'_, '_>,
        (x, y): (&AxisRange, &AxisRange),
        number: usize,
        line: &ChartLine,
    ) -> DrawResult {
        let shown = |point: &&LinePoint| self.x.is_shown(point.x);
        let ends = line.points.iter().filter(shown).filter_map(|point| {
            let (from, to) = point.between?;
            let is_shown = self.y.is_shown(from) && self.y.is_shown(to);
            is_shown.then(|| (x.position(point.x), y.position(from), y.position(to)))
        });
        let ends: Vec<(f64, f64, f64)> = ends.collect();
        if ends.len() < 2 {
            return Ok(());
        }
        let upper = ends.iter().map(|(x, _, to)| (*x, *to));
        let lower = ends.iter().rev().map(|(x, from, _)| (*x, *from));
        let corners: Vec<(f64, f64)> = upper.chain(lower).collect();
        chart.draw_series([Polygon::new(corners, series(number).mix(0.2))]).map(drop)
    }

    /// Draws a line and returns the position of its letter.
    fn draw_line(
        &self,
        chart: &mut SvgChart<'_, '_>,
        (x, y): (&AxisRange, &AxisRange),
        number: usize,
        line: &ChartLine,
    ) -> Result<Option<(f64, f64)>, DrawError> {
        let shown = |point: &&LinePoint| self.x.is_shown(point.x) && self.y.is_shown(point.y);
        let points: Vec<(f64, f64)> = line
            .points
            .iter()
            .filter(shown)
            .map(|it| (x.position(it.x), y.position(it.y)))
            .collect();
        let Some(last) = points.last().copied() else { return Ok(None) };
        let colour = series(number);
        let style = ShapeStyle { color: colour.to_rgba(), filled: true, stroke_width: 2 };
        let path = if line.is_stepped { stepped(&points) } else { points.clone() };
        chart.draw_series([PathElement::new(path, style)])?;
        if points.len() <= FEW_POINTS {
            chart
                .draw_series(points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
        }
        // Long lines have their letters at different places.
        let place = points[points.len() * (2 * number + 1) / (2 * Self::MAX_LINES)];
        Ok(Some(if points.len() > FEW_POINTS { place } else { last }))
    }
}

/// Draws the letters of lines; overlapping ones are moved up.
fn draw_letters(
    chart: &mut SvgChart<'_, '_>,
    y: &AxisRange,
    mut places: Vec<(usize, (f64, f64))>,
) -> DrawResult {
    let gap = (y.to - y.from) * LETTER_GAP;
    places.sort_by(|one, other| one.1.1.total_cmp(&other.1.1));
    let mut last: Option<(f64, f64)> = None;
    for (number, (at, mut height)) in places {
        if let Some((beside, below)) = last
            && beside == at
        {
            height = height.max(below + gap);
        }
        last = Some((at, height));
        let style = text_style(series(number)).pos(Pos::new(HPos::Left, VPos::Bottom));
        chart.draw_series([Text::new(letter(number), (at, height), style)])?;
    }
    Ok(())
}

impl ChartLine {
    /// Returns the line reduced to the extremes of each piece.
    fn thinned(&self) -> Self {
        let piece = self.points.len().div_ceil(LineChart::MAX_POINTS / 2).max(1);
        if piece <= 2 {
            return self.clone();
        }
        let mut points = Vec::new();
        for piece in self.points.chunks(piece) {
            let by_value = |one: &&LinePoint, other: &&LinePoint| one.y.total_cmp(&other.y);
            let least = piece.iter().min_by(by_value).into_iter();
            let mut both: Vec<LinePoint> =
                least.chain(piece.iter().max_by(by_value)).copied().collect();
            both.sort_by(|one, other| one.x.total_cmp(&other.x));
            points.extend(both);
        }
        Self { points, ..self.clone() }
    }
}

/// Returns the corners of a stepped line.
fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut path = Vec::new();
    for (n, (x, y)) in points.iter().copied().enumerate() {
        if n > 0 {
            path.push((x, points[n - 1].1));
        }
        path.push((x, y));
    }
    path
}

/// Returns the letter of a line.
fn letter(number: usize) -> String {
    char::from(b"ABCDEFGH"[number % LineChart::MAX_LINES]).to_string()
}

const HEIGHT: u32 = 300;

/// Height of a letter relative to the chart.
const LETTER_GAP: f64 = 0.065;

/// Lines with at most this many points show each of them.
const FEW_POINTS: usize = 30;
