//! The page of `sim --html` for several combinations.

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use foreread_report::{BarGroup, ChartBar, ReportBlock, ReportPage, ReportSection, ReportTable};
use foreread_sim::comparison::{ComparedFigure, ComparisonRow};

use super::super::charts::throughput_and_waits;
use super::cells::{HEADING, cells, label};
use super::{legend, size_of};

pub(super) fn page(rows: &[ComparisonRow], seeds: &[u64]) -> ReportPage {
    let title = format!("foreread-lab sim: {}", rows[0].scenario);
    let mut page = ReportPage::new(&title, &headline(rows));
    page.notes.extend(legend(rows, seeds));
    let mut section = ReportSection::new("Combinations");
    section.blocks.push(ReportBlock::Paragraph(format!("{}.", size_of(rows, seeds))));
    let figures: [fn(&ComparisonRow) -> ComparedFigure; 2] =
        [|row| row.mb_per_s, |row| row.waited_s];
    section.blocks.extend(throughput_and_waits(figures, |figure| groups(rows, figure)));
    let mut table =
        ReportTable::new("All combinations. docs/lab/simulator.md has the columns.", &HEADING);
    rows.iter().for_each(|row| table.push(cells(row)));
    section.blocks.push(ReportBlock::Table(table));
    page.sections.push(section);
    page
}

/// Compares the fastest combination at the first memory size with the fastest of the first policy
/// there.
fn headline(rows: &[ComparisonRow]) -> String {
    let memory = rows[0].memory;
    let first = rows[0].policy;
    let speed = |row: &ComparisonRow| row.mb_per_s.over_seeds.mean;
    let fastest = |is_meant: fn(&ComparisonRow, &str) -> bool| {
        let meant = rows.iter().filter(|row| row.memory == memory && is_meant(row, first));
        let fastest = meant.max_by(|one, other| speed(one).total_cmp(&speed(other)));
        fastest.unwrap_or(&rows[0])
    };
    let (best, base) = (fastest(|_, _| true), fastest(|row, first| row.policy == first));
    let (size, label_of_best) = (Exact(ByteCount(memory)), label(best));
    let most = format!("With {size}, {label_of_best} gives most: {:.1} MB/s", speed(best));
    if rows.iter().all(|row| row.policy == first) {
        return format!("{most}.");
    }
    let half = |row: &ComparisonRow| row.mb_per_s.over_seeds.half_width;
    let (above, below) = (half(base).unwrap_or(0.0), half(best).unwrap_or(0.0));
    if speed(best) - below > speed(base) + above {
        let times = speed(best) / speed(base);
        return format!("{most}, {times:.2} times the best of {first}, {}.", label(base));
    }
    let interval = if half(base).is_some() { " beyond the intervals" } else { "" };
    format!("With {size}, no policy is faster than {}{interval}.", label(base))
}

/// Returns a group of bars for each memory size; each policy has one colour.
fn groups(rows: &[ComparisonRow], figure: fn(&ComparisonRow) -> ComparedFigure) -> Vec<BarGroup> {
    let mut policies: Vec<&str> = rows.iter().map(|row| row.policy).collect();
    policies.dedup();
    let bar = |row: &ComparisonRow| ChartBar {
        label: label(row),
        value: figure(row).over_seeds.mean,
        series: policies.iter().position(|policy| *policy == row.policy).unwrap_or(0),
    };
    let of_memory = |rows: &[ComparisonRow]| BarGroup {
        name: format!("with {}", Exact(ByteCount(rows[0].memory))),
        bars: rows.iter().map(bar).collect(),
    };
    rows.chunk_by(|one, next| one.memory == next.memory).map(of_memory).collect()
}
