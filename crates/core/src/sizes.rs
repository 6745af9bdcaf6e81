//! Parses and prints sizes such as `512`, `4K`, `64M`, `2G`, `1T` and `1870001s`, without rounding.

use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;

use crate::units::{ByteCount, SECTOR_SIZE};

/// Suffixes and their factors.
const SUFFIXES: [(char, u64); 5] =
    [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40), ('s', SECTOR_SIZE)];

/// Parses a size.
///
/// # Errors
///
/// A message for the user with the valid forms.
pub fn parse(text: &str) -> Result<ByteCount, String> {
    const FORMS: &str = "write bytes (4096), K, M, G or T (powers of 1024: 64M), or sectors (8s)";

    let suffix = SUFFIXES.iter().find(|(letter, _)| text.ends_with(*letter));
    let (number, scale) = match suffix {
        Some((letter, scale)) => (text.trim_end_matches(*letter), *scale),
        None => (text, 1),
    };
    // One letter, and digits only: no sign, no blank, no fraction.
    let is_a_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_a_number || text.len() > number.len() + 1 {
        return Err(format!("not a size; {FORMS}"));
    }
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(scale));
    bytes.map(ByteCount).ok_or_else(|| format!("more than 2^64 - 1 bytes; {FORMS}"))
}

/// Prints a size with the largest letter that leaves it a whole number, `4096` as `4K`.
#[derive(Clone, Copy, Debug)]
pub struct Exact(pub ByteCount);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByteCount(bytes) = self.0;
        let exact = |(letter, scale): &(char, u64)| {
            (*letter != 's' && bytes != 0 && bytes % scale == 0).then(|| (bytes / scale, *letter))
        };
        match SUFFIXES.iter().rev().find_map(exact) {
            Some((number, letter)) => f.pad(&format!("{number}{letter}")),
            None => f.pad(&bytes.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_a_power_of_1024() {
        assert_eq!(parse("0"), Ok(ByteCount(0)));
        assert_eq!(parse("4096"), Ok(ByteCount(4096)));
        assert_eq!(parse("4K"), Ok(ByteCount(4096)));
        assert_eq!(parse("64M"), Ok(ByteCount(64 << 20)));
        assert_eq!(parse("2G"), Ok(ByteCount(2 << 30)));
        assert_eq!(parse("16T"), Ok(ByteCount(16 << 40)));
        assert_eq!(parse("1870001s"), Ok(ByteCount(1_870_001 * 512)));
        assert_eq!(parse("18446744073709551615"), Ok(ByteCount(u64::MAX)));
    }

    #[test]
    fn an_invalid_size_is_refused_with_the_valid_forms() {
        for text in [
            "", "K", "s", "4KK", "4KB", "64MB", "4k", "-1", "+1", " 1", "1 ", "1.5G", "0x10", "ten",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("powers of 1024: 64M"), "{text}: {error}");
        }
    }

    #[test]
    fn oversized_requests_are_refused() {
        for text in ["18446744073709551616", "16777216T", "36028797018963968s"] {
            assert!(parse(text).unwrap_err().contains("2^64 - 1"), "{text}");
        }
    }

    #[test]
    fn a_size_prints_as_short_as_is_exact() {
        let exact = |bytes| Exact(ByteCount(bytes)).to_string();
        assert_eq!(exact(0), "0");
        assert_eq!(exact(512), "512");
        assert_eq!(exact(4096), "4K");
        assert_eq!(exact(4097), "4097");
        assert_eq!(exact(1536 << 10), "1536K");
        assert_eq!(exact(2 << 30), "2G");
    }
}
