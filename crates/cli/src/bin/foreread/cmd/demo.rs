//! `foreread demo`: compares foreread with the kernel's page cache in under a minute.
//!
//! Every figure is measured in this run; comparisons that are not possible are named.

mod args;
mod bars;
mod html;
mod plan;
mod report;
mod scenes;

use std::io;
use std::path::Path;
use std::time::Duration;

use foreread::{Engine, Policy};
use foreread_core::units::ByteCount;
use foreread_files::CommandInput;
use indicatif::ProgressBar;

pub(crate) use self::args::DemoArgs;
use self::args::SMALLEST;
use self::plan::{DemoPlan, DemoTarget, MEMORY};
use self::scenes::SceneFigures;
use foreread_cli::html_file::HtmlFile;
use foreread_cli::measure::figures::BenchRow;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::{AccessPattern, PAGE};
use foreread_cli::measure::rounds::{Rounds, measure};
use foreread_cli::measure::run::{BenchWork, RunLimit};
use foreread_cli::measure::target::BenchTarget;
use foreread_cli::measure::testbed::Testbed;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::progress::progress;

pub(crate) fn run(args: DemoArgs, out: &mut Printer) -> Result<(), Failure> {
    compare(&args.plan()?, out)
}

fn compare(plan: &DemoPlan, out: &mut Printer) -> Result<(), Failure> {
    // Checks the engine's settings before anything is written.
    let engine = Engine::builder().memory(MEMORY).build();
    drop(engine.map_err(|error| Failure::WrongUse(error.to_string()))?);
    let target = match &plan.target {
        DemoTarget::Existing(path) => existing(path)?,
        DemoTarget::Scratch { directory, size } => scratch(directory, *size)?,
    };
    let mut notes = Vec::new();
    if let Some(why) = target.buffered {
        notes.push(format!("{why}: there is no O_DIRECT column, and foreread reads buffered"));
    }
    target.drop_cache();
    let stayed = target.stayed();
    if stayed > target.len / PAGE / 50 {
        notes.push(format!(
            "{stayed} pages of it stay in the kernel's page cache whatever it is asked (a tmpfs, or \
             another process uses them): cold reads are not cold"
        ));
    }
    let input = plan.target.existing().map(|path| CommandInput { name: "the file", path });
    let mut outputs = CommandOutputs::beside(input.as_slice());
    let page = HtmlFile::prepare(plan.html.as_deref(), plan.is_json, &mut outputs)?;
    let scenes = scenes::scenes(plan.delay);
    let steps = scenes::steps(&scenes, plan.runs);
    let of_plain = PLAIN.len() as u64 * u64::from(plan.runs) * AccessMethod::ALL.len() as u64;
    let bar = progress(steps + of_plain);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    target.read_once().map_err(failed)?;
    // The slow devices first: they do not mind that the disk is still busy with the scratch file.
    let measured = scenes.into_iter().map(|scene| scene.measure(&target, plan.runs, &bar));
    let scenes = measured.collect::<Result<Vec<_>, _>>()?;
    let plain = plain(&target, plan.runs, &bar)?;
    bar.finish_and_clear();
    let page = page.map(|file| (file, html::page(&scenes, &plain)));
    if plan.is_json {
        let skipped = scenes.iter().filter_map(|it| {
            it.skipped.as_ref().map(|why| format!("{}: the kernel is skipped: {why}", it.scene.key))
        });
        notes.extend(skipped);
        out.json("demo", scenes.into_iter().flat_map(SceneFigures::rows).chain(plain))?;
    } else {
        report::print(out, &target, plan.runs, &scenes, &plain)?;
    }
    out.notes(&notes)?;
    page.map_or(Ok(()), |(file, page)| file.write(page))
}

/// Runs all access methods on the target without delay.
fn plain(target: &BenchTarget, runs: u32, bar: &ProgressBar) -> Result<Vec<BenchRow>, Failure> {
    let testbed = Testbed::new(target, None, Policy::default(), None, MEMORY)
        .map_err(|error| Failure::WrongUse(error.to_string()))?;
    let mut rows = Vec::new();
    for pattern in PLAIN {
        bar.set_message(format!("as it is: {}", report::name(pattern)));
        let rounds = Rounds {
            methods: &AccessMethod::ALL,
            runs,
            // A first run that does not count: on a virtual machine the first touch of memory is
            // slow, for the kernel's page cache as for ours.
            warm_ups: u32::from(pattern == AccessPattern::Seq4k),
            // Lest a cache below us remember them.
            own_pages: true,
            direct_time: Duration::MAX,
        };
        let measured = measure(&testbed, &work(&testbed, pattern), &rounds, bar);
        let failed = |error| Failure::WrongUse(format!("{}: {error}", target.name));
        rows.extend(measured.map_err(failed)?);
    }
    for row in &mut rows {
        row.scene = Some("as-it-is");
    }
    Ok(rows)
}

/// Long enough to see many windows, and short enough for all runs to end within a minute.
fn work(testbed: &Testbed<'_>, pattern: AccessPattern) -> BenchWork {
    let len = testbed.target.len;
    BenchWork {
        pattern,
        len,
        shift: 0,
        hot_set: Some(HOT_SET.min(testbed.half_the_memory()).min(len / PAGE * PAGE)),
        threads: 1,
        seed: 0,
        // A look at the clock costs a tenth of a cached read.
        limit: RunLimit { reads: u64::MAX, time: PLAIN_TIME, look: 16 },
    }
}

fn existing(path: &Path) -> Result<BenchTarget, Failure> {
    let target = BenchTarget::existing(path)?;
    if target.len < SMALLEST.0 {
        return Err(Failure::WrongUse(format!(
            "{}: {} bytes are too few to measure; give a file of at least 16 MiB",
            path.display(),
            target.len
        )));
    }
    Ok(target)
}

fn scratch(directory: &Path, size: ByteCount) -> Result<BenchTarget, Failure> {
    let len = size.0 >> 20 << 20;
    let bar = progress(len).with_message("writing the scratch file");
    let target = BenchTarget::scratch(directory, len, |written| bar.set_position(written))?;
    bar.finish_and_clear();
    Ok(target)
}

const PLAIN: [AccessPattern; 4] =
    [AccessPattern::Seq4k, AccessPattern::Inter2, AccessPattern::Rand4k, AccessPattern::Hot4k];

/// Length of a run on the unmodified target.
const PLAIN_TIME: Duration = Duration::from_millis(300);

/// Larger than the processor's caches, smaller than the cache's default bound. A small bound makes
/// it smaller.
const HOT_SET: u64 = 64 << 20;
