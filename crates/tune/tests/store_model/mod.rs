//! A store in virtual time: latency, bandwidth of a connection and of the link, a limit.
//!
//! In:    the steps of a sweep.
//! Out:   what they find, exactly: connections share the link evenly, to the nanosecond.
//! Never: a clock, a network.

#![allow(dead_code, reason = "each test uses the part it needs")]
#![allow(unreachable_pub, reason = "a module of a test")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "nanoseconds of a minute"
)]

use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};
use foreread_tune::store_sweep::{
    ConnectionCost, PartWindow, SmallRead, StepFindings, StepResult, StoreFindings, StorePoint,
    StoreSpent, StoreStep, StoreSweep, StoreSweepSettings, TransferSample, TransferStep,
};

/// A store.
#[derive(Clone, Copy, Debug)]
pub struct ModelStore {
    /// From a request to its first byte.
    pub latency_s: f64,
    /// The first byte of some requests comes later, by up to this share.
    pub jitter: f64,
    /// Bytes a second of one connection.
    pub connection: f64,
    /// Bytes a second of all connections together.
    pub link: f64,
    /// Time to connect, in addition to the first request.
    pub connect_s: f64,
    /// Requests a second beyond which the store refuses.
    pub requests_per_s: f64,
    /// Requests in flight beyond which the store refuses.
    pub requests_at_once: u32,
    /// By how much it gets slower within a minute.
    pub slower: f64,
}

impl Default for ModelStore {
    /// As a store in the same region, seen from a machine with 10 Gbit/s.
    fn default() -> Self {
        Self {
            latency_s: 0.025,
            jitter: 0.0,
            connection: 80e6,
            link: 1.2e9,
            connect_s: 0.012,
            requests_per_s: f64::INFINITY,
            requests_at_once: u32::MAX,
            slower: 0.0,
        }
    }
}

/// A sweep of a model, with the time and all steps.
pub struct ModelRun {
    pub findings: StoreFindings,
    pub steps: Vec<(StoreStep, StepResult)>,
    pub ended_s: f64,
}

struct Clock {
    now_s: f64,
    random: u64,
    tokens: f64,
    refilled_s: f64,
}

impl ModelStore {
    /// Sweeps it to the end, or up to so many steps.
    pub fn run(&self, settings: StoreSweepSettings, steps_max: usize) -> ModelRun {
        let mut sweep = StoreSweep::new(settings);
        let tokens = self.requests_per_s.min(1e12);
        let mut clock = Clock { now_s: 5.0, random: settings.seed, tokens, refilled_s: 5.0 };
        let mut steps = Vec::new();
        while steps.len() < steps_max
            && let Some(step) = sweep.next_step(clock.nanos())
        {
            let result = self.step(&step, settings, &mut clock);
            sweep.record(&step, result.clone());
            steps.push((step, result));
            assert!(steps.len() < 10_000, "it has no end");
        }
        let findings = sweep.findings(clock.nanos());
        ModelRun { findings, steps, ended_s: clock.now_s - 5.0 }
    }

    /// What a point gives over a long time, in 10^6 bytes a second.
    pub fn rate_of(&self, point: StorePoint, settings: StoreSweepSettings) -> f64 {
        let mut clock = Clock { now_s: 5.0, random: 99, tokens: 1e12, refilled_s: 5.0 };
        let step = TransferStep {
            point,
            start: 0,
            window: Duration::from_secs(20),
            bytes_max: ByteCount(u64::MAX / 4),
            at_most: Duration::from_secs(1000),
        };
        let endless = Self { slower: 0.0, ..*self };
        let sample = endless.transfer(&step, settings, &mut clock, &mut StoreSpent::default());
        sample.expect("it ends").mb_per_s()
    }

    fn step(
        &self,
        step: &StoreStep,
        settings: StoreSweepSettings,
        clock: &mut Clock,
    ) -> StepResult {
        let began = clock.now_s;
        let mut spent = StoreSpent::default();
        let found = match step {
            StoreStep::NewConnections { count } => {
                let cost = ConnectionCost {
                    first_ns: ((self.connect_s + self.latency_s) * 1e9) as u64,
                    next_ns: (self.latency_s * 1e9) as u64,
                };
                clock.now_s += f64::from(*count) * (self.connect_s + 2.0 * self.latency_s);
                spent.requests = 2 * u64::from(*count);
                StepFindings::NewConnections(vec![cost; *count as usize])
            }
            StoreStep::SmallReads(reads) => {
                let mut found = Vec::new();
                for offset in &reads.offsets {
                    assert!(offset + reads.len.0 <= settings.object.0, "it is within the object");
                    if clock.now_s - began >= reads.at_most.as_secs_f64() {
                        break;
                    }
                    let first = self.latency(clock);
                    let all = first + reads.len.0 as f64 / self.connection;
                    clock.now_s += all;
                    spent.requests += 1;
                    spent.bytes += reads.len.0;
                    found.push(SmallRead {
                        first_byte_ns: (first * 1e9) as u64,
                        ns: (all * 1e9) as u64,
                    });
                }
                StepFindings::SmallReads(found)
            }
            StoreStep::Transfer(step) => {
                StepFindings::Transfer(self.transfer(step, settings, clock, &mut spent))
            }
            StoreStep::Pause(time) => {
                clock.now_s += time.as_secs_f64();
                StepFindings::Nothing
            }
        };
        spent.ns = ((clock.now_s - began) * 1e9) as u64;
        StepResult { spent, found }
    }

    fn transfer(
        &self,
        step: &TransferStep,
        settings: StoreSweepSettings,
        clock: &mut Clock,
        spent: &mut StoreSpent,
    ) -> Option<TransferSample> {
        let until = clock.now_s + step.at_most.as_secs_f64();
        let mut window = PartWindow::new(*step, settings.object);
        let mut busy: Vec<Option<BusyConnection>> =
            (0..step.point.connections).map(|_| Some(BusyConnection::default())).collect();
        loop {
            for (index, connection) in busy.iter_mut().enumerate() {
                let is_free = connection.as_ref().is_some_and(|it| it.left <= 0.5);
                if !is_free {
                    continue;
                }
                let part = window.next_part(index as u32, clock.nanos());
                *connection = part.map(|part| BusyConnection {
                    left: (part.end - part.start) as f64,
                    first_byte_s: self.request(step.point.connections, clock, spent),
                });
            }
            let others = busy.iter().flatten();
            let receiving = others.clone().filter(|it| it.first_byte_s <= clock.now_s).count();
            let slow = 1.0 - self.slower * (clock.now_s - 5.0) / 60.0;
            let rate = self.connection.min(self.link / receiving.max(1) as f64) * slow;
            let next = others.map(|it| {
                if it.first_byte_s <= clock.now_s {
                    it.left / rate
                } else {
                    it.first_byte_s - clock.now_s
                }
            });
            let Some(step_s) = next.reduce(f64::min) else { break };
            let step_s = step_s.max(1e-9).min(until - clock.now_s);
            let mut came = 0.0;
            for connection in busy.iter_mut().flatten() {
                if connection.first_byte_s <= clock.now_s {
                    let bytes = (rate * step_s).min(connection.left);
                    connection.left -= bytes;
                    came += bytes;
                }
            }
            clock.carry(came, &mut window);
            clock.now_s += step_s;
            if clock.now_s >= until - 1e-9 {
                spent.bytes += window.bytes();
                return None;
            }
        }
        spent.bytes += window.bytes();
        window.sample()
    }

    /// When the first byte of a request comes, with those that are refused before.
    fn request(&self, connections: u32, clock: &mut Clock, spent: &mut StoreSpent) -> f64 {
        let since = clock.now_s - clock.refilled_s;
        clock.tokens = (clock.tokens + since * self.requests_per_s.min(1e12)).min(self.burst());
        clock.refilled_s = clock.now_s;
        spent.requests += 1;
        let is_refused = clock.tokens < 1.0 || connections > self.requests_at_once;
        let pause = if is_refused {
            spent.throttled += 1;
            spent.requests += 1;
            0.2
        } else {
            clock.tokens -= 1.0;
            0.0
        };
        clock.now_s + pause + self.latency(clock)
    }

    /// A tenth of a second's requests may come at once.
    fn burst(&self) -> f64 {
        (self.requests_per_s * 0.1).clamp(1.0, 1e12)
    }

    fn latency(&self, clock: &mut Clock) -> f64 {
        clock.random = clock.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let unit = (clock.random >> 11) as f64 / (1_u64 << 53) as f64;
        self.latency_s * (1.0 + self.jitter * unit)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct BusyConnection {
    left: f64,
    first_byte_s: f64,
}

impl Clock {
    fn nanos(&self) -> Nanos {
        Nanos((self.now_s * 1e9) as u64)
    }

    fn carry(&self, bytes: f64, window: &mut PartWindow) {
        window.arrived(bytes.round() as u64);
    }
}
