//! The cache of a scenario: its memory bound, its policy, and changes to the policy.

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
    /// Memory bound for all pages and their metadata.
    pub memory: Size,
    /// Read-ahead policy.
    pub policy: PolicyName,
    /// Eviction policy.
    pub eviction: EvictionName,
    /// Largest window, or `auto`; None: [`MaxWindowSpec::default_of`].
    pub max_window: Option<MaxWindowSpec>,
    /// Rules in addition to the policy's: `lseek`, `snap-eof`, `backwards`.
    pub rules: Vec<RuleName>,
    /// Disabled parts of `adaptive`, by [`AdaptivePart::name`].
    #[serde(deserialize_with = "parts")]
    pub without: Without,
}

/// A policy by name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PolicyName(pub Policy);

/// An eviction policy by name; the library's own by default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EvictionName(pub CachePolicyKind);

/// A rule by name.
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
    /// Returns the largest window on these devices: the configured one, or the policy's default.
    #[must_use]
    pub fn max_window_on<'d>(
        &self,
        devices: impl IntoIterator<Item = &'d DeviceParams>,
    ) -> MaxWindowSpec {
        self.max_window.unwrap_or_else(|| MaxWindowSpec::default_of(self.policy.0, devices))
    }

    /// Returns the configuration of a path over these devices.
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

/// Parses names of parts of `adaptive`.
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
