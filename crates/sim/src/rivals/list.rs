//! The scenarios in which policies are compared, and their largest windows.

use foreread_core::prefetch::{Policy, Without};
use foreread_core::units::ByteCount;

use super::setup::PolicySetup;
use crate::rival_policy;
use crate::scenario::{DeviceSpec, Scenario};

/// A scenario in which policies are compared.
#[derive(Clone, Copy, Debug)]
pub struct Rival {
    /// Name of the scenario and of its file.
    pub name: &'static str,
    /// Text of its file.
    pub text: &'static str,
    /// Largest windows for the kernel's policies.
    pub windows: &'static [ByteCount],
}

/// Returns all scenarios.
#[must_use]
pub const fn all() -> &'static [Rival] {
    &RIVALS
}

/// Returns the scenario with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Rival> {
    RIVALS.iter().find(|rival| rival.name == name)
}

impl Rival {
    /// Parses the scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        Scenario::built_in(self.text)
    }

    /// Returns its description: the comment at the top of its file.
    #[must_use]
    pub fn about(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns true if the optimal number of requests follows from its clients' rates.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.name.starts_with("streaming-")
    }

    /// Returns the settings with which a policy is run. `adaptive` learns its largest window;
    /// others have fixed ones, and those that adapt to thrashing run with the largest only.
    #[must_use]
    pub fn ways(&self, policy: Policy) -> Vec<PolicySetup> {
        let way = |max_window| PolicySetup { policy, max_window, without: Without::default() };
        let has_one = policy == Policy::None || policy.name().starts_with("thrash-");
        if policy == Policy::Adaptive {
            vec![way(None)]
        } else if let Some(window) = self.window_of_devices(policy) {
            vec![way(Some(window))]
        } else if has_one {
            vec![way(self.windows.last().copied())]
        } else {
            self.windows.iter().map(|window| way(Some(*window))).collect()
        }
    }

    /// Returns the device-dependent largest window of a policy: the maximum over all devices.
    fn window_of_devices(&self, policy: Policy) -> Option<ByteCount> {
        let scenario = self.scenario();
        let of =
            |spec: &DeviceSpec| rival_policy::window_of_device(policy, &spec.model.get_ref().model);
        scenario.device.values().filter_map(of).max()
    }
}

macro_rules! rival {
    ($name:literal, $windows:expr) => {
        Rival {
            name: $name,
            text: include_str!(concat!("../../scenarios/rivals/", $name, ".toml")),
            windows: &$windows,
        }
    };
}

const RIVALS: [Rival; 31] = [
    rival!("streaming-many-slow", BOTH),
    rival!("streaming-fast", BOTH),
    rival!("streaming-lognormal", BOTH),
    rival!("streaming-thousand", BOTH),
    rival!("streaming-server", BOTH),
    rival!("streaming-overload", BOTH),
    rival!("turns-200-in-128m", BOTH),
    rival!("turns-200-in-64m", BOTH),
    rival!("turns-200-in-32m", BOTH),
    rival!("sequential-parallel", BOTH),
    rival!("sequential-far", BOTH),
    rival!("sequential-one-head", BOTH),
    rival!("eight-devices", BOTH),
    rival!("device-changes", BOTH),
    rival!("slow-beside-fast", BOTH),
    rival!("shares-one-to-three", DEFAULT),
    rival!("shares-hundred-beside-one", DEFAULT),
    rival!("zipf-mix", BOTH),
    rival!("random-4k", DEFAULT),
    rival!("random-16k", DEFAULT),
    rival!("random-64k", DEFAULT),
    rival!("heads", BOTH),
    rival!("drop-behind", DEFAULT),
    rival!("one-handle", DEFAULT),
    rival!("backwards", DEFAULT),
    rival!("strided", DEFAULT),
    rival!("scans-short", BOTH),
    rival!("scans-mixed", BOTH),
    rival!("scans-bimodal", BOTH),
    rival!("scans-compaction", BOTH),
    rival!("scans-then-full", BOTH),
];

/// The kernel's default, for scenarios in which a larger window changes little.
const DEFAULT: [ByteCount; 1] = [ByteCount(128 << 10)];

/// The kernel's default, and the setting recommended for servers of large files.
const BOTH: [ByteCount; 2] = [ByteCount(128 << 10), ByteCount(1 << 20)];
