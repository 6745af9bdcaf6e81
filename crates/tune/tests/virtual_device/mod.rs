//! A device in virtual time: a curve, with what makes real ones hard to measure.
//!
//! In:    throughput by window; noise, stalls, drift, burst credit, a cache, an error.
//! Out:   a probe.
//! Never: a real second.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "virtual times")]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test file uses its own part of it"
)]

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};
use foreread_tune::probe::{Probe, ProbeSample, RandomReads, SampleSlice, SequentialRead, Stopped};

/// A device.
pub struct Virtual {
    pub now_ns: f64,
    /// MB/s by window.
    pub curve: Box<dyn Fn(u64) -> f64>,
    /// The deviation of one stream, however long it is: what is independent of the length is the
    /// worst case, since longer steps do not help.
    pub noise: f64,
    /// The share of streams that another process slows down.
    pub stalls: f64,
    /// The speed moves by so much in a slow wave.
    pub drift: f64,
    pub bucket: Option<Bucket>,
    /// What is read again is so many times as fast.
    pub cache: Option<f64>,
    pub size: u64,
    pub read: u64,
    pub rng: Rng,
    /// Calls until something happens instead.
    pub stop_after: Option<(u32, Stopped)>,
    pub calls: u32,
    /// A random read: so much, and the transfer at the curve's speed for 16 MiB.
    pub access_us: f64,
}

/// Burst credit.
pub struct Bucket {
    pub mb_per_s: f64,
    /// Bytes that are saved, and may be.
    pub credit: f64,
    pub most: f64,
}

impl Bucket {
    pub fn new(mb_per_s: f64, seconds: f64) -> Self {
        let most = mb_per_s * 1e6 * seconds;
        Self { mb_per_s, credit: most, most }
    }
}

impl Virtual {
    pub fn new(seed: u64, curve: impl Fn(u64) -> f64 + 'static) -> Self {
        Self {
            now_ns: 0.0,
            curve: Box::new(curve),
            noise: 0.0,
            stalls: 0.0,
            drift: 0.0,
            bucket: None,
            cache: None,
            size: 64 << 30,
            read: 0,
            rng: Rng(seed),
            stop_after: None,
            calls: 0,
            access_us: 100.0,
        }
    }

    pub fn noisy(mut self, noise: f64, stalls: f64, drift: f64) -> Self {
        (self.noise, self.stalls, self.drift) = (noise, stalls, drift);
        self
    }

    pub fn seconds(&self) -> f64 {
        self.now_ns / 1e9
    }

    fn call(&mut self) -> Result<(), Stopped> {
        self.calls += 1;
        match &self.stop_after {
            Some((after, why)) if self.calls > *after => Err(why.clone()),
            _ => Ok(()),
        }
    }

    fn rest(&mut self, ns: f64) {
        self.now_ns += ns;
        if let Some(bucket) = &mut self.bucket {
            bucket.credit = (bucket.credit + bucket.mb_per_s * ns / 1e3).min(bucket.most);
        }
    }

    /// Moves bytes at a speed, or what the bucket leaves of it; how long it takes.
    fn transfer(&mut self, bytes: f64, mb_per_s: f64) -> f64 {
        let wave = (self.now_ns / 1e9 / 23.0 + 1.0).sin();
        let free = mb_per_s * (1.0 + self.drift * wave);
        let mut ns = bytes * 1e3 / free;
        if let Some(bucket) = &mut self.bucket {
            let growth = (bucket.mb_per_s - free) / 1e3;
            if bucket.credit + growth * ns < 0.0 {
                let fast_ns = bucket.credit / -growth;
                ns = fast_ns + (bytes - fast_ns * free / 1e3) * 1e3 / bucket.mb_per_s;
                bucket.credit = 0.0;
            } else {
                bucket.credit = (bucket.credit + growth * ns).min(bucket.most);
            }
        }
        self.now_ns += ns;
        ns
    }

    /// What the stream needs until its window is full.
    fn get_going(&mut self, window: u64, factor: f64, end_ns: f64) -> bool {
        self.rest(1.5e6);
        let mut small = 4096;
        while small < window {
            let speed = (self.curve)(small) * factor;
            self.transfer(small as f64, speed);
            self.read += small;
            small *= 2;
            if self.now_ns > end_ns {
                return false;
            }
        }
        true
    }
}

impl Probe for Virtual {
    fn now(&self) -> Nanos {
        Nanos(self.now_ns as u64)
    }

    fn sequential(&mut self, ask: &SequentialRead) -> Result<ProbeSample, Stopped> {
        self.call()?;
        assert!(ask.at_most > Duration::ZERO);
        let end_ns = self.now_ns + ask.at_most.as_nanos() as f64;
        let mut factor = (self.noise * self.rng.normal()).exp();
        if self.rng.unit() < self.stalls {
            factor *= 0.4 + 0.5 * self.rng.unit();
        }
        let before = self.read;
        let mut sample = ProbeSample::default();
        if !self.get_going(ask.window.0, factor, end_ns) {
            return Ok(sample);
        }
        let is_again = |read: u64, size: u64| read >= size;
        let full = (self.curve)(ask.window.0) * factor;
        let (began_ns, mut done) = (self.now_ns, 0);
        let by_time = full * ask.time.as_nanos() as f64 / 1e3;
        let part = (by_time.max(ask.at_least.0 as f64) / 24.0 / ask.window.0 as f64).ceil();
        let part = (part.max(1.0) as u64) * ask.window.0;
        while self.now_ns < end_ns
            && (done < ask.at_least.0 || self.now_ns - began_ns < ask.time.as_nanos() as f64)
        {
            let slow = (0.3 * self.noise * self.rng.normal()).exp();
            let cached = self.cache.filter(|_| is_again(self.read, self.size)).unwrap_or(1.0);
            let ns = self.transfer(part as f64, full * slow * cached);
            if is_again(self.read, self.size) {
                sample.read_before.0 += part;
            }
            self.read += part;
            done += part;
            if self.now_ns > end_ns && sample.slices.is_empty() {
                return Ok(sample);
            }
            sample.slices.push(SampleSlice {
                at: self.now(),
                bytes: ByteCount(part),
                ns: ns as u64,
            });
        }
        assert!(self.read >= before);
        Ok(sample)
    }

    fn random(&mut self, ask: &RandomReads) -> Result<Vec<u64>, Stopped> {
        self.call()?;
        let end_ns = self.now_ns + ask.at_most.as_nanos() as f64;
        let mut taken = Vec::new();
        let speed = (self.curve)(16 << 20);
        while taken.len() < ask.count as usize && self.now_ns < end_ns {
            let wait = self.access_us * 1e3 * (1.0 + self.noise * self.rng.unit());
            self.rest(wait);
            let ns = wait + self.transfer(ask.size.0 as f64, speed);
            taken.push(ns as u64);
        }
        Ok(taken)
    }
}

/// SplitMix64.
#[derive(Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// The windows from 4 KiB up to `largest`.
pub fn windows(largest: u64) -> impl Iterator<Item = u64> + Clone {
    std::iter::successors(Some(4096), |window| Some(window * 2))
        .take_while(move |window| *window <= largest)
}

/// The smallest window with 98 % of what the largest truly delivers.
pub fn right_step(curve: &dyn Fn(u64) -> f64, largest: u64) -> u64 {
    let line = 0.98 * curve(largest);
    windows(largest).find(|window| curve(*window) >= line).expect("the largest does")
}
