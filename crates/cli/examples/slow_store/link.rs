//! A link: the latency of its requests, the pace of its connections, its counters.
//!
//! In:    the start and end of each request.
//! Out:   the time at which each byte is due; counters.
//! Never: latencies that repeat, except after `/reset`, which restarts their sequence.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A link and its counters.
#[derive(Debug)]
pub(crate) struct Link {
    name: String,
    latency: Duration,
    /// Bytes a second of each connection; 0 for no limit.
    bytes_per_second: u64,
    is_jittery: bool,
    /// The number of the next request.
    next: AtomicU64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    gets: AtomicU64,
    heads: AtomicU64,
    lists: AtomicU64,
    /// Bytes of objects written to sockets.
    bytes: AtomicU64,
    /// GETs cut off because the client hung up.
    cut: AtomicU64,
    at_once_max: AtomicU64,
    /// GETs in progress; not reset.
    at_once: AtomicU64,
}

/// A kind of request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Get,
    Head,
    List,
}

impl Link {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, numbers) = text.split_once('=')?;
        let mut numbers = numbers.split(',');
        let latency = Duration::from_millis(numbers.next()?.parse().ok()?);
        let rate = numbers.next()?.parse::<u64>().ok()?.checked_mul(1_000_000)?;
        let is_jittery = match numbers.next() {
            None => false,
            Some("jitter") => true,
            Some(_) => return None,
        };
        Some(Self {
            name: name.to_owned(),
            latency,
            bytes_per_second: rate,
            is_jittery,
            next: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Counts a request and returns the delay of its first byte.
    pub(crate) fn begin(&self, kind: Kind) -> Duration {
        let Counters { gets, heads, lists, at_once, at_once_max, .. } = &self.counters;
        match kind {
            Kind::Get => {
                gets.fetch_add(1, Ordering::Relaxed);
                let now = at_once.fetch_add(1, Ordering::Relaxed) + 1;
                at_once_max.fetch_max(now, Ordering::Relaxed);
            }
            Kind::Head => {
                heads.fetch_add(1, Ordering::Relaxed);
            }
            Kind::List => {
                lists.fetch_add(1, Ordering::Relaxed);
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.is_jittery { self.latency.mul_f64(factor(number)) } else { self.latency }
    }

    pub(crate) fn sent(&self, bytes: u64) {
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records the end of a GET; `is_whole` if the client received all bytes.
    pub(crate) fn end(&self, is_whole: bool) {
        self.counters.at_once.fetch_sub(1, Ordering::Relaxed);
        self.counters.cut.fetch_add(u64::from(!is_whole), Ordering::Relaxed);
    }

    /// Returns the transfer time of these bytes; None without a limit.
    pub(crate) fn time_of(&self, bytes: u64) -> Option<Duration> {
        let nanos = bytes.saturating_mul(1_000_000_000).checked_div(self.bytes_per_second)?;
        Some(Duration::from_nanos(nanos))
    }

    /// Resets the counters and restarts the sequence of latencies.
    pub(crate) fn reset(&self) {
        let Counters { gets, heads, lists, bytes, cut, at_once_max, at_once: _ } = &self.counters;
        for counter in [gets, heads, lists, bytes, cut, at_once_max, &self.next] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn json(&self) -> String {
        let Counters { gets, heads, lists, bytes, cut, at_once_max, at_once } = &self.counters;
        let counters = [
            ("gets", gets),
            ("heads", heads),
            ("lists", lists),
            ("bytes", bytes),
            ("cut", cut),
            ("at_once_max", at_once_max),
            ("at_once", at_once),
        ];
        let counters = counters
            .map(|(name, counter)| format!("\"{name}\": {}", counter.load(Ordering::Relaxed)));
        format!("\"{}\": {{{}}}", self.name, counters.join(", "))
    }
}

/// Waits until this moment.
#[expect(clippy::disallowed_methods, reason = "the pace of the link")]
pub(crate) fn wait_until(due: Instant) {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
}

#[expect(clippy::disallowed_methods, reason = "when a request came")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the latency of a request as a multiple of the median.
fn factor(number: u64) -> f64 {
    let [radius, angle, tail] = [0, 1, 2].map(|part| uniform(number * 3 + part));
    // Box and Muller: a normal number from two uniform ones.
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    let usual = (SIGMA * normal).exp();
    if tail <= 0.01 { usual * 10.0 } else { usual }
}

/// Returns a number above 0 and at most 1, by the finalizer of `splitmix64`.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
fn uniform(number: u64) -> f64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

const SIGMA: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_the_median_and_the_tail_that_are_said() {
        let mut factors: Vec<f64> = (0..100_000).map(factor).collect();
        factors.sort_by(f64::total_cmp);
        let (median, p84) = (factors[50_000], factors[84_134]);
        assert!((0.98..1.03).contains(&median), "{median}");
        // One deviation above the median: exp(0.5), and a little for the tail.
        assert!((1.6..1.75).contains(&p84), "{p84}");
        let late = factors.iter().filter(|factor| **factor > 5.0).count();
        assert!((800..1200).contains(&late), "{late}");
    }

    #[test]
    fn a_link_that_makes_no_sense_is_refused() {
        for text in ["A", "A=x,1", "A=1", "A=1,2,3", "A=1,-2"] {
            assert!(Link::parse(text).is_none(), "{text}");
        }
        let link = Link::parse("A=20,80").unwrap();
        assert_eq!(link.time_of(8_000_000), Some(Duration::from_millis(100)));
        assert_eq!(Link::parse("A=20,0").unwrap().time_of(1), None);
    }

    #[test]
    fn a_reset_begins_the_latencies_anew() {
        let link = Link::parse("C=20,80,jitter").unwrap();
        let first: Vec<_> = (0..10).map(|_| link.begin(Kind::Get)).collect();
        link.reset();
        let again: Vec<_> = (0..10).map(|_| link.begin(Kind::Head)).collect();
        assert_eq!(first, again);
        assert!(first.iter().any(|latency| *latency != first[0]));
        let json = link.json();
        assert!(json.contains("\"gets\": 0") && json.contains("\"heads\": 10"), "{json}");
        assert!(json.contains("\"at_once\": 10"), "those that have not ended: {json}");
    }
}
