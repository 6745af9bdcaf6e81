//! A reader of one stream: `dd`, `cat`, a scan.

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

/// Reads a file from `from` on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequential {
    /// Which file. `{n}` in it is the number of the process, of several.
    pub file: String,
    /// How much at a time.
    #[serde(default = "Size::page")]
    pub read: Size,
    /// How much in all; without it, to the end.
    pub amount: Option<Size>,
    /// From where.
    #[serde(default)]
    pub from: Size,
    /// From one read's start to the next one's, if that is not where the read ends: a column of a
    /// table, every n-th record.
    pub stride: Option<Size>,
    /// From the end towards the start.
    #[serde(default)]
    pub backwards: bool,
    /// What it does with each byte, in ns.
    #[serde(default)]
    pub cpu_ns_per_byte: f64,
    /// What each read costs beside.
    #[serde(default)]
    pub cpu_us: f64,
    /// No faster than this, in KiB/s: it waits before each read until it is due.
    pub kib_per_s: Option<f64>,
    /// It lets the cache forget each page once it has read it, as `posix_fadvise` with `DONTNEED`.
    #[serde(default)]
    pub drops_behind: bool,
    /// What it says of how it will read.
    #[serde(default)]
    pub advice: AdviceName,
}

/// Advice by its name.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceName {
    /// Nothing.
    #[default]
    Normal,
    /// From one end to the other.
    Sequential,
    /// Anywhere.
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
        check(self.step() >= self.read.0, "stride", "no less than read")?;
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

    /// Where it reads at its n-th turn. Backwards it begins with what may be less than a step.
    fn place(&self, range: Range<ByteCount>, turn: u64) -> ByteCount {
        let turns = (range.end - range.start).0.div_ceil(self.step().0);
        let steps = if self.backwards { turns - 1 - turn } else { turn };
        ByteCount(range.start.0 + steps * self.step().0)
    }
}

/// What a read costs on a processor.
#[expect(clippy::cast_precision_loss, reason = "a read is small")]
pub(super) fn cpu_ns(cpu_us: f64, cpu_ns_per_byte: f64, got: ByteCount) -> u64 {
    ns_of_ms((cpu_us * 1e3 + cpu_ns_per_byte * got.0 as f64) / 1e6)
}
