//! The page of `tune --html`.
//!
//! Shows throughput by window with its confidence and `==>`, latency, and the tables.

use foreread_report::{
    AxisScale, AxisUnit, ChartAxis, ChartLine, ChartMark, LineChart, LinePoint, ReportBlock,
    ReportChart, ReportPage, ReportSection, ReportTable, TableRow,
};
use foreread_tune::advice::tradeoffs;
use foreread_tune::report::{Latency, Report, WindowResult};

use super::headline::headline;
use super::outcome::MeasuredDevice;
use super::plan::TuneAction;
use super::report::{FLOOD_HEADING, HEADING, cells, conclusions, flood_cells, marked, size};

pub(super) fn page(measured: &[MeasuredDevice], action: TuneAction) -> ReportPage {
    let first = measured.first();
    let sentence = first.map(|one| headline(&one.report, action)).unwrap_or_default();
    let mut page = ReportPage::new("foreread tune", &sentence);
    // The headline shows the first device.
    let named = first.map(|one| section(one, None)).into_iter();
    let rest = measured.iter().skip(1).map(|one| section(one, Some(action)));
    page.sections = named.chain(rest).collect();
    page
}

fn section(one: &MeasuredDevice, action: Option<TuneAction>) -> ReportSection {
    let report = &one.report;
    let mut section = ReportSection::new(&report.device);
    let blocks = &mut section.blocks;
    blocks.extend(action.map(|action| ReportBlock::Paragraph(headline(report, action))));
    if !report.sweep.is_empty() {
        blocks.push(ReportBlock::Chart(ReportChart::Lines(throughput(report))));
    }
    if !report.random.is_empty() {
        blocks.push(ReportBlock::Chart(ReportChart::Lines(latency(report))));
    }
    if !report.sweep.is_empty() {
        blocks.push(ReportBlock::Table(windows(report)));
    }
    let conclusions = conclusions(report).into_iter();
    let mut table = ReportTable::new("What follows.", &["", ""]);
    conclusions.for_each(|(name, what)| table.push([name.to_owned(), what]));
    blocks.push(ReportBlock::Table(table));
    if let Some(flood) = &one.flood {
        let caption = format!("{}: a chain of 4 KiB reads beside 64 random writes.", flood.device);
        let mut table = ReportTable::new(&caption, &FLOOD_HEADING);
        flood.rows.iter().for_each(|row| table.push(flood_cells(row)));
        blocks.push(ReportBlock::Table(table));
        blocks.push(ReportBlock::Paragraph(flood.why.clone()));
    }
    let of_flood = one.flood.iter().flat_map(|flood| flood.notes.iter());
    let notes = report.notes.iter().chain(of_flood).cloned().chain(one.model_text());
    blocks.extend(notes.map(ReportBlock::Paragraph));
    section
}

fn windows(report: &Report) -> ReportTable {
    let mut table = ReportTable::new("Windows. ==> marks what is recommended.", &HEADING);
    let tradeoffs = tradeoffs(&report.sweep, &report.random);
    let row = |(row, tradeoff): (&WindowResult, _)| TableRow {
        cells: cells(report, row, tradeoff).map(|cell| cell.trim().to_owned()).to_vec(),
        is_marked: marked(report) == Some(row.window_kib),
    };
    table.rows = report.sweep.iter().zip(&tradeoffs).map(row).collect();
    table
}

#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn throughput(report: &Report) -> LineChart {
    let point = |row: &WindowResult| LinePoint {
        x: row.window_kib as f64 * 1024.0,
        y: row.mb_per_s,
        between: Some((row.low, row.high)),
    };
    let mark = |kib: u64| ChartMark { x: kib as f64 * 1024.0, text: format!("==> {}", size(kib)) };
    LineChart {
        title: "Throughput over window".to_owned(),
        words: "One sequential stream. The band is the 95 % confidence interval.".to_owned(),
        x: ChartAxis::new("window", AxisUnit::Bytes, AxisScale::Log),
        y: ChartAxis::new("MB/s", AxisUnit::Number, AxisScale::FromZero),
        lines: vec![ChartLine {
            name: "throughput".to_owned(),
            points: report.sweep.iter().map(point).collect(),
            is_stepped: false,
        }],
        mark: marked(report).map(mark),
    }
}

#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn latency(report: &Report) -> LineChart {
    let line = |name: &str, of: fn(&Latency) -> f64| ChartLine {
        name: name.to_owned(),
        points: report
            .random
            .iter()
            .map(|row| LinePoint::new(row.size_kib as f64 * 1024.0, of(row) / 1e6))
            .collect(),
        is_stepped: false,
    };
    LineChart {
        title: "One read of a size".to_owned(),
        words: "What a fault in a mapped file waits for with a window of that size.".to_owned(),
        x: ChartAxis::new("size", AxisUnit::Bytes, AxisScale::Log),
        y: ChartAxis::new("a read", AxisUnit::Seconds, AxisScale::FromZero),
        lines: vec![line("median", |row| row.median_us), line("9 of 10", |row| row.p90_us)],
        mark: None,
    }
}
