//! The page of `sim rivals --html`.
//!
//! Shows the progress and waits of the readers of each scenario, with the bounds.

use foreread_report::{ChartBar, ReportBlock, ReportPage, ReportSection, ReportTable, TableRow};
use foreread_sim::rivals::{self, Loss, RivalRow};

use super::super::charts::{one_group, throughput_and_waits};
use super::cells::{HEADING, cells};

pub(super) fn page(rows: &[RivalRow], losses: &[Loss]) -> ReportPage {
    let mut page = ReportPage::new("foreread-lab sim rivals", &headline(rows, losses));
    page.notes.push(NOTE.to_owned());
    for rival in rivals::all() {
        let of: Vec<&RivalRow> = rows.iter().filter(|row| row.scenario == rival.name).collect();
        if of.is_empty() {
            continue;
        }
        let mut section = ReportSection::new(rival.name);
        section.blocks.push(ReportBlock::Paragraph(rival.about()));
        let figures: [fn(&RivalRow) -> f64; 2] = [|row| row.mb_per_s, |row| row.waited_s];
        section.blocks.extend(throughput_and_waits(figures, |figure| {
            one_group(of.iter().map(|row| ChartBar {
                label: row.label(),
                value: figure(row),
                series: usize::from(row.policy == "adaptive"),
            }))
        }));
        let mut table = ReportTable::new("docs/lab/rivals.md has the columns.", &HEADING[1..]);
        let best = best(&of);
        table.rows = of
            .iter()
            .enumerate()
            .map(|(n, row)| TableRow {
                cells: cells(row)[1..].to_vec(),
                is_marked: best == Some(n),
            })
            .collect();
        section.blocks.push(ReportBlock::Table(table));
        for loss in losses.iter().filter(|loss| loss.scenario == rival.name) {
            section.blocks.push(ReportBlock::Paragraph(format!("adaptive loses: {loss}")));
        }
        page.sections.push(section);
    }
    page
}

/// Returns the headline: the scenarios in which `adaptive` is not the best choice.
fn headline(rows: &[RivalRow], losses: &[Loss]) -> String {
    let mut scenarios: Vec<&str> = rows.iter().map(|row| row.scenario).collect();
    scenarios.dedup();
    if !rows.iter().any(|row| row.policy == "adaptive") {
        return format!("{} scenarios, without adaptive.", scenarios.len());
    }
    let mut lost: Vec<&str> = losses.iter().map(|loss| loss.scenario).collect();
    lost.dedup();
    match lost.len() {
        0 => "adaptive loses nowhere by more than 2 %.".to_owned(),
        count => format!(
            "adaptive loses something by more than 2 % in {count} of {} scenarios: {}.",
            scenarios.len(),
            lost.join(", ")
        ),
    }
}

/// Returns the row with the most bytes a second; among equals, the one with the least waiting.
fn best(rows: &[&RivalRow]) -> Option<usize> {
    let order = |one: &RivalRow, other: &RivalRow| {
        let speed = one.mb_per_s.total_cmp(&other.mb_per_s);
        speed.then(other.waited_s.total_cmp(&one.waited_s))
    };
    (0..rows.len()).max_by(|one, other| order(rows[*one], rows[*other]))
}

const NOTE: &str = "x req and x MIN are relative to lower bounds, which need not be reachable, \
                    nor all at once";
