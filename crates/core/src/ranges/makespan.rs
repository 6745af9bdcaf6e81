//! Simulates requests on a device: list scheduling on identical servers that share bandwidth.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use core::ops::Range;

use super::cost_model::{CostModel, float, whole};

/// Returns the time of `requests` in nanoseconds if they are sent in this order, each as soon as
/// one of the device's `parallel` slots is free and at most `budget` bytes are in flight. (A
/// request larger than `budget` is sent when it is alone.)
///
/// ```text
///   4 places   |--latency--|==transfer==|                     each transfers with the bandwidth of
///              |--latency--|=====transfer=====|               a connection, or an equal share of the
///              |--latency--|==|--latency--|==transfer==|      total while more transfer at once
///              |--latency--|===|
/// ```
///
/// # Panics
///
/// If a number of `model` but its latency is 0, or a request ends before it starts.
///
/// # Examples
///
/// ```
/// use foreread_core::ranges::{CostModel, makespan};
///
/// let (connection_bytes_per_s, total_bytes_per_s) = (100_000_000, 200_000_000);
/// let (latency_ns, parallel) = (1_000_000, 4);
/// let model =
///     CostModel { latency_ns, connection_bytes_per_s, total_bytes_per_s, parallel };
/// assert_eq!(makespan(&[0..100_000], &model, u64::MAX), 2_000_000);
/// // Four transfer at once and share 200 MB/s.
/// let four = [0..100_000, 100_000..200_000, 200_000..300_000, 300_000..400_000];
/// assert_eq!(makespan(&four, &model, u64::MAX), 3_000_000);
/// ```
#[must_use]
pub fn makespan(requests: &[Range<u64>], model: &CostModel, budget: u64) -> u64 {
    model.check();
    assert!(requests.iter().all(|range| range.start <= range.end), "a range ends after its start");
    whole(simulate(requests, model, budget))
}

/// Implements [`makespan`] for validated requests and model.
pub(super) fn simulate(requests: &[Range<u64>], model: &CostModel, budget: u64) -> f64 {
    let mut device = SimulatedDevice {
        model,
        now: 0.0,
        transferred: 0.0,
        starting: VecDeque::new(),
        transferring: BinaryHeap::new(),
        in_flight: 0,
    };
    let places = usize::try_from(model.parallel).unwrap_or(usize::MAX);
    for request in requests {
        let bytes = request.end - request.start;
        while device.requests() > 0
            && (device.requests() >= places || device.in_flight.saturating_add(bytes) > budget)
        {
            device.step();
        }
        device.start(bytes);
    }
    while device.requests() > 0 {
        device.step();
    }
    device.now
}

/// A device with requests in its slots. All transfers run at the same rate, so one counter shows
/// the progress of each: a transfer ends when the counter reaches its target.
struct SimulatedDevice<'a> {
    model: &'a CostModel,
    now: f64,
    /// Bytes of a request that would have transferred all the time.
    transferred: f64,
    /// End of the latency of each request, and its bytes; in that order.
    starting: VecDeque<(f64, u64)>,
    /// Counter value at which each request ends, as bits (floats of one sign have the order of
    /// their bits), and its bytes.
    transferring: BinaryHeap<Reverse<(u64, u64)>>,
    in_flight: u64,
}

impl SimulatedDevice<'_> {
    fn requests(&self) -> usize {
        self.starting.len() + self.transferring.len()
    }

    fn start(&mut self, bytes: u64) {
        self.starting.push_back((self.now + float(self.model.latency_ns), bytes));
        self.in_flight = self.in_flight.saturating_add(bytes);
    }

    /// Advances to the next start or end of a transfer.
    fn step(&mut self) {
        let next_start = self.starting.front().copied();
        let Some(&Reverse((target, bytes))) = self.transferring.peek() else {
            let (at, bytes) = next_start.expect("a step is of a request");
            return self.begin_transfer(at, bytes);
        };
        let (target, rate) = (f64::from_bits(target), self.model.rate(self.transferring.len()));
        let ends = self.now + (target - self.transferred) / rate;
        match next_start {
            Some((at, bytes)) if at < ends => {
                self.transferred += (at - self.now) * rate;
                self.begin_transfer(at, bytes);
            }
            _ => {
                self.transferring.pop();
                (self.now, self.transferred) = (ends, target);
                self.in_flight -= bytes;
            }
        }
    }

    fn begin_transfer(&mut self, at: f64, bytes: u64) {
        self.starting.pop_front();
        self.now = at;
        self.transferring.push(Reverse(((self.transferred + float(bytes)).to_bits(), bytes)));
    }
}
