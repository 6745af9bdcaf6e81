//! The page of `replay --html`.

use foreread_core::prefetch::Policy;
use foreread_report::{
    AxisScale, AxisUnit, BarChart, BarGroup, ChartAxis, ChartBar, ChartLine, LineChart, LinePoint,
    ReportBlock, ReportChart, ReportPage, ReportSection, ReportTable, TableRow,
};
use foreread_sim::json_rows::ReplayRow;
use foreread_sim::replay::ReplayFigures;
use foreread_trace::TraceSummary;
use hdrhistogram::Histogram;

use super::jobs::ReplayJob;
use super::picture;
use super::report::{HEADING, cells, memory_words, sentence};

/// The replays of one trace.
pub(super) struct TraceReplays<'r> {
    pub(super) summary: &'r TraceSummary,
    pub(super) rows: &'r [ReplayRow],
    pub(super) jobs: &'r [ReplayJob],
    pub(super) figures: &'r [ReplayFigures],
    /// The name of the device's model.
    pub(super) device: &'r str,
    /// True for a single trace.
    pub(super) is_only: bool,
}

/// Builds the page from the sections of all traces.
pub(super) fn page(
    rows: &[ReplayRow],
    notes: &[String],
    sections: Vec<ReportSection>,
) -> ReportPage {
    let first = rows.first().map_or("", |row| row.setup.trace.as_str());
    let of_first: Vec<ReplayRow> =
        rows.iter().filter(|row| row.setup.trace == first).cloned().collect();
    let headline = sentence(&of_first).unwrap_or_else(|| "Waits with each policy.".to_owned());
    let others = sections.len().saturating_sub(1);
    let title = match others {
        0 => format!("foreread-lab replay: {first}"),
        others => format!("foreread-lab replay: {first} and {others} more"),
    };
    let mut page = ReportPage::new(&title, &headline);
    page.notes = notes.to_vec();
    page.sections = sections;
    page
}

/// Builds the section of one trace.
pub(super) fn section(of: &TraceReplays<'_>) -> ReportSection {
    let first = &of.rows[0];
    let mut section = ReportSection::new(&first.setup.trace);
    let words = format!(
        "{} reads in {} files, {} level, {} loop x {}, on the model {}{}.",
        first.reads,
        of.summary.files.len(),
        first.setup.level,
        first.setup.pace,
        first.setup.scale,
        of.device,
        if first.setup.warm { ", from a warm cache" } else { "" }
    );
    section.blocks.push(ReportBlock::Paragraph(words));
    if !of.is_only {
        // The headline shows the first trace.
        section.blocks.extend(sentence(of.rows).map(ReportBlock::Paragraph));
    }
    let mut charts = vec![ReportChart::Bars(waits(of.rows))];
    if of.rows.iter().any(|row| row.setup.memory != first.setup.memory) {
        charts.push(ReportChart::Lines(over_memory(of.rows, false)));
        charts.push(ReportChart::Lines(over_memory(of.rows, true)));
    }
    charts.push(ReportChart::Lines(distribution(of)));
    charts.extend(pictures(of));
    section.blocks.extend(charts.into_iter().map(ReportBlock::Chart));
    section.blocks.push(ReportBlock::Table(table(of.rows)));
    section
}

fn table(rows: &[ReplayRow]) -> ReportTable {
    let mut table = ReportTable::new("All replays. docs/lab/replay.md has the columns.", &HEADING);
    let best = best(rows);
    table.rows = rows
        .iter()
        .enumerate()
        .map(|(n, row)| TableRow { cells: cells(row).to_vec(), is_marked: Some(n) == best })
        .collect();
    table
}

/// Returns the row with the least waiting at the smallest memory.
fn best(rows: &[ReplayRow]) -> Option<usize> {
    let smallest = rows.iter().map(|row| row.setup.memory).min()?;
    let of_smallest = rows.iter().enumerate().filter(|(_, row)| row.setup.memory == smallest);
    let best = of_smallest.min_by(|one, other| one.1.waited_s.total_cmp(&other.1.waited_s));
    best.map(|(n, _)| n)
}

/// Returns the distinct labels, in order of the rows.
fn labels(rows: &[ReplayRow]) -> Vec<&str> {
    let mut labels = Vec::new();
    for row in rows {
        if !labels.contains(&row.setup.label.as_str()) {
            labels.push(row.setup.label.as_str());
        }
    }
    labels
}

/// Returns the distinct memory sizes, in order of the rows.
fn memories(rows: &[ReplayRow]) -> Vec<u64> {
    let mut memories = Vec::new();
    for row in rows {
        if !memories.contains(&row.setup.memory) {
            memories.push(row.setup.memory);
        }
    }
    memories
}

fn waits(rows: &[ReplayRow]) -> BarChart {
    let labels = labels(rows);
    let bar = |row: &ReplayRow| ChartBar {
        label: row.setup.label.clone(),
        value: row.waited_s,
        series: labels.iter().position(|label| *label == row.setup.label).unwrap_or(0),
    };
    let group = |memory: u64| BarGroup {
        name: format!("with {}", memory_words(memory)),
        bars: rows.iter().filter(|row| row.setup.memory == memory).map(bar).collect(),
    };
    waits_chart(memories(rows).into_iter().map(group).collect())
}

/// Returns the chart of total waits.
pub(super) fn waits_chart(groups: Vec<BarGroup>) -> BarChart {
    BarChart {
        title: "Total wait of the readers".to_owned(),
        words: "The sum of all waits. Shorter is better.".to_owned(),
        value_name: "waited".to_owned(),
        unit: AxisUnit::Seconds,
        groups,
    }
}

/// Waits over memory: their sum, or the share of reads that waited.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn over_memory(rows: &[ReplayRow], is_share: bool) -> LineChart {
    let value = |row: &ReplayRow| {
        if is_share { row.waits as f64 / row.reads.max(1) as f64 * 100.0 } else { row.waited_s }
    };
    let line = |label: &str| {
        let of_label = rows.iter().filter(|row| row.setup.label == label);
        let mut points: Vec<LinePoint> =
            of_label.map(|row| LinePoint::new(row.setup.memory as f64, value(row))).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        ChartLine { name: label.to_owned(), points, is_stepped: false }
    };
    let (title, label, unit) = if is_share {
        ("Reads that wait, over memory", "reads that waited", AxisUnit::Percent)
    } else {
        ("Waiting over memory", "waited", AxisUnit::Seconds)
    };
    let mut lines: Vec<ChartLine> = labels(rows).into_iter().map(line).collect();
    if !is_share {
        lines.extend(least_line(rows));
    }
    LineChart {
        title: title.to_owned(),
        words: "Lower is better; a line that is flat gains nothing from more memory.".to_owned(),
        x: ChartAxis::new("memory", AxisUnit::Bytes, AxisScale::Log),
        y: ChartAxis::new(label, unit, AxisScale::FromZero),
        lines,
        mark: None,
    }
}

/// Returns the offline optimum of waiting over memory.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn least_line(rows: &[ReplayRow]) -> Option<ChartLine> {
    let point = |memory: u64| {
        let row = rows.iter().find(|row| row.setup.memory == memory)?;
        Some(LinePoint::new(memory as f64, row.least_waited_s?))
    };
    let mut points: Vec<LinePoint> = memories(rows).into_iter().filter_map(point).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    let name = "least, with the future known".to_owned();
    (!points.is_empty()).then_some(ChartLine { name, points, is_stepped: false })
}

/// Draws the chart of the waits: the share of reads that waited longer than a time.
fn distribution(of: &TraceReplays<'_>) -> LineChart {
    let smallest = of.rows.iter().map(|row| row.setup.memory).min();
    let rows = of.rows.iter().zip(of.figures).filter(|(row, _)| Some(row.setup.memory) == smallest);
    let memory = memory_words(smallest.unwrap_or(0));
    let waits = rows.map(|(row, of)| (row.setup.label.as_str(), &of.wait_latency));
    wait_distribution(format!("How long reads wait, with {memory}"), waits)
}

/// Draws the chart of the waits, one line for each label: the share of reads that waited longer
/// than a time. Excludes hits, which would dominate it.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
pub(super) fn wait_distribution<'r>(
    title: String,
    waits: impl Iterator<Item = (&'r str, &'r Histogram<u64>)>,
) -> LineChart {
    let line = |(label, waits): (&str, &Histogram<u64>)| {
        let steps = (0..=STEPS).map(|n| f64::from(n) / f64::from(STEPS));
        let mut quantiles: Vec<f64> = steps.chain([0.992, 0.995, 0.998, 0.999]).collect();
        quantiles.sort_by(f64::total_cmp);
        let point = |quantile: f64| {
            let wait = waits.value_at_quantile(quantile) as f64 / 1e9;
            LinePoint::new(wait, (1.0 - quantile) * 100.0)
        };
        let points =
            if waits.is_empty() { Vec::new() } else { quantiles.into_iter().map(point).collect() };
        ChartLine { name: label.to_owned(), points, is_stepped: false }
    };
    LineChart {
        title,
        words: "Of the reads that waited: the share that waited longer. Hits are left out."
            .to_owned(),
        x: ChartAxis::new("a wait", AxisUnit::Seconds, AxisScale::Log),
        y: ChartAxis::new("waited longer", AxisUnit::Percent, AxisScale::FromZero),
        lines: waits.map(line).collect(),
        mark: None,
    }
}

/// Maps of the policies at the smallest memory, and the streams of the best of them.
fn pictures(of: &TraceReplays<'_>) -> Vec<ReportChart> {
    let best = best(of.rows);
    let with = of.rows.iter().zip(of.jobs).zip(of.figures).enumerate();
    let with: Vec<_> = with
        .filter_map(|(n, ((row, job), of))| Some((n, row, job, of.picture.as_ref()?)))
        .collect();
    let mut charts: Vec<ReportChart> = with
        .iter()
        .take(MOST_MAPS)
        .map(|(_, row, _, picture)| ReportChart::Map(picture::map(&row.setup.label, picture)))
        .collect();
    let shown = with.iter().filter(|(_, _, job, _)| job.how.cache.policy.0 != Policy::None);
    let shown: Vec<_> = shown.collect();
    let chosen = shown.iter().find(|(n, ..)| Some(*n) == best).or(shown.first());
    if let Some((_, row, _, picture)) = chosen {
        charts.extend(
            picture::streams(&row.setup.label, picture, of.summary).map(ReportChart::Lines),
        );
    }
    charts
}

/// Steps of a distribution.
const STEPS: u32 = 100;

/// Largest number of maps in a report; each has up to 150 KB.
const MOST_MAPS: usize = 3;
