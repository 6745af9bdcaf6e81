//! Flood of writes next to a chain of reads: latency of both by several access methods.
//!
//! Writes stay within the target, which must not be mounted. The kernel's scheduler is restored.
//!
//! ```text
//!   the target   |<-- a quarter -->|<--------- three quarters ---------->|
//!   the chain     4 KiB, then the next: its offset depends on the data read
//!   64 writers                      64 KiB anywhere, one write each, 64 at any time
//! ```
//!
//! docs/guide/bench.md explains the figures.

mod handle;
mod kernel_disk;
mod method;
mod row;
mod run;
mod target;

use std::io;
use std::time::Duration;

use foreread::lab::Delay;
use indicatif::ProgressBar;

pub use handle::FloodSettings;
use kernel_disk::KernelDisk;
pub use method::FloodMethod;
pub use row::{FloodRow, HEADING};
use run::FloodRun;
pub use target::FloodTarget;

/// Parameters of a flood.
pub struct Flood<'a> {
    pub target: &'a FloodTarget,
    pub methods: &'a [FloodMethod],
    pub delay: Option<Delay>,
    pub ours: FloodSettings,
    pub runs: u32,
    /// Minimum duration of the flood.
    pub time: Duration,
}

impl Flood<'_> {
    /// Measures all methods in rounds; each round begins with another one: A B C, B C A, C A B.
    pub fn measure(&self, bar: &ProgressBar) -> io::Result<Vec<FloodRow>> {
        let kernel = KernelDisk::new(self.target.disk.clone());
        for method in self.methods {
            // Before a byte is written: a device without this scheduler refuses it.
            kernel.use_scheduler_of(method)?;
        }
        let mut taken: Vec<Vec<FloodRun>> = self.methods.iter().map(|_| Vec::new()).collect();
        let mut schedulers: Vec<Option<String>> = vec![None; self.methods.len()];
        for round in 0..self.runs as usize {
            for turn in 0..self.methods.len() {
                let at = (round + turn) % self.methods.len();
                let method = &self.methods[at];
                bar.set_message(method.name());
                kernel.use_scheduler_of(method)?;
                schedulers[at] = kernel.scheduler();
                let opened = handle::open(method, self.target, self.delay, &self.ours)?;
                // Other places each time, lest a cache below the kernel favours the next run.
                let seed = (round * self.methods.len() + at) as u64;
                taken[at].push(run::run(opened, self.target.len, self.time, seed)?);
                bar.inc(1);
            }
        }
        let of_method = self.methods.iter().zip(taken).zip(schedulers);
        Ok(of_method
            .map(|((method, taken), scheduler)| FloodRow::new(method, scheduler, &taken))
            .collect())
    }
}
