//! The page of `seeds --html`.
//!
//! Shows the errors of all tables, then each table with its cells.

use foreread_report::{
    AxisUnit, BarChart, BarGroup, ChartBar, ReportBlock, ReportChart, ReportPage, ReportSection,
    ReportTable, TableRow,
};
use foreread_sim::seeds::SeedTable;

use super::report::{HEADING, SUMMARY_HEADING, errors, lines, summary, verdict};

pub(super) fn page(tables: &[SeedTable]) -> ReportPage {
    let holding = tables.iter().filter(|table| table.verdict.holds).count();
    let headline = format!("{holding} of {} published tables are reproduced.", tables.len());
    let mut page = ReportPage::new("foreread-lab seeds", &headline);
    let mut all = ReportSection::new("All tables");
    all.blocks.push(ReportBlock::Chart(ReportChart::Bars(error_bars(tables))));
    let mut table = ReportTable::new("Errors of each table.", &SUMMARY_HEADING);
    tables.iter().for_each(|one| table.push(summary(one)));
    all.blocks.push(ReportBlock::Table(table));
    page.sections.push(all);
    page.sections.extend(tables.iter().map(section));
    page
}

fn section(table: &SeedTable) -> ReportSection {
    let mut section = ReportSection::new(&format!("{}: {}", table.table, table.title));
    let mut cells = ReportTable::new("Published, ours, and the error.", &HEADING);
    let row =
        |(cells, is_marked): ([String; 6], bool)| TableRow { cells: cells.to_vec(), is_marked };
    let marks = table.cells.iter().map(|cell| cell.is_marked);
    cells.rows = lines(table).zip(marks).map(row).collect();
    section.blocks.push(ReportBlock::Table(cells));
    section.blocks.extend(table.notes.iter().cloned().map(ReportBlock::Paragraph));
    section.blocks.push(ReportBlock::Paragraph(verdict(table)));
    section
}

/// Draws the median and largest error of each table.
fn error_bars(tables: &[SeedTable]) -> BarChart {
    let group = |table: &SeedTable| {
        let errors = errors(table);
        let bar = |label: &str, value: Option<&f64>, series| {
            let value = *value?;
            Some(ChartBar { label: label.to_owned(), value, series })
        };
        let bars = [
            bar("median error", errors.get(errors.len() / 2), 0),
            bar("largest error", errors.last(), 1),
        ];
        BarGroup { name: table.table.to_owned(), bars: bars.into_iter().flatten().collect() }
    };
    BarChart {
        title: "How far ours is from what was published".to_owned(),
        words: "Of the cells that were published. Shorter is better.".to_owned(),
        value_name: "error".to_owned(),
        unit: AxisUnit::Percent,
        groups: tables.iter().map(group).collect(),
    }
}
