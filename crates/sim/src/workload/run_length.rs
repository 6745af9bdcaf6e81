//! Lengths of scans: fixed, or random.
//!
//! ```text
//!   length = "160K"                                          all alike
//!   length = { from = "120K", to = "200K" }                  each length between as likely
//!   length = { median = "160K", sigma = 1 }                  log-normal
//!   length = { short = "160K", long = "16M", part = 0.2 }    a fifth of them long
//! ```

use std::fmt;

use foreread_core::units::ByteCount;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::rng::Rng;
use crate::size::Size;
use crate::validate::check;

/// Lengths of scans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// Fixed.
    Fixed(Size),
    /// Random.
    Drawn(DrawnLength),
}

/// Random lengths.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(untagged, deny_unknown_fields)]
pub enum DrawnLength {
    /// Uniform distribution.
    Uniform {
        /// Shortest length.
        from: Size,
        /// Longest length.
        to: Size,
    },
    /// Log-normal distribution.
    LogNormal {
        /// Median.
        median: Size,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Two lengths.
    Bimodal {
        /// The more frequent length.
        short: Size,
        /// The other length.
        long: Size,
        /// Share of scans with the other length.
        part: f64,
    },
}

impl RunLength {
    pub(super) fn check(&self, file: ByteCount) -> Result<(), String> {
        let fits = |size: Size| ByteCount::ZERO < size.0 && size.0 <= file;
        let (are_sizes, is_drawn) = match *self {
            Self::Fixed(size) => (fits(size), true),
            Self::Drawn(DrawnLength::Uniform { from, to }) => {
                (fits(from) && fits(to), from.0 <= to.0)
            }
            Self::Drawn(DrawnLength::LogNormal { median, sigma }) => {
                (fits(median), sigma.is_finite() && (0.0..=3.0).contains(&sigma))
            }
            Self::Drawn(DrawnLength::Bimodal { short, long, part }) => {
                (fits(short) && fits(long), (0.0..=1.0).contains(&part))
            }
        };
        check(are_sizes, "length", "at least a byte and at most the size of the file")?;
        check(is_drawn, "length", "a range with from <= to, sigma 0 to 3, part 0 to 1")
    }

    /// Draws the length of the next scan, at most `most`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes of a file, drawn"
    )]
    pub(super) fn draw(&self, rng: &mut Rng, most: ByteCount) -> ByteCount {
        let bytes = match *self {
            Self::Fixed(size) => size.0.0,
            Self::Drawn(DrawnLength::Uniform { from, to }) => {
                from.0.0 + rng.below(to.0.0 - from.0.0 + 1)
            }
            Self::Drawn(DrawnLength::LogNormal { median, sigma }) => {
                (median.0.0 as f64 * libm::exp(sigma * rng.normal())) as u64
            }
            Self::Drawn(DrawnLength::Bimodal { short, long, part }) => {
                if rng.unit() < part {
                    long.0.0
                } else {
                    short.0.0
                }
            }
        };
        ByteCount(bytes.clamp(1, most.0))
    }
}

impl<'de> Deserialize<'de> for RunLength {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeOrDrawn)
    }
}

struct SizeOrDrawn;

impl<'de> Visitor<'de> for SizeOrDrawn {
    type Value = RunLength;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTS)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RunLength, E> {
        let text = serde::de::value::StrDeserializer::new(text);
        Size::deserialize(text).map(RunLength::Fixed)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<RunLength, E> {
        Ok(RunLength::Fixed(Size(ByteCount(bytes))))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<RunLength, E> {
        let bytes = u64::try_from(bytes).map_err(|_| E::custom("a length is not negative"))?;
        self.visit_u64(bytes)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RunLength, A::Error> {
        DrawnLength::deserialize(MapAccessDeserializer::new(map))
            .map(RunLength::Drawn)
            .map_err(|_| A::Error::custom(format!("length: must be {WANTS}")))
    }
}

const WANTS: &str = "a size, { from, to }, { median, sigma } or { short, long, part }";
