//! The page of `replay --real --html`.
//!
//! In:    rows.
//! Out:   a section for each trace: waits side by side, how long they took, the table.
//! Never: a figure that the table or the JSON does not have.

use foreread_report::{
    AxisScale, AxisUnit, BarChart, BarGroup, ChartAxis, ChartBar, ChartLine, LineChart, LinePoint,
    ReportBlock, ReportChart, ReportPage, ReportSection, ReportTable,
};

use super::report::{HEADING, RealRow, about, sentence};

pub(super) fn page(rows: &[RealRow], notes: &[String]) -> ReportPage {
    let mut traces: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    traces.dedup();
    let of = |trace: &str| -> Vec<RealRow> {
        rows.iter().filter(|row| row.trace == trace).cloned().collect()
    };
    let first = traces.first().copied().unwrap_or_default();
    let headline = sentence(&of(first));
    let headline = headline.unwrap_or_else(|| "What each method waits for.".to_owned());
    let mut page = ReportPage::new(&format!("foreread replay --real: {first}"), &headline);
    page.notes = notes.to_vec();
    page.sections = traces.into_iter().map(|trace| section(&of(trace))).collect();
    page
}

fn section(rows: &[RealRow]) -> ReportSection {
    let mut section = ReportSection::new(&rows[0].trace);
    let mut push = |block| section.blocks.push(block);
    push(ReportBlock::Paragraph(about(&rows[0])));
    push(ReportBlock::Chart(ReportChart::Bars(waits(rows))));
    push(ReportBlock::Chart(ReportChart::Lines(distribution(rows))));
    let mut table = ReportTable::new("All runs. docs/replay.md has the columns.", &HEADING);
    rows.iter().for_each(|row| table.push(row.cells()));
    push(ReportBlock::Table(table));
    section
}

fn waits(rows: &[RealRow]) -> BarChart {
    let bar = |(series, row): (usize, &RealRow)| ChartBar {
        label: row.label.clone(),
        value: row.waited_s,
        series,
    };
    let bars = rows.iter().enumerate().map(bar).collect();
    BarChart {
        title: "What readers wait".to_owned(),
        words: "The sum of all waits. Shorter is better.".to_owned(),
        value_name: "waited".to_owned(),
        unit: AxisUnit::Seconds,
        groups: vec![BarGroup { name: "measured".to_owned(), bars }],
    }
}

/// Of the reads that waited: how many waited longer.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn distribution(rows: &[RealRow]) -> LineChart {
    let line = |row: &RealRow| {
        let waits = &row.wait_latency;
        let steps = (0..=STEPS).map(|n| f64::from(n) / f64::from(STEPS));
        let mut quantiles: Vec<f64> = steps.chain([0.992, 0.995, 0.998, 0.999]).collect();
        quantiles.sort_by(f64::total_cmp);
        let point = |quantile: f64| {
            let wait = waits.value_at_quantile(quantile) as f64 / 1e9;
            LinePoint::new(wait, (1.0 - quantile) * 100.0)
        };
        let points =
            if waits.is_empty() { Vec::new() } else { quantiles.into_iter().map(point).collect() };
        ChartLine { name: row.label.clone(), points, is_stepped: false }
    };
    LineChart {
        title: "How long reads wait".to_owned(),
        words: "Of the reads that waited: the share that waited longer. Hits are left out."
            .to_owned(),
        x: ChartAxis::new("a wait", AxisUnit::Seconds, AxisScale::Log),
        y: ChartAxis::new("waited longer", AxisUnit::Percent, AxisScale::FromZero),
        lines: rows.iter().map(line).collect(),
        mark: None,
    }
}

/// Steps of a distribution.
const STEPS: u32 = 100;
