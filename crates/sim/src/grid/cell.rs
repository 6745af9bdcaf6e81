//! One cell of the grid: a device and its readers.

use serde::Serialize;

use crate::scenario::Scenario;

/// Behaviour of a cell's readers and device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GridLoad {
    /// Readers read as fast as they can.
    #[default]
    Full,
    /// Readers process each byte, such that together they read at most 150 MB/s.
    Paced,
    /// As fast as they can; the overhead of each command varies by half.
    Jitter,
    /// As fast as they can; after half a second the command latency triples.
    Slower,
    /// As fast as they can; after half a second the command latency drops to a third.
    Faster,
}

/// One cell: a device and its readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct GridCell {
    /// Latency of a command without its transfer, in microseconds.
    pub latency_us: u32,
    /// Number of commands that the device serves in parallel.
    pub parallel: u32,
    /// Transfer rate of all of them together, in MB/s.
    pub mb_per_s: u32,
    /// Largest command, in KiB.
    pub max_command_kib: u32,
    /// Number of readers: one of 1 GiB, or several of 256 MiB each.
    pub readers: u32,
    /// Behaviour of readers and device.
    pub load: GridLoad,
}

impl GridCell {
    /// Returns the 48 devices of the grid, each with one reader and with `several`.
    #[must_use]
    pub fn all(several: u32, load: GridLoad) -> Vec<Self> {
        let mut cells = Vec::new();
        for latency_us in [150, 1_000, 7_000, 45_000] {
            for parallel in [1, 8, 48] {
                for mb_per_s in [180, 1200] {
                    for max_command_kib in [256, 1024] {
                        for readers in [1, several] {
                            let cell = Self {
                                latency_us,
                                parallel,
                                mb_per_s,
                                max_command_kib,
                                readers,
                                load,
                            };
                            cells.push(cell);
                        }
                    }
                }
            }
        }
        cells
    }

    /// Returns the name of the device: `45ms-48x-1200MB-1024K`.
    #[must_use]
    pub fn device(&self) -> String {
        let Self { latency_us, parallel, mb_per_s, max_command_kib, .. } = self;
        let ms = f64::from(*latency_us) / 1e3;
        format!("{ms}ms-{parallel}x-{mb_per_s}MB-{max_command_kib}K")
    }

    /// Returns the total bytes of all readers.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        (self.file_mib() * u64::from(self.readers)) << 20
    }

    fn file_mib(&self) -> u64 {
        if self.readers == 1 { 1024 } else { 256 }
    }

    /// Builds the scenario of the cell; the caller sets the policy.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let flash = |latency_us: u32| {
            let jitter = if self.load == GridLoad::Jitter { ", jitter = 0.5" } else { "" };
            format!(
                "{{ capacity = \"64G\", mb_per_s = {}, overhead_us = {latency_us}, \
                 max_command = \"{}K\", channels = {}, depth = {DEPTH}{jitter} }}",
                self.mb_per_s, self.max_command_kib, self.parallel
            )
        };
        let becomes = match self.load {
            GridLoad::Slower => Some(self.latency_us * 3),
            GridLoad::Faster => Some(self.latency_us / 3),
            GridLoad::Full | GridLoad::Paced | GridLoad::Jitter => None,
        };
        let change = becomes.map_or_else(String::new, |latency_us| {
            format!("[[device.disk.change]]\nat_s = 0.5\nmodel.flash = {}\n", flash(latency_us))
        });
        let mut text = format!(
            "name = \"a cell of the grid\"\n[cache]\nmemory = \"1G\"\n[device.disk]\n\
             model.flash = {}\n{change}",
            flash(self.latency_us)
        );
        let mib = self.file_mib();
        for reader in 0..self.readers {
            let at = u64::from(reader) * mib;
            text += &format!(
                "[file.f{reader}]\ndevice = \"disk\"\nat = \"{at}M\"\nsize = \"{mib}M\"\n"
            );
        }
        let pace = match self.load {
            GridLoad::Paced => {
                let ns_per_byte = 1e3 / (PACED_MB_PER_S / f64::from(self.readers));
                format!(", cpu_ns_per_byte = {ns_per_byte}")
            }
            GridLoad::Full | GridLoad::Jitter | GridLoad::Slower | GridLoad::Faster => {
                String::new()
            }
        };
        for reader in 0..self.readers {
            text += &format!(
                "[[process]]\nname = \"reader-{reader}\"\n\
                 run.sequential = {{ file = \"f{reader}\", read = \"64K\"{pace} }}\n"
            );
        }
        Scenario::built_in(&text)
    }
}

/// Queue depth of a device of the grid.
const DEPTH: u32 = 64;

/// Combined rate of paced readers.
const PACED_MB_PER_S: f64 = 150.0;
