//! Finite scans: range queries, objects, the files of a store packed into one large file.
//!
//! ```text
//!   a file      ----|=====>|-------|==>|--------------|========>|----
//!                   place, length      the next, anywhere
//! ```

use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::places::Places;
use super::run_length::RunLength;
use super::sequential::cpu_ns;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::rng::Rng;
use crate::run::SimFile;
use crate::size::Size;
use crate::time::check_time;
use crate::validate::check;

/// Consecutive scans, each from a new position, through the same handle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scans {
    /// File to read.
    pub file: String,
    /// Read size.
    #[serde(default = "Size::page")]
    pub read: Size,
    /// Length of a scan.
    pub length: RunLength,
    /// Number of scans; by default, until the run stops.
    pub scans: Option<u64>,
    /// Alignment of the start positions; by default, `read`.
    pub align: Option<Size>,
    /// Zipf power: the n-th most frequent position has weight 1 / n^power.
    pub zipf: Option<f64>,
    /// Scan towards the start of the file.
    #[serde(default)]
    pub backwards: bool,
    /// CPU time per read.
    #[serde(default)]
    pub cpu_us: f64,
    /// CPU time per byte, in ns.
    #[serde(default)]
    pub cpu_ns_per_byte: f64,
}

impl Scans {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        let file = machine.file(&self.file)?;
        let size = file.size.0;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        self.length.check(size)?;
        let align = self.align().0;
        check(
            (1..=size.0).contains(&align),
            "align",
            "at least a byte and at most the size of the file",
        )?;
        Places::check(size.0 / align, self.zipf)?;
        check_time(self.cpu_ns_per_byte / 1e6, "cpu_ns_per_byte")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        check(
            self.scans.is_some() || machine.stops,
            "scans",
            "set, unless the scenario has until_s",
        )?;
        // Once everything is resident, scans without cost would loop forever at the same virtual
        // time.
        let takes_time = cpu_ns(self.cpu_us, self.cpu_ns_per_byte, ByteCount(1)) > 0;
        check(self.scans.is_some() || takes_time, "cpu_us", "at least 0.001, unless scans is given")
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
            params.live(&process, file, rng).await;
        });
        Ok(())
    }

    async fn live(&self, process: &Process, file: SimFile, mut rng: Rng) {
        let reader = process.open(file);
        let places = Places::new(file.len.0 / self.align().0, self.zipf);
        for _ in 0..self.scans.unwrap_or(u64::MAX) {
            let length = self.length.draw(&mut rng, file.len);
            let first =
                ByteCount((places.draw(&mut rng) * self.align().0).min(file.len.0 - length.0));
            let mut done = ByteCount::ZERO;
            while done < length {
                let part = self.read.0.min(length - done);
                let pos =
                    if self.backwards { first + (length - done - part) } else { first + done };
                if reader.read(pos, part).await.is_err() {
                    return;
                }
                done += part;
                process.pass_ns(cpu_ns(self.cpu_us, self.cpu_ns_per_byte, part)).await;
            }
        }
    }

    fn align(&self) -> ByteCount {
        self.align.unwrap_or(self.read).0
    }
}
