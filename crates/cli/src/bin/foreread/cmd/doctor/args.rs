//! The arguments of `foreread doctor`, and their help.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use foreread_cli::args::help::CODES_AND_UNITS;

/// Find settings and misalignment that slow I/O, and suggest fixes
///
/// Checks every block device and mounted file system, or only the given ones, and changes nothing:
/// read-ahead window, what sets it and why, measurements of foreread tune, request latency, block
/// size implied by the device size, partition alignment, stacked devices, scheduler and queue
/// depth, and inode-table read-ahead of ext4.
///
/// A finding gives the problem, its effect, the evidence, commands that fix it (each independent,
/// as root) and a confidence. Costs are only stated if they were measured here or published
/// (docs/guide/doctor.md lists the sources). The exit code is 1 if there are findings.
///
/// For the URL of an object (s3://bucket/key, gs://, az://, https://), at most nine small requests
/// check its store: reachability, region, clock skew, support for ranges and If-Match, first-byte
/// latency and connection setup time.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = [EXAMPLES, CODES_AND_UNITS].concat(),
)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(super) what: Option<DoctorCommand>,

    /// Device names (sda), device nodes (/dev/sda), mount points, paths on a device or mount, or
    /// URLs of objects [default: all devices and mounts]
    #[arg(value_name = "TARGET", value_parser = NonEmptyStringValueParser::new())]
    pub(super) devices: Vec<String>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print the findings as JSON, one data object per finding
    ///
    /// Keys: device (for a mount with its own window: the mount point), check, what, why, evidence,
    /// mend, confidence (measured, computed, cited or likely). Check names are stable. Next to
    /// data: machine, devices, mounts, stacks and notes; for URLs stores.
    /// docs/guide/doctor.schema.json is the schema.
    #[arg(long)]
    pub(super) json: bool,

    /// Print one line per finding, for scripts: target, check, confidence and first command; exit
    /// code 0: none, 1: findings, 2: wrong usage
    #[arg(long, conflicts_with_all = ["json", "stacks"])]
    pub(super) check: bool,

    /// Draw the device stack below each mount: window, largest request, scheduler and alignment of
    /// each layer, and which window applies
    #[arg(long, conflicts_with = "json")]
    pub(super) stacks: bool,

    /// Also write Prometheus metrics to FILE, replaced atomically, for the textfile collector of
    /// node_exporter (which requires a name that ends in .prom)
    #[arg(long, value_name = "FILE")]
    pub(super) prometheus: Option<PathBuf>,

    /// Write all that doctor reads from this system to FILE, for a bug report or a test, and exit
    ///
    /// FILE is text. It contains names of the machine, its devices and mounts, and udev rules that
    /// set windows or schedulers, but no serial numbers. Read it before sending it.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["devices", "json", "check", "measure", "stacks", "prometheus"])]
    pub(super) capture: Option<PathBuf>,

    /// Measure the cost of an odd device size: writes to two loop devices over a scratch file, one
    /// of whole pages and one a sector larger, and counts the requests
    ///
    /// Needs root and takes a few seconds. Only the two loop devices are written to; they and the
    /// file are always removed afterwards.
    #[arg(long, conflicts_with = "root")]
    pub(super) measure: bool,

    /// Directory for the 64 MiB scratch file of --measure [default: the directory for temporary
    /// files]
    #[arg(long, value_name = "DIR", requires = "measure")]
    pub(super) scratch: Option<PathBuf>,

    /// Examine a recorded system: a file of --capture, or a directory with its sys and proc
    ///
    /// Reads /sys/block (following links), /sys/class/bdi, /sys/fs/ext4, /sys/fs/btrfs,
    /// /proc/self/mountinfo, /proc/swaps and /proc/sys/kernel/osrelease; records in
    /// /var/lib/foreread; and other files that set windows: udev rules, tuned profiles, system
    /// scripts, nfs.conf.
    #[arg(long, value_name = "DIR|FILE", default_value = "/", hide_default_value = true)]
    pub(super) root: PathBuf,
}

/// Subcommands of doctor.
#[derive(Debug, Subcommand)]
pub(super) enum DoctorCommand {
    Merge(MergeArgs),
}

/// Compare machines by their `doctor --json` files
///
/// Machines with the same disks and file systems form a class. The table lists each machine with
/// its class and findings, then the settings in which a machine differs from most of its class, and
/// the commands for each class.
#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// Output files of `foreread doctor --json`, one per machine
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// Also write an HTML report to FILE; the page is self-contained
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print JSON, one data object per machine
    ///
    /// Keys: file, host, kernel, class, devices, mounts, findings (check names), outliers (setting,
    /// value, usual).
    #[arg(long)]
    pub(super) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread doctor
  foreread doctor /mnt/nfs --stacks
  foreread doctor /home --json
  foreread doctor sda --measure --scratch /srv
  foreread doctor s3://bucket/big.bin
  foreread doctor --check || echo see foreread doctor
  foreread doctor --capture this-machine.txt; foreread doctor --root this-machine.txt
  foreread doctor --json >$(hostname).json; foreread doctor merge *.json --html fleet.html

";
