//! The page of `demo --html`.
//!
//! Every sentence follows from the figures.

use foreread_report::{
    AxisUnit, BarChart, BarGroup, ChartBar, ReportBlock, ReportChart, ReportPage, ReportSection,
    ReportTable,
};

use super::report::{HEADING, KINDS, least, line};
use super::scenes::SceneFigures;
use foreread_cli::measure::figures::BenchRow;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;

pub(super) fn page(scenes: &[SceneFigures], plain: &[BenchRow]) -> ReportPage {
    let mut page = ReportPage::new("foreread demo", &headline(scenes));
    page.notes.push(least(scenes, plain));
    let skipped = scenes.iter().filter_map(|it| {
        let why = it.skipped.as_ref()?;
        Some(format!("{}: without the kernel: {why}", it.scene.title))
    });
    page.notes.extend(skipped);
    let mut section = ReportSection::new("Beside the kernel's page cache");
    let charts = scenes.iter().map(scene).chain(cached(plain));
    section.blocks.extend(charts.map(|chart| ReportBlock::Chart(ReportChart::Bars(chart))));
    let caption = "The file as it is: MB/s or time per read, median [least-most].";
    let mut table = ReportTable::new(caption, &HEADING);
    let rows = KINDS.iter().filter_map(|(kind, _)| line(plain, *kind));
    rows.for_each(|row| table.push(row));
    section.blocks.push(ReportBlock::Table(table));
    page.sections.push(section);
    page
}

/// Returns the largest gain over the kernel's defaults.
fn headline(scenes: &[SceneFigures]) -> String {
    let gains = scenes.iter().filter_map(|it| {
        let kernel = it.default.as_ref()?;
        Some((it.foreread.times(kernel), it.scene.title))
    });
    match gains.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((times, title)) => format!(
            "With nothing set foreread reads up to {times:.1} x as fast as the kernel's page cache \
             with its defaults ({title})."
        ),
        None => "The kernel is not beside it here.".to_owned(),
    }
}

fn scene(figures: &SceneFigures) -> BarChart {
    let bar = |label: &str, row: &BenchRow, series| ChartBar {
        label: label.to_owned(),
        value: row.mb_per_s.median,
        series,
    };
    let default = figures.default.as_ref().map(|row| bar("kernel, defaults", row, 0));
    let best = figures.best.as_ref().map(|row| bar("kernel, best setting", row, 6));
    let ours = Some(bar("foreread, defaults", &figures.foreread, 2));
    let bars = [default, best, ours].into_iter().flatten().collect();
    BarChart {
        title: figures.scene.title.to_owned(),
        words: format!("{}. Longer is better.", figures.scene.delay),
        value_name: "MB/s".to_owned(),
        unit: AxisUnit::Number,
        groups: vec![BarGroup { name: String::new(), bars }],
    }
}

fn cached(plain: &[BenchRow]) -> Option<BarChart> {
    let bar = |label: &str, method, series| {
        let is_cached =
            |row: &&BenchRow| row.pattern == AccessPattern::Hot4k && row.method == method;
        let value = plain.iter().find(is_cached)?.ns_per_read.median / 1e9;
        Some(ChartBar { label: label.to_owned(), value, series })
    };
    let bars = [
        bar("kernel, pread", AccessMethod::Buffered, 0),
        bar("foreread, read_at", AccessMethod::Foreread, 2),
    ];
    let bars: Vec<ChartBar> = bars.into_iter().flatten().collect();
    (!bars.is_empty()).then(|| BarChart {
        title: "Cached reads of 4 KiB".to_owned(),
        words: "Shorter is better.".to_owned(),
        value_name: "a read".to_owned(),
        unit: AxisUnit::Seconds,
        groups: vec![BarGroup { name: String::new(), bars }],
    })
}
