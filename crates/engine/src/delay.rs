//! Model of a slower device: latency, parallelism and bandwidth. The model only computes completion
//! times; its user holds completions back until then.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Parameters of a slow device: `latency=4ms,parallel=1,bandwidth=100M`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Delay {
    /// Fixed cost of each request, independent of its size.
    pub latency: Duration,
    /// Number of requests served at once, 1 to 1024.
    pub parallel: u32,
    /// Bytes per second of each request; None for no limit.
    pub bandwidth: Option<u64>,
}

/// Error of parsing a [`Delay`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseDelayError(String);

/// State of a simulated device with the parameters of a [`Delay`].
///
/// ```text
///   parallel=2   request 1  |--latency--|--bytes/bandwidth--|
///                request 2     |--latency--|----|
///                request 3      (waits)         |--latency--|--|
/// ```
#[derive(Clone, Debug)]
pub struct DelayModel {
    delay: Delay,
    /// Time at which each head becomes idle, in nanoseconds.
    free_at_ns: Vec<u64>,
}

impl DelayModel {
    /// Creates an idle device.
    #[must_use]
    pub fn new(delay: Delay) -> Self {
        Self { delay, free_at_ns: vec![0; delay.parallel.clamp(1, MOST_PARALLEL) as usize] }
    }

    /// Starts a request now. Returns its completion time.
    pub fn finish_ns(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let first_free = (0..self.free_at_ns.len()).min_by_key(|head| self.free_at_ns[*head]);
        let head = &mut self.free_at_ns[first_free.unwrap_or(0)];
        let moving = self.delay.bandwidth.map_or(0, |rate| bytes * NS_PER_S / rate.max(1));
        let latency = u64::try_from(self.delay.latency.as_nanos()).unwrap_or(u64::MAX);
        *head = now_ns.max(*head).saturating_add(latency).saturating_add(moving);
        *head
    }
}

impl FromStr for Delay {
    type Err = ParseDelayError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut delay = Self { latency: Duration::ZERO, parallel: 1, bandwidth: None };
        for part in text.split(',') {
            let wrong = || ParseDelayError(part.to_string());
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            match key {
                "latency" => delay.latency = duration(value).ok_or_else(wrong)?,
                "parallel" => delay.parallel = count(value).ok_or_else(wrong)?,
                "bandwidth" => delay.bandwidth = Some(rate(value).ok_or_else(wrong)?),
                _ => return Err(wrong()),
            }
        }
        Ok(delay)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.latency.as_micros() {
            us if us % 1000 == 0 => write!(f, "latency={}ms", us / 1000)?,
            us => write!(f, "latency={us}us")?,
        }
        write!(f, ",parallel={}", self.parallel)?;
        match self.bandwidth {
            None => Ok(()),
            Some(rate) if rate % (1 << 20) == 0 => write!(f, ",bandwidth={}M", rate >> 20),
            Some(rate) => write!(f, ",bandwidth={rate}"),
        }
    }
}

impl fmt::Display for ParseDelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a delay; write latency=4ms (us, ms, s; up to 60s), parallel=1 (1 to \
             1024), bandwidth=100M (bytes a second; K, M, G are powers of 1024), separated by \
             commas",
            self.0
        )
    }
}

impl Error for ParseDelayError {}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_us = match &text[digits.len()..] {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    let duration = Duration::from_micros(digits.parse::<u64>().ok()?.checked_mul(unit_us)?);
    (duration <= LONGEST).then_some(duration)
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| (1..=MOST_PARALLEL).contains(count))
}

fn rate(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|rate| *rate > 0)
}

/// Highest parallelism. There are never more requests in flight, so that a higher value would mean
/// no limit.
const MOST_PARALLEL: u32 = 1024;

const NS_PER_S: u64 = 1_000_000_000;

/// Longest latency; a longer one is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_written_as_it_is_read() {
        let delay: Delay = "latency=4ms,parallel=2,bandwidth=100M".parse().unwrap();
        let want =
            Delay { latency: Duration::from_millis(4), parallel: 2, bandwidth: Some(100 << 20) };
        assert_eq!(delay, want);
        assert_eq!(
            "latency=250us".parse::<Delay>().unwrap().to_string(),
            "latency=250us,parallel=1"
        );
    }

    #[test]
    fn a_wrong_part_is_named() {
        for text in ["", "4ms", "latency=4", "latency=1h", "parallel=0", "bandwidth=0", "x=1"] {
            let error = text.parse::<Delay>().unwrap_err().to_string();
            assert!(error.contains(&format!("'{text}'")), "{error}");
        }
    }

    #[test]
    fn requests_wait_for_a_free_head() {
        let delay = "latency=1ms,parallel=2,bandwidth=1000000000".parse().unwrap();
        let mut device = DelayModel::new(delay);
        let ms = 1_000_000;
        assert_eq!(device.finish_ns(0, 0), ms);
        assert_eq!(device.finish_ns(0, 1_000_000), 2 * ms);
        assert_eq!(device.finish_ns(0, 0), 2 * ms, "after the first");
        assert_eq!(device.finish_ns(10 * ms, 0), 11 * ms, "idle meanwhile");
    }
}
