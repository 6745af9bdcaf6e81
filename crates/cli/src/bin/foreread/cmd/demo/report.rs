//! Report of the demo: bars for each scene, a table, and where nothing is gained.
//!
//! Every sentence follows from the figures.

use std::io::Write as _;

use foreread::Policy;

use super::bars::{Bar, plot};
use super::scenes::SceneFigures;
use foreread_cli::measure::figures::{BenchRow, unit};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

/// Returns the name of a pattern in the demo.
pub(super) fn name(pattern: AccessPattern) -> &'static str {
    KINDS.iter().find(|(kind, _)| *kind == pattern).map_or("", |(_, name)| name)
}

pub(super) fn print(
    out: &mut Printer,
    target: &BenchTarget,
    runs: u32,
    scenes: &[SceneFigures],
    plain: &[BenchRow],
) -> Result<(), Failure> {
    let runs = if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") };
    let title = format!(
        "foreread beside the kernel's page cache, reading {} 4 KiB at a time; medians of {runs}.",
        target.name
    );
    out.paragraph("", &title)?;
    for figures in scenes {
        print_scene(out, figures)?;
    }
    print_cached(out, plain)?;
    writeln!(out)?;
    let title = format!(
        "The file as it is, {}, policy {}: MB/s or time per read, median [least-most].",
        windows(plain),
        Policy::default().name()
    );
    out.paragraph("", &title)?;
    writeln!(out)?;
    table::print(out, HEADING, KINDS.iter().filter_map(|(kind, _)| line(plain, *kind)))?;
    writeln!(out)?;
    out.paragraph("", &least(scenes, plain))
}

/// Prints a title and its bars.
fn print_scene(out: &mut Printer, figures: &SceneFigures) -> Result<(), Failure> {
    let SceneFigures { scene, default, best, foreread, skipped } = figures;
    let speed = |row: &BenchRow| Ok(row.mb_per_s.median);
    let why = || Err(skipped.clone().unwrap_or_default());
    let set = best.as_ref().and_then(|row| row.window_kib);
    let set = set.map_or(String::new(), |kib| format!(", read_ahead_kb={kib}"));
    let is_best = best.is_none() && skipped.is_none();
    let mut bars = vec![Bar {
        name: if is_best { "kernel, defaults (its best)" } else { "kernel, defaults" }.to_owned(),
        figure: default.as_ref().map_or_else(why, speed),
    }];
    // A note on the defaults also applies to the best setting.
    if default.is_some() && !is_best {
        bars.push(Bar {
            name: format!("kernel, best{set}"),
            figure: best.as_ref().map_or_else(why, speed),
        });
    }
    bars.push(Bar { name: "foreread, defaults".to_owned(), figure: speed(foreread) });
    writeln!(out)?;
    out.paragraph("", &format!("{} ({}), MB/s:", scene.title, scene.delay))?;
    print_bars(out, &bars)
}

/// Reads of pages that are in memory: there is nothing to set, and less is better.
fn print_cached(out: &mut Printer, plain: &[BenchRow]) -> Result<(), Failure> {
    let time = |method| {
        let row =
            plain.iter().find(|row| row.pattern == AccessPattern::Hot4k && row.method == method);
        row.map(|row| row.ns_per_read.median)
    };
    let bar = |name: &str, method| {
        let figure = time(method)?;
        Some(Bar { name: name.to_owned(), figure: Ok(figure) })
    };
    let bars = [
        bar("kernel, pread", AccessMethod::Buffered),
        bar("foreread, read_at", AccessMethod::Foreread),
    ];
    let bars: Vec<Bar> = bars.into_iter().flatten().collect();
    writeln!(out)?;
    out.paragraph("", "Cached reads of 4 KiB, ns each (shorter is better):")?;
    print_bars(out, &bars)
}

fn print_bars(out: &mut Printer, bars: &[Bar]) -> Result<(), Failure> {
    for line in plot(bars, out.prose_width().min(WIDEST_PLOT)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Formats the largest windows, as one figure if they are equal.
fn windows(rows: &[BenchRow]) -> String {
    let of = |method| rows.iter().find(|row| row.method == method).and_then(|row| row.window_kib);
    match (of(AccessMethod::Buffered), of(AccessMethod::Foreread)) {
        (Some(kernel), Some(ours)) if kernel != ours => {
            format!("windows up to {kernel} KiB in the kernel, {ours} KiB in foreread")
        }
        (_, Some(ours)) => format!("windows up to {ours} KiB"),
        (_, None) => "no windows".to_owned(),
    }
}

pub(super) fn line(rows: &[BenchRow], kind: AccessPattern) -> Option<[String; 6]> {
    let row = |method| rows.iter().find(|row| row.pattern == kind && row.method == method);
    let (kernel, ours) = (row(AccessMethod::Buffered), row(AccessMethod::Foreread)?);
    let bare = row(AccessMethod::Direct).or_else(|| row(AccessMethod::Memory));
    let amplification = match kind.hot_set() {
        Some(_) => None,
        None => ours.device_bytes.map(|bytes| bytes as f64 / ours.bytes_wanted.max(1) as f64),
    };
    Some([
        format!("{}, {}", name(kind), unit(kind)),
        table::or_dash(kernel.map(BenchRow::cell)),
        table::or_dash(bare.map(BenchRow::cell)),
        ours.cell(),
        table::or_dash(kernel.map(|kernel| format!("{:.2} x", ours.times(kernel)))),
        table::or_dash(amplification.map(|asked| format!("{asked:.2}"))),
    ])
}

/// Returns the comparison in which foreread gains least or loses most.
pub(super) fn least(scenes: &[SceneFigures], plain: &[BenchRow]) -> String {
    let of_scenes = scenes.iter().filter_map(|it| {
        let best = it.best.as_ref().or(it.default.as_ref())?;
        Some((it.foreread.times(best), format!("'{}', the kernel at its best", it.scene.title)))
    });
    let of_plain = plain.iter().filter(|row| row.method == AccessMethod::Foreread);
    let of_plain = of_plain.filter_map(|ours| {
        let kernel = plain
            .iter()
            .find(|row| row.method == AccessMethod::Buffered && row.pattern == ours.pattern)?;
        Some((ours.times(kernel), format!("'{}' as it is", name(ours.pattern))))
    });
    let least = of_scenes.chain(of_plain).min_by(|a, b| a.0.total_cmp(&b.0));
    least.map_or_else(
        || "The kernel is not beside it here.".to_owned(),
        |(times, at)| format!("Beside the kernel foreread does worst at {at}: {times:.2} x."),
    )
}

pub(super) const KINDS: [(AccessPattern, &str); 4] = [
    (AccessPattern::Seq4k, "one stream"),
    (AccessPattern::Inter2, "two in turns"),
    (AccessPattern::Rand4k, "random, cold"),
    (AccessPattern::Hot4k, "random, cached"),
];

pub(super) const HEADING: [&str; 6] =
    ["pattern", "kernel buffered", "bare", "foreread", "to kernel", "read ampl."];

/// Longer bars say no more.
const WIDEST_PLOT: usize = 80;
