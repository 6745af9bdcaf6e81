//! Fewest requests that any choice of windows can reach, for streams with known rates. It is the
//! reference for a policy, computed from the true rates, not from learnt ones.
//!
//! ```text
//!   pages of a stream that are cached          a window of w pages is requested when r L pages are
//!     |\        |\        |\                   left, and consumed w / r later: w/2 + r L pages
//!     | \       | \       | \                  on average, and r / w requests per second
//!     |  \      |  \      |  \
//!     |...\.....|...\.....|...\..  r L
//! ```
//!
//! The optimum minimises `sum r_i / w_i` subject to `sum (w_i / 2 + r_i L) <= M`. There the
//! marginal gain of a page is the same for every stream, `r_i / w_i^2`, so `w_i` is proportional to
//! the root of `r_i`:
//!
//! ```text
//!   w_i = 2 (M - R L) sqrt(r_i) / sum sqrt(r_j)        R = sum r_i
//! ```
//!
//! A window is capped at the largest useful size on the device and at the file size. The memory
//! that capped streams leave over is distributed among the others by the same rule.

use foreread_core::units::{Nanos, PAGE_SIZE};

use crate::device::DeviceParams;
use crate::device::Flash;
use crate::scenario::Scenario;
use crate::workload::Workload;
use crate::workload::streaming::Streaming;

/// A stream's rate, and the cap of its window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedStream {
    /// Read rate, in pages per second.
    pub pages_per_s: f64,
    /// Largest window, in pages.
    pub most_pages: f64,
}

/// Returns the optimal windows, in pages, for streams in `pages` of memory on a device with a
/// request time of `latency_s`.
#[must_use]
pub fn best_windows(streams: &[RatedStream], pages: f64, latency_s: f64) -> Vec<f64> {
    let all: f64 = streams.iter().map(|stream| stream.pages_per_s).sum();
    let mut to_share = 2.0 * (pages - all * latency_s).max(0.0);
    let mut windows: Vec<Option<f64>> = vec![None; streams.len()];
    loop {
        let open = || streams.iter().zip(&windows).filter(|(_, window)| window.is_none());
        let roots: f64 = open().map(|(stream, _)| stream.pages_per_s.sqrt()).sum();
        let share = |stream: &RatedStream| to_share * stream.pages_per_s.sqrt() / roots;
        let shares: Vec<f64> = streams.iter().map(share).collect();
        let mut is_done = true;
        let mut taken = 0.0;
        for ((stream, window), share) in streams.iter().zip(&mut windows).zip(&shares) {
            if window.is_none() && *share >= stream.most_pages {
                *window = Some(stream.most_pages);
                taken += stream.most_pages;
                is_done = false;
            }
        }
        if is_done {
            let fixed = windows.into_iter().zip(shares);
            return fixed.map(|(window, share)| window.unwrap_or(share).max(1.0)).collect();
        }
        to_share = (to_share - taken).max(0.0);
    }
}

/// Returns the number of requests of a scenario's streaming clients with the optimal windows, from
/// `from` to `until`. None if the scenario has other readers, or anything but a single flash device
/// with constant parameters.
///
/// If the clients exceed the throughput of the device with these windows, all are slowed by the
/// same factor.
#[must_use]
pub fn of_scenario(scenario: &Scenario, frames: u32, from: Nanos, until: Nanos) -> Option<f64> {
    let servers = servers(scenario)?;
    let flash = only_flash(scenario)?;
    let ceiling = ceiling_pages(flash).min(f64::from(frames) / SHARE_OF_A_WINDOW);
    let (from, until) = (seconds(from), seconds(until));
    let changes = servers.iter().flat_map(|(server, ..)| &server.changes);
    let inside = changes.map(|change| change.at_s).filter(|at| *at > from && *at < until);
    let mut times: Vec<f64> = inside.chain([from, until]).collect();
    times.sort_unstable_by(f64::total_cmp);
    let part = |pair: &[f64]| {
        let streams: Vec<RatedStream> =
            servers.iter().flat_map(|server| streams(server, pair[0], ceiling)).collect();
        requests(&streams, f64::from(frames), flash) * (pair[1] - pair[0])
    };
    Some(times.windows(2).map(part).sum())
}

/// Returns the requests per second with the optimal windows.
fn requests(streams: &[RatedStream], frames: f64, flash: &Flash) -> f64 {
    let mut windows = best_windows(streams, frames, 0.0);
    // Latency hardly depends on the request size, so a few iterations converge.
    for _ in 0..3 {
        let mean = windows.iter().sum::<f64>() / windows.len() as f64;
        windows = best_windows(streams, frames, request_s(flash, mean));
    }
    let each = || streams.iter().zip(&windows);
    let wanted: f64 = each().map(|(stream, window)| stream.pages_per_s / window).sum();
    let busy: f64 = each()
        .map(|(stream, window)| stream.pages_per_s / window * request_s(flash, *window))
        .sum();
    wanted / busy.max(1.0)
}

/// Returns the largest useful window for a single stream: the smallest power of two from which
/// doubling gains less than a fiftieth of the throughput.
#[must_use]
pub fn ceiling_pages(flash: &Flash) -> f64 {
    let mut pages = 1.0;
    while 2.0 * request_s(flash, pages) / request_s(flash, 2.0 * pages) >= 1.0 + LEAST_GAIN {
        pages *= 2.0;
    }
    pages
}

/// Returns the time of a request of this size on an idle device.
fn request_s(flash: &Flash, pages: f64) -> f64 {
    let bytes = pages * PAGE_SIZE as f64;
    let commands = (bytes / flash.max_command.0.0 as f64).ceil().max(1.0);
    let size = bytes / commands;
    let stall_us = flash.stall_us * size / (size + flash.stall_size.0.0 as f64).max(1.0);
    commands * (flash.overhead_us + stall_us) / 1e6 + bytes / flash.mb_per_s / 1e6
}

type Server<'s> = (&'s Streaming, String, Nanos);

/// Returns the streaming servers of a scenario; None if it has any other reader.
fn servers(scenario: &Scenario) -> Option<Vec<Server<'_>>> {
    let all = scenario.processes();
    all.map(|(spec, name, start)| {
        let Workload::Streaming(streaming) = spec.run.get_ref() else { return None };
        Some((streaming, name, start))
    })
    .collect()
}

fn only_flash(scenario: &Scenario) -> Option<&Flash> {
    let mut devices = scenario.device.values();
    let (spec, other) = (devices.next()?, devices.next());
    let DeviceParams::Flash(flash) = &spec.model.get_ref().model else { return None };
    (other.is_none() && spec.change.is_empty()).then_some(flash)
}

/// Returns the streams of a server at a time in seconds, after all its clients have arrived.
fn streams((server, name, start): &Server<'_>, at_s: f64, ceiling: f64) -> Vec<RatedStream> {
    let changed = server.changes.iter().rev().find(|change| change.at_s <= at_s);
    let times = changed.map_or(1.0, |change| change.times);
    let file_pages = server.taken().0 as f64 / PAGE_SIZE as f64;
    let stream = |kib_per_s: f64| RatedStream {
        pages_per_s: kib_per_s * times * 1024.0 / PAGE_SIZE as f64,
        most_pages: ceiling.min(file_pages),
    };
    server.clients(name, *start).iter().map(|client| stream(client.kib_per_s)).collect()
}

fn seconds(at: Nanos) -> f64 {
    at.0 as f64 / 1e9
}

/// Least gain in throughput that justifies doubling the window.
const LEAST_GAIN: f64 = 0.02;

/// A window is at most an eighth of the frames, on any device.
const SHARE_OF_A_WINDOW: f64 = 8.0;
