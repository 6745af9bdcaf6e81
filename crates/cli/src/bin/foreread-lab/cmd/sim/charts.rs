//! Charts that the pages of runs, of combinations and of rivals share.

use foreread_report::{AxisUnit, BarChart, BarGroup, ChartBar, ReportBlock, ReportChart};

/// Returns throughput and waits as two charts with the same bars.
///
/// `group` builds the groups from the figure of a chart.
pub(super) fn throughput_and_waits<F>(
    [mb_per_s, waited_s]: [F; 2],
    group: impl Fn(F) -> Vec<BarGroup>,
) -> [ReportBlock; 2] {
    let throughput = BarChart {
        title: "Throughput".to_owned(),
        words: "Longer is better.".to_owned(),
        value_name: "MB/s".to_owned(),
        unit: AxisUnit::Number,
        groups: group(mb_per_s),
    };
    let waits = BarChart {
        title: "Waits for reads through the cache".to_owned(),
        words: "The sum over all readers. Shorter is better.".to_owned(),
        value_name: "waited".to_owned(),
        unit: AxisUnit::Seconds,
        groups: group(waited_s),
    };
    [throughput, waits].map(|chart| ReportBlock::Chart(ReportChart::Bars(chart)))
}

/// Returns the only group of a chart.
pub(super) fn one_group(bars: impl Iterator<Item = ChartBar>) -> Vec<BarGroup> {
    vec![BarGroup { name: String::new(), bars: bars.collect() }]
}
