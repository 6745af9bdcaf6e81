//! A flood of writes beside a chain of reads: how long each waits, in several ways.
//!
//! In:    a target to overwrite, the ways to reach its device.
//! Out:   [`Row`]s: what each way gives the chain and the writers.
//! Never: a byte outside the target, or in one that is mounted; a scheduler of the kernel's that
//!        stays behind.
//!
//! ```text
//!   the target   |<-- a quarter -->|<--------- three quarters ---------->|
//!   the chain     4 KiB, then the next: where it is depends on what was read
//!   64 writers                      64 KiB anywhere, one write each, 64 at any time
//! ```
//!
//! What the figures mean: docs/bench.md.

mod handle;
mod row;
mod run;
mod target;

use std::cell::OnceCell;
use std::io;
use std::time::Duration;

use foreread::Delay;
use foreread_tune::hold::TemporarySettings;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use indicatif::ProgressBar;

use super::holder;
pub(crate) use handle::Ours;
pub(crate) use row::{HEADING, Row};
use run::Taken;
pub(crate) use target::Victim;

/// One way to reach the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// `O_DIRECT`, with this scheduler of the kernel's, or with the one in force.
    Direct { scheduler: Option<String> },
    /// Through foreread.
    Foreread,
}

impl Way {
    /// As the command line has it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Direct { scheduler: None } => "direct".to_owned(),
            Self::Direct { scheduler: Some(name) } => format!("direct:{name}"),
            Self::Foreread => "foreread".to_owned(),
        }
    }
}

/// What is measured.
pub(crate) struct Flood<'a> {
    pub(crate) victim: &'a Victim,
    pub(crate) ways: &'a [Way],
    pub(crate) delay: Option<Delay>,
    pub(crate) ours: Ours,
    pub(crate) runs: u32,
    /// How long the flood lasts at least, once it has begun.
    pub(crate) time: Duration,
}

impl Flood<'_> {
    /// All ways in turns, and another one begins each round: A B C, B C A, C A B.
    pub(crate) fn measure(&self, bar: &ProgressBar) -> io::Result<Vec<Row>> {
        let kernel = Kernel::new(self.victim.disk.clone());
        for way in self.ways {
            // Before a byte is written: a device without this scheduler refuses it.
            kernel.use_scheduler_of(way)?;
        }
        let mut taken: Vec<Vec<Taken>> = self.ways.iter().map(|_| Vec::new()).collect();
        let mut schedulers: Vec<Option<String>> = vec![None; self.ways.len()];
        for round in 0..self.runs as usize {
            for turn in 0..self.ways.len() {
                let at = (round + turn) % self.ways.len();
                let way = &self.ways[at];
                bar.set_message(way.name());
                kernel.use_scheduler_of(way)?;
                schedulers[at] = kernel.scheduler();
                let opened = handle::open(way, self.victim, self.delay, &self.ours)?;
                // Other places each time, lest a cache below the kernel favours the next run.
                let seed = (round * self.ways.len() + at) as u64;
                taken[at].push(run::run(opened, self.victim.len, self.time, seed)?);
                bar.inc(1);
            }
        }
        let of_way = self.ways.iter().zip(taken).zip(schedulers);
        Ok(of_way.map(|((way, taken), scheduler)| Row::new(way, scheduler, &taken)).collect())
    }
}

/// The kernel's scheduler below the target.
struct Kernel {
    disk: Option<String>,
    held: OnceCell<TemporarySettings>,
}

impl Kernel {
    fn new(disk: Option<String>) -> Self {
        Self { disk, held: OnceCell::new() }
    }

    /// Sets the scheduler that a way wants; all others get the one that was there.
    fn use_scheduler_of(&self, way: &Way) -> io::Result<()> {
        let Way::Direct { scheduler: Some(name) } = way else {
            return self.held.get().map_or(Ok(()), |held| held.restore().map(drop));
        };
        let refused = |why: &dyn std::fmt::Display| {
            io::Error::other(format!("{} cannot be had: {why}", way.name()))
        };
        let disk = self.disk.clone();
        let device = disk.ok_or_else(|| refused(&"no disk of the kernel's lies below"))?;
        let setting =
            DeviceSetting { device, attribute: SCHEDULER.to_owned(), value: name.clone() };
        if self.held.get().is_none() {
            let _ = self.held.set(holder()?);
        }
        let held = self.held.get().expect("it was set above");
        held.set(&setting).map_err(|error| refused(&error))
    }

    /// What is in force now.
    fn scheduler(&self) -> Option<String> {
        let (device, attribute) = (self.disk.clone()?, SCHEDULER.to_owned());
        DeviceSetting { device, attribute, value: String::new() }.in_force(&SystemRoot::here())
    }
}

const SCHEDULER: &str = "queue/scheduler";
