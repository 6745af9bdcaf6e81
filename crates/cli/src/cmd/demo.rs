//! `foreread demo`: in under a minute, without root, what the page cache is worth, what going
//! around it costs, and what foreread gives back.
//!
//! In:    a scratch file of its own, or a file of the user's.
//! Out:   one table, what it means in two sentences; or every figure as JSON.
//! Never: a figure that was not measured in this run. What could not be measured is said.

mod report;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as Flags;
use foreread::{Delay, Engine, Policy};
use foreread_core::units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};

use self::report::Row;
use crate::measure::arm::{Arm, Course};
use crate::measure::pattern::{Enough, Pattern, Run};
use crate::measure::target::Target;
use crate::output::{Failure, Output};
use crate::sizes;

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
    size: Bytes,

    /// How the slow device is slow: each request costs its latency, so many are served at a time,
    /// each moves so many bytes a second
    #[arg(long, value_name = "DELAY", default_value = "latency=4ms,parallel=1,bandwidth=100M")]
    delay: Delay,

    /// Who decides what foreread reads ahead
    #[arg(long, value_name = "POLICY", default_value = "linux-6", value_parser = policy)]
    policy: Policy,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    memory: Bytes,

    /// The largest window of foreread; the kernel's own for the same target, if not given
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    max_window: Option<Bytes>,

    /// How often each pattern is run in each way
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,

    /// Print every figure as a list of JSON objects
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    // Before anything is written: what the engine refuses, it refuses here.
    let engine = Engine::builder().memory(args.memory.0).build();
    drop(engine.map_err(|error| Failure::WrongUse(error.to_string()))?);
    let target = match &args.target {
        Some(path) => Target::existing(path)?,
        None => scratch(args)?,
    };
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    if let Some(why) = target.buffered {
        notes.push(format!("{why}: there is no O_DIRECT column, and foreread reads buffered"));
    }
    let stayed = target.drop_cache().unwrap_or(0);
    if stayed > target.len / 4096 / 50 {
        notes.push(format!(
            "{stayed} pages of it stay in the kernel's page cache whatever it is asked (a tmpfs, or \
             another process uses them): cold reads are not cold"
        ));
    }
    // The slow device first: it does not mind that the disk is still busy with the scratch file.
    let courses = [(Some(args.delay), &DELAYED[..]), (None, &PLAIN[..])];
    let bar = progress(courses.iter().map(|(_, patterns)| patterns.len()).sum(), args.runs);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    target.read_once().map_err(failed)?;
    for (delay, patterns) in courses {
        let window = args.max_window.map(|window| window.0);
        let course = Course::new(&target, delay, args.policy, window, args.memory.0)
            .map_err(|error| Failure::WrongUse(error.to_string()))?;
        notes.extend(course.notes());
        for pattern in patterns {
            rows.extend(measure(&course, *pattern, args.runs, &bar)?);
        }
    }
    bar.finish_and_clear();
    if args.json {
        out.json(&rows)?;
    } else {
        report::print(out, &target, args, &rows)?;
    }
    out.flush()?;
    for note in notes {
        // With stderr closed there is nobody who could read it.
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    Ok(())
}

/// One pattern in all ways, in turns, and another way begins each round: A B C B C A C A B ..
fn measure(
    course: &Course<'_>,
    pattern: Pattern,
    runs: u32,
    bar: &ProgressBar,
) -> Result<Vec<Row>, Failure> {
    let mut taken: [Vec<Run>; 3] = Default::default();
    let enough = enough(course.delay, pattern);
    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", course.target.name));
    // One round that does not count: on a virtual machine memory that nobody has touched yet is
    // slow to touch, for the kernel's page cache as for ours.
    let warm_ups = usize::from(course.delay.is_none() && pattern == Pattern::Seq4k);
    for round in 0..runs as usize + warm_ups {
        for turn in 0..Arm::ALL.len() {
            let arm = Arm::ALL[(round + turn) % Arm::ALL.len()];
            bar.set_message(format!("{} {}", course.title(), pattern.title()));
            bar.inc(1);
            if pattern == Pattern::Hot4k && arm == Arm::Direct {
                // It has no cache: nothing is hot for it.
                continue;
            }
            if let Some(mut reader) = course.reader(arm).map_err(failed)? {
                // No two runs read the same pages, lest a cache below us remember them.
                let seed = ((round as u64) << 8 | arm as u64) << 32;
                let (len, hot) = (course.target.len, course.hot_pages());
                let run = pattern.run(&mut reader, len, hot, seed, enough).map_err(failed)?;
                if round >= warm_ups {
                    taken[arm as usize].push(run);
                }
            }
        }
    }
    let rows = Arm::ALL.into_iter().zip(taken).filter(|(_, taken)| !taken.is_empty());
    Ok(rows.map(|(arm, taken)| Row::new(course, pattern, arm, taken)).collect())
}

/// A run is long enough to see many windows, and short enough for all to end within a minute.
fn enough(delay: Option<Delay>, pattern: Pattern) -> Enough {
    let ms = match (delay, pattern) {
        (Some(_), _) => 700,
        (None, Pattern::Hot4k) => 300,
        (None, Pattern::Seq4k | Pattern::Inter2 | Pattern::Rand4k) => 500,
    };
    // A look at the clock costs a tenth of a cached read, and nothing beside a slow one.
    let look = if delay.is_some() { 1 } else { 16 };
    Enough { time: Duration::from_millis(ms), look }
}

fn scratch(args: &Args) -> Result<Target, Failure> {
    const SMALLEST: Bytes = Bytes(16 << 20);
    if args.size < SMALLEST {
        return Err(Failure::WrongUse(format!("--size {}: give at least 16M", args.size)));
    }
    let directory = args.dir.clone().unwrap_or_else(default_directory);
    let len = args.size.0 >> 20 << 20;
    let bar = ProgressBar::new(len).with_message("writing the scratch file");
    bar.set_style(style());
    let target = Target::scratch(&directory, len, |written| bar.set_position(written))?;
    bar.finish_and_clear();
    Ok(target)
}

/// Not /tmp, which is memory on many machines.
fn default_directory() -> PathBuf {
    let asked = std::env::var_os("TMPDIR").filter(|directory| !directory.is_empty());
    asked.map_or_else(|| Path::new("/var/tmp").to_path_buf(), PathBuf::from)
}

/// A bar on a terminal, nothing elsewhere.
fn progress(patterns: usize, runs: u32) -> ProgressBar {
    let bar = ProgressBar::new(patterns as u64 * u64::from(runs) * Arm::ALL.len() as u64);
    bar.set_style(style());
    bar
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}").expect("a fixed template")
}

fn policy(name: &str) -> Result<Policy, String> {
    Policy::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
        format!("no such policy; choose from {}", names.join(", "))
    })
}

const PLAIN: [Pattern; 4] = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k, Pattern::Hot4k];

/// A cached page does not come from the device: how slow that is does not matter.
const DELAYED: [Pattern; 3] = [Pattern::Seq4k, Pattern::Inter2, Pattern::Rand4k];
