//! The arguments of `foreread demo`, and their help.

use std::path::PathBuf;

use clap::Args;
use foreread::{Delay, Policy};
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::args::policy::policies;

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

    /// How the slow device is slow: each request costs its latency, so many are served at a time,
    /// each moves so many bytes a second
    #[arg(long, value_name = "DELAY", default_value = "latency=4ms,parallel=1,bandwidth=100M")]
    pub(super) delay: Delay,

    /// The read-ahead policy of foreread
    #[arg(long, value_name = "POLICY", default_value = "adaptive", value_parser = policies())]
    pub(super) policy: Policy,

    /// The memory bound of foreread's cache
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// The largest window of foreread; the kernel's own for the same target, if not given
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) max_window: Option<ByteCount>,

    /// How often each pattern is run by each method
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(super) runs: u32,

    /// Print every figure as JSON, one object of data a pattern and method
    ///
    /// Keys: target (plain or delayed), and those of foreread bench --json; docs/bench.md says what
    /// each counts.
    #[arg(long)]
    pub(super) json: bool,
}
