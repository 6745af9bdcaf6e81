//! A run of `foreread tune` with every option resolved. `args` makes it; the other modules see no
//! options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use foreread_core::units::ByteCount;
#[cfg(feature = "objects")]
use foreread_object::StorePrices;
use foreread_tune::report::Profile;
use foreread_tune::sweep::SweepSettings;

/// One run of `foreread tune`.
#[derive(Debug)]
pub(super) enum TunePlan {
    /// Measures devices of this machine.
    Devices(DevicesPlan),
    /// Measures a simulated device.
    Model(ModelPlan),
    /// Measures the store of an object.
    #[cfg(feature = "objects")]
    Store(StorePlan),
    /// Lists remembered devices.
    List {
        /// Print the result as JSON.
        is_json: bool,
    },
    /// Checks that remembered settings are in force.
    Verify {
        /// Print the result as JSON.
        is_json: bool,
    },
    /// Restores earlier settings, and removes rule and record.
    Forget {
        /// Device, mount point, URL, or name from the list.
        name: String,
    },
    /// Sets the remembered windows of current mounts.
    Follow {
        /// Only the mount with this backing device.
        bdi: Option<String>,
    },
}

/// Measurement of devices of this machine.
#[derive(Debug)]
pub(super) struct DevicesPlan {
    pub(super) devices: DeviceSelection,
    pub(super) profile: Profile,
    pub(super) time: TimePlan,
    /// Directory for the scratch file of the scheduler test; None: no test.
    pub(super) scratch: Option<PathBuf>,
    pub(super) action: TuneAction,
    pub(super) in_use: InUseConsent,
    pub(super) output: TuneOutput,
}

/// Devices to measure.
#[derive(Debug)]
pub(super) enum DeviceSelection {
    /// The device below this path.
    One(PathBuf),
    /// All suitable devices that are not remembered yet.
    All,
}

/// Consent to measure a device that is in use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum InUseConsent {
    /// The user is asked.
    Ask,
    /// Given by the user.
    Given,
}

/// Measurement of a simulated device.
#[derive(Debug)]
pub(super) struct ModelPlan {
    pub(super) name: String,
    pub(super) profile: Profile,
    pub(super) time: TimePlan,
    pub(super) output: TuneOutput,
}

/// Measurement of the store of an object.
#[cfg(feature = "objects")]
#[derive(Debug)]
pub(super) struct StorePlan {
    pub(super) url: String,
    pub(super) time: Duration,
    /// Byte limit of the sweep.
    pub(super) bytes: ByteCount,
    /// Prices, to print costs.
    pub(super) prices: Option<StorePrices>,
    pub(super) action: StoreAction,
    pub(super) output: TuneOutput,
}

/// Action on a store.
#[cfg(feature = "objects")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StoreAction {
    /// Prints the maximum cost without measuring.
    Estimate,
    /// Measures.
    Measure,
    /// Measures, and keeps the result for serve and mount.
    Remember,
}

/// Use of the recommendation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TuneAction {
    /// Only print it.
    Report,
    /// Set the recommended values.
    Set(SetPlan),
}

/// Setting of the recommended values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SetPlan {
    pub(super) lifetime: SettingLifetime,
    /// Set an unreliable result as well.
    pub(super) is_forced: bool,
}

/// Lifetime of the recommended values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SettingLifetime {
    /// Until the next boot, or until a mount is unmounted.
    UntilBoot,
    /// Set by a udev rule whenever the device or mount appears.
    Remembered,
}

impl TuneAction {
    /// Returns true if the result is set at each boot.
    pub(super) fn remembers(self) -> bool {
        matches!(self, Self::Set(set) if set.remembers())
    }
}

impl SetPlan {
    /// Returns true if the result is set at each boot.
    pub(super) fn remembers(self) -> bool {
        self.lifetime == SettingLifetime::Remembered
    }
}

/// Result files, and the form of the answer.
#[derive(Debug)]
pub(super) struct TuneOutput {
    pub(super) is_json: bool,
    /// HTML report.
    pub(super) html: Option<PathBuf>,
    /// Device model.
    pub(super) model: Option<PathBuf>,
}

/// Division of the time limit of one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TimePlan {
    pub(super) total: Duration,
    /// Time for sequential and random reads with each window.
    pub(super) sweep: Duration,
    /// Time for reads with several in flight; None without a device model.
    pub(super) parallel: Option<Duration>,
    /// Time for the scheduler test.
    pub(super) scheduler: Duration,
}

impl TimePlan {
    /// Divides the time limit.
    pub(super) fn new(total: Duration, has_scratch: bool, has_model: bool) -> Self {
        let share = if has_scratch { SWEEP_SHARE } else { 1.0 };
        let share = if has_model { share - PARALLEL_SHARE } else { share };
        Self {
            total,
            sweep: total.mul_f64(share),
            parallel: has_model.then(|| total.mul_f64(PARALLEL_SHARE)),
            scheduler: total.mul_f64((1.0 - SWEEP_SHARE) * 0.9),
        }
    }

    /// Returns the settings of the sweep of a device with this size.
    pub(super) fn sweep_settings(&self, size: ByteCount) -> SweepSettings {
        SweepSettings::within(size, self.sweep)
    }
}

/// Share of the time for the sweep if the scheduler test follows.
pub(super) const SWEEP_SHARE: f64 = 0.65;

/// Share of the time for reads with several in flight.
const PARALLEL_SHARE: f64 = 0.1;
