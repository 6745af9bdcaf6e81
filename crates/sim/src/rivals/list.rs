//! The scenarios in which policies are compared, and with which largest windows.

use foreread_core::readahead::Policy;
use foreread_core::units::Bytes;

use super::How;
use crate::scenario::Scenario;

/// A scenario in which policies are compared.
#[derive(Clone, Copy, Debug)]
pub struct Rival {
    /// Its name; that of its file is the same.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// The largest windows with which the kernel's policies are run.
    pub windows: &'static [Bytes],
}

/// All of them.
#[must_use]
pub const fn all() -> &'static [Rival] {
    &RIVALS
}

/// The one of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Rival> {
    RIVALS.iter().find(|rival| rival.name == name)
}

impl Rival {
    /// What is run.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        Scenario::built_in(self.text)
    }

    /// How a policy is run in it: `adaptive` learns how large its windows may be, the kernel's are
    /// told, others are told the largest.
    #[must_use]
    pub fn ways(&self, policy: Policy) -> Vec<How> {
        let way = |max_window| How { policy, max_window, without: Vec::new() };
        match policy {
            Policy::Adaptive => vec![way(None)],
            Policy::Linux2_6_28 | Policy::Linux2_6_31 | Policy::Linux6 => {
                self.windows.iter().map(|window| way(Some(*window))).collect()
            }
            Policy::None | Policy::Thrash2009 => {
                vec![way(self.windows.last().copied())]
            }
        }
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

const RIVALS: [Rival; 4] = [
    rival!("streaming-many-slow", BOTH),
    rival!("streaming-fast", BOTH),
    rival!("streaming-lognormal", BOTH),
    rival!("streaming-thousand", BOTH),
];

/// The kernel's default, and what servers of large files are told to set.
const BOTH: [Bytes; 2] = [Bytes(128 << 10), Bytes(1 << 20)];
