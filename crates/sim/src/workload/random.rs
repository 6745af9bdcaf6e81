//! A random reader: fio's `randread`, or look-ups of a database.

use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, Sectors};
use serde::Deserialize;

use super::places::Places;
use super::sequential::cpu_ns;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::rng::Rng;
use crate::run::SimFile;
use crate::size::Size;
use crate::time::check_time;
use crate::validate::check;

/// Reads at uniformly distributed positions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// File to read.
    pub file: String,
    /// Read size and alignment.
    pub read: Size,
    /// Number of reads; by default, until the run stops.
    pub reads: Option<u64>,
    /// Zipf power: the n-th most frequent position has weight 1 / n^power.
    pub zipf: Option<f64>,
    /// Bypass the cache, as with `O_DIRECT`.
    #[serde(default)]
    pub direct: bool,
    /// Write instead; only when bypassing the cache.
    #[serde(default)]
    pub write: bool,
    /// CPU time per read.
    #[serde(default)]
    pub cpu_us: f64,
    /// CPU time per byte, in ns.
    #[serde(default)]
    pub cpu_ns_per_byte: f64,
}

impl Random {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        let file = machine.file(&self.file)?;
        let read = self.read.0;
        check(
            read.0 > 0 && read.0.is_multiple_of(512),
            "read",
            "a positive multiple of 512 bytes",
        )?;
        check(read <= file.size.0, "read", "at most the size of the file")?;
        if self.direct {
            machine.check_request(file.device.get_ref(), read, "read")?;
        }
        check(self.direct || !self.write, "write", "false without direct = true")?;
        Places::check(file.size.0.0 / read.0, self.zipf)?;
        check_time(self.cpu_ns_per_byte / 1e6, "cpu_ns_per_byte")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        let ends = self.reads.is_some() || machine.stops;
        check(ends, "reads", "set, unless the scenario has until_s")?;
        // Once everything is resident, reads without cost would loop forever at the same virtual
        // time.
        let takes_time = self.direct || self.cpu_ns() > 0 || file.size.0 > machine.memory;
        let ends = self.reads.is_some() || takes_time;
        check(ends, "cpu_us", "more than 0, or reads be given, for a file that fits the cache")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.file)?;
        let params = self.clone();
        let own = name.to_owned();
        building.begin(name, start, async move |process: Process| {
            let rng = process.rng(&own);
            if params.direct {
                params.direct(&process, file, rng).await;
            } else {
                params.cached(&process, file, rng).await;
            }
        });
        Ok(())
    }

    async fn direct(&self, process: &Process, file: SimFile, mut rng: Rng) {
        let op = if self.write { Op::Write } else { Op::Read };
        let sectors = Sectors(self.read.0.0 / 512);
        let places = self.places(file);
        for _ in 0..self.reads.unwrap_or(u64::MAX) {
            let start = file.start + Sectors(self.place(&places, &mut rng).0 / 512);
            let done = process.direct(file.device, op, start, sectors).await;
            if done.is_err() {
                return;
            }
            process.pass_ns(self.cpu_ns()).await;
        }
    }

    async fn cached(&self, process: &Process, file: SimFile, mut rng: Rng) {
        let reader = process.open(file);
        let places = self.places(file);
        for _ in 0..self.reads.unwrap_or(u64::MAX) {
            if reader.read(self.place(&places, &mut rng), self.read.0).await.is_err() {
                return;
            }
            process.pass_ns(self.cpu_ns()).await;
        }
    }

    fn cpu_ns(&self) -> u64 {
        cpu_ns(self.cpu_us, self.cpu_ns_per_byte, self.read.0)
    }

    fn places(&self, file: SimFile) -> Places {
        Places::new(file.len.0 / self.read.0.0, self.zipf)
    }

    fn place(&self, places: &Places, rng: &mut Rng) -> ByteCount {
        ByteCount(places.draw(rng) * self.read.0.0)
    }
}
