//! The fewest requests that any windows can come to, for streams whose rates are known.
//!
//! In:    the rate of each stream, the memory, the device.
//! Out:   a window for each, and how many requests those come to.
//! Never: what a policy learnt. This is what it is held against, from the true figures.
//!
//! ```text
//!   pages of a stream that are cached          a window of w pages is asked for when r L pages are
//!     |\        |\        |\                   left, and is used up w / r later: w/2 + r L pages
//!     | \       | \       | \                  in the mean, and r / w requests a second
//!     |  \      |  \      |  \
//!     |...\.....|...\.....|...\..  r L
//! ```
//!
//! Fewest is the minimum of `sum r_i / w_i` with `sum (w_i / 2 + r_i L) <= M`. There the gain of a
//! page is the same for every stream, `r_i / w_i^2`, so `w_i` is as the root of `r_i`:
//!
//! ```text
//!   w_i = 2 (M - R L) sqrt(r_i) / sum sqrt(r_j)        R = sum r_i
//! ```
//!
//! No window is larger than what is of use on the device, or than the file: those that would be
//! stay at that, and the rest of the memory is shared out among the others by the same rule.

use foreread_core::units::{Nanos, PAGE_SIZE};

use crate::device::DeviceParams;
use crate::device::Flash;
use crate::scenario::Scenario;
use crate::workload::Workload;
use crate::workload::streaming::Streaming;

/// A stream: how fast it is read, and what its window may be at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatedStream {
    /// Pages a second.
    pub pages_per_s: f64,
    /// Pages.
    pub most_pages: f64,
}

/// The best windows, in pages: of streams in `pages` of memory, from a device that takes
/// `latency_s` for a request.
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

/// How many requests the clients of a scenario's streaming servers come to with the best windows,
/// from `from` to `until`. None if the scenario has other readers, or another device than one
/// flash device whose parameters stay.
///
/// Where clients want more than the device gives with these windows, all get the same part of it.
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

/// How many requests a second that is.
fn requests(streams: &[RatedStream], frames: f64, flash: &Flash) -> f64 {
    let mut windows = best_windows(streams, frames, 0.0);
    // The latency of a request depends on its size, and hardly: this is at its end at once.
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

/// The largest window that is of use to a reader of one stream: the smallest power of two such that
/// twice as many pages bring less than a fiftieth of its throughput.
#[must_use]
pub fn ceiling_pages(flash: &Flash) -> f64 {
    let mut pages = 1.0;
    while 2.0 * request_s(flash, pages) / request_s(flash, 2.0 * pages) >= 1.0 + LEAST_GAIN {
        pages *= 2.0;
    }
    pages
}

/// What a request of so many pages takes alone.
fn request_s(flash: &Flash, pages: f64) -> f64 {
    let bytes = pages * PAGE_SIZE as f64;
    let commands = (bytes / flash.max_command.0.0 as f64).ceil().max(1.0);
    let size = bytes / commands;
    let stall_us = flash.stall_us * size / (size + flash.stall_size.0.0 as f64).max(1.0);
    commands * (flash.overhead_us + stall_us) / 1e6 + bytes / flash.mb_per_s / 1e6
}

type Server<'s> = (&'s Streaming, String, Nanos);

/// The streaming servers of a scenario; None if anything else reads there.
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

/// The streams of a server at a time, in seconds, when all its clients have come.
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

/// Twice as many pages have to bring at least this much of a reader's throughput.
const LEAST_GAIN: f64 = 0.02;

/// A window is no more than an eighth of the frames, whatever device that is.
const SHARE_OF_A_WINDOW: f64 = 8.0;
