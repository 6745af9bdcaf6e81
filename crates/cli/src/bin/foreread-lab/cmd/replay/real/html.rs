//! The page of `replay --real --html`.

use foreread_report::{
    BarChart, BarGroup, ChartBar, ReportBlock, ReportChart, ReportPage, ReportSection, ReportTable,
};

use super::report::{HEADING, RealRow, about, sentence};
use crate::cmd::replay::html::{wait_distribution, waits_chart};

pub(super) fn page(rows: &[RealRow], notes: &[String]) -> ReportPage {
    let mut traces: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    traces.dedup();
    let of = |trace: &str| -> Vec<RealRow> {
        rows.iter().filter(|row| row.trace == trace).cloned().collect()
    };
    let first = traces.first().copied().unwrap_or_default();
    let headline = sentence(&of(first));
    let headline = headline.unwrap_or_else(|| "Waits with each method.".to_owned());
    let mut page = ReportPage::new(&format!("foreread-lab replay --real: {first}"), &headline);
    page.notes = notes.to_vec();
    page.sections = traces.into_iter().map(|trace| section(&of(trace))).collect();
    page
}

fn section(rows: &[RealRow]) -> ReportSection {
    let mut section = ReportSection::new(&rows[0].trace);
    let mut push = |block| section.blocks.push(block);
    push(ReportBlock::Paragraph(about(&rows[0])));
    push(ReportBlock::Chart(ReportChart::Bars(waits(rows))));
    let waits = rows.iter().map(|row| (row.label.as_str(), &row.wait_latency));
    let waits = wait_distribution("How long reads wait".to_owned(), waits);
    push(ReportBlock::Chart(ReportChart::Lines(waits)));
    let mut table = ReportTable::new("All runs. docs/lab/replay.md has the columns.", &HEADING);
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
    waits_chart(vec![BarGroup { name: "measured".to_owned(), bars }])
}
