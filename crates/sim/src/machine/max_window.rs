//! The largest window in a scenario: a size, or `"auto"`.

use std::fmt;

use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::path::Config;
use foreread_core::prefetch::Policy;
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE, Pages};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::device::DeviceParams;
use crate::rival_policy;
use crate::size::Size;

/// Limit of the window size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MaxWindowSpec {
    /// Learnt per device.
    Auto,
    /// Fixed limit.
    Size(Size),
}

impl MaxWindowSpec {
    /// Returns a policy's default: `adaptive` learns the limit, as in the library; for
    /// `competitive` it follows from the devices; the others use 128 KiB.
    #[must_use]
    pub fn default_of<'d>(
        policy: Policy,
        devices: impl IntoIterator<Item = &'d DeviceParams>,
    ) -> Self {
        if policy == Policy::Adaptive {
            return Self::Auto;
        }
        let of_device = |device| rival_policy::window_of_device(policy, device);
        let of_devices = devices.into_iter().filter_map(of_device).max();
        Self::Size(Size(of_devices.unwrap_or(DEFAULT_WINDOW)))
    }

    /// Creates a limit in whole pages, so that the figures of a run show the window it really had.
    ///
    /// # Errors
    ///
    /// If it is not a multiple of a page: the nearest valid sizes.
    pub fn of_pages(size: ByteCount) -> Result<Self, String> {
        let below = ByteCount(size.0 / PAGE_SIZE * PAGE_SIZE);
        if size >= ByteCount(PAGE_SIZE) && size == below {
            return Ok(Self::Size(Size(size)));
        }
        let above = Exact(ByteCount(below.0.saturating_add(PAGE_SIZE)));
        let nearest = match below {
            ByteCount(0) => format!("at least {above}"),
            below => format!("{} or {above}", Exact(below)),
        };
        Err(format!("must be a multiple of 4K: {nearest}"))
    }

    /// Returns the limit for the path's configuration.
    #[must_use]
    pub fn pages(self) -> Pages {
        match self {
            Self::Auto => Config::AUTO_WINDOW,
            Self::Size(size) => Pages(size.0.0 / PAGE_SIZE),
        }
    }

    /// Returns the limit; None if it is learnt.
    #[must_use]
    pub fn bytes(self) -> Option<ByteCount> {
        match self {
            Self::Auto => None,
            Self::Size(size) => Some(size.0),
        }
    }
}

impl From<Size> for MaxWindowSpec {
    fn from(size: Size) -> Self {
        Self::Size(size)
    }
}

impl From<Option<ByteCount>> for MaxWindowSpec {
    fn from(size: Option<ByteCount>) -> Self {
        size.map_or(Self::Auto, |size| Self::Size(Size(size)))
    }
}

impl<'de> Deserialize<'de> for MaxWindowSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AutoOrSize)
    }
}

struct AutoOrSize;

impl Visitor<'_> for AutoOrSize {
    type Value = MaxWindowSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"128K\", or \"auto\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MaxWindowSpec, E> {
        if text == "auto" {
            return Ok(MaxWindowSpec::Auto);
        }
        Size::of_text(text)
            .and_then(|Size(size)| MaxWindowSpec::of_pages(size))
            .map_err(|why| E::custom(format!("{text:?}: {why}; or \"auto\"")))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<MaxWindowSpec, E> {
        Size::of_number(bytes)
            .and_then(|Size(size)| MaxWindowSpec::of_pages(size))
            .map_err(|why| E::custom(format!("{bytes}: {why}; or \"auto\"")))
    }
}
