//! The arguments of `foreread demo`, their help, and the plan that follows from them.

use std::path::PathBuf;

use clap::Args;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_files::scratch::temporary_directory;

use super::plan::{DemoPlan, DemoTarget};
use foreread_cli::output::Failure;

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
  foreread demo /mnt/disk --size 1G
  foreread demo --delay latency=1ms,parallel=8 --json
  foreread demo /var/lib/db/table")]
pub(crate) struct DemoArgs {
    /// Directory for the scratch file, on the disk to be measured; or a file or block device to
    /// read instead, which is not written to [default: $TMPDIR or /var/tmp]
    target: Option<PathBuf>,

    /// Size of the scratch file, at least 16M
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    size: ByteCount,

    /// Replace the slow devices by one: latency of a request, requests served at once, bytes per
    /// second: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,

    /// Number of runs of each pattern by each method
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print all figures as JSON, one data object per pattern and method
    ///
    /// Keys: scene (one-head, eight-at-once, 200-streams, or one-stream with --delay; as-it-is),
    /// setting (default or best; absent for as-it-is), and those of foreread bench --json, which
    /// docs/guide/bench.md defines.
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses a scratch file that is too small, or has no directory.
    pub(super) fn plan(self) -> Result<DemoPlan, Failure> {
        let target = match self.target {
            Some(path) if !path.is_dir() => DemoTarget::Existing(path),
            _ if self.size < SMALLEST => {
                return Err(Failure::WrongUse(format!("--size {}: give at least 16M", self.size)));
            }
            directory => DemoTarget::Scratch {
                directory: directory.map_or_else(default_directory, Ok)?,
                size: self.size,
            },
        };
        Ok(DemoPlan {
            target,
            delay: self.delay,
            runs: self.runs,
            html: self.html,
            is_json: self.json,
        })
    }
}

/// Returns the default directory of the test file; not /tmp, which is a tmpfs on many machines.
fn default_directory() -> Result<PathBuf, Failure> {
    temporary_directory("/var/tmp")
        .map_err(|error| Failure::WrongUse(format!("{error}, or give a directory")))
}

/// Smallest test file: reading less is too short to time.
pub(super) const SMALLEST: ByteCount = ByteCount(16 << 20);
