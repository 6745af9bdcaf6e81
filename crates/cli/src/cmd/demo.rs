//! `foreread demo`: in under a minute, without root, what the page cache is worth, what going
//! around it costs, and what foreread gives back.
//!
//! In:    a scratch file of its own, or a file of the user's.
//! Out:   one table, what it means in two sentences; or every figure as JSON.
//! Never: a figure that was not measured in this run. What could not be measured is said.

mod report;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as Flags;
use foreread::{Delay, Engine, Policy};
use foreread_core::units::ByteCount;
use foreread_files::scratch::temporary_directory;

use crate::flags::{MaxWindow, policies};
use crate::measure::arm::{Arm, Course};
use crate::measure::pattern::{PAGE, Pattern};
use crate::measure::run::{Enough, Work};
use crate::measure::target::Target;
use crate::measure::{Rounds, measure, progress};
use crate::output::{Failure, Output};
use foreread_core::sizes;

/// Read a real file through the kernel, around it, and through foreread
///
/// Writes a scratch file, then reads it in four patterns and three ways: through the kernel's page
/// cache, with O_DIRECT and nothing else, and with O_DIRECT through foreread; first as it is, then
/// behind a device that is slowed down on purpose. The three ways take turns, so that they meet the
/// same moments of a busy machine; medians of the runs are shown, with the smallest and the
/// largest.
///
/// Needs no root. The kernel's page cache over the slow device is a FUSE mount, which costs it some
/// 20 us a request; where none can be made, that column is left out and a note says why. Nothing is
/// left behind, however the demo ends: neither file nor mount has a name.
#[derive(Debug, Flags)]
#[command(after_help = "\
Examples:
  foreread demo
  foreread demo --dir /mnt/disk --size 1G
  foreread demo --delay latency=1ms,parallel=8 --json
  foreread demo /var/lib/db/table")]
pub(crate) struct Args {
    /// A file or block device to read instead of a scratch file; it is not written to
    target: Option<PathBuf>,

    /// Where the scratch file goes: on the disk that you want to know about
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    dir: Option<PathBuf>,

    /// How large the scratch file is, at least 16M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    size: ByteCount,

    /// How the slow device is slow: each request costs its latency, so many are served at a time,
    /// each moves so many bytes a second
    #[arg(long, value_name = "DELAY", default_value = "latency=4ms,parallel=1,bandwidth=100M")]
    delay: Delay,

    /// The read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = "adaptive", value_parser = policies())]
    policy: Policy,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// The largest window of foreread; the kernel's own for the same target, if not given
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    max_window: Option<ByteCount>,

    /// How often each pattern is run in each way
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,

    /// Print every figure as a list of JSON objects, one a pattern and way
    ///
    /// Keys: target (plain or delayed), and those of foreread bench --json; docs/bench.md says what
    /// each counts.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    // Before anything is written: what the engine refuses, it refuses here.
    let engine = Engine::builder().memory(args.memory.0).build();
    drop(engine.map_err(|error| Failure::WrongUse(error.to_string()))?);
    let target = match &args.target {
        Some(path) => existing(path)?,
        None => scratch(args)?,
    };
    let mut rows = Vec::new();
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
    // The slow device first: it does not mind that the disk is still busy with the scratch file.
    let courses = [(Some(args.delay), &DELAYED[..]), (None, &PLAIN[..])];
    let patterns = courses.iter().map(|(_, patterns)| patterns.len() as u64).sum::<u64>();
    let bar = progress(patterns * u64::from(args.runs) * Arm::ALL.len() as u64);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    target.read_once().map_err(failed)?;
    for (delay, patterns) in courses {
        let window = args.max_window.map(MaxWindow::Size);
        let course = Course::new(&target, delay, args.policy, window, args.memory.0)
            .map_err(|error| Failure::WrongUse(error.to_string()))?;
        notes.extend(course.notes());
        for pattern in patterns {
            bar.set_message(format!("{} {}", report::title(&course), report::name(*pattern)));
            let rounds = Rounds {
                arms: &Arm::ALL,
                runs: args.runs,
                // A first run that does not count: on a virtual machine the first touch of memory
                // is slow, for the kernel's page cache as for ours.
                warm_ups: u32::from(delay.is_none() && *pattern == Pattern::Seq4k),
                // Lest a cache below us remember them.
                own_pages: true,
                direct_time: Duration::MAX,
            };
            let measured = measure(&course, &work(&course, *pattern), &rounds, &bar);
            let mut measured = measured.map_err(failed)?;
            measured.iter_mut().for_each(|row| row.target = Some(report::key(&course)));
            rows.append(&mut measured);
        }
    }
    bar.finish_and_clear();
    if args.json {
        out.json(&rows)?;
    } else {
        report::print(out, &target, args, &rows)?;
    }
    out.notes(&notes)?;
    Ok(())
}

/// Long enough to see many windows, and short enough for all runs to end within a minute.
fn work(course: &Course<'_>, pattern: Pattern) -> Work {
    let ms = match (course.delay, pattern.hot_set()) {
        (Some(_), _) => 700,
        (None, Some(_)) => 300,
        (None, None) => 500,
    };
    // A look at the clock costs a tenth of a cached read, and nothing beside a slow one.
    let look = if course.delay.is_some() { 1 } else { 16 };
    let len = course.target.len;
    Work {
        pattern,
        len,
        shift: 0,
        hot_set: Some(HOT_SET.min(course.half_the_memory()).min(len / PAGE * PAGE)),
        threads: 1,
        seed: 0,
        enough: Enough { reads: u64::MAX, time: Duration::from_millis(ms), look },
    }
}

fn existing(path: &Path) -> Result<Target, Failure> {
    let target = Target::existing(path)?;
    if target.len < SMALLEST.0 {
        return Err(Failure::WrongUse(format!(
            "{}: {} bytes are too few to measure; give a file of at least 16 MiB",
            path.display(),
            target.len
        )));
    }
    Ok(target)
}

fn scratch(args: &Args) -> Result<Target, Failure> {
    if args.size < SMALLEST {
        return Err(Failure::WrongUse(format!("--size {}: give at least 16M", args.size)));
    }
    let directory = args.dir.clone().map_or_else(default_directory, Ok)?;
    let len = args.size.0 >> 20 << 20;
    let bar = progress(len).with_message("writing the scratch file");
    let target = Target::scratch(&directory, len, |written| bar.set_position(written))?;
    bar.finish_and_clear();
    Ok(target)
}

/// Not /tmp, which is memory on many machines.
fn default_directory() -> Result<PathBuf, Failure> {
    temporary_directory("/var/tmp")
        .map_err(|error| Failure::WrongUse(format!("{error}, or give --dir")))
}

const PLAIN: [Pattern; 4] = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k, Pattern::Hot4k];

/// A cached page does not come from the device: how slow that is does not matter.
const DELAYED: [Pattern; 3] = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k];

/// Less is read before a clock has ticked often enough.
const SMALLEST: ByteCount = ByteCount(16 << 20);

/// Larger than the processor's caches, smaller than the cache's default bound. A small bound makes
/// it smaller.
const HOT_SET: u64 = 64 << 20;
