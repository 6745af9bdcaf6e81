//! The page of `sim --html`.
//!
//! Shows throughput, waits and latency of the processes, and the tables.

use foreread_core::sizes::Exact;
use foreread_report::{
    AxisScale, AxisUnit, ChartAxis, ChartBar, ChartLine, LineChart, LinePoint, ReportBlock,
    ReportChart, ReportPage, ReportSection, ReportTable,
};
use foreread_sim::run::RunOutcome;
use foreread_sim::scenario::Scenario;

use super::charts::{one_group, throughput_and_waits};
use super::report::{DEVICE_HEADING, HEADING, ProcessGroup, device_line, groups, seconds, setup};

pub(super) fn page(scenario: &Scenario, ran: &RunOutcome) -> ReportPage {
    let groups = groups(&ran.processes);
    let title = format!("foreread-lab sim: {}", scenario.name);
    let mut page = ReportPage::new(&title, &headline(scenario, ran));
    let mut section = ReportSection::new("Processes");
    section.blocks.push(ReportBlock::Paragraph(format!("Run with {}.", setup(scenario))));
    let mb_per_s = |group: &ProcessGroup<'_>| group.mb_per_s(ran.end);
    let figures: [&dyn Fn(&ProcessGroup<'_>) -> f64; 2] = [&mb_per_s, &waited_s];
    section.blocks.extend(throughput_and_waits(figures, |figure| {
        one_group(groups.iter().map(|group| ChartBar {
            label: group.name.clone(),
            value: figure(group),
            series: 0,
        }))
    }));
    section.blocks.push(ReportBlock::Chart(ReportChart::Lines(latency(&groups))));
    let mut table = ReportTable::new("Processes. Those that are alike are one row.", &HEADING);
    groups.iter().for_each(|group| table.push(group.line(ran.end)));
    section.blocks.push(ReportBlock::Table(table));
    page.sections.push(section);
    let mut section = ReportSection::new("Devices");
    let mut table = ReportTable::new("Devices, and how long they were busy.", &DEVICE_HEADING);
    ran.devices.iter().for_each(|meter| table.push(device_line(meter, ran.end)));
    section.blocks.push(ReportBlock::Table(table));
    page.sections.push(section);
    page
}

/// Returns advice if read-ahead is wasted, otherwise a summary.
#[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
fn headline(scenario: &Scenario, ran: &RunOutcome) -> String {
    let policy = scenario.cache.policy.0.name();
    let memory = Exact(scenario.cache.memory.0);
    let waited: f64 = ran.processes.iter().map(|meter| meter.waited_ns as f64 / 1e9).sum();
    let bytes: u64 = ran.processes.iter().map(|meter| meter.bytes.0).sum();
    let end = seconds(ran.end);
    let speed = bytes as f64 / end.max(1e-9) / 1e6;
    let mut text = format!(
        "With {memory}, {policy} gives {speed:.1} MB/s; readers wait {waited:.2} s in {end:.2} s"
    );
    let (ahead, wasted) = (ran.stats.pages_ahead, ran.cache.evicted_before_use);
    if ahead > 0 && wasted * 20 > ahead {
        let percent = wasted as f64 / ahead as f64 * 100.0;
        text += &format!(
            "; {percent:.0} % of the pages read ahead are evicted unused: try more memory, smaller \
             windows, or adaptive"
        );
    }
    text + "."
}

#[expect(clippy::cast_precision_loss, reason = "a bar")]
fn waited_s(group: &ProcessGroup<'_>) -> f64 {
    group.meters.iter().map(|meter| meter.waited_ns as f64 / 1e9).sum()
}

/// Returns the complementary distribution of latency, without operations that took no time.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn latency(groups: &[ProcessGroup<'_>]) -> LineChart {
    let line = |group: &ProcessGroup<'_>| {
        let all = group.latency();
        let points = all.iter_recorded().filter(|step| step.value_iterated_to() > 0);
        let total = all.len().saturating_sub(all.count_at(0)).max(1);
        let mut left = total;
        let mut line = Vec::new();
        for step in points {
            let value = step.value_iterated_to() as f64 / 1e9;
            line.push(LinePoint::new(value, left as f64 / total as f64 * 100.0));
            left = left.saturating_sub(step.count_since_last_iteration());
        }
        line.extend(line.last().map(|last: &LinePoint| LinePoint::new(last.x, 0.0)));
        ChartLine { name: group.name.clone(), points: line, is_stepped: false }
    };
    LineChart {
        title: "How long operations take".to_owned(),
        words: "The share that took as long or longer. Hits, which take no time, are left out."
            .to_owned(),
        x: ChartAxis::new("an operation", AxisUnit::Seconds, AxisScale::Log),
        y: ChartAxis::new("took longer", AxisUnit::Percent, AxisScale::FromZero),
        lines: groups.iter().map(line).collect(),
        mark: None,
    }
}
