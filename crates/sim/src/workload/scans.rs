//! Scans that end: range queries, objects, the files of a store that lie in one large file.
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

/// Scans one after the other, each from another place and through the same handle.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scans {
    /// Which file.
    pub file: String,
    /// How much at a time.
    #[serde(default = "Size::page")]
    pub read: Size,
    /// How long they are.
    pub length: RunLength,
    /// How many; without it, until the run stops.
    pub scans: Option<u64>,
    /// To what the places are aligned; without it, to `read`.
    pub align: Option<Size>,
    /// Some places are likelier: the n-th likeliest as 1 / n to the power of this.
    pub zipf: Option<f64>,
    /// Towards the start of the file.
    #[serde(default)]
    pub backwards: bool,
    /// What each read costs on a processor.
    #[serde(default)]
    pub cpu_us: f64,
    /// What it does with each byte, in ns.
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
        check((1..=size.0).contains(&align), "align", "at least a byte, no more than the file")?;
        Places::check(size.0 / align, self.zipf)?;
        check_time(self.cpu_ns_per_byte / 1e6, "cpu_ns_per_byte")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        check(self.scans.is_some() || machine.stops, "scans", "a number, or the scenario until_s")?;
        // Once all that it reads is resident, scans that cost nothing go on and no time passes.
        let takes_time = cpu_ns(self.cpu_us, self.cpu_ns_per_byte, ByteCount(1)) > 0;
        check(self.scans.is_some() || takes_time, "cpu_us", "0.001 at least, or scans a number")
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
