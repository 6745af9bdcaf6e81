//! The arguments of `foreread bench`, their help, and the plan that follows from them.

mod names;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use self::names::{BenchPattern, NamedMethod, method, pattern};
use super::plan::{BenchOutput, BenchPlan, FloodPlan, PatternSelection, ReadPlan, ReadTarget};
use crate::args::assignment::assignment;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::args::policy::policies;
use foreread_cli::measure::flood::{FloodMethod, FloodSettings};
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::output::Failure;
use foreread_cli::store::{StoreArgs, StoreLimitArgs, url_of};

/// Measure reads of a file, device or object: buffered, O_DIRECT and foreread
///
/// Reads TARGET in each pattern by each access method, several times. The methods take turns and
/// read the same offsets, so that all see the same load on the machine. Each run starts cold: the
/// target is dropped from the kernel's page cache, and foreread starts with an empty cache. The
/// table shows the median of the runs, their minimum and maximum, and ratios of runs made side by
/// side. Only the pattern flood writes to TARGET.
///
/// The access methods:
///   buffered   pread through the kernel's page cache and its read-ahead
///   direct     pread with O_DIRECT, without read-ahead; not for the hot patterns
///   foreread   O_DIRECT through foreread
///   memory     a memcpy inside this process, the upper bound of a cache hit; hot patterns only
///              (for hot-pin, one byte is loaded)
///
/// The patterns:
///   seq4k seq64k seq1m         one stream
///   inter2 inter2-64k inter8   2 or 8 streams, far apart, round robin, through one handle; 4 KiB
///                              reads unless the name has a size
///   inter200                   200 streams, round robin, each through its own handle
///   coop8                      one stream shared by 8 threads: each takes the next 64 KiB
///   rand4k rand16k rand64k     random offsets, none twice
///   scans                      160 KiB in order by 16 KiB, then a random jump; nothing twice
///   stride back                every 16th page; pages from the end to the start
///   hot4k hot64k hot1m         random offsets in 256 MiB that are cached
///   hot-small                  4 KiB at random offsets in 1 MiB that is cached
///   hot-pin                    as hot4k, but each page is pinned and released; not for buffered
///   flood                      a chain of 20 dependent 4 KiB reads while 64 threads write 64 KiB
///                              at random offsets. It OVERWRITES the target, needs --overwrite and
///                              prints a separate table. Methods: direct, direct:SCHEDULER (a
///                              kernel scheduler, set as root and restored) and foreread
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct BenchArgs {
    /// File or block device; only flood writes to it. Or the URL of an object (s3://bucket/key,
    /// gs://, az://, https://), with the methods direct (one request per read) and foreread
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    target: String,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    limits: StoreLimitArgs,

    /// Access patterns, separated by commas [default: all that fit the target and the memory]
    #[arg(long = "pattern", value_name = "PATTERN,..", value_delimiter = ',')]
    #[arg(value_parser = pattern)]
    patterns: Vec<BenchPattern>,

    /// Access methods, separated by commas [default: all that fit; for flood direct,foreread]
    #[arg(long = "method", alias = "arm", value_name = "METHOD,..", value_delimiter = ',')]
    #[arg(value_parser = method)]
    methods: Vec<NamedMethod>,

    /// Let flood overwrite TARGET; its contents are lost
    #[arg(long)]
    overwrite: bool,

    /// Read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    policy: Policy,

    /// Largest window of foreread and of the kernel, or auto [default: the kernel's window; auto if
    /// TARGET is a URL]
    ///
    /// With auto, foreread learns the window from the device, and the kernel keeps its own.
    ///
    /// The kernel's window is read_ahead_kb of the device below the target. As root, it is set for
    /// the duration of the command and always restored; until then it also applies to other
    /// programs that open files of that device. If it cannot be set, a note names the window that
    /// was in force.
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,

    /// Memory limit of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// Allocate all cache memory before the clock starts
    ///
    /// Memory is otherwise allocated and zeroed on first use. In a virtual machine this first use
    /// can be slower than the device. Programs pay for it once.
    #[arg(long)]
    prefault: bool,

    /// Keep what foreread learns about the device in DIR, and start from it [default: each run
    /// starts without]
    #[arg(long, value_name = "DIR")]
    remember: Option<PathBuf>,

    /// For flood: set a tunable of foreread's scheduler, such as scheduler=noop or
    /// writes_in_flight=4; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// Number of reader threads; each reads its own part of the target through its own handle, or
    /// random pages of one hot set
    ///
    /// coop8 always uses 8. MB/s is the sum of all threads, ns the time of one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,

    /// Number of runs of each pattern by each method
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,

    /// Amount that each run reads, over all threads
    ///
    /// By default each pattern has its own amount, which takes a fast disk a fraction of a second,
    /// and --seconds limits it.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    amount: Option<ByteCount>,

    /// Time limit of a run; 1 second for direct, which has nothing to warm up [default: 5; no limit
    /// with --amount]
    ///
    /// For flood: its duration, or that of one chain if longer [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,

    /// First page to read, or first page of each stream in its part of the target
    #[arg(long, value_name = "N", default_value_t = 0)]
    start_page: u64,

    /// Slow the device down: latency of a request, requests served at once, bytes per second:
    /// latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print all figures as JSON, one data object per pattern and method
    ///
    /// Keys: pattern, method, policy, threads, window_kib, runs, mb_per_s, ns_per_read and
    /// cpu_s_per_gb (median, min, max), device_reads, device_bytes, bytes_wanted,
    /// evicted_before_use, and store for objects (requests, retried, hedged, throttled, failed,
    /// bytes, cost); null where a method has none. flood has other keys. docs/guide/bench.md
    /// defines all of them.
    #[arg(long)]
    json: bool,

    /// Also write all figures to FILE, as --json prints them
    ///
    /// FILE must be absent, empty, or hold earlier figures; `-` is stdout. TARGET, any other file,
    /// symbolic links, FIFOs and devices are refused (docs/guide/files.md).
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl BenchArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses options that do not fit the patterns or the target.
    pub(super) fn plan(self) -> Result<BenchPlan, Failure> {
        if self.patterns.contains(&BenchPattern::Flood) {
            return self.flood().map(BenchPlan::Flood);
        }
        self.read().map(BenchPlan::Read)
    }

    fn read(self) -> Result<ReadPlan, Failure> {
        let of_flood = [("--overwrite", self.overwrite), ("--set", !self.set.is_empty())];
        if let Some(flag) = first_given(&of_flood) {
            return refused(format!(
                "{flag}: these patterns only read; leave it out, or give --pattern flood"
            ));
        }
        let methods = read_methods(&self.methods)?;
        let is_object = url_of(Path::new(&self.target)).is_some();
        if is_object && self.delay.is_some() {
            let line = "--delay slows down files and devices; a store is slow by itself";
            return refused(line.to_owned());
        }
        let target = if is_object {
            let store = self.limits.limit(self.store.access());
            ReadTarget::Object { url: self.target, store }
        } else {
            ReadTarget::File(self.target.into())
        };
        let patterns = self.patterns.iter().filter_map(|pattern| match pattern {
            BenchPattern::Read(pattern) => Some(*pattern),
            BenchPattern::Flood => None,
        });
        let patterns: Vec<AccessPattern> = patterns.collect();
        let time = match (self.seconds, self.amount) {
            (Some(seconds), _) => Duration::from_secs(seconds.into()),
            (None, None) => READ_TIME,
            (None, Some(_)) => Duration::MAX,
        };
        Ok(ReadPlan {
            target,
            patterns: if patterns.is_empty() {
                PatternSelection::Fitting
            } else {
                PatternSelection::Named(patterns)
            },
            methods,
            policy: self.policy,
            window: self.max_window.or_else(|| is_object.then_some(MaxWindow::Auto)),
            memory: self.memory,
            prefault: self.prefault,
            remember: self.remember,
            threads: self.threads,
            runs: self.runs,
            amount: self.amount,
            time,
            direct_time: if time == Duration::MAX { time } else { DIRECT_TIME },
            start_page: self.start_page,
            delay: self.delay,
            output: BenchOutput { is_json: self.json, save: self.save, html: self.html },
        })
    }

    fn flood(self) -> Result<FloodPlan, Failure> {
        if self.patterns.iter().any(|pattern| *pattern != BenchPattern::Flood) {
            let line = "flood writes, all others only read: give it a call of its own";
            return refused(line.to_owned());
        }
        let of_reads = [
            ("--max-window", self.max_window.is_some()),
            ("--threads", self.threads != 1),
            ("--amount", self.amount.is_some()),
            ("--start-page", self.start_page != 0),
            ("--prefault", self.prefault),
            ("--remember", self.remember.is_some()),
        ];
        if let Some(flag) = first_given(&of_reads) {
            return refused(format!("{flag}: not for flood, whose reads and writes are fixed"));
        }
        let methods = flood_methods(&self.methods, self.delay.is_some())?;
        if self.html.is_some() {
            return refused("--html: flood has no HTML report; use --json".to_owned());
        }
        if !self.overwrite {
            return refused(format!(
                "{}: flood writes noise over all of it but its first quarter; add --overwrite if \
                 nothing on it is of worth",
                self.target
            ));
        }
        Ok(FloodPlan {
            target: self.target.into(),
            methods,
            delay: self.delay,
            ours: FloodSettings { memory: self.memory.0, policy: self.policy, set: self.set },
            runs: self.runs,
            time: self.seconds.map_or(FLOOD_TIME, |seconds| Duration::from_secs(seconds.into())),
            output: BenchOutput { is_json: self.json, save: self.save, html: None },
        })
    }
}

/// Returns the methods of patterns that only read; all if none was named.
fn read_methods(named: &[NamedMethod]) -> Result<Vec<AccessMethod>, Failure> {
    if named.is_empty() {
        return Ok(AccessMethod::ALL.to_vec());
    }
    let method = |method: &NamedMethod| match method {
        NamedMethod::AccessMethod(method) => Ok(*method),
        NamedMethod::Scheduler(name) => refused(format!(
            "--method direct:{name}: only flood sets schedulers; give --pattern flood, or \
             --method direct"
        )),
    };
    named.iter().map(method).collect()
}

/// Returns the methods of a flood.
fn flood_methods(named: &[NamedMethod], has_delay: bool) -> Result<Vec<FloodMethod>, Failure> {
    let direct = |scheduler| FloodMethod::Direct { scheduler };
    if named.is_empty() {
        return Ok(vec![direct(None), FloodMethod::Foreread]);
    }
    let mut methods = Vec::new();
    for wanted in named {
        let method = match wanted {
            NamedMethod::AccessMethod(AccessMethod::Direct) => direct(None),
            NamedMethod::AccessMethod(AccessMethod::Foreread) => FloodMethod::Foreread,
            NamedMethod::Scheduler(_) if has_delay => {
                let line = "--delay: no scheduler of the kernel's lies above that slow device; \
                            give --method direct";
                return refused(line.to_owned());
            }
            NamedMethod::Scheduler(name) => direct(Some(name.clone())),
            NamedMethod::AccessMethod(AccessMethod::Buffered) => {
                let line = "--method buffered: its writes end in memory, and what they would \
                            measure is its size; give direct";
                return refused(line.to_owned());
            }
            NamedMethod::AccessMethod(AccessMethod::Memory) => {
                return refused("--method memory: it takes no writes; give direct".to_owned());
            }
        };
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    Ok(methods)
}

/// Returns the first flag that was given.
fn first_given<'f>(flags: &[(&'f str, bool)]) -> Option<&'f str> {
    flags.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
}

fn refused<T>(line: String) -> Result<T, Failure> {
    Err(Failure::WrongUse(line))
}

/// Default time limit; a tenth of a ramp on a disk with one head: 1200 requests of 4 ms.
const READ_TIME: Duration = Duration::from_secs(5);

/// Time limit of direct, which has neither cache nor windows to warm up.
const DIRECT_TIME: Duration = Duration::from_secs(1);

/// Several chains on a fast disk. On a slow disk, the first chain takes longer.
const FLOOD_TIME: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  foreread bench /var/lib/db/table
      all patterns and methods, with the kernel's window for this disk
  foreread bench /dev/sdb --pattern seq4k,inter2,rand4k --max-window 1M --json
      as root: also sets the kernel's window to 1 MiB, and restores it
  foreread bench big.file --pattern inter2 --start-page 1 --amount 64M
      two streams, each starting on the second page of its half
  foreread bench big.file --pattern hot4k --threads 4 --method buffered,foreread
      cost of a cache hit with four threads
  foreread bench big.file --pattern seq4k,coop8 --delay latency=4ms,parallel=1
      the same file behind a device of one head; needs FUSE for the method 'buffered'
  foreread bench s3://bucket/big.bin --pattern seq64k,rand64k --runs 3
      an object, compared with plain requests sent one at a time
  foreread bench /dev/sdx --pattern flood --overwrite --method direct:bfq,direct:none,foreread
      latency of a chain of reads while 64 threads overwrite the disk

";
