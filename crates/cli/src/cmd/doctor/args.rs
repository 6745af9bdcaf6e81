//! The arguments of `foreread doctor`, and their help.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use crate::args::help::CODES_AND_UNITS;

/// Examine block devices and mounts: settings, sizes and alignment that cost, and what mends them
///
/// Looks at every block device and every mounted file system, or at those that are named, and
/// changes nothing: the largest window of read-ahead, what governs it and where it came from, the
/// kernel's reason for it, what was measured (foreread tune) and how long reads take, the block
/// size that follows from a device's size, where partitions start, devices that lie on others, the
/// scheduler against the depth of the queue, and how many inode blocks ext4 reads at once.
///
/// A finding says what was found, why it matters, the evidence, commands that fix it (each alone,
/// as root) and how sure that is. A cost is stated only if it was measured here or published
/// (docs/doctor.md has the sources). The exit code is 1 if there are findings.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = [EXAMPLES, CODES_AND_UNITS].concat(),
)]
pub(crate) struct DoctorArgs {
    #[command(subcommand)]
    pub(super) what: Option<DoctorCommand>,

    /// Names (sda), nodes (/dev/sda), mount points, or paths on a device or mount; all if none is
    /// given
    #[arg(value_name = "TARGET", value_parser = NonEmptyStringValueParser::new())]
    pub(super) devices: Vec<String>,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print the findings as JSON, one object of data each
    ///
    /// Keys: device (of a mount with a window of its own: where it is mounted), check, what, why,
    /// evidence, mend, confidence (measured, computed, cited or likely). The names of checks stay
    /// as they are. Beside data: machine, devices, mounts, stacks and notes.
    /// docs/doctor.schema.json describes all of it.
    #[arg(long)]
    pub(super) json: bool,

    /// Print one line for each finding: target, check, confidence, and the first command; for
    /// scripts, which go by the exit code (0 none, 1 findings, 2 wrong use)
    #[arg(long, conflicts_with_all = ["json", "stacks"])]
    pub(super) check: bool,

    /// Draw what lies below each mount: every layer with its window, largest request, scheduler
    /// and alignment, and whether its window counts
    #[arg(long, conflicts_with = "json")]
    pub(super) stacks: bool,

    /// Also write metrics for Prometheus into FILE, whole, for the textfile collector of
    /// node_exporter (its name has to end in .prom there)
    #[arg(long, value_name = "FILE")]
    pub(super) prometheus: Option<PathBuf>,

    /// Write what doctor reads of this system into FILE, for a report or a test, and end
    ///
    /// One text file. It has the names of the machine, its devices and mounts, and the text of udev
    /// rules that set windows or schedulers; no serial numbers. Read it before you send it.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["devices", "json", "check", "measure", "stacks", "prometheus"])]
    pub(super) capture: Option<PathBuf>,

    /// Measure what an odd size costs here: two loop devices over a scratch file, one of whole
    /// pages, one a sector larger, are written to, and the kernel counts the requests
    ///
    /// Needs root and some seconds. No device but those two is written to; they and the file are
    /// removed afterwards, however this ends.
    #[arg(long, conflicts_with = "root")]
    pub(super) measure: bool,

    /// Where --measure has its scratch file of 64 MiB [default: the folder for temporary files]
    #[arg(long, value_name = "DIR", requires = "measure")]
    pub(super) scratch: Option<PathBuf>,

    /// Examine a recorded system: the file of --capture, or a folder with its sys and proc
    ///
    /// What is looked at: /sys/block (with links followed), /sys/class/bdi, /sys/fs/ext4,
    /// /sys/fs/btrfs, /proc/self/mountinfo, /proc/swaps and /proc/sys/kernel/osrelease; what is
    /// remembered in /var/lib/foreread; and other files that set windows: udev rules, tuned's
    /// profiles, system scripts, nfs.conf.
    #[arg(long, value_name = "DIR|FILE", default_value = "/", hide_default_value = true)]
    pub(super) root: PathBuf,
}

/// What else doctor can do.
#[derive(Debug, Subcommand)]
pub(super) enum DoctorCommand {
    Merge(MergeArgs),
}

/// Compare many machines: the files of `doctor --json`, one a machine
///
/// Machines with the same disks and file systems form a class. The table has each machine with its
/// class and findings; below it are the settings in which a machine differs from most of its class,
/// and the commands for each class.
#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// Files that `foreread doctor --json` has printed
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// Also write a report into FILE: one page of HTML that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Print JSON, one object of data a machine
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
  foreread doctor --check || echo see foreread doctor
  foreread doctor --capture this-machine.txt; foreread doctor --root this-machine.txt
  foreread doctor --json >$(hostname).json; foreread doctor merge *.json --html fleet.html

";
