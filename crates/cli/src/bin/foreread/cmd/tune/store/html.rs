//! The page of `tune URL --html`.
//!
//! Shows throughput by connections and by parts with `==>`, latency, and settings.

use foreread_report::{
    AxisScale, AxisUnit, ChartAxis, ChartLine, ChartMark, LineChart, LinePoint, ReportBlock,
    ReportChart, ReportPage, ReportSection, ReportTable, TableRow,
};
use foreread_tune::store_sweep::PointResult;

use super::report::{CONNECTIONS, PARTS, cells, conclusions, headline, how, is_marked, size};
use super::{TunedStore, WrittenModel};

pub(super) fn page(tuned: &TunedStore) -> ReportPage {
    let mut page = ReportPage::new("foreread tune", &headline(tuned));
    page.notes.push(how(tuned));
    let found = &tuned.findings;
    let mut section = ReportSection::new(&tuned.url);
    let blocks = &mut section.blocks;
    let charts = [connections(tuned), parts(tuned)].into_iter().flatten();
    blocks.extend(charts.map(|chart| ReportBlock::Chart(ReportChart::Lines(chart))));
    for (rows, heading) in [(&found.connections, CONNECTIONS), (&found.parts, PARTS)] {
        if !rows.is_empty() {
            blocks.push(ReportBlock::Table(table(tuned, rows, heading)));
        }
    }
    let mut table = ReportTable::new("What follows.", &["", ""]);
    conclusions(tuned).into_iter().for_each(|(name, what)| table.push([name.to_owned(), what]));
    blocks.push(ReportBlock::Table(table));
    let of_model = tuned.device_model.as_ref().map(WrittenModel::text);
    let notes = found.notes.iter().cloned().chain(of_model);
    blocks.extend(notes.map(ReportBlock::Paragraph));
    page.sections.push(section);
    page
}

fn table(tuned: &TunedStore, rows: &[PointResult], heading: [&str; 6]) -> ReportTable {
    let names = heading.map(str::trim);
    let caption = format!("Throughput by {}. ==> marks what is chosen.", names[0]);
    let mut table = ReportTable::new(&caption, &names);
    let row = |row: &PointResult| TableRow {
        cells: cells(row, heading[0]).to_vec(),
        is_marked: is_marked(tuned, row, heading[0]),
    };
    table.rows = rows.iter().map(row).collect();
    table
}

fn connections(tuned: &TunedStore) -> Option<LineChart> {
    let rows = &tuned.findings.connections;
    let part = size(rows.first()?.part_kib);
    let mark = tuned.findings.chosen.as_ref().map(|choice| ChartMark {
        x: f64::from(choice.connections),
        text: format!("==> {}", choice.connections),
    });
    Some(chart(
        "Throughput over connections",
        &format!("Parts of {part}. The band is the 95 % confidence interval."),
        ChartAxis::new("connections", AxisUnit::Number, AxisScale::Log),
        rows.iter().map(|row| point(f64::from(row.connections), row)).collect(),
        mark,
    ))
}

#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn parts(tuned: &TunedStore) -> Option<LineChart> {
    let rows = &tuned.findings.parts;
    let connections = rows.first()?.connections;
    let bytes = |kib: u64| kib as f64 * 1024.0;
    let mark = tuned.findings.chosen.as_ref().map(|choice| ChartMark {
        x: bytes(choice.part_kib),
        text: format!("==> {}", size(choice.part_kib)),
    });
    Some(chart(
        "Throughput over part size",
        &format!("{connections} connections. The band is the 95 % confidence interval."),
        ChartAxis::new("part", AxisUnit::Bytes, AxisScale::Log),
        rows.iter().map(|row| point(bytes(row.part_kib), row)).collect(),
        mark,
    ))
}

fn point(x: f64, row: &PointResult) -> LinePoint {
    LinePoint { x, y: row.mb_per_s, between: Some((row.low, row.high)) }
}

fn chart(
    title: &str,
    words: &str,
    x: ChartAxis,
    points: Vec<LinePoint>,
    mark: Option<ChartMark>,
) -> LineChart {
    LineChart {
        title: title.to_owned(),
        words: words.to_owned(),
        x,
        y: ChartAxis::new("MB/s", AxisUnit::Number, AxisScale::FromZero),
        lines: vec![ChartLine { name: "throughput".to_owned(), points, is_stepped: false }],
        mark,
    }
}
