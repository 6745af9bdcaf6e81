//! The arguments of `foreread bench`, and their help.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::args::assignment::assignment;
use crate::args::help::CODES_AND_UNITS;
use crate::args::max_window::{MaxWindow, max_window};
use crate::args::policy::policies;
use crate::measure::method::AccessMethod;
use crate::measure::pattern::AccessPattern;
use crate::store::StoreArgs;

/// Read a file or device of yours through the kernel, around it, and through foreread
///
/// Reads TARGET in each pattern by each access method, several times. The methods take turns, so
/// that they meet the same moments of a busy machine, and read the same offsets; before each run
/// the target is dropped from the kernel's page cache, and foreread begins with an empty cache of
/// its own. Medians of the runs are shown, with the smallest and the largest, and ratios of runs
/// made side by side. Nothing is written, except by the pattern flood.
///
/// The access methods:
///   buffered   pread through the kernel's page cache and its read-ahead
///   direct     pread with O_DIRECT and nothing else; the hot patterns are not for it
///   foreread   O_DIRECT through foreread
///   memory     a plain copy inside this process, what a cached read is near at best: of the
///              hot patterns only; of hot-pin one look at a byte
///
/// The patterns:
///   seq4k seq64k seq1m         one stream
///   inter2 inter2-64k inter8   2 or 8 streams, far apart, in strict turns, through one handle; of
///                              4 KiB reads unless the name says more
///   inter200                   200 streams in strict turns, each through a handle of its own
///   coop8                      one stream that 8 threads share: each takes the next 64 KiB
///   rand4k rand16k rand64k     anywhere, nothing twice
///   scans                      160 KiB in a row by 16 KiB, and then elsewhere; nothing twice
///   stride back                every 16th page; pages from the end to the start
///   hot4k hot64k hot1m         anywhere in 256 MiB that were read before
///   hot-small                  4 KiB anywhere in 1 MiB that was read before
///   hot-pin                    as hot4k, but each page is pinned and let go: not buffered
///   flood                      a chain of 20 dependent 4 KiB reads while 64 threads write 64 KiB
///                              anywhere; it OVERWRITES the target, needs --overwrite, has a table
///                              of its own, and the methods direct, direct:SCHEDULER (one of the
///                              kernel's, set as root and set back) and foreread
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct BenchArgs {
    /// A file or block device; only flood writes to it. Or the URL of an object (s3://bucket/key,
    /// gs://, az://, https://): the methods are then direct, one request for each read, and
    /// foreread
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(super) target: String,

    #[command(flatten)]
    pub(super) store: StoreArgs,

    /// What to read, with commas between [default: all that the target and the memory have room
    /// for]
    #[arg(long = "pattern", value_name = "PATTERN,..", value_delimiter = ',')]
    #[arg(value_parser = pattern)]
    pub(super) patterns: Vec<BenchPattern>,

    /// The access methods, with commas between [default: all that fit; of flood
    /// direct,foreread]
    #[arg(long = "method", alias = "arm", value_name = "METHOD,..", value_delimiter = ',')]
    #[arg(value_parser = method)]
    pub(super) methods: Vec<NamedMethod>,

    /// Let flood overwrite TARGET: what is on it is lost
    #[arg(long)]
    pub(super) overwrite: bool,

    /// The read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    pub(super) policy: Policy,

    /// The largest window, of foreread and of the kernel, or auto [default: what the kernel's is;
    /// auto if TARGET is a URL]
    ///
    /// With auto foreread learns it from the device, and the kernel keeps its own.
    ///
    /// The kernel's is the setting read_ahead_kb of the device below the target: as root it is set
    /// for as long as this runs, and set back however that ends. Other programs that open files of
    /// that device meanwhile get it, too. Where it cannot be set, a note says so, and the output
    /// says which window was in force.
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    pub(super) max_window: Option<MaxWindow>,

    /// Keep what foreread learns of the device in DIR, and begin with what is there [default: each
    /// run of foreread begins with nothing]
    #[arg(long, value_name = "DIR")]
    pub(super) remember: Option<PathBuf>,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// Have the system give all of that memory before the clock starts
    ///
    /// A new engine's memory is zeroed as it is first used, and where a host gives it to a virtual
    /// machine that takes longer than many devices. Programs pay this once.
    #[arg(long)]
    pub(super) prefault: bool,

    /// foreread's I/O scheduler in a flood: deadline or noop
    #[arg(long, value_name = "NAME", default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(["deadline", "noop"]))]
    pub(super) scheduler: String,

    /// Set a tunable of that scheduler; may be repeated: writes_in_flight=4
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, String)>,

    /// How many threads read at once: each reads its own part of the target with a handle of its
    /// own, or random pages of one hot set
    ///
    /// coop8 has 8 whatever is given here. MB/s are of all threads together, ns of one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) threads: u32,

    /// How often each pattern is run by each method
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) runs: u32,

    /// How much each run reads, of all threads together
    ///
    /// If it is not given, each pattern has an amount of its own that takes a fast disk a fraction
    /// of a second, and the limit of --seconds holds.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) amount: Option<ByteCount>,

    /// A run ends after so long, even if there is more to read; a run of direct after one second,
    /// since it has nothing that has to warm up [default: 5; no limit with --amount]
    ///
    /// A flood lasts so long, and as long as one chain takes [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: Option<u32>,

    /// The page where reading begins, or where each stream begins in its part of the target
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) start_page: u64,

    /// Slow the device down: each request costs its latency, so many are served at a time, each
    /// moves so many bytes a second: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    pub(super) delay: Option<Delay>,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print every figure as JSON, one object of data a pattern and method
    ///
    /// Keys: pattern, method, policy, threads, window_kib, runs, mb_per_s, ns_per_read and
    /// cpu_s_per_gb (median, min, max), device_reads, device_bytes, bytes_wanted,
    /// evicted_before_use, and of an object store (requests, retried, hedged, throttled, failed,
    /// bytes, cost); null where a method has none. Those of flood are others. docs/bench.md says
    /// what each counts.
    #[arg(long)]
    pub(super) json: bool,

    /// Write every figure into FILE, too, as --json prints them
    ///
    /// FILE must not exist, be empty, or hold earlier figures; `-` is stdout. TARGET, any other
    /// file, a symbolic link, a FIFO and a device are refused (docs/files.md).
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
}

/// What is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum BenchPattern {
    Read(AccessPattern),
    Flood,
}

/// An access method, as it was named.
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
      all patterns and methods, windows as the kernel has them for this disk
  foreread bench /dev/sdb --pattern seq4k,inter2,rand4k --max-window 1M --json
      as root: the kernel's window is set to 1 MiB, too, and set back afterwards
  foreread bench big.file --pattern inter2 --start-page 1 --amount 64M
      two streams that begin on the second page of their halves
  foreread bench big.file --pattern hot4k --threads 4 --method buffered,foreread
      what a cached read costs each of four threads
  foreread bench big.file --pattern seq4k,coop8 --delay latency=4ms,parallel=1
      the same file behind a device of one head; needs FUSE for the method 'buffered'
  foreread bench s3://bucket/big.bin --pattern seq64k,rand64k --runs 3
      an object beside plain requests, one at a time
  foreread bench /dev/sdx --pattern flood --overwrite --method direct:bfq,direct:none,foreread
      how long a chain of reads takes while 64 threads write over all that is on the disk

";

/// The pattern's name.
pub(super) const FLOOD: &str = "flood";
