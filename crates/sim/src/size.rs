//! Sizes in a scenario: `"64M"`, or a number of bytes.

use std::fmt;

use foreread_core::sizes;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A size in the syntax of a scenario.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Size(pub ByteCount);

impl Size {
    pub(crate) const fn page() -> Self {
        Self(ByteCount(PAGE_SIZE))
    }

    pub(crate) const fn one_mib() -> Self {
        Self(ByteCount(1 << 20))
    }

    pub(crate) const fn one_gib() -> Self {
        Self(ByteCount(1 << 30))
    }

    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        sizes::parse(text).map(Self).map_err(|why| why.to_string())
    }

    pub(crate) fn of_number(bytes: i64) -> Result<Self, String> {
        let bytes = u64::try_from(bytes).map_err(|_| format!("{bytes}: a size is not negative"))?;
        Ok(Self(ByteCount(bytes)))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfText)
    }
}

struct OfText;

impl Visitor<'_> for OfText {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as 4096, \"64M\" or \"8s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
        Size::of_text(text).map_err(|why| E::custom(format!("{text:?}: {why}")))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(ByteCount(bytes)))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
        Size::of_number(bytes).map_err(E::custom)
    }
}
