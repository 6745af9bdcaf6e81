//! A server of large files: many clients behind one link, each with a separate file and rate.
//!
//! ```text
//!   client-0   8 KiB/s  --.                        .-- file 0
//!   client-1  24 KiB/s  ---+-- link --[ cache ]-- disk -- file 1
//!   client-2 512 KiB/s  --'                        '-- file 2
//! ```
//!
//! Fast clients pull their windows through the cache and evict pages that slow clients have not yet
//! reached. Those pages are read twice, which is counted per client.

use foreread_core::units::{ByteCount, MAX_FILE_BYTES, Nanos, Sector};
use serde::Deserialize;

use super::pace::{Pace, RateChange};
use super::rates::{Rates, is_rate};
use crate::channel::BandwidthLink;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::run::SimFile;
use crate::size::Size;
use crate::time::{check_time, ns_of_ms};
use crate::validate::check;

/// Server and its clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streaming {
    /// Device that holds the files, one after the other.
    pub device: String,
    /// Size of each file.
    pub file_size: Size,
    /// Bytes that each client reads of its file; by default, all.
    pub amount: Option<Size>,
    /// Rate of each client, in KiB/s; the number of rates is the number of clients.
    pub kib_per_s: Rates,
    /// Number of additional clients that share the rest of the link.
    #[serde(default)]
    pub fast_clients: u32,
    /// Size of the server's reads and sends.
    #[serde(default = "chunk")]
    pub read: Size,
    /// Bandwidth of the link, shared by all clients; by default, unlimited.
    pub link_kib_per_s: Option<f64>,
    /// Period over which the clients arrive, one after the other.
    #[serde(default)]
    pub come_within_s: f64,
    /// Times at which all rates change.
    #[serde(default)]
    pub changes: Vec<RateChange>,
    /// If true, a late client reads its backlog as fast as it can; otherwise it stays behind.
    #[serde(default = "yes")]
    pub catches_up: bool,
}

/// A client of a server, as given by the scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Name of its process.
    pub name: String,
    /// Initial rate.
    pub kib_per_s: f64,
    /// Arrival time.
    pub comes: Nanos,
}

impl Streaming {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        let capacity = machine.device(&self.device)?.capacity();
        self.kib_per_s.check()?;
        let clients = self.kib_per_s.all().len() as u64 + u64::from(self.fast_clients);
        check(
            (1..=100_000).contains(&clients),
            "kib_per_s",
            "given for 1 to 100000 clients in all",
        )?;
        check(self.link_kib_per_s.is_none_or(is_rate), "link_kib_per_s", "0.001 to 10^9")?;
        let is_room_left = self.fast_clients == 0 || is_rate(self.fast_kib_per_s());
        check(is_room_left, "link_kib_per_s", "more than the sum of the clients' rates")?;
        RateChange::check_all(&self.changes)?;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        let is_whole =
            self.file_size.0.0.is_multiple_of(4096) && self.file_size.0 > ByteCount::ZERO;
        check(is_whole, "file_size", "a positive multiple of 4K")?;
        check(self.file_size.0 <= MAX_FILE_BYTES, "file_size", "less than 2^63 bytes")?;
        let all = self.file_size.0.0.checked_mul(clients);
        check(
            all.is_some_and(|all| all <= capacity.0),
            "file_size",
            "small enough for all files to fit the device",
        )?;
        check_time(self.come_within_s * 1e3, "come_within_s")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let device = building.device(&self.device)?;
        let link = self.link_kib_per_s.map(|rate| BandwidthLink::new(rate * 1024.0 / 1e6));
        for (index, client) in self.clients(name, start).into_iter().enumerate() {
            let first = Sector(index as u64 * (self.file_size.0.0 / 512));
            let file = building.run.try_file(device, first, self.file_size.0)?;
            let (link, server) = (link.clone(), self.clone());
            building.begin(&client.name, client.comes, async move |process: Process| {
                server.serve(&process, file, client.kib_per_s, link.as_deref()).await;
            });
        }
        Ok(())
    }

    /// Returns all clients of a server process with this name, which starts at `start`.
    #[must_use]
    pub fn clients(&self, name: &str, start: Nanos) -> Vec<Client> {
        let fast = std::iter::repeat_n(self.fast_kib_per_s(), self.fast_clients as usize);
        let rates: Vec<f64> = self.kib_per_s.all().into_iter().chain(fast).collect();
        let gap_ns = ns_of_ms(self.come_within_s * 1e3) / rates.len() as u64;
        let client = |(index, kib_per_s)| {
            let comes = Nanos(start.0 + index as u64 * gap_ns);
            Client { name: format!("{name}-{index}"), kib_per_s, comes }
        };
        rates.into_iter().enumerate().map(client).collect()
    }

    /// Returns the number of bytes that a client needs between two times, if it never waits.
    #[must_use]
    pub fn due_between(&self, client: &Client, from: Nanos, until: Nanos) -> f64 {
        let pace = Pace::new(client.kib_per_s, &self.changes, client.comes, self.catches_up);
        let bytes_at = |at| (pace.kib_at(at) * 1024.0).min(self.taken().0 as f64);
        bytes_at(until) - bytes_at(from)
    }

    /// Returns the number of bytes of its file that a client reads.
    #[must_use]
    pub fn taken(&self) -> ByteCount {
        self.amount.map_or(self.file_size.0, |amount| amount.0.min(self.file_size.0))
    }

    /// Returns the rate of each client without an explicit one.
    fn fast_kib_per_s(&self) -> f64 {
        let left = self.link_kib_per_s.unwrap_or(0.0) - self.kib_per_s.all().iter().sum::<f64>();
        left / f64::from(self.fast_clients.max(1))
    }

    /// Serves one client. Its meter reports `read_twice`, the number of pages requested from the
    /// device again, and `latest_ms`, the largest delay of a read's end after its due time.
    async fn serve(
        &self,
        process: &Process,
        file: SimFile,
        kib_per_s: f64,
        link: Option<&BandwidthLink>,
    ) {
        let reader = process.open(file);
        let mut pace = Pace::new(kib_per_s, &self.changes, process.now(), self.catches_up);
        let (mut pos, mut latest_ns) = (ByteCount::ZERO, 0);
        while pos < self.taken() {
            let due = pace.due(pos);
            process.until(due).await;
            let Ok(got) = reader.read(pos, self.read.0.min(self.taken() - pos)).await else {
                return;
            };
            if let Some(link) = link {
                link.send(process, got).await;
            }
            latest_ns = latest_ns.max(process.now().0.saturating_sub(due.0));
            pos += got;
            pace.has(pos, process.now());
            let twice = reader.read_twice();
            process.meter(|meter, _| {
                meter.other.insert("read_twice", twice.0 as f64);
                meter.other.insert("latest_ms", latest_ns as f64 / 1e6);
            });
        }
    }
}

fn chunk() -> Size {
    Size(ByteCount(64 << 10))
}

fn yes() -> bool {
    true
}
