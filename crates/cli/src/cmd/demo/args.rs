//! The arguments of `foreread demo`, and their help.

use std::path::PathBuf;

use clap::Args;
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::args::policy::policies;

/// See what foreread gains beside the kernel's page cache, with its defaults and its best setting
///
/// Writes a scratch file and reads it behind devices that are slowed down on purpose: one stream on
/// a disk that serves one request at a time, one stream on a device that serves eight at once, and
/// 200 streams in 32 MiB of memory. foreread has nothing set; the kernel is measured as it comes,
/// and with the best of several windows. Then the file is read as it is, in four patterns, through
/// the kernel's page cache, with O_DIRECT and nothing else, and through foreread: also where
/// nothing is gained. All take turns, so that they meet the same moments of a busy machine; figures
/// are medians of the runs. It takes less than a minute.
///
/// Needs no root, but what takes root is skipped without it, with a line that says so: the kernel's
/// best setting (read_ahead_kb), and its page cache in 32 MiB (a memory cgroup). The kernel's page
/// cache over a slow device is a FUSE mount, which costs it some 20 us a request. Nothing is left
/// behind, however the demo ends: neither file nor mount has a name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  foreread demo
  foreread demo --dir /mnt/disk --size 1G
  foreread demo --delay latency=1ms,parallel=8 --json
  foreread demo /var/lib/db/table")]
pub(crate) struct DemoArgs {
    /// A file or block device to read instead of a scratch file; it is not written to
    pub(super) target: Option<PathBuf>,

    /// Where the scratch file goes: on the disk that you want to know about
    #[arg(long, value_name = "DIR", conflicts_with = "target")]
    pub(super) dir: Option<PathBuf>,

    /// How large the scratch file is, at least 16M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) size: ByteCount,

    /// One slow device instead of the two: each request costs its latency, so many are served at a
    /// time, each moves so many bytes a second: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    pub(super) delay: Option<Delay>,

    /// The read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = "adaptive", value_parser = policies())]
    pub(super) policy: Policy,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// The largest window of foreread on the slow devices, and as it is [default: learnt there, and
    /// the kernel's own here]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) max_window: Option<ByteCount>,

    /// How often each pattern is run by each method
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) runs: u32,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print every figure as JSON, one object of data a pattern and method
    ///
    /// Keys: scene (one-head, eight-at-once, 200-streams, or one-stream with --delay; as-it-is),
    /// setting (default or best; left out as it is), and those of foreread bench --json;
    /// docs/bench.md says what each counts.
    #[arg(long)]
    pub(super) json: bool,
}
