//! Charts of a replay: offsets over time, and windows and memory of the largest streams.

use foreread_core::sizes::Exact;
use foreread_report::{
    AxisScale, AxisUnit, ChartAxis, ChartLine, LineChart, LinePoint, MapCell, MapChart, MapKind,
};
use foreread_sim::picture::{PictureKind, RunPicture, StreamPicture, StreamPoint};
use foreread_trace::TraceSummary;

/// Returns the chart of reads by offset, time and outcome.
#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
pub(super) fn map(label: &str, picture: &RunPicture) -> MapChart {
    let kind = |(kind, name, series): (PictureKind, &str, usize)| MapKind {
        name: name.to_owned(),
        series,
        count: picture.counts[kind as usize].to_string(),
    };
    // In the order of PictureKind, which is that in which cells win.
    let kinds = [
        (PictureKind::Hit, "read again, cached", 6),
        (PictureKind::Prefetched, "was read ahead in time", 2),
        (PictureKind::Wasted, "pages read ahead and evicted unused", 3),
        (PictureKind::Waited, "waited", 1),
    ];
    let cell = |cell: &foreread_sim::picture::PictureCell| MapCell {
        column: cell.column,
        row: cell.row,
        kind: cell.kind as usize,
    };
    MapChart {
        title: format!("Where and when: {label}"),
        words: "Files lie one behind the other. A cell counts as waited if a tenth of its reads \
                waited."
            .to_owned(),
        x: ChartAxis::new("time", AxisUnit::Seconds, AxisScale::FromZero),
        y: ChartAxis::new("offset", AxisUnit::Bytes, AxisScale::FromZero),
        cell_size: (picture.column_ns as f64 / 1e9, picture.row_bytes as f64),
        kinds: kinds.map(kind).to_vec(),
        cells: picture.cells.iter().map(cell).collect(),
    }
}

/// Windows and memory of the largest streams.
pub(super) fn streams(
    label: &str,
    picture: &RunPicture,
    summary: &TraceSummary,
) -> impl Iterator<Item = LineChart> {
    let chart = |title: String, words: &str, y: &str, of: fn(&StreamPoint) -> u64| LineChart {
        title,
        words: words.to_owned(),
        x: ChartAxis::new("time", AxisUnit::Seconds, AxisScale::FromZero),
        y: ChartAxis::new(y, AxisUnit::Bytes, AxisScale::FromZero),
        lines: picture
            .streams
            .iter()
            .take(MOST_STREAMS)
            .map(|stream| line(stream, picture, summary, of))
            .collect(),
        mark: None,
    };
    let windows = chart(
        format!("Windows of the largest streams: {label}"),
        "The largest window that was requested at a time.",
        "window",
        |point| point.window.0,
    );
    let memory = chart(
        format!("Memory of the largest streams: {label}"),
        "What was requested ahead of the reader.",
        "ahead of the reader",
        |point| point.ahead.0,
    );
    let are_any = !picture.streams.is_empty();
    [windows, memory].into_iter().filter(move |_| are_any)
}

#[expect(clippy::cast_precision_loss, reason = "places in a chart")]
fn line(
    stream: &StreamPicture,
    picture: &RunPicture,
    summary: &TraceSummary,
    of: fn(&StreamPoint) -> u64,
) -> ChartLine {
    let seconds = |column: u32| f64::from(column) * picture.column_ns as f64 / 1e9;
    let point = |point: &StreamPoint| LinePoint::new(seconds(point.column), of(point) as f64);
    let file = summary.files.get(stream.file as usize).map_or("", |file| file.name.as_str());
    let requested = Exact(foreread_core::units::Pages(stream.pages).bytes());
    ChartLine {
        name: format!("{} thread {}, {requested}", shortened(file), stream.thread),
        points: stream.points.iter().map(point).collect(),
        is_stepped: true,
    }
}

/// Shortens a path to its end, which tells more than its beginning.
fn shortened(path: &str) -> String {
    let count = path.chars().count();
    if count <= LETTERS {
        return path.to_owned();
    }
    let end: String = path.chars().skip(count - LETTERS).collect();
    format!("..{end}")
}

/// Largest number of streams in a chart; more lines would cover each other.
const MOST_STREAMS: usize = 5;

/// Longest name in a legend, in characters.
const LETTERS: usize = 36;
