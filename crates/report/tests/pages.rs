//! Pages as text: their bound, and texts that are no markup.

use foreread_report::{
    AxisScale, AxisUnit, BarChart, BarGroup, ChartAxis, ChartBar, ChartLine, ChartMark, LineChart,
    LinePoint, MAX_BYTES, MapCell, MapChart, MapKind, ReportBlock, ReportChart, ReportPage,
    ReportSection, ReportTable, TableRow, render,
};

const HOSTILE: &str = "</svg></title><script>alert('1')</script>\"\u{202e}\u{0}\u{200b}&lt;";

fn text(length: usize) -> String {
    HOSTILE.repeat(length)
}

fn bars(count: usize) -> ReportChart {
    let bar = |n: usize| ChartBar { label: text(1), value: n as f64, series: n };
    let group = BarGroup { name: text(1), bars: (0..count).map(bar).collect() };
    ReportChart::Bars(BarChart {
        title: text(1),
        words: text(1),
        value_name: text(1),
        unit: AxisUnit::Seconds,
        groups: vec![group.clone(), BarGroup::default(), group],
    })
}

fn lines(values: &[f64], scale: AxisScale) -> ReportChart {
    let point = |(n, value): (usize, &f64)| LinePoint {
        x: n as f64,
        y: *value,
        between: Some((value - 1.0, value + 1.0)),
    };
    let points: Vec<LinePoint> = values.iter().enumerate().map(point).collect();
    let line = ChartLine { name: text(1), points, is_stepped: false };
    ReportChart::Lines(LineChart {
        title: text(1),
        words: text(1),
        x: ChartAxis::new(&text(1), AxisUnit::Bytes, AxisScale::Log),
        y: ChartAxis::new(&text(1), AxisUnit::Number, scale),
        lines: vec![line.clone(), ChartLine { is_stepped: true, ..line }],
        mark: Some(ChartMark { x: 1.0, text: text(1) }),
    })
}

fn map(side: u32) -> ReportChart {
    let cells = (0..side * side).map(|n| MapCell {
        column: n % side,
        row: n / side,
        kind: (n as usize * 2_654_435_761) % 3,
    });
    let kind = |series| MapKind { name: text(1), series, count: text(1) };
    ReportChart::Map(MapChart {
        title: text(1),
        words: text(1),
        x: ChartAxis::new(&text(1), AxisUnit::Seconds, AxisScale::FromZero),
        y: ChartAxis::new(&text(1), AxisUnit::Bytes, AxisScale::FromZero),
        cell_size: (0.001, 4096.0),
        kinds: (0..2).map(kind).collect(),
        cells: cells.collect(),
    })
}

fn page(blocks: Vec<ReportBlock>) -> String {
    let mut page = ReportPage::new(&text(1), &text(1));
    page.notes = vec![text(1)];
    page.made_by = text(1);
    page.sections.push(ReportSection { heading: text(1), blocks });
    render(&page)
}

#[track_caller]
fn is_sound(html: &str) {
    assert!(html.len() < MAX_BYTES, "{} bytes", html.len());
    assert!(!html.contains("<script") && !html.contains("alert('1')\""));
    assert!(!html.chars().any(|c| c.is_control() && c != '\n' || "\u{202e}\u{200b}".contains(c)));
    assert!(!html.contains("NaN") && !html.contains("http:"));
    for tag in ["svg", "div", "figure", "table", "details", "section"] {
        let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
        assert_eq!(html.matches(&opened).count(), html.matches(&closed).count(), "{tag}");
    }
    assert!(html.ends_with("</main></body></html>\n"));
}

#[test]
fn hostile_texts_are_text_everywhere() {
    let mut table = ReportTable::new(&text(1), &[HOSTILE]);
    table.rows.push(TableRow { cells: vec![text(1), text(1)], is_marked: true });
    let html = page(vec![
        ReportBlock::Heading(text(1)),
        ReportBlock::Paragraph(text(1)),
        ReportBlock::Code(text(1)),
        ReportBlock::Table(table),
        ReportBlock::Chart(bars(3)),
        ReportBlock::Chart(lines(&[1.0, 2.0, 3.0], AxisScale::FromZero)),
        ReportBlock::Chart(map(4)),
    ]);
    is_sound(&html);
    assert!(html.contains("&lt;/svg&gt;&lt;/title&gt;&lt;script&gt;"));
}

#[test]
fn values_that_no_axis_has_are_left_out() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e-300, 1e300];
    for scale in [AxisScale::FromZero, AxisScale::Log] {
        is_sound(&page(vec![ReportBlock::Chart(lines(&values, scale))]));
        is_sound(&page(vec![ReportBlock::Chart(lines(&[], scale))]));
        is_sound(&page(vec![ReportBlock::Chart(lines(&[0.0], scale))]));
    }
    is_sound(&page(vec![ReportBlock::Chart(bars(0)), ReportBlock::Chart(map(0))]));
}

#[test]
fn lines_and_bars_that_are_left_out_are_counted() {
    let ReportChart::Lines(mut chart) = lines(&[1.0, 2.0], AxisScale::FromZero) else { panic!() };
    chart.lines = vec![chart.lines[0].clone(); LineChart::MAX_LINES];
    let all = page(vec![ReportBlock::Chart(ReportChart::Lines(chart.clone()))]);
    assert!(!all.contains("more lines are left out"));
    chart.lines = vec![chart.lines[0].clone(); LineChart::MAX_LINES + 3];
    let html = page(vec![ReportBlock::Chart(ReportChart::Lines(chart))]);
    assert!(html.contains(" 3 more lines are left out."), "{html}");
    // Two groups of so many.
    let html = page(vec![ReportBlock::Chart(bars(BarChart::MAX_BARS / 2))]);
    assert!(!html.contains("more bars"));
    let html = page(vec![ReportBlock::Chart(bars(BarChart::MAX_BARS / 2 + 1))]);
    assert!(html.contains(" 2 more bars are in its figures."), "{html}");
}

#[test]
fn a_page_has_a_bound_whatever_is_in_it() {
    let mut table = ReportTable::new("", &["a"]);
    table.rows = vec![TableRow { cells: vec![text(40); 3], is_marked: false }; 3000];
    let values: Vec<f64> = (0..100_000).map(|n| f64::from(n % 977)).collect();
    let blocks = [
        ReportBlock::Chart(lines(&values, AxisScale::FromZero)),
        ReportBlock::Chart(map(240)),
        ReportBlock::Chart(bars(5000)),
        ReportBlock::Paragraph(text(100_000)),
        ReportBlock::Table(table),
    ];
    let html = page(blocks.iter().cycle().take(25).cloned().collect());
    is_sound(&html);
    assert!(html.contains("parts are left out"));
    let one = page(vec![ReportBlock::Chart(map(240))]);
    assert!(one.len() < 200_000, "a map is down-sampled: {} bytes", one.len());
}
