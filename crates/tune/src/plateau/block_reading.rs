//! Readings as logarithms, grouped by window and by block of neighbouring rounds.

use foreread_core::units::ByteCount;

use super::robust::trimmed_mean;

/// One throughput reading of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Window size.
    pub window: ByteCount,
    /// Round number; readings of one round were taken close together.
    pub round: u32,
    /// Throughput.
    pub mb_per_s: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockReading {
    pub(super) window: usize,
    pub(super) block: usize,
    pub(super) ln: f64,
}

/// Returns the windows, and the readings with the indices of their window and block.
pub(super) fn sorted(readings: &[Reading]) -> (Vec<ByteCount>, Vec<BlockReading>) {
    let readings = readings.iter().filter(|reading| reading.mb_per_s > 0.0);
    let mut windows: Vec<ByteCount> = readings.clone().map(|reading| reading.window).collect();
    windows.sort_unstable();
    windows.dedup();
    let (mut block, mut in_block, mut round) = (0, 0, None);
    let entries = readings.map(|reading| {
        let is_new = round.is_some_and(|round| round != reading.round);
        if is_new && in_block >= BLOCK {
            (block, in_block) = (block + 1, 0);
        }
        (round, in_block) = (Some(reading.round), in_block + 1);
        let window = windows
            .binary_search(&reading.window)
            .expect("`windows` was collected from these readings");
        BlockReading { window, block, ln: reading.mb_per_s.ln() }
    });
    let entries = entries.collect();
    (windows, entries)
}

pub(super) fn values(entries: &[BlockReading], value: impl Fn(&BlockReading) -> f64) -> Vec<f64> {
    entries.iter().map(value).collect()
}

pub(super) fn count(entries: &[BlockReading]) -> u32 {
    u32::try_from(entries.len()).unwrap_or(u32::MAX)
}

pub(super) fn heights(of_window: &[Vec<BlockReading>], levels: &[f64]) -> Vec<f64> {
    let height = |entries: &Vec<BlockReading>| {
        trimmed_mean(&mut values(entries, |entry| entry.ln - levels[entry.block]))
    };
    of_window.iter().map(height).collect()
}

pub(super) fn fastest(entries: &[BlockReading], levels: &[f64]) -> f64 {
    let above = entries.iter().map(|entry| entry.ln - levels[entry.block]);
    above.fold(f64::NEG_INFINITY, f64::max)
}

/// Rounds are merged into blocks of at least this many readings. Smaller blocks estimate their
/// common level no better than the noise of one reading, and would add that error to each.
const BLOCK: usize = 10;
