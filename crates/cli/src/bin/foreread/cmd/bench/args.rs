//! The arguments of `foreread bench`, and their help.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::args::assignment::assignment;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::args::policy::policies;
use foreread_cli::measure::method::AccessMethod;
use foreread_cli::measure::pattern::AccessPattern;
use foreread_cli::store::StoreArgs;

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
    pub(super) target: String,

    #[command(flatten)]
    pub(super) store: StoreArgs,

    /// Access patterns, separated by commas [default: all that fit the target and the memory]
    #[arg(long = "pattern", value_name = "PATTERN,..", value_delimiter = ',')]
    #[arg(value_parser = pattern)]
    pub(super) patterns: Vec<BenchPattern>,

    /// Access methods, separated by commas [default: all that fit; for flood direct,foreread]
    #[arg(long = "method", alias = "arm", value_name = "METHOD,..", value_delimiter = ',')]
    #[arg(value_parser = method)]
    pub(super) methods: Vec<NamedMethod>,

    /// Let flood overwrite TARGET; its contents are lost
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    pub(super) policy: Policy,

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
    pub(super) max_window: Option<MaxWindow>,

    /// Keep what foreread learns about the device in DIR, and start from it [default: each run
    /// starts without]
    #[arg(long, value_name = "DIR")]
    pub(super) remember: Option<PathBuf>,

    /// Memory limit of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// Allocate all cache memory before the clock starts
    ///
    /// Memory is otherwise allocated and zeroed on first use. In a virtual machine this first use
    /// can be slower than the device. Programs pay for it once.
    #[arg(long)]
    pub(super) prefault: bool,

    /// I/O scheduler of foreread for flood: deadline or noop
    #[arg(long, value_name = "NAME", default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(["deadline", "noop"]))]
    pub(super) scheduler: String,

    /// Set a tunable of that scheduler, such as writes_in_flight=4; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, String)>,

    /// Number of reader threads; each reads its own part of the target through its own handle, or
    /// random pages of one hot set
    ///
    /// coop8 always uses 8. MB/s is the sum of all threads, ns the time of one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// Number of runs of each pattern by each method
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) runs: u32,

    /// Amount that each run reads, over all threads
    ///
    /// By default each pattern has its own amount, which takes a fast disk a fraction of a second,
    /// and --seconds limits it.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) amount: Option<ByteCount>,

    /// Time limit of a run; 1 second for direct, which has nothing to warm up [default: 5; no limit
    /// with --amount]
    ///
    /// For flood: its duration, or that of one chain if longer [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: Option<u32>,

    /// First page to read, or first page of each stream in its part of the target
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) start_page: u64,

    /// Slow the device down: latency of a request, requests served at once, bytes per second:
    /// latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    pub(super) delay: Option<Delay>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print all figures as JSON, one data object per pattern and method
    ///
    /// Keys: pattern, method, policy, threads, window_kib, runs, mb_per_s, ns_per_read and
    /// cpu_s_per_gb (median, min, max), device_reads, device_bytes, bytes_wanted,
    /// evicted_before_use, and store for objects (requests, retried, hedged, throttled, failed,
    /// bytes, cost); null where a method has none. flood has other keys. docs/guide/bench.md
    /// defines all of them.
    #[arg(long)]
    pub(super) json: bool,

    /// Also write all figures to FILE, as --json prints them
    ///
    /// FILE must be absent, empty, or hold earlier figures; `-` is stdout. TARGET, any other file,
    /// symbolic links, FIFOs and devices are refused (docs/guide/files.md).
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
}

/// Access pattern to measure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BenchPattern {
    Read(AccessPattern),
    Flood,
}

/// Access method given on the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NamedMethod {
    AccessMethod(AccessMethod),
    /// `direct:NAME`.
    Scheduler(String),
}

fn pattern(name: &str) -> Result<BenchPattern, String> {
    if name == FLOOD {
        return Ok(BenchPattern::Flood);
    }
    AccessPattern::from_name(name).map(BenchPattern::Read).ok_or_else(|| {
        let names = AccessPattern::ALL.map(AccessPattern::name).join(", ");
        format!("no such pattern; choose from {names}, {}", FLOOD)
    })
}

fn method(name: &str) -> Result<NamedMethod, String> {
    let scheduler = name.strip_prefix("direct:").filter(|scheduler| !scheduler.is_empty());
    let method = || AccessMethod::from_name(name).map(NamedMethod::AccessMethod);
    scheduler
        .map(|scheduler| NamedMethod::Scheduler(scheduler.to_owned()))
        .or_else(method)
        .ok_or_else(|| {
            let names = AccessMethod::ALL.map(AccessMethod::name).join(", ");
            format!("no such access method; choose from {names}, and for flood direct:SCHEDULER")
        })
}

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

/// Name of the pattern.
pub(super) const FLOOD: &str = "flood";
