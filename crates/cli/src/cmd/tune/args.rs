//! The arguments of `foreread tune`, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_tune::report::Profile;

use super::simulated::SimulatedDevice;
use crate::args::help::CODES_AND_UNITS;
use crate::output::Failure;
use crate::store::{self, PriceArgs};

/// Measure which read-ahead a device has use for, and set it
///
/// Reads TARGET's device with windows from 4 KiB to 16 MiB, in shuffled order and again and again,
/// until it is clear which is the smallest that reaches 98 % of the throughput of the best: the
/// plateau. The window in force is measured, too, and kept unless the plateau was measured to give
/// 98 % of its throughput, beyond the error of both. Random reads show what a larger window costs
/// random readers. It takes less than a minute, and every setting is restored afterwards, also
/// after Ctrl-C or kill. After Ctrl-C or a device error, the results so far are printed, and the
/// exit code is 1.
///
/// --apply and --remember refuse an unreliable result: the sweep ended early, it may have measured
/// a cache below, the window is not known within a factor of four, the window in force could not be
/// measured, or noise leaves open whether the change makes the device faster. --remember refuses
/// --quick, too. The exit code is then 1, and the message says what to do instead; --force sets the
/// window all the same.
///
/// As root, tune sets read_ahead_kb for each measurement, and the kernel reads ahead; other
/// programs that open files of that device meanwhile get that window, too. Unprivileged users
/// measure a file they own with O_DIRECT and the requests that the kernel would make. No device is
/// opened for writing, and pages that were cached before stay cached.
///
/// If TARGET is the URL of an object (s3://, gs://, az://, https://, http://), the store is
/// measured instead: parts of 1 to 32 MiB over 1 to 64 connections, in shuffled rounds, until it is
/// clear which is the smallest part and which are the fewest connections that reach 97 % of the
/// best. Small reads show how late a first byte is. Where the store refuses requests (503, 429), it
/// goes no higher, and says where that was. It reads at most --max-bytes of the object, in at most
/// --seconds; --dry-run says what that may cost. The answer has the settings of foreread and of
/// other clients. Only --quick, --seconds, --remember, --device-model, --html and --json have a
/// meaning for it, too (docs/tune.md).
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = [FILES, EXAMPLES, CODES_AND_UNITS].concat(),
)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    pub(super) what: Option<TuneCommand>,

    /// A block device or partition, also by its bare name (sda); a mount point; a file or folder
    /// on either (./sda or ./verify, if it has such a name); or the URL of an object
    #[arg(required_unless_present_any = ["device", "all", "list"], value_parser = store::target())]
    pub(super) target: Option<PathBuf>,

    /// Tune a known device in virtual time, in place of a real one
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["target", "apply", "remember", "scratch"])]
    #[arg(value_parser = PossibleValuesParser::new(SimulatedDevice::names()))]
    pub(super) device: Option<String>,

    /// All devices that can be measured and are not remembered yet, one after the other
    #[arg(long, conflicts_with_all = ["target", "device", "scratch"])]
    pub(super) all: bool,

    /// What the device is used for
    #[arg(long, value_name = "PROFILE", default_value = Profile::default().name())]
    #[arg(value_parser = profiles())]
    pub(super) profile: Profile,

    /// At most 15 seconds, with fewer windows and less certainty
    #[arg(long, conflicts_with = "seconds")]
    pub(super) quick: bool,

    /// At most so many seconds [default: 60]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=3600))]
    pub(super) seconds: Option<u32>,

    /// Also try the scheduler's settings, with random writes beside a chain of small reads, on a
    /// file that is made in DIR and removed; without it nothing is written anywhere
    #[arg(long, value_name = "DIR", conflicts_with = "quick")]
    pub(super) scratch: Option<PathBuf>,

    /// Set what is recommended, until the next boot; forget undoes it
    #[arg(long)]
    pub(super) apply: bool,

    /// Set what is recommended, now and whenever the device or mount appears: by a udev rule in
    /// /etc/udev/rules.d, for a mount with a window of its own one that runs foreread tune follow;
    /// forget undoes it. Of a store, keep what serve and mount begin with
    #[arg(long)]
    pub(super) remember: bool,

    /// With --apply or --remember: set the window although the result is unreliable
    #[arg(long)]
    pub(super) force: bool,

    /// Measure a device that is in use without asking
    #[arg(long)]
    pub(super) yes: bool,

    /// List what is remembered, what the rule sets, and what was set before
    #[arg(long, conflicts_with_all = ["target", "device", "all", "scratch", "apply", "remember"])]
    pub(super) list: bool,

    /// If TARGET is a URL: read at most so much of it [default: 8G]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) max_bytes: Option<ByteCount>,

    /// If TARGET is a URL: only print what would be asked for at most; it takes one request
    #[arg(long)]
    pub(super) dry_run: bool,

    #[command(flatten)]
    pub(super) prices: PriceArgs,

    /// Also write a model of the device into FILE, for `foreread replay --device FILE`
    ///
    /// TOML with the keys of a scenario's device (docs/simulator.md), and in comments what was
    /// measured, on which device, when, and how far the model is from each figure. Reads of 4 KiB
    /// with up to 64 in flight are measured for it, too. A device is fitted as flash or hdd, the
    /// store of a URL as store; --device object-store is refused, as it has a model. FILE must not
    /// exist, be empty, or be such a file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "all", "dry_run"])]
    pub(super) device_model: Option<PathBuf>,

    /// Also write a report into FILE: one page of HTML with charts that needs nothing else
    ///
    /// FILE must not exist, be empty, or be such a page.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub(super) html: Option<PathBuf>,

    /// Print what was found as JSON, one object of data a device
    ///
    /// Keys: device, seconds, method (kernel, direct or simulated), sweep (window_kib, mb_per_s,
    /// low, high, samples), random (size_kib, median_us, p90_us, reads), parallel (at_once,
    /// reads_per_s, samples: of 4 KiB, with --device-model), device_model (file, kind, mean_error,
    /// greatest_error, at; errors are shares; null without --device-model), plateau_kib,
    /// plateau_between_kib, best_kib, recommended (read_ahead_kb, between_kib,
    /// inode_readahead_blks, scheduler, profile, why), refusals (what stands against setting it:
    /// refusal is stopped, unfinished, cached, uncertain, now-unknown, change-uncertain or quick),
    /// compared (now_kib, kernel_kib, size_rule_kib), notes, restored (whether every setting was as
    /// before when the measurement had ended), flood (device, seconds, rows, recommended, why,
    /// notes, restored).
    /// low and high are the ends of the 95 % confidence interval; null is unknown.
    ///
    /// Keys of a URL: url, device (the bucket and its endpoint), size, etag, seconds, asked
    /// (requests, bytes, throttled), cost (null without a price), chosen (part_kib,
    /// part_between_kib, connections, connections_between, mb_per_s, low, high,
    /// is_most_connections), connections and parts (part_kib, connections, mb_per_s, low, high,
    /// requests_per_s, samples), device_model (as above), one_connection_mb_per_s, small_reads
    /// (size_kib, reads, first_byte_ms and whole_ms: p50, p95, p99, max), new_connection
    /// (median_ms, max_ms, connections), throttling (part_kib, connections, requests_per_s,
    /// refused), foreread (max_window_kib, memory_kib, requests_at_once, mb_per_s, is_limited),
    /// clients (client, set, default, source), notes, ended (settled, out-of-time, out-of-bytes,
    /// throttled; null if it was stopped), remembered. Keys of its --dry-run: url, device, size,
    /// plan (connections, parts_kib, small_reads, new_connections, requests, bytes, seconds), cost.
    ///
    /// Keys of --list: identity (keys, id), device, date, report (as above, without flood),
    /// settings, before, left_out (what no udev rule can set), rule; of a store: store, date, file,
    /// max_window_kib, first_byte_ms, mb_per_s (of a connection), requests_at_once.
    #[arg(long)]
    pub(super) json: bool,
}

impl TuneArgs {
    /// Whether what is found is to be set.
    pub(super) fn sets(&self) -> bool {
        self.apply || self.remember
    }

    /// An error if what was asked for makes sense of a store only, or not of one.
    pub(super) fn check_target(&self) -> Result<(), Failure> {
        let is_store = self.target.as_deref().is_some_and(|target| store::url_of(target).is_some());
        let given: &[(&str, bool)] = if is_store {
            &[
                ("--apply", self.apply),
                ("--scratch", self.scratch.is_some()),
                ("--force", self.force),
            ]
        } else {
            &[("--max-bytes", self.max_bytes.is_some()), ("--dry-run", self.dry_run)]
        };
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) if is_store => Err(Failure::WrongUse(format!(
                "{flag}: a store has no setting of this machine; --remember keeps what was found \
                 for serve and mount"
            ))),
            Some((flag, _)) => Err(Failure::WrongUse(format!(
                "{flag} is for the URL of an object, such as s3://bucket/key"
            ))),
            None => Ok(()),
        }
    }

    /// How long one device may take.
    pub(super) fn budget(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(if self.quick { 15 } else { 60 });
        Duration::from_secs(u64::from(seconds))
    }
}

/// What can be asked of what is remembered.
#[derive(Debug, Subcommand)]
pub(super) enum TuneCommand {
    /// Check that what is remembered is in force; exit code 1 if not
    ///
    /// Names other files that set the same: udev rules, tuned's profile, tmpfiles, scripts, units.
    /// Of stores it checks the records, and sends no request: whether one still holds, the first
    /// requests of serve and mount tell.
    Verify {
        /// Print JSON, one object of data a device: name, device (null if absent), ok, findings
        #[arg(long)]
        json: bool,
    },

    /// Undo --apply and --remember: what was set before is set again, rule and record are removed
    ///
    /// Settings that were changed by other means since are left, and listed. Of a store the record
    /// goes; serve and mount learn it anew.
    Forget {
        /// A device (/dev/sda or sda), a mount point, the URL of any object of a store, or the name
        /// that --list shows
        device: String,
    },

    /// Set the remembered windows of mounts that are mounted now
    ///
    /// A mount has another backing device each time it is mounted. The udev rule of --remember runs
    /// this when one appears; without udev, run it after mounting, at each start.
    Follow {
        /// Only the mount of this backing device (0:52), which is waited for up to 2 s
        #[arg(value_name = "BDI")]
        bdi: Option<String>,
    },
}

const FILES: &str = "\
Files:
  /etc/udev/rules.d/99-foreread-ID.rules  --remember: the rule for one device
  /var/lib/foreread/ID.json               --remember: what was measured, and set before
  /run/foreread/applied-DEVICE.json       --apply: what was set until the next boot, and before
  /etc/udev/rules.d/98-foreread-mounts.rules  --remember: the rule for all mounts
  /var/lib/foreread/mounts/ID.json        --remember: the same as above, of a mount
  /run/foreread/mounts/ID.json            --apply: the same, until the mount goes
  /var/lib/foreread/devices/NAME.learnt   --remember: what serve and mount begin with, of a store
  /run/foreread/held-DEVICE.notes         while it measures: what to set back after a kill

";

const EXAMPLES: &str = "\
Examples:
  foreread tune ~/some-large-file
  sudo foreread tune /dev/sdb --profile streaming
  sudo foreread tune /srv --remember
  sudo foreread tune /mnt/nfs --remember --yes; foreread tune verify
  sudo foreread tune sdb --apply; sudo foreread tune forget sdb
  foreread tune --device usb-stick-2g
  sudo foreread tune sdb --yes --device-model sdb.toml; foreread replay a.frt --device sdb.toml
  foreread tune --list; foreread tune verify; sudo foreread tune forget sdb
  foreread tune s3://bucket/big.bin --dry-run --price-per-gb 0.09
  foreread tune s3://bucket/big.bin --remember; foreread tune forget s3://bucket/

";

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let about = |profile| match profile {
        Profile::Streaming => "large files, read in order: the plateau",
        Profile::Mixed => "some of both: the plateau, above 2 MiB only if that gains over 20 %",
        Profile::Database => "mapped files, short scans: no step that costs more than it gains",
    };
    let value = move |profile: Profile| PossibleValue::new(profile.name()).help(about(profile));
    PossibleValuesParser::new(Profile::ALL.map(value)).map(|name| {
        let named = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        // Clap has let through only the names of `Profile::ALL`.
        named.expect("clap accepts only names of Profile::ALL")
    })
}
