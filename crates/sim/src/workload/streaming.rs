//! A server of large files: many clients, each with a file and a rate of its own, behind one link.
//!
//! ```text
//!   client-0   8 KiB/s  --.                        .-- file 0
//!   client-1  24 KiB/s  ---+-- link --[ cache ]-- disk -- file 1
//!   client-2 512 KiB/s  --'                        '-- file 2
//! ```
//!
//! Fast clients pull their windows through the cache and push out those that slow ones have not
//! come to yet. What was pushed out has to be read twice: that is counted for each client.

use std::rc::Rc;

use foreread_core::units::{Bytes, Instant, MAX_FILE_BYTES, Sector};
use serde::Deserialize;

use super::{check, due};
use crate::process::{Link, Process};
use crate::run::SimFile;
use crate::scenario::{Building, Scenario, unknown};
use crate::size::Size;

/// Clients of one server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streaming {
    /// On which device the files lie, one behind the other.
    pub device: String,
    /// How long each file is.
    pub file_size: Size,
    /// How fast each client takes its file, in KiB/s; so many clients as there are rates.
    pub kib_per_s: Vec<f64>,
    /// How many more clients share what the link has left.
    #[serde(default)]
    pub fast_clients: u32,
    /// How much the server reads and sends at a time.
    #[serde(default = "chunk")]
    pub read: Size,
    /// What the link moves, for all clients together.
    pub link_kib_per_s: f64,
    /// Clients come one after the other, all of them within this time.
    #[serde(default)]
    pub come_within_s: f64,
}

impl Streaming {
    pub(super) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        let devices = &scenario.device;
        let Some(device) = devices.get(&self.device) else {
            return Err(unknown("device", &self.device, devices.keys()));
        };
        let clients = self.kib_per_s.len() as u64 + u64::from(self.fast_clients);
        check((1..=100_000).contains(&clients), "kib_per_s", "1 to 100000 clients in all")?;
        let is_rate = |rate: &f64| rate.is_finite() && (1e-3..=1e9).contains(rate);
        check(self.kib_per_s.iter().all(is_rate), "kib_per_s", "0.001 to 10^9")?;
        check(is_rate(&self.link_kib_per_s), "link_kib_per_s", "0.001 to 10^9")?;
        let is_room_left = self.fast_clients == 0 || is_rate(&self.fast_kib_per_s());
        check(is_room_left, "link_kib_per_s", "more than what the clients with a rate take")?;
        check(self.read.0 > Bytes::ZERO, "read", "at least a byte")?;
        let is_whole = self.file_size.0.0.is_multiple_of(4096) && self.file_size.0 > Bytes::ZERO;
        check(is_whole, "file_size", "whole pages of 4K, at least one")?;
        check(self.file_size.0 <= MAX_FILE_BYTES, "file_size", "less than 2^63 bytes")?;
        let capacity = device.model.get_ref().model.geometry().capacity;
        let all = self.file_size.0.0.checked_mul(clients);
        check(all.is_some_and(|all| all <= capacity.0), "file_size", "files that fit the device")?;
        crate::scenario::check_time(self.come_within_s * 1e3, "come_within_s")
    }

    pub(super) fn begin(
        &self,
        building: &mut Building,
        name: &str,
        start: Instant,
    ) -> Result<(), String> {
        let device = building.device(&self.device)?;
        let link = Link::new(self.link_kib_per_s * 1024.0 / 1e6);
        let fast = std::iter::repeat_n(self.fast_kib_per_s(), self.fast_clients as usize);
        let rates: Vec<f64> = self.kib_per_s.iter().copied().chain(fast).collect();
        let gap_ns = crate::scenario::ns_of_ms(self.come_within_s * 1e3) / rates.len() as u64;
        for (index, kib_per_s) in rates.into_iter().enumerate() {
            let first = Sector(index as u64 * (self.file_size.0.0 / 512));
            let file = building.run.try_file(device, first, self.file_size.0)?;
            let (link, chunk) = (Rc::clone(&link), self.read.0);
            let begins = Instant(start.0 + index as u64 * gap_ns);
            building.begin(&format!("{name}-{index}"), begins, async move |process: Process| {
                serve(&process, file, kib_per_s, chunk, &link).await;
            });
        }
        Ok(())
    }

    /// What each client without a rate gets.
    fn fast_kib_per_s(&self) -> f64 {
        let left = self.link_kib_per_s - self.kib_per_s.iter().sum::<f64>();
        left / f64::from(self.fast_clients.max(1))
    }
}

/// One client's connection. Its meter's `read_twice` is how many pages the device was asked for
/// that it had been asked for before.
async fn serve(process: &Process, file: SimFile, kib_per_s: f64, chunk: Bytes, link: &Link) {
    let reader = process.open(file);
    let began = process.now();
    let mut pos = Bytes::ZERO;
    while pos < reader.len() {
        process.until(due(began, pos, kib_per_s)).await;
        let Ok(got) = reader.read(pos, chunk).await else { return };
        process.send(link, got).await;
        pos += got;
        let twice = reader.read_twice();
        process.meter(|meter, _| meter.other.insert("read_twice", twice.0 as f64));
    }
}

fn chunk() -> Size {
    Size(Bytes(64 << 10))
}
