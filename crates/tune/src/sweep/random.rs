//! Measures the latency of single random reads by size. Sizes of which a few reads do not fit the
//! time share are skipped.

use foreread_core::units::ByteCount;

use super::step::nanos;
use super::{SweepActivity, SweepRun};
use crate::plateau::robust::median;
use crate::probe::{RandomReads, Stopped};
use crate::report::Latency;

/// Largest size: beyond it the transfer dominates, which the sweep measures.
const LARGEST: ByteCount = ByteCount(1 << 20);

/// Passes over all sizes: load from another process then disturbs one pass, not one size.
const TURNS: u32 = 4;

/// Reads of a size in one pass.
const READS: u32 = 12;

impl SweepRun<'_> {
    /// Reads all sizes, in several passes.
    pub(super) fn random_reads(&mut self) -> Result<(), Stopped> {
        let share_ns = self.settings.random().as_nanos() as f64;
        let mut sizes = self.sizes(share_ns);
        if sizes.is_empty() {
            return Ok(());
        }
        let began_ns = self.elapsed_ns();
        for _ in 0..TURNS {
            self.rng.shuffle(&mut sizes);
            for size in sizes.clone() {
                let left_ns = (share_ns - (self.elapsed_ns() - began_ns)).min(self.left_ns());
                if left_ns <= 0.0 {
                    return Ok(());
                }
                self.tell(SweepActivity::Random(size));
                let turn_ns = share_ns / f64::from(TURNS) / sizes.len() as f64;
                let at_most = nanos(left_ns.min(2.0 * turn_ns));
                let taken = self.probe.random(&RandomReads { size, count: READS, at_most })?;
                self.is_drained = false;
                self.latencies.entry(size).or_default().extend(taken);
            }
        }
        Ok(())
    }

    /// Returns the sizes that fit: powers of two, or of four in a quick sweep.
    fn sizes(&self, share_ns: f64) -> Vec<ByteCount> {
        let factor = if self.is_quick() { 4 } else { 2 };
        let next = |size: &ByteCount| Some(ByteCount(size.0 * factor));
        let fits = |size: &ByteCount| {
            let transfer_ns = size.0 as f64 * 1e3 / self.speed(*size);
            *size <= LARGEST && size.0 * 8 <= self.settings.size.0 && transfer_ns * 16.0 < share_ns
        };
        std::iter::successors(Some(self.settings.smallest), next).take_while(fits).collect()
    }

    /// Returns the latencies by size.
    pub(super) fn latencies(&self) -> Vec<Latency> {
        let found = self.latencies.iter().filter(|(_, taken)| !taken.is_empty());
        let latency = |(size, taken): (&ByteCount, &Vec<u64>)| {
            let mut us: Vec<f64> = taken.iter().map(|ns| *ns as f64 / 1e3).collect();
            let median_us = median(&mut us);
            // The samples are sorted now.
            let p90_us = us[(us.len() * 9).div_ceil(10) - 1];
            let reads = u32::try_from(us.len()).unwrap_or(u32::MAX);
            Latency { size_kib: size.0 / 1024, median_us, p90_us, reads }
        };
        found.map(latency).collect()
    }
}
