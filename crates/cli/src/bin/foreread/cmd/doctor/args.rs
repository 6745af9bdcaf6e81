//! The arguments of `foreread doctor`, their help, and the plan that follows from them.

use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use foreread_files::scratch::temporary_directory;

use super::plan::{DoctorPlan, FindingsForm, MergePlan, SystemPlan};
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;
use foreread_cli::store;

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
    what: Option<DoctorCommand>,

    /// Device names (sda), device nodes (/dev/sda), mount points, paths on a device or mount, or
    /// URLs of objects [default: all devices and mounts]
    #[arg(value_name = "TARGET", value_parser = NonEmptyStringValueParser::new())]
    devices: Vec<String>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print the findings as JSON, one data object per finding
    ///
    /// Keys: device (for a mount with its own window: the mount point), check, what, why, evidence,
    /// mend, confidence (measured, computed, cited or likely). Check names are stable. Next to
    /// data: machine, devices, mounts, stacks and notes; for URLs stores.
    /// docs/guide/doctor.schema.json is the schema.
    #[arg(long)]
    json: bool,

    /// Print one line per finding, for scripts: target, check, confidence and first command; exit
    /// code 0: none, 1: findings, 2: wrong usage
    #[arg(long, conflicts_with_all = ["json", "stacks"])]
    check: bool,

    /// Draw the device stack below each mount: window, largest request, scheduler and alignment of
    /// each layer, and which window applies
    #[arg(long, conflicts_with = "json")]
    stacks: bool,

    /// Also write Prometheus metrics to FILE, replaced atomically, for the textfile collector of
    /// node_exporter (which requires a name that ends in .prom)
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,

    /// Write all that doctor reads from this system to FILE, for a bug report or a test, and exit
    ///
    /// FILE is text. It contains names of the machine, its devices and mounts, and udev rules that
    /// set windows or schedulers, but no serial numbers. Read it before sending it.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["devices", "json", "check", "measure", "stacks", "prometheus", "html"])]
    capture: Option<PathBuf>,

    /// Measure the cost of an odd device size: writes to two loop devices over a scratch file, one
    /// of whole pages and one a sector larger, and counts the requests
    ///
    /// Needs root and takes a few seconds. The scratch file has 64 MiB and is created in DIR, or in
    /// the directory for temporary files. Only the two loop devices are written to; they and the
    /// file are always removed afterwards.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with = "root")]
    measure: Option<Option<PathBuf>>,

    /// Examine a recorded system: a file of --capture, or a directory with its sys and proc
    ///
    /// Reads /sys/block (following links), /sys/class/bdi, /sys/fs/ext4, /sys/fs/btrfs,
    /// /proc/self/mountinfo, /proc/swaps and /proc/sys/kernel/osrelease; records in
    /// /var/lib/foreread; and other files that set windows: udev rules, tuned profiles, system
    /// scripts, nfs.conf.
    #[arg(long, value_name = "DIR|FILE", default_value = "/", hide_default_value = true)]
    root: PathBuf,
}

impl DoctorArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses options that do not fit the kind of targets.
    pub(super) fn plan(self) -> Result<DoctorPlan, Failure> {
        if let Some(DoctorCommand::Merge(merge)) = self.what {
            let MergeArgs { files, html, json: is_json } = merge;
            return Ok(DoctorPlan::Merge(MergePlan { files, html, is_json }));
        }
        if self.has_urls()? {
            return self.stores();
        }
        if let Some(file) = self.capture {
            return Ok(DoctorPlan::Capture { root: self.root, file });
        }
        Ok(DoctorPlan::System(SystemPlan {
            form: self.form(),
            measure_in: self.measure.map(scratch_directory).transpose()?,
            targets: self.devices,
            root: self.root,
            html: self.html,
            prometheus: self.prometheus,
        }))
    }

    #[cfg(feature = "objects")]
    #[expect(clippy::unnecessary_wraps, reason = "without stores they are refused")]
    fn stores(self) -> Result<DoctorPlan, Failure> {
        Ok(DoctorPlan::Stores { form: self.form(), urls: self.devices })
    }

    #[cfg(not(feature = "objects"))]
    fn stores(self) -> Result<DoctorPlan, Failure> {
        match store::StoreAccess::default().client()? {}
    }

    /// Returns the form of the findings; clap accepts one flag of the three.
    fn form(&self) -> FindingsForm {
        match (self.json, self.check, self.stacks) {
            (true, ..) => FindingsForm::Json,
            (_, true, _) => FindingsForm::Lines,
            (_, _, true) => FindingsForm::ReportWithStacks,
            (false, false, false) => FindingsForm::Report,
        }
    }

    /// Returns true if the targets are URLs of objects, which are examined by requests.
    fn has_urls(&self) -> Result<bool, Failure> {
        let is_url = |target: &&String| store::url_of(Path::new(target)).is_some();
        let urls = self.devices.iter().filter(is_url).count();
        if urls == 0 {
            return Ok(false);
        }
        let wrong = |line: &str| Err(Failure::WrongUse(line.to_owned()));
        if urls < self.devices.len() {
            return wrong("name objects of stores, or devices and mounts, but not both at once");
        }
        let has_file = self.prometheus.is_some() || self.html.is_some();
        let is_here = self.root == Path::new("/");
        if self.stacks || self.measure.is_some() || has_file || !is_here {
            let flags = "--stacks, --measure, --prometheus, --html and --root";
            return Err(Failure::WrongUse(format!("{flags} are for devices and mounts")));
        }
        Ok(true)
    }
}

/// Returns the directory of --measure: the given one, or that for temporary files.
fn scratch_directory(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    given
        .map_or_else(|| temporary_directory("/tmp"), Ok)
        .map_err(|error| Failure::WrongUse(format!("--measure: {error}")))
}

/// Subcommands of doctor.
#[derive(Debug, Subcommand)]
enum DoctorCommand {
    Merge(MergeArgs),
}

/// Compare machines by their `doctor --json` files
///
/// Machines with the same disks and file systems form a class. The table lists each machine with
/// its class and findings, then the settings in which a machine differs from most of its class, and
/// the commands for each class.
#[derive(Debug, Args)]
struct MergeArgs {
    /// Output files of `foreread doctor --json`, one per machine
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Also write an HTML report to FILE; the page is self-contained
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print JSON, one data object per machine
    ///
    /// Keys: file, host, kernel, class, devices, mounts, findings (check names), outliers (setting,
    /// value, usual).
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread doctor
  foreread doctor /mnt/nfs --stacks
  foreread doctor /home --json
  foreread doctor sda --measure=/srv
  foreread doctor s3://bucket/big.bin
  foreread doctor --check || echo see foreread doctor
  foreread doctor --capture this-machine.txt; foreread doctor --root this-machine.txt
  foreread doctor --json >$(hostname).json; foreread doctor merge *.json --html fleet.html

";
