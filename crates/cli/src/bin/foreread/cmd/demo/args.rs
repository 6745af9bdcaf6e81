//! The arguments of `foreread demo`, and their help.

use std::path::PathBuf;

use clap::Args;
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use foreread_cli::args::policy::policies;

/// Compare foreread with the kernel's page cache on a scratch file, in under a minute
///
/// Writes a scratch file and reads it behind artificially slow devices: one stream on a disk that
/// serves one request at a time, one stream on a device that serves eight at once, and 200 streams
/// in 32 MiB of memory. foreread runs with its defaults; the kernel runs with its defaults and with
/// the best of several windows. Then the file is read at full speed in four patterns: through the
/// kernel's page cache, with plain O_DIRECT, and through foreread. These rows also show where
/// foreread gains nothing. The methods take turns, so that all see the same load on the machine;
/// figures are medians of the runs.
///
/// Root is not needed. Without it, two comparisons are skipped with a note: the kernel's best
/// setting (read_ahead_kb) and its page cache in 32 MiB (a memory cgroup). The kernel reads the
/// slow devices through a FUSE mount, which costs about 20 us per request. The scratch file and the
/// mount have no name and never outlive the demo.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  foreread demo
  foreread demo --dir /mnt/disk --size 1G
  foreread demo --delay latency=1ms,parallel=8 --json
  foreread demo /var/lib/db/table")]
pub(crate) struct DemoArgs {
    /// File or block device to read instead of a scratch file; it is not written to
    pub(super) target: Option<PathBuf>,

    /// Directory for the scratch file, on the disk to be measured
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    pub(super) dir: Option<PathBuf>,

    /// Size of the scratch file, at least 16M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) size: ByteCount,

    /// Replace the slow devices by one: latency of a request, requests served at once, bytes per
    /// second: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    pub(super) delay: Option<Delay>,

    /// Read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = "adaptive", value_parser = policies())]
    pub(super) policy: Policy,

    /// Memory limit of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// Largest window of foreread [default: learnt on the slow devices, the kernel's at full speed]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) max_window: Option<ByteCount>,

    /// Number of runs of each pattern by each method
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) runs: u32,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print all figures as JSON, one data object per pattern and method
    ///
    /// Keys: scene (one-head, eight-at-once, 200-streams, or one-stream with --delay; as-it-is),
    /// setting (default or best; absent for as-it-is), and those of foreread bench --json, which
    /// docs/guide/bench.md defines.
    #[arg(long)]
    pub(super) json: bool,
}
