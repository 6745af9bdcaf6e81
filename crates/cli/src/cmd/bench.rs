//! `foreread bench`: the classic patterns on a file or device of the user's, three ways.
//!
//! In:    a target, patterns, ways to read.
//! Out:   a table of medians and ratios, or every figure as JSON.
//! Never: a setting or a page that stays behind; a ratio of runs that were not made side by side;
//!        a write to what the user has not given up in so many words.
//!
//! What each pattern reads, and the traps: docs/bench.md.

mod flood;
mod plan;
mod report;

use std::io;
use std::path::{Path, PathBuf};

use clap::Args as Flags;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use foreread::{Delay, Policy};
use foreread_core::units::ByteCount;
use foreread_files::{CommandInput, ResultFile};
use serde::Serialize;

use crate::cmd::serve::assignment;
use crate::flags::{CODES_AND_UNITS, MaxWindow, max_window, policies};
use crate::measure::arm::{Arm, Course};
use crate::measure::figures::Row;
use crate::measure::pattern::Pattern;
use crate::measure::target::Target;
use crate::measure::{Rounds, measure, progress};
use crate::output::{Failure, Output, write_json};
use foreread_core::sizes;

/// Read a file or device of yours through the kernel, around it, and through foreread
///
/// Reads TARGET in each pattern and each way, several times. The ways take turns, so that they
/// meet the same moments of a busy machine, and read the same offsets; before each run the target
/// is dropped from the kernel's page cache, and foreread begins with an empty cache of its own.
/// Medians of the runs are shown, with the smallest and the largest, and ratios of runs made side
/// by side. Nothing is written, except by the pattern flood.
///
/// The ways:
///   buffered   pread through the kernel's page cache and its read-ahead
///   direct     pread with O_DIRECT and nothing else; the hot patterns are not for it
///   foreread   O_DIRECT through foreread
///
/// The patterns:
///   seq4k seq64k seq1m         one stream
///   inter2 inter2-64k inter8   2 or 8 streams, far apart, in strict turns, through one handle; of
///                              4 KiB reads unless the name says more
///   coop8                      one stream that 8 threads share: each takes the next 64 KiB
///   rand4k rand16k rand64k     anywhere, nothing twice
///   stride back                every 16th page; pages from the end to the start
///   hot4k hot64k hot1m         anywhere in 256 MiB that were read before
///   hot-small                  4 KiB anywhere in 1 MiB that was read before
///   hot-pin                    as hot4k, but each page is pinned and let go: foreread only
///   flood                      a chain of 20 dependent 4 KiB reads while 64 threads write 64 KiB
///                              anywhere; it OVERWRITES the target, needs --overwrite, has a table
///                              of its own, and the ways direct, direct:SCHEDULER (a scheduler of
///                              the kernel's, set as root and set back) and foreread
#[derive(Clone, Debug, Flags)]
#[command(verbatim_doc_comment, after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct Args {
    /// A file or block device; only flood writes to it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    target: String,

    /// What to read, with commas between [default: all that the target and the memory have room
    /// for]
    #[arg(long = "pattern", value_name = "PATTERN,..", value_delimiter = ',')]
    #[arg(value_parser = pattern)]
    asked: Vec<Asked>,

    #[arg(skip)]
    patterns: Vec<Pattern>,

    /// The ways to read, with commas between [default: buffered,direct,foreread; of flood
    /// direct,foreread]
    #[arg(long = "arm", value_name = "ARM,..", value_delimiter = ',', value_parser = way)]
    ways: Vec<Wanted>,

    #[arg(skip)]
    arms: Vec<Arm>,

    /// Let flood overwrite TARGET: what is on it is lost
    #[arg(long)]
    overwrite: bool,

    /// The read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    policy: Policy,

    /// The largest window, of foreread and of the kernel, or auto [default: what the kernel's is]
    ///
    /// With auto foreread learns it from the device, and the kernel keeps its own.
    ///
    /// The kernel's is the setting read_ahead_kb of the device below the target: as root it is set
    /// for as long as this runs, and set back however that ends. Other programs that open files of
    /// that device meanwhile get it, too. Where it cannot be set, a note says so, and the output
    /// says which window was in force.
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// foreread's I/O scheduler in a flood: deadline or noop
    #[arg(long, value_name = "NAME", default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(["deadline", "noop"]))]
    scheduler: String,

    /// Set a tunable of that scheduler; may be repeated: writes_in_flight=4
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// How many threads read at once: each reads its own part of the target with a handle of its
    /// own, or random pages of one hot set
    ///
    /// coop8 has 8 whatever is given here. MB/s are of all threads together, ns of one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// How often each pattern is run in each way
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,

    /// How much each run reads, of all threads together
    ///
    /// If it is not given, each pattern has an amount of its own that takes a fast disk a fraction
    /// of a second, and the limit of --seconds holds.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    amount: Option<ByteCount>,

    /// A run ends after so long, even if there is more to read; a run of direct after one second,
    /// since it has nothing that has to warm up [default: 5; no limit with --amount]
    ///
    /// A flood lasts so long, and as long as one chain takes [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,

    /// The page where reading begins, or where each stream begins in its part of the target
    #[arg(long, value_name = "N", default_value_t = 0)]
    start_page: u64,

    /// Slow the device down: each request costs its latency, so many are served at a time, each
    /// moves so many bytes a second: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,

    /// Print every figure as a list of JSON objects, one a pattern and way
    ///
    /// Keys: pattern, arm, policy, threads, window_kib, runs, mb_per_s and ns_per_read (median,
    /// min, max), device_reads, device_bytes, bytes_wanted, evicted_before_use; null where a way
    /// has none. Those of flood are others. docs/bench.md says what each counts.
    #[arg(long)]
    json: bool,

    /// Write every figure into FILE, too, as --json prints them
    ///
    /// FILE must not exist, be empty, or hold earlier figures; `-` is stdout. TARGET, any other
    /// file, a symbolic link, a FIFO and a device are refused (docs/files.md).
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// What is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    Read(Pattern),
    Flood,
}

/// A way to read, as it was named.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Wanted {
    Arm(Arm),
    /// `direct:NAME`.
    Scheduler(String),
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    if args.asked.contains(&Asked::Flood) {
        return flood::run(args, out);
    }
    reads(&reading(args)?, out)
}

/// Patterns that read only, and the ways that they have.
fn reading(args: &Args) -> Result<Args, Failure> {
    let mut args = args.clone();
    let of_flood = [
        ("--overwrite", args.overwrite),
        ("--scheduler", args.scheduler != "deadline"),
        ("--set", !args.set.is_empty()),
    ];
    if let Some((flag, _)) = of_flood.iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::WrongUse(format!(
            "{flag}: these patterns only read; leave it out, or give --pattern flood"
        )));
    }
    for asked in &args.asked {
        match asked {
            Asked::Read(pattern) => args.patterns.push(*pattern),
            Asked::Flood => unreachable!("it has a run of its own"),
        }
    }
    for way in &args.ways {
        match way {
            Wanted::Arm(arm) => args.arms.push(*arm),
            Wanted::Scheduler(name) => {
                return Err(Failure::WrongUse(format!(
                    "--arm direct:{name}: only flood sets schedulers; give --pattern flood, or \
                     --arm direct"
                )));
            }
        }
    }
    if args.arms.is_empty() {
        args.arms.extend(Arm::ALL);
    }
    Ok(args)
}

fn reads(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let target = Target::existing(Path::new(&args.target))?;
    // Before an hour has passed.
    let saved = created(args)?;
    let mut notes = Vec::new();
    let mut course = course(args, &target)?;
    let plan = plan::plan(args, &course)?;
    notes.extend(plan.notes);
    if args.arms.contains(&Arm::Buffered) {
        notes.extend(course.notes());
        if let Some(MaxWindow::Size(window)) = args.max_window
            && let Err(error) = course.hold_kernel_window(window.0)
        {
            notes.push(kernel_window_stays(&course, &error));
        }
    }

    let failed = |error: io::Error| Failure::WrongUse(format!("{}: {error}", target.name));
    let bar = progress(plan.works.len() as u64 * u64::from(args.runs) * args.arms.len() as u64);
    if args.delay.is_none() {
        target.read_once().map_err(failed)?;
    }
    let mut rows: Vec<Row> = Vec::new();
    for work in &plan.works {
        bar.set_message(work.pattern.name());
        let rounds = Rounds {
            arms: &args.arms,
            runs: args.runs,
            // A first run that does not count: on a virtual machine the first touch of memory is
            // slow, for the kernel's page cache as for ours.
            warm_ups: u32::from(args.delay.is_none() && rows.is_empty()),
            own_pages: false,
            direct_time: plan.direct_time,
        };
        rows.extend(measure(&course, work, &rounds, &bar).map_err(failed)?);
    }
    bar.finish_and_clear();
    // This restores the kernel's window before the answer is printed.
    drop(course);

    if let Some(why) = target.buffered {
        notes.push(format!("{why}: there is no O_DIRECT, and foreread reads buffered"));
    }
    if target.stayed() > 0 {
        notes.push(format!(
            "up to {} pages of the target stayed in the kernel's page cache whatever it was asked \
             (a tmpfs, a mounted device, or another process uses them): cold reads were that much \
             less cold",
            target.stayed()
        ));
    }
    let written = save(saved, &rows);
    if args.json {
        out.json(&rows)?;
    } else {
        report::print(out, &target, args, &rows)?;
    }
    out.notes(&notes)?;
    written
}

fn course<'t>(args: &Args, target: &'t Target) -> Result<Course<'t>, Failure> {
    // The mount is for the kernel's sake.
    let course = Course::new(target, args.delay, args.policy, args.max_window, args.memory.0);
    course.map_err(|error| Failure::WrongUse(error.to_string()))
}

/// The file of --save, before an hour of measuring has passed.
fn created(args: &Args) -> Result<Option<ResultFile>, Failure> {
    let inputs = [CommandInput { name: "TARGET", path: Path::new(&args.target) }];
    let save = args.save.as_deref().map(|path| ResultFile::create(path, &inputs, are_figures));
    save.transpose().map_err(|error| Failure::WrongUse(format!("--save {error}")))
}

/// Writes the figures into it; what was there before stays if that fails.
fn save<T: Serialize>(file: Option<ResultFile>, rows: &[T]) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    file.write_whole(|mut file| write_json(&mut file, rows))
        .map_err(|error| Failure::WrongUse(format!("--save {error}")))
}

/// Whether a file begins as the figures that --save writes.
fn are_figures(head: &[u8]) -> bool {
    head.starts_with(b"[\n  {\"pattern\":\"") || head == b"[]\n"
}

fn kernel_window_stays(course: &Course<'_>, error: &io::Error) -> String {
    match course.kernel_window {
        Some(window) => format!("the kernel's window stays {} KiB: {error}", window / 1024),
        None => format!("the kernel's window is not known: {error}"),
    }
}

fn pattern(name: &str) -> Result<Asked, String> {
    if name == flood::NAME {
        return Ok(Asked::Flood);
    }
    Pattern::from_name(name).map(Asked::Read).ok_or_else(|| {
        let names = Pattern::ALL.map(Pattern::name).join(", ");
        format!("no such pattern; choose from {names}, {}", flood::NAME)
    })
}

fn way(name: &str) -> Result<Wanted, String> {
    let scheduler = name.strip_prefix("direct:").filter(|scheduler| !scheduler.is_empty());
    let arm = || Arm::from_name(name).map(Wanted::Arm);
    scheduler.map(|scheduler| Wanted::Scheduler(scheduler.to_owned())).or_else(arm).ok_or_else(
        || {
            let names = Arm::ALL.map(Arm::name).join(", ");
            format!("no such way to read; choose from {names}, and for flood direct:SCHEDULER")
        },
    )
}

const EXAMPLES: &str = "\
Examples:
  foreread bench /var/lib/db/table
      all patterns, three ways, windows as the kernel has them for this disk
  foreread bench /dev/sdb --pattern seq4k,inter2,rand4k --max-window 1M --json
      as root: the kernel's window is set to 1 MiB, too, and set back afterwards
  foreread bench big.file --pattern inter2 --start-page 1 --amount 64M
      two streams that begin on the second page of their halves
  foreread bench big.file --pattern hot4k --threads 4 --arm buffered,foreread
      what a cached read costs each of four threads
  foreread bench big.file --pattern seq4k,coop8 --delay latency=4ms,parallel=1
      the same file behind a device of one head; needs FUSE for the way 'buffered'
  foreread bench /dev/sdx --pattern flood --overwrite --arm direct:bfq,direct:none,foreread
      how long a chain of reads takes while 64 threads write over all that is on the disk

";
