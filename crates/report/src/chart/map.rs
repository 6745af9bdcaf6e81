//! Map of cells, coloured by kind.
//!
//! Neighbours of one kind in a row are drawn as one rectangle. Cells are merged until there are at
//! most [`MapChart::MAX_RECTANGLES`].

use std::collections::BTreeMap;

use plotters::prelude::{Color as _, Rectangle};

use super::DrawnChart;
use super::axis::{AxisScale, ChartAxis};
use super::drawing::{DrawResult, SvgArea, mesh, svg};
use crate::colour::series;
use crate::table::ReportTable;

/// Map of cells. Both axes begin at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct MapChart {
    /// Title.
    pub title: String,
    /// One sentence of explanation.
    pub words: String,
    /// Horizontal axis.
    pub x: ChartAxis,
    /// Vertical axis.
    pub y: ChartAxis,
    /// Width and height of a cell.
    pub cell_size: (f64, f64),
    /// Kinds. Where cells are merged, the later kind wins.
    pub kinds: Vec<MapKind>,
    /// Cells.
    pub cells: Vec<MapCell>,
}

/// Kind of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct MapKind {
    /// Name.
    pub name: String,
    /// Colour index.
    pub series: usize,
    /// Number of such cells, as text.
    pub count: String,
}

/// A cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MapCell {
    /// Column, from 0 at the left.
    pub column: u32,
    /// Row, from 0 at the bottom.
    pub row: u32,
    /// Index of its kind.
    pub kind: usize,
}

/// Adjacent cells of one kind in a row.
struct CellRun {
    row: u32,
    from: u32,
    to: u32,
    kind: usize,
}

impl MapChart {
    /// Most rectangles drawn, of about 60 bytes each.
    pub const MAX_RECTANGLES: usize = 1600;

    pub(super) fn drawn(&self) -> DrawnChart {
        let mut table = ReportTable::new(&self.title, &["kind", "count"]);
        for kind in &self.kinds {
            table.push([kind.name.clone(), kind.count.clone()]);
        }
        let counts = self.kinds.iter().map(|kind| format!("{}: {}", kind.name, kind.count));
        let counts: Vec<String> = counts.collect();
        DrawnChart {
            title: self.title.clone(),
            words: self.words.clone(),
            aria: format!(
                "Map: {}. {} over {}. {}.",
                self.title,
                self.y.label,
                self.x.label,
                counts.join("; ")
            ),
            legend: self.kinds.iter().map(|kind| (kind.series, kind.name.clone())).collect(),
            svg: svg(HEIGHT, |area| self.draw(area)),
            table,
        }
    }

    fn draw(&self, area: &SvgArea<'_>) -> DrawResult {
        assert!(self.x.scale == AxisScale::FromZero, "cells are evenly spread");
        assert!(self.y.scale == AxisScale::FromZero, "cells are evenly spread");
        let (width, height) = self.cell_size;
        let ends = |of: fn(&MapCell) -> u32, size: f64| {
            self.cells.iter().map(move |cell| f64::from(of(cell) + 1) * size)
        };
        let x = self.x.range(ends(|cell| cell.column, width));
        let y = self.y.range(ends(|cell| cell.row, height));
        let mut chart = mesh(area, (&x, &self.x.label), (&y, &self.y.label))?;
        let (runs, joined) = self.runs();
        let (width, height) = (width * f64::from(joined), height * f64::from(joined));
        for CellRun { row, from, to, kind } in runs {
            let corners = [
                (f64::from(from) * width, f64::from(row + 1) * height),
                (f64::from(to) * width, f64::from(row) * height),
            ];
            let colour = series(self.kinds.get(kind).map_or(0, |kind| kind.series));
            chart.draw_series([Rectangle::new(corners, colour.filled())])?;
        }
        Ok(())
    }

    /// Returns few enough runs, and the number of columns and rows merged into one.
    fn runs(&self) -> (Vec<CellRun>, u32) {
        let mut joined = 1;
        loop {
            let runs = self.runs_of(joined);
            if runs.len() <= Self::MAX_RECTANGLES || joined > 1 << 30 {
                return (runs, joined);
            }
            joined *= 2;
        }
    }

    fn runs_of(&self, joined: u32) -> Vec<CellRun> {
        let mut cells = BTreeMap::<(u32, u32), usize>::new();
        for MapCell { column, row, kind } in &self.cells {
            let cell = cells.entry((row / joined, column / joined)).or_default();
            *cell = (*cell).max(*kind);
        }
        let mut runs = Vec::<CellRun>::new();
        for ((row, column), kind) in cells {
            match runs.last_mut() {
                Some(run) if run.row == row && run.to == column && run.kind == kind => run.to += 1,
                _ => runs.push(CellRun { row, from: column, to: column + 1, kind }),
            }
        }
        runs
    }
}

const HEIGHT: u32 = 320;
