//! The cache of a scenario: its memory bound, its policy, and what is changed in the policy.

use foreread_core::path::Config;
use foreread_core::prefetch::{AdaptivePart, Policy, Rules, Without};
use foreread_core::units::ByteCount;
use serde::Deserialize;

use super::max_window::MaxWindowSpec;
use crate::cache_policy::CachePolicyKind;
use crate::device::DeviceParams;
use crate::external_cache::memory_of_path;
use crate::rival_policy;
use crate::size::Size;
use crate::validate::unknown;

/// The cache, and its read-ahead policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSpec {
    /// The bound for all pages and all that is needed to find them.
    pub memory: Size,
    /// The policy.
    pub policy: PolicyName,
    /// The eviction policy.
    pub eviction: EvictionName,
    /// The largest window, or `auto`; None: as [`MaxWindowSpec::default_of`] says.
    pub max_window: Option<MaxWindowSpec>,
    /// Rules beside the policy's own: `lseek`, `snap-eof`, `backwards`.
    pub rules: Vec<RuleName>,
    /// Parts of `adaptive` that are left out, by [`AdaptivePart::name`].
    #[serde(deserialize_with = "parts")]
    pub without: Without,
}

/// A policy by its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PolicyName(pub Policy);

/// An eviction policy by its name; the library's own if nothing is said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EvictionName(pub CachePolicyKind);

/// A rule by its name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// See [`Rules::lseek`].
    Lseek,
    /// See [`Rules::snap_eof`].
    SnapEof,
    /// See [`Rules::backwards`].
    Backwards,
}

impl CacheSpec {
    /// The largest window on these devices: what is given, or that of the policy.
    #[must_use]
    pub fn max_window_on<'d>(
        &self,
        devices: impl IntoIterator<Item = &'d DeviceParams>,
    ) -> MaxWindowSpec {
        self.max_window.unwrap_or_else(|| MaxWindowSpec::default_of(self.policy.0, devices))
    }

    /// What a path over these devices is made with.
    #[must_use]
    pub fn config<'d>(&self, devices: impl IntoIterator<Item = &'d DeviceParams>) -> Config {
        let has = |rule| self.rules.contains(&rule);
        Config {
            memory: memory_of_path(self.memory.0, self.eviction.0),
            policy: self.policy.0,
            max_window: self.max_window_on(devices).pages(),
            rules: Rules {
                lseek: has(RuleName::Lseek),
                snap_eof: has(RuleName::SnapEof),
                backwards: has(RuleName::Backwards),
                without: self.without,
            },
        }
    }
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            memory: Size(ByteCount(64 << 20)),
            policy: PolicyName::default(),
            eviction: EvictionName::default(),
            max_window: None,
            rules: Vec::new(),
            without: Without::default(),
        }
    }
}

/// The parts of `adaptive` with these names.
fn parts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Without, D::Error> {
    let part = |name: &String| {
        AdaptivePart::from_name(name).ok_or_else(|| {
            let names = AdaptivePart::ALL.map(AdaptivePart::name);
            serde::de::Error::custom(unknown("part of adaptive", name, names))
        })
    };
    Vec::<String>::deserialize(from)?.iter().map(part).collect()
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        rival_policy::find(&name).map(Self).ok_or_else(|| {
            let names = rival_policy::all().map(Policy::name);
            serde::de::Error::custom(unknown("policy", &name, names))
        })
    }
}

impl<'de> Deserialize<'de> for EvictionName {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        CachePolicyKind::from_name(&name).map(Self).ok_or_else(|| {
            let names = CachePolicyKind::ALL.into_iter().map(CachePolicyKind::name);
            serde::de::Error::custom(unknown("eviction policy", &name, names))
        })
    }
}
