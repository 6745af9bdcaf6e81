//! Row of the flood's table for one method.

use serde::Serialize;

use super::super::figures::Spread;
use super::method::FloodMethod;
use super::run::{CHAIN, FloodRun};

/// All runs of one method.
#[derive(Debug, Serialize)]
pub struct FloodRow {
    pattern: &'static str,
    pub method: String,
    /// The kernel's scheduler below; null where there is no disk of the kernel's.
    scheduler: Option<String>,
    runs: usize,
    reads_per_chain: u32,
    chain_alone_ms: Spread,
    chain_ms: Spread,
    /// Ratio of the chain's time with the flood to without it.
    chain_times: Spread,
    writers_alone_mb_per_s: Spread,
    /// Rate of the writers during the chain, in percent of their rate alone in the same run.
    writers_during_percent: Spread,
    writers_after_percent: Spread,
    longest_write_ms: Spread,
}

impl FloodRow {
    pub(super) fn new(method: &FloodMethod, scheduler: Option<String>, taken: &[FloodRun]) -> Self {
        let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        let percent = |part: f64, taken: &FloodRun| part / taken.written_alone * 1e2;
        Self {
            pattern: "flood",
            method: method.name(),
            scheduler,
            runs: taken.len(),
            reads_per_chain: CHAIN,
            chain_alone_ms: Spread::of(taken, |run| ms(run.chain_alone)),
            chain_ms: Spread::of(taken, |run| ms(run.chain)),
            chain_times: Spread::of(taken, |run| ms(run.chain) / ms(run.chain_alone)),
            writers_alone_mb_per_s: Spread::of(taken, |run| run.written_alone / 1e6),
            writers_during_percent: Spread::of(taken, |run| percent(run.written_during, run)),
            writers_after_percent: Spread::of(taken, |run| percent(run.written_after, run)),
            longest_write_ms: Spread::of(taken, |run| ms(run.longest_write)),
        }
    }

    /// Returns the cells of a table row.
    pub fn cells(&self) -> [String; 8] {
        [
            self.method.clone(),
            self.chain_alone_ms.shown(),
            self.chain_ms.shown(),
            self.chain_times.shown(),
            self.writers_alone_mb_per_s.shown(),
            self.writers_during_percent.shown(),
            self.writers_after_percent.shown(),
            self.longest_write_ms.shown(),
        ]
    }
}

/// Headings of the columns.
pub const HEADING: [&str; 8] = [
    "method",
    "chain alone, ms",
    "with flood, ms",
    "times",
    "writers alone, MB/s",
    "with chain, %",
    "after, %",
    "longest write, ms",
];
