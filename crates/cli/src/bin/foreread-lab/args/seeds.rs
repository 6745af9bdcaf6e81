//! The option `--seeds`: consecutive seeds, `N` or `FIRST+N`.

/// Consecutive seeds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SeedRange {
    /// None: the default of the scenario or command.
    first: Option<u64>,
    count: u64,
}

impl SeedRange {
    /// Returns the seeds; fails if the range overflows.
    pub(crate) fn seeds(self, default: u64) -> Result<Vec<u64>, String> {
        let (first, count) = (self.first.unwrap_or(default), self.count);
        let last = first.checked_add(count - 1).ok_or_else(|| {
            format!("--seeds {count}: the last seed is 2^64 - 1; the first is {first}")
        })?;
        Ok((first..=last).collect())
    }
}

/// Parses `N`, or `FIRST+N`.
pub(crate) fn seed_range(text: &str) -> Result<SeedRange, String> {
    let (first, count) = match text.split_once('+') {
        Some((first, count)) => (Some(number(first)), count),
        None => (None, text),
    };
    let count = number(count).filter(|count| (1..=MAX_SEEDS).contains(count));
    match (first, count) {
        (None, Some(count)) => Ok(SeedRange { first: None, count }),
        (Some(Some(first)), Some(count)) => Ok(SeedRange { first: Some(first), count }),
        (None | Some(_), _) => Err(format!(
            "write a number of seeds, 1 to {MAX_SEEDS}, or the first seed and their number: 7+10"
        )),
    }
}

/// Digits only: `u64::from_str` accepts a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Largest number of seeds: more would take a day.
const MAX_SEEDS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_number_and_perhaps_a_first_seed() {
        let seeds = |text: &str| seed_range(text).and_then(|range| range.seeds(40));
        assert_eq!(seeds("1"), Ok(vec![40]));
        assert_eq!(seeds("3"), Ok(vec![40, 41, 42]));
        assert_eq!(seeds("7+1"), Ok(vec![7]));
        assert_eq!(seeds("0+2"), Ok(vec![0, 1]));
        assert_eq!(seeds("18446744073709551615+1"), Ok(vec![u64::MAX]));
        assert!(seeds("18446744073709551615+2").is_err_and(|why| why.contains("2^64 - 1")));
        for wrong in ["", "0", "10001", "-1", "+3", "7+", "7+0", "7++1", "7+-1", "1+2+3", "a", "1 "]
        {
            assert!(seed_range(wrong).is_err_and(|why| why.contains("7+10")), "{wrong}");
        }
    }
}
