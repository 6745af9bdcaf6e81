//! The page of `bench --html`.
//!
//! Shows ratios, throughput and times side by side, and the table. Ratios only compare runs made
//! side by side.

use foreread_report::{
    AxisUnit, BarChart, BarGroup, ChartBar, ReportBlock, ReportChart, ReportPage, ReportSection,
    ReportTable,
};

use super::report::{HEADING, line, patterns};
use foreread_cli::measure::figures::{BenchRow, unit};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;

pub(super) fn page(target: &str, rows: &[BenchRow], notes: &[String]) -> ReportPage {
    let title = format!("foreread bench: {target}");
    let mut page = ReportPage::new(&title, &headline(rows));
    page.notes = notes.to_vec();
    let mut section = ReportSection::new("Patterns");
    let has_time = |pattern: AccessPattern| unit(pattern) != "MB/s";
    let (timed, streamed): (Vec<_>, Vec<_>) =
        patterns(rows).into_iter().partition(|pattern| has_time(*pattern));
    if !streamed.is_empty() {
        section.blocks.push(ReportBlock::Chart(ReportChart::Bars(speeds(rows, &streamed))));
    }
    if !timed.is_empty() {
        section.blocks.push(ReportBlock::Chart(ReportChart::Bars(times(rows, &timed))));
    }
    let mut table = ReportTable::new("Medians with their range, and ratios.", &HEADING);
    patterns(rows).into_iter().for_each(|pattern| table.push(line(rows, pattern)));
    section.blocks.push(ReportBlock::Table(table));
    page.sections.push(section);
    page
}

/// Returns the largest and smallest gain over the kernel.
fn headline(rows: &[BenchRow]) -> String {
    let of = |pattern, method| {
        rows.iter().find(|row: &&BenchRow| row.pattern == pattern && row.method == method)
    };
    let ratios = patterns(rows).into_iter().filter_map(|pattern| {
        let ours = of(pattern, AccessMethod::Foreread)?;
        let kernel = of(pattern, AccessMethod::Buffered)?;
        Some((ours.times(kernel), pattern.name()))
    });
    let mut ratios: Vec<(f64, &str)> = ratios.collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    match (ratios.first(), ratios.last()) {
        (Some((least, worst)), Some((most, best))) if ratios.len() > 1 => format!(
            "Beside the kernel's page cache foreread is {most:.2} x as fast at {best}, and \
             {least:.2} x at {worst}."
        ),
        (Some((only, pattern)), _) => {
            format!("Beside the kernel's page cache foreread is {only:.2} x as fast at {pattern}.")
        }
        (None, _) => "The kernel is not beside it here.".to_owned(),
    }
}

fn speeds(rows: &[BenchRow], patterns: &[AccessPattern]) -> BarChart {
    BarChart {
        title: "Throughput".to_owned(),
        words: "Medians. Longer is better.".to_owned(),
        value_name: "MB/s".to_owned(),
        unit: AxisUnit::Number,
        groups: groups(rows, patterns, |row| row.mb_per_s.median),
    }
}

fn times(rows: &[BenchRow], patterns: &[AccessPattern]) -> BarChart {
    BarChart {
        title: "Time of a cached read".to_owned(),
        words: "Medians. Shorter is better.".to_owned(),
        value_name: "a read".to_owned(),
        unit: AxisUnit::Seconds,
        groups: groups(rows, patterns, |row| row.ns_per_read.median / 1e9),
    }
}

fn groups(
    rows: &[BenchRow],
    patterns: &[AccessPattern],
    value: fn(&BenchRow) -> f64,
) -> Vec<BarGroup> {
    let bar = |row: &BenchRow| {
        let (label, series) = match row.method {
            AccessMethod::Buffered => ("kernel", 0),
            AccessMethod::Direct => ("bare O_DIRECT", 1),
            AccessMethod::Memory => ("copy in memory", 6),
            AccessMethod::Foreread => ("foreread", 2),
        };
        ChartBar { label: label.to_owned(), value: value(row), series }
    };
    let group = |pattern: &AccessPattern| BarGroup {
        name: pattern.name().to_owned(),
        bars: rows.iter().filter(|row| row.pattern == *pattern).map(bar).collect(),
    };
    patterns.iter().map(group).collect()
}
