//! The arguments of `foreread tune`, their help, and the plan that follows from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_tune::report::{Profile, Refusal};

use super::plan::{
    DeviceSelection, DevicesPlan, InUseConsent, ModelPlan, SetPlan, SettingLifetime, TimePlan,
    TuneAction, TuneOutput, TunePlan,
};
#[cfg(feature = "objects")]
use super::plan::{StoreAction, StorePlan};
use super::simulated::SimulatedDevice;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;
use foreread_cli::store;

/// Find and set the best read-ahead for a device
///
/// Reads TARGET's device with windows from 4 KiB to 16 MiB, in shuffled rounds, until the smallest
/// window with at least 98 % of the best throughput is known (the plateau). The current window is
/// measured, too, and kept unless the plateau measured at least 98 % of its throughput, beyond the
/// error of both. Random reads show the cost of a larger window for random readers. This takes less
/// than a minute. All settings are restored afterwards, also after Ctrl-C or kill. After Ctrl-C or
/// a device error, the results so far are printed, and the exit code is 1.
///
/// --apply and --remember refuse an unreliable result: the sweep ended early, it may have measured
/// a cache, the window is not known within a factor of four, the current window could not be
/// measured, or noise leaves open whether the change helps. --remember also refuses less than 21
/// seconds. The exit code is then 1, and the message suggests what to do; --force sets the window
/// anyway.
///
/// As root, tune sets read_ahead_kb for each measurement and lets the kernel read ahead; until it
/// ends, other programs that open files of the device get that window, too. Unprivileged users can
/// tune a file they own: tune reads it with O_DIRECT in the requests that the kernel would send. No
/// device is opened for writing, and cached pages stay cached.
///
/// If TARGET is the URL of an object (s3://, gs://, az://, https://, http://), its store is
/// measured: parts of 1 to 32 MiB over 1 to 64 connections, in shuffled rounds, until the smallest
/// part and the fewest connections with 97 % of the best throughput are known. Small reads measure
/// the first-byte latency. If the store throttles requests (503, 429), tune stops raising the load
/// and reports the limit. It reads at most --max-bytes in at most --seconds; --dry-run prints the
/// maximum cost. The report has settings for foreread and other clients. Of the options, only
/// --seconds, --remember, --device-model, --html and --json also apply to URLs
/// (docs/guide/tune.md).
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = [FILES, EXAMPLES, CODES_AND_UNITS].concat(),
)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    what: Option<TuneCommand>,

    /// Block device or partition, also by its bare name (sda); mount point; file or directory on
    /// either (./sda or ./verify, if it has such a name); or the URL of an object
    #[arg(required_unless_present_any = ["device", "all", "list"], value_parser = store::target())]
    target: Option<PathBuf>,

    /// Tune a simulated device instead of a real one
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["target", "apply", "remember", "scratch"])]
    #[arg(value_parser = PossibleValuesParser::new(SimulatedDevice::names()))]
    device: Option<String>,

    /// Measure all suitable devices that are not remembered yet, one after the other
    #[arg(long, conflicts_with_all = ["target", "device", "scratch"])]
    all: bool,

    /// Main use of the device
    #[arg(long, value_name = "PROFILE", default_value = Profile::default().name())]
    #[arg(value_parser = profiles())]
    profile: Profile,

    /// Time limit in seconds [default: 60]
    ///
    /// Up to 20 seconds are a quick look, with fewer windows and less certainty.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=3600))]
    seconds: Option<u32>,

    /// Also tune the scheduler, with random writes next to a chain of small reads, on a temporary
    /// file in DIR; nothing is written without this flag
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,

    /// Set the recommended values until the next boot; undo with forget
    #[arg(long)]
    apply: bool,

    /// Set the recommended values now and whenever the device or mount appears, by a udev rule in
    /// /etc/udev/rules.d; undo with forget
    ///
    /// The rule of a mount with its own window runs `foreread tune follow`. For a store, the result
    /// is kept for serve and mount.
    #[arg(long)]
    remember: bool,

    /// With --apply or --remember: set the values even if the result is unreliable
    #[arg(long)]
    force: bool,

    /// Measure a device that is in use without asking
    #[arg(long)]
    yes: bool,

    /// List remembered devices with their rules and earlier settings
    #[arg(long, conflicts_with_all = ["target", "device", "all", "scratch", "apply", "remember"])]
    list: bool,

    /// If TARGET is a URL: read at most SIZE [default: 8G]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    max_bytes: Option<ByteCount>,

    /// If TARGET is a URL: only print the maximum requests, bytes and cost; sends one request
    ///
    /// The cost needs the price in FOREREAD_PRICE_PER_1000_REQUESTS or FOREREAD_PRICE_PER_GB (of
    /// 10^9 bytes).
    #[arg(long)]
    dry_run: bool,

    /// Also write a model of the device to FILE, for `foreread-lab replay --device FILE`
    ///
    /// FILE is TOML with the keys of a scenario's device (docs/lab/simulator.md). Its comments give
    /// the device, the date, the measurements, and the error of the model for each. Additionally
    /// measures 4 KiB reads with up to 64 in flight. Devices are modelled as flash or hdd, stores
    /// of URLs as store; --device object-store already is a model and is refused. FILE must be
    /// absent, empty, or an earlier model.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "all", "dry_run"])]
    device_model: Option<PathBuf>,

    /// Also write an HTML report with charts to FILE; the page is self-contained
    ///
    /// FILE must be absent, empty, or an earlier report.
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    html: Option<PathBuf>,

    /// Print the results as JSON, one data object per device
    ///
    /// Keys: device, seconds, method (kernel, direct or simulated), sweep (window_kib, mb_per_s,
    /// low, high, samples), random (size_kib, median_us, p90_us, reads), parallel (at_once,
    /// reads_per_s, samples: of 4 KiB, with --device-model), device_model (file, kind, mean_error,
    /// greatest_error, at; errors are shares; null without --device-model), plateau_kib,
    /// plateau_between_kib, best_kib, recommended (read_ahead_kb, between_kib,
    /// inode_readahead_blks, scheduler, profile, why), refusals (reasons against setting it:
    /// refusal is stopped, unfinished, cached, uncertain, now-unknown, change-uncertain or quick),
    /// compared (now_kib, kernel_kib, size_rule_kib), notes, restored (whether every setting was as
    /// before when the measurement had ended), flood (device, seconds, rows, recommended, why,
    /// notes, restored). low and high are the ends of the 95 % confidence interval; null is
    /// unknown.
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
    /// settings, before, left_out (settings that no udev rule can set), rule; for a store: store,
    /// date, file, max_window_kib, first_byte_ms, mb_per_s (per connection), requests_at_once.
    #[arg(long)]
    json: bool,
}

impl TuneArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses options that do not fit the kind of target.
    pub(super) fn plan(self) -> Result<TunePlan, Failure> {
        let plan = match self.what {
            Some(TuneCommand::Verify { json }) => TunePlan::Verify { is_json: json },
            Some(TuneCommand::Forget { device }) => TunePlan::Forget { name: device },
            Some(TuneCommand::Follow { bdi }) => TunePlan::Follow { bdi },
            None if self.list => TunePlan::List { is_json: self.json },
            None => return self.measurement(),
        };
        Ok(plan)
    }

    fn measurement(self) -> Result<TunePlan, Failure> {
        if let Some(url) = self.target.as_deref().and_then(store::url_of) {
            let url = url.to_owned();
            return self.store(url);
        }
        let for_urls = [("--max-bytes", self.max_bytes.is_some()), ("--dry-run", self.dry_run)];
        if let Some(flag) = first_given(&for_urls) {
            return Err(Failure::WrongUse(format!(
                "{flag} is for the URL of an object, such as s3://bucket/key"
            )));
        }
        let time =
            TimePlan::new(self.time_limit(), self.scratch.is_some(), self.device_model.is_some());
        let (profile, action) = (self.profile, self.action());
        if let Some(name) = self.device.clone() {
            return Ok(TunePlan::Model(ModelPlan { name, profile, time, output: self.output() }));
        }
        refuse_quick(action, &time)?;
        Ok(TunePlan::Devices(DevicesPlan {
            devices: self.target.clone().map_or(DeviceSelection::All, DeviceSelection::One),
            profile,
            time,
            scratch: self.scratch.clone(),
            action,
            in_use: if self.yes { InUseConsent::Given } else { InUseConsent::Ask },
            output: self.output(),
        }))
    }

    /// Plans the measurement of a store.
    fn store(self, url: String) -> Result<TunePlan, Failure> {
        let for_devices = [
            ("--apply", self.apply),
            ("--scratch", self.scratch.is_some()),
            ("--force", self.force),
        ];
        if let Some(flag) = first_given(&for_devices) {
            return Err(Failure::WrongUse(format!(
                "{flag}: a store has no setting of this machine; --remember keeps what was found \
                 for serve and mount"
            )));
        }
        self.store_plan(url)
    }

    #[cfg(feature = "objects")]
    fn store_plan(self, url: String) -> Result<TunePlan, Failure> {
        let bytes = self.max_bytes.unwrap_or(STORE_BYTES);
        if bytes < STORE_BYTES_MIN {
            return Err(Failure::WrongUse(format!(
                "--max-bytes: {} bytes are too few to measure anything; give 64M or more",
                bytes.0
            )));
        }
        let action = match (self.dry_run, self.remember) {
            (true, _) => StoreAction::Estimate,
            (false, true) => StoreAction::Remember,
            (false, false) => StoreAction::Measure,
        };
        let (time, prices) = (self.time_limit(), store::prices_of_environment()?);
        Ok(TunePlan::Store(StorePlan { url, time, bytes, prices, action, output: self.output() }))
    }

    #[cfg(not(feature = "objects"))]
    fn store_plan(self, _: String) -> Result<TunePlan, Failure> {
        match store::StoreAccess::default().client()? {}
    }

    fn action(&self) -> TuneAction {
        let lifetime = match (self.remember, self.apply) {
            (true, _) => SettingLifetime::Remembered,
            (false, true) => SettingLifetime::UntilBoot,
            (false, false) => return TuneAction::Report,
        };
        TuneAction::Set(SetPlan { lifetime, is_forced: self.force })
    }

    fn output(self) -> TuneOutput {
        TuneOutput { is_json: self.json, html: self.html, model: self.device_model }
    }

    /// Returns the time limit per device.
    fn time_limit(&self) -> Duration {
        let seconds = self.seconds.unwrap_or(60);
        Duration::from_secs(u64::from(seconds))
    }
}

/// Refuses to remember a quick look before measuring.
fn refuse_quick(action: TuneAction, time: &TimePlan) -> Result<(), Failure> {
    let TuneAction::Set(set) = action else { return Ok(()) };
    let is_quick = time.sweep_settings(ByteCount(0)).is_quick;
    if !(set.remembers() && is_quick) || set.is_forced {
        return Ok(());
    }
    Err(Failure::WrongUse(format!(
        "--remember: {}; --force remembers it all the same",
        Refusal::Quick
    )))
}

/// Returns the first flag that was given.
fn first_given<'f>(flags: &[(&'f str, bool)]) -> Option<&'f str> {
    flags.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
}

/// Default of --max-bytes: some tenths of a dollar at the egress prices of large clouds.
#[cfg(feature = "objects")]
const STORE_BYTES: ByteCount = ByteCount(8 << 30);

/// Smallest --max-bytes: a few rounds of small parts.
#[cfg(feature = "objects")]
const STORE_BYTES_MIN: ByteCount = ByteCount(64 << 20);

/// Subcommands of tune.
#[derive(Debug, Subcommand)]
enum TuneCommand {
    /// Check that remembered settings are in force; exit code 1 if not
    ///
    /// Also names other files that set the same: udev rules, tuned profiles, tmpfiles, scripts,
    /// units. For stores, only the records are checked, without a request; the first requests of
    /// serve and mount detect outdated ones.
    Verify {
        /// Print JSON, one data object per device: name, device (null if absent), ok, findings
        #[arg(long)]
        json: bool,
    },

    /// Undo --apply and --remember: restore the earlier settings, remove rule and record
    ///
    /// Settings that were changed by other means since are left as they are, and listed. For a
    /// store, only the record is removed; serve and mount learn it anew.
    Forget {
        /// Device (/dev/sda or sda), mount point, URL of any object of a store, or a name from
        /// --list
        device: String,
    },

    /// Set the remembered windows of current mounts
    ///
    /// The backing device of a mount changes each time it is mounted. The udev rule of --remember
    /// runs this command for new mounts; without udev, run it after each mount.
    Follow {
        /// Only the mount with this backing device (0:52), waiting up to 2 s for it
        #[arg(value_name = "BDI")]
        bdi: Option<String>,
    },
}

const FILES: &str = "\
Files:
  /etc/udev/rules.d/99-foreread-ID.rules      --remember: rule of one device
  /var/lib/foreread/ID.json                   --remember: measurements and earlier settings
  /run/foreread/applied-DEVICE.json           --apply: new and earlier settings, until the next boot
  /etc/udev/rules.d/98-foreread-mounts.rules  --remember: rule of all mounts
  /var/lib/foreread/mounts/ID.json            --remember: measurements and settings of a mount
  /run/foreread/mounts/ID.json                --apply: the same, until it is unmounted
  /var/lib/foreread/devices/NAME.learnt       --remember: initial settings for a store
  /run/foreread/held-DEVICE.notes             settings to restore if tune is killed

";

const EXAMPLES: &str = "\
Examples:
  foreread tune ~/some-large-file
  sudo foreread tune /dev/sdb --profile streaming
  sudo foreread tune /srv --remember
  sudo foreread tune /mnt/nfs --remember --yes; foreread tune verify
  sudo foreread tune sdb --apply; sudo foreread tune forget sdb
  foreread tune --device usb-stick-2g
  sudo foreread tune sdb --yes --device-model sdb.toml; foreread-lab replay a.frt --device sdb.toml
  foreread tune --list; foreread tune verify; sudo foreread tune forget sdb
  FOREREAD_PRICE_PER_GB=0.09 foreread tune s3://bucket/big.bin --dry-run
  foreread tune s3://bucket/big.bin --remember; foreread tune forget s3://bucket/

";

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let about = |profile| match profile {
        Profile::Streaming => "large files, read in order: use the plateau",
        Profile::Mixed => {
            "some of both: use the plateau, but more than 2 MiB only for a gain over 20 %"
        }
        Profile::Database => "mapped files, short scans: grow only while the gain exceeds the cost",
    };
    let value = move |profile: Profile| PossibleValue::new(profile.name()).help(about(profile));
    PossibleValuesParser::new(Profile::ALL.map(value)).map(|name| {
        let named = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        // Clap has let through only the names of `Profile::ALL`.
        named.expect("clap accepts only names of Profile::ALL")
    })
}
