//! A reader of one stream, like `dd`, `cat` or a table scan.

use std::ops::Range;

use foreread_core::prefetch::Advice;
use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::pace::due;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::reader::SimReader;
use crate::size::Size;
use crate::time::{check_time, ns_of_ms};
use crate::validate::check;

/// Reads a file sequentially.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequential {
    /// File to read. `{n}` stands for the number of the process, if there are several.
    pub file: String,
    /// Read size.
    #[serde(default = "Size::page")]
    pub read: Size,
    /// Total bytes; by default, to the end of the file.
    pub amount: Option<Size>,
    /// Start offset.
    #[serde(default)]
    pub from: Size,
    /// Distance between the starts of two reads, if larger than a read: a column of a table, or
    /// every n-th record.
    pub stride: Option<Size>,
    /// Read from the end towards the start.
    #[serde(default)]
    pub backwards: bool,
    /// CPU time per byte, in ns.
    #[serde(default)]
    pub cpu_ns_per_byte: f64,
    /// CPU time per read, in addition.
    #[serde(default)]
    pub cpu_us: f64,
    /// Rate limit in KiB/s: each read waits until it is due.
    pub kib_per_s: Option<f64>,
    /// Drop each page from the cache once it is read, like `posix_fadvise` with `DONTNEED`.
    #[serde(default)]
    pub drops_behind: bool,
    /// Advice on its access pattern.
    #[serde(default)]
    pub advice: AdviceName,
}

/// Advice by name.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// No advice.
    #[default]
    Normal,
    /// Sequential access.
    Sequential,
    /// Random access.
    Random,
}

impl From<AdviceName> for Advice {
    fn from(name: AdviceName) -> Self {
        match name {
            AdviceName::Normal => Self::Normal,
            AdviceName::Sequential => Self::Sequential,
            AdviceName::Random => Self::Random,
        }
    }
}

impl Sequential {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        machine.file(&self.file_name(0))?;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        check(self.step() >= self.read.0, "stride", "at least read")?;
        check_time(self.cpu_ns_per_byte / 1e6, "cpu_ns_per_byte")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        let rate = self.kib_per_s.unwrap_or(1.0);
        check(rate.is_finite() && (1e-3..=1e9).contains(&rate), "kib_per_s", "0.001 to 10^9")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        index: u32,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.file_name(index))?;
        let params = self.clone();
        building.begin(name, start, async move |process: Process| {
            let reader = process.open(file);
            params.live(&process, &reader).await;
        });
        Ok(())
    }

    fn file_name(&self, index: u32) -> String {
        self.file.replace("{n}", &index.to_string())
    }

    async fn live(&self, process: &Process, reader: &SimReader) {
        if self.advice != AdviceName::Normal {
            reader.advise(self.advice.into());
        }
        let from = self.from.0.min(reader.len());
        let end =
            self.amount.map_or(reader.len(), |amount| from + amount.0.min(reader.len() - from));
        let began = process.now();
        let mut done = ByteCount::ZERO;
        for turn in 0..(end - from).0.div_ceil(self.step().0) {
            if let Some(kib_per_s) = self.kib_per_s {
                process.until(due(began, done, kib_per_s)).await;
            }
            let pos = self.place(from..end, turn);
            let part = self.read.0.min(end - pos);
            let Ok(got) = reader.read(pos, part).await else { return };
            if self.drops_behind {
                reader.forget_read(pos, got);
            }
            done += got;
            process.pass_ns(cpu_ns(self.cpu_us, self.cpu_ns_per_byte, got)).await;
        }
    }

    fn step(&self) -> ByteCount {
        self.stride.map_or(self.read.0, |stride| stride.0)
    }

    /// Returns the position of the n-th read. A backward reader starts with the partial step, if
    /// any.
    fn place(&self, range: Range<ByteCount>, turn: u64) -> ByteCount {
        let turns = (range.end - range.start).0.div_ceil(self.step().0);
        let steps = if self.backwards { turns - 1 - turn } else { turn };
        ByteCount(range.start.0 + steps * self.step().0)
    }
}

/// Returns the CPU time of a read, in ns.
#[expect(clippy::cast_precision_loss, reason = "a read is small")]
pub(super) fn cpu_ns(cpu_us: f64, cpu_ns_per_byte: f64, got: ByteCount) -> u64 {
    ns_of_ms((cpu_us * 1e3 + cpu_ns_per_byte * got.0 as f64) / 1e6)
}
