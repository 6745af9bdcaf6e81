//! `foreread doctor`: what is wrong with settings and sizes of block devices, and what mends it.
//!
//! In:    devices, or none for all; a root folder.
//! Out:   a table of the devices, then each finding with its reason, evidence and commands.
//! Never: a change. The one thing that is written is `--measure`'s own scratch file.
//!
//! What each check asks, and the sources: docs/doctor.md.

mod report;

use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use foreread_files::scratch::temporary_directory;
use foreread_tune::doctor::write_cost::{self, WriteCost};
use foreread_tune::doctor::{ExaminationInput, RememberedWindow, examine};
use foreread_tune::remember;
use foreread_tune::setting::READ_AHEAD_KB;
use foreread_tune::sysfs::{SystemRoot, devices_named};

use crate::args::help::CODES_AND_UNITS;
use crate::clock::clock;
use crate::output::{Failure, Printer};
use crate::progress::spinner;

/// Examine block devices: settings, sizes and alignment that cost, and the commands that mend them
///
/// Looks at every block device and mounted ext4, or at those that are named, and changes nothing:
/// the largest window against the device's size, the kernel's reason for it, what was measured
/// (foreread tune) and how long reads take, the block size that follows from the size, where
/// partitions start, devices that lie on others, the scheduler against the depth of the queue, and
/// how many inode blocks ext4 reads at once.
///
/// A finding says what was found, why it matters, the evidence, commands that fix it (each alone,
/// as root) and how sure that is. A cost is stated only if it was measured here or published
/// (docs/doctor.md has the sources). The exit code is 1 if there are findings.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct DoctorArgs {
    /// Names (sda), nodes (/dev/sda) or paths on a device; all devices if none is given
    #[arg(value_name = "DEVICE", value_parser = NonEmptyStringValueParser::new())]
    devices: Vec<String>,

    /// Print the findings as JSON, one object of data each
    ///
    /// Keys: device, check, what, why, evidence, mend, confidence (measured, computed, cited or
    /// likely). The names of checks stay as they are.
    #[arg(long)]
    json: bool,

    /// Measure what an odd size costs here: two loop devices over a scratch file, one of whole
    /// pages, one a sector larger, are written to, and the kernel counts the requests
    ///
    /// Needs root and some seconds. No device but those two is written to; they and the file are
    /// removed afterwards, however this ends.
    #[arg(long, conflicts_with = "root")]
    measure: bool,

    /// Where --measure has its scratch file of 64 MiB [default: the folder for temporary files]
    #[arg(long, value_name = "DIR", requires = "measure")]
    scratch: Option<PathBuf>,

    /// Examine the copy of a system whose sys and proc lie in DIR
    ///
    /// What is looked at: /sys/block (with links followed), /sys/fs/ext4, /sys/fs/btrfs,
    /// /proc/self/mountinfo, /proc/swaps and /proc/sys/kernel/osrelease;
    /// what is remembered in /var/lib/foreread; and other files that set windows: udev rules,
    /// tuned's profiles, system scripts.
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    root: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  foreread doctor
  foreread doctor /home --json
  foreread doctor sda --measure --scratch /srv
  foreread doctor --root copied-from-another-machine

";

pub(crate) fn run(args: &DoctorArgs, out: &mut Printer) -> Result<(), Failure> {
    let sys = SystemRoot::at(&args.root);
    if !sys.path("/sys/block").is_dir() {
        let root = args.root.display();
        return Err(Failure::WrongUse(format!("{root}: no sys/block below it; see --root")));
    }
    let mut only = Vec::new();
    for text in &args.devices {
        only.extend(devices_named(&sys, text).map_err(Failure::WrongUse)?);
    }
    let measured = if args.measure { Some(measure(args.scratch.as_deref())?) } else { None };
    let remembered = remembered(&sys);
    let facts =
        ExaminationInput { remembered: &remembered, measured: measured.as_ref(), only: &only };
    let examination = examine(&sys, &facts);
    if args.json {
        out.json("doctor", &examination.findings)?;
        let figures = measured.as_ref().map(report::measured_in_one_line);
        out.notes(&Vec::from_iter(figures))?;
    } else {
        report::print(out, &examination, measured.as_ref())?;
    }
    // Skipped devices are reported only if devices were named: else all empty slots would be.
    let skipped = examination.skipped.iter().filter(|_| !only.is_empty());
    let skipped = skipped.map(|one| format!("{}: not examined: {}", one.device, one.why));
    out.notes(&skipped.collect::<Vec<_>>())?;
    match examination.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("1 finding".to_owned())),
        count => Err(Failure::Check(format!("{count} findings"))),
    }
}

/// The windows that were measured here and are meant to be in force.
fn remembered(sys: &SystemRoot) -> Vec<RememberedWindow> {
    let mut windows = Vec::new();
    for known in remember::list(sys).remembered {
        let window = known.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB);
        let Some(read_ahead_kb) = window.and_then(|setting| setting.value.parse().ok()) else {
            continue;
        };
        windows.extend(known.identity.devices(sys).into_iter().map(|device| RememberedWindow {
            device: device.name,
            read_ahead_kb,
            date: known.date.clone(),
            is_until_boot: false,
            rows: known.report.sweep.clone(),
        }));
    }
    windows.extend(remember::applied(sys).into_iter().filter_map(applied));
    windows
}

/// What `tune --apply` has set.
fn applied(applied: remember::Applied) -> Option<RememberedWindow> {
    let window = applied.settings.iter().find(|setting| setting.attribute == READ_AHEAD_KB)?;
    Some(RememberedWindow {
        read_ahead_kb: window.value.parse().ok()?,
        device: applied.device,
        date: applied.date,
        is_until_boot: true,
        rows: applied.report.sweep,
    })
}

fn measure(scratch: Option<&Path>) -> Result<WriteCost, Failure> {
    let temporary = || temporary_directory("/tmp").map_err(|error| error.to_string());
    let scratch = scratch.map_or_else(temporary, |scratch| Ok(scratch.to_owned()));
    let scratch = scratch.map_err(|why| Failure::WrongUse(format!("--measure: {why}")))?;
    let bar = spinner();
    bar.set_message("writing to two scratch loop devices");
    let measured = write_cost::measure(&scratch, &clock);
    bar.finish_and_clear();
    measured.map_err(|error| Failure::WrongUse(format!("--measure: {error}")))
}
