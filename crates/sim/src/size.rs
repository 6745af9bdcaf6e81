//! Sizes in a scenario: `"64M"`, or a number of bytes.

use std::fmt;

use foreread_core::sizes;
use foreread_core::units::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A size as a scenario writes it.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Size(pub Bytes);

impl Size {
    pub(crate) const fn one_gib() -> Self {
        Self(Bytes(1 << 30))
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
        sizes::parse(text).map(Size).map_err(|why| E::custom(format!("{text:?}: {why}")))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
        Ok(Size(Bytes(bytes)))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
        let not_negative = || E::custom(format!("{bytes}: a size is not negative"));
        u64::try_from(bytes).map(|bytes| Size(Bytes(bytes))).map_err(|_| not_negative())
    }
}
