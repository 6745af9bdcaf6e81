//! `foreread-lab replay --cache`: miss counts of eviction policies.

use foreread_report::{
    AxisScale, AxisUnit, ChartAxis, ChartLine, LineChart, LinePoint, ReportBlock, ReportChart,
    ReportPage, ReportSection, ReportTable,
};
use foreread_sim::json_rows::MissRow;
use foreread_sim::replay::{CacheCount, count_misses_in, fewest_misses};
use foreread_trace::TraceReader;

use super::failure;
use super::plan::{CacheMissPlan, ReplayPlan};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

pub(super) fn run(
    plan: &ReplayPlan,
    misses: &CacheMissPlan,
    out: &mut Printer,
) -> Result<(), Failure> {
    let CacheMissPlan { policies, unit, capacities } = misses;
    let unit = *unit;
    let file = super::html_file(plan)?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for trace in &plan.traces {
        if plan.has_bounds {
            super::check_rereadable(trace, "x MIN reads it twice; give a file, or --no-bounds")?;
        }
        let mut reader =
            TraceReader::open(trace, plan.format).map_err(|error| failure(error.into()))?;
        let counts = count_misses_in(&mut reader, policies, capacities, unit);
        let counts = counts.map_err(failure)?;
        let name = trace.display().to_string();
        notes.extend(reader.notes().iter().map(|note| format!("{name}: {note}")));
        let fewest = if plan.has_bounds {
            let reader = TraceReader::open(trace, plan.format);
            let reader = reader.map_err(|error| failure(error.into()))?;
            fewest_misses(reader, capacities, unit).map_err(failure)?
        } else {
            None
        };
        let fewest = |count: &CacheCount| {
            let at = capacities.iter().position(|capacity| *capacity == count.capacity)?;
            fewest.as_ref().map(|fewest| fewest[at])
        };
        rows.extend(counts.iter().map(|count| MissRow::new(&name, unit, count, fewest(count))));
    }
    if plan.json {
        out.json("replay", &rows)?;
    } else {
        table::print(out, HEADING, rows.iter().map(cells))?;
    }
    out.notes(&notes)?;
    file.map_or(Ok(()), |file| file.write(page(&rows)))
}

/// Miss ratios over capacity.
fn page(rows: &[MissRow]) -> ReportPage {
    let mut page = ReportPage::new("foreread-lab replay --cache", &headline(rows));
    let mut traces: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    traces.dedup();
    for trace in traces {
        let rows: Vec<&MissRow> = rows.iter().filter(|row| row.trace == trace).collect();
        let mut section = ReportSection::new(trace);
        section.blocks.push(ReportBlock::Chart(ReportChart::Lines(curve(&rows))));
        let mut table = ReportTable::new("All counts.", &HEADING);
        rows.iter().for_each(|row| table.push(cells(row)));
        section.blocks.push(ReportBlock::Table(table));
        page.sections.push(section);
    }
    page
}

/// Names the policy that misses least at the smallest capacity.
fn headline(rows: &[MissRow]) -> String {
    let by_misses = |one: &&MissRow, other: &&MissRow| {
        (one.capacity, one.misses).cmp(&(other.capacity, other.misses))
    };
    let Some(best) = rows.iter().min_by(by_misses) else { return String::new() };
    let MissRow { trace, policy, capacity, unit, miss_ratio, .. } = best;
    let percent = miss_ratio * 100.0;
    format!("{trace}: with {capacity} {unit}s, {policy} misses least: {percent:.1} % of all uses.")
}

#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn curve(rows: &[&MissRow]) -> LineChart {
    let mut policies: Vec<&str> = Vec::new();
    for row in rows {
        if !policies.contains(&row.policy) {
            policies.push(row.policy);
        }
    }
    let line = |policy: &str| {
        let of_policy = rows.iter().filter(|row| row.policy == policy);
        let mut points: Vec<LinePoint> = of_policy
            .map(|row| LinePoint::new(row.capacity as f64, row.miss_ratio * 100.0))
            .collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        ChartLine { name: policy.to_owned(), points, is_stepped: false }
    };
    let unit = rows.first().map_or("page", |row| row.unit);
    let mut lines: Vec<ChartLine> = policies.into_iter().map(line).collect();
    lines.extend(fewest_line(rows));
    LineChart {
        title: "Miss ratio over capacity".to_owned(),
        words: "Lower is better.".to_owned(),
        x: ChartAxis::new(&format!("capacity, {unit}s"), AxisUnit::Number, AxisScale::Log),
        y: ChartAxis::new("uses that miss", AxisUnit::Percent, AxisScale::FromZero),
        lines,
        mark: None,
    }
}

/// Returns the miss ratios of Belady's MIN, which knows all accesses.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn fewest_line(rows: &[&MissRow]) -> Option<ChartLine> {
    let point = |row: &&MissRow| {
        let ratio = row.fewest_misses? as f64 / row.uses.max(1) as f64;
        Some(LinePoint::new(row.capacity as f64, ratio * 100.0))
    };
    let mut points: Vec<LinePoint> = rows.iter().filter_map(point).collect();
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    points.dedup_by(|one, other| one.x.total_cmp(&other.x).is_eq());
    let name = "MIN".to_owned();
    (!points.is_empty()).then_some(ChartLine { name, points, is_stepped: false })
}

const HEADING: [&str; 8] =
    ["trace", "policy", "capacity", "unit", "uses", "misses", "miss ratio", "x MIN"];

#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
fn cells(row: &MissRow) -> [String; 8] {
    let times = |fewest: u64| format!("{:.2}", row.misses as f64 / fewest.max(1) as f64);
    [
        row.trace.clone(),
        row.policy.to_owned(),
        row.capacity.to_string(),
        row.unit.to_owned(),
        row.uses.to_string(),
        row.misses.to_string(),
        format!("{:.4}", row.miss_ratio),
        row.fewest_misses.map_or_else(|| "-".to_owned(), times),
    ]
}
