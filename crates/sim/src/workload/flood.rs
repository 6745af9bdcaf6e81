//! A flood of writes: `dd` into a file, and the writeback of its dirty pages. It keeps the device's
//! queue full, and waits only for a slot in it.
//!
//! ```text
//!   at |== piece ==|gap|== piece ==|gap|== piece ==| ...  and from the start again after `size`
//! ```

use foreread_core::path::DeviceId;
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};
use serde::Deserialize;

use super::pace::due;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::size::Size;
use crate::validate::check;

/// Writes that wait only for a slot in the queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// Device.
    pub device: String,
    /// Start of the region on the device.
    #[serde(default)]
    pub at: Size,
    /// Size of the region; the writes wrap around at its end.
    pub size: Size,
    /// Size of a request, after neighbouring pages were merged.
    #[serde(default = "request")]
    pub request: Size,
    /// Number of requests queued or in flight: writers sleep when all are taken.
    #[serde(default = "in_flight")]
    pub in_flight: u32,
    /// Length of a contiguous piece; by default, everything.
    pub piece: Option<Size>,
    /// Gap between two pieces.
    #[serde(default)]
    pub gap: Size,
    /// Random positions instead, aligned to `request`.
    #[serde(default)]
    pub random: bool,
    /// Rate limit, in KiB/s.
    pub kib_per_s: Option<f64>,
    /// Total bytes; by default, until the run stops.
    pub amount: Option<Size>,
}

impl Flood {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        machine.check_range(&self.device, self.at.0, self.size.0)?;
        let request = self.request.0;
        check(
            is_whole(request) && request > ByteCount::ZERO,
            "request",
            "a positive multiple of 512 bytes",
        )?;
        check(request <= self.size.0, "request", "at most size")?;
        machine.check_request(&self.device, request, "request")?;
        check((1..=1 << 16).contains(&self.in_flight), "in_flight", "1 to 65536")?;
        let piece = self.piece.map_or(self.size.0, |piece| piece.0);
        let is_whole_piece = piece >= request && piece.0.is_multiple_of(request.0);
        check(self.piece.is_none() || is_whole_piece, "piece", "whole requests, at least one")?;
        check(is_whole(self.gap.0), "gap", "a multiple of 512 bytes")?;
        let once = piece.0.saturating_add(self.gap.0.0);
        check(
            self.piece.is_none() || once <= self.size.0.0,
            "piece",
            "less than size, gap included",
        )?;
        let rate = self.kib_per_s.unwrap_or(1.0);
        check(rate.is_finite() && (1e-3..=1e9).contains(&rate), "kib_per_s", "0.001 to 10^9")?;
        let ends = self.amount.is_some() || machine.stops;
        check(ends, "amount", "set, unless the scenario has until_s")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let device = building.device(&self.device)?;
        let params = self.clone();
        let own = name.to_owned();
        building.begin(name, start, async move |process: Process| {
            params.live(&process, device, &own).await;
        });
        Ok(())
    }

    async fn live(&self, process: &Process, device: DeviceId, name: &str) {
        let mut rng = process.rng(name);
        let slots = process.slots(self.in_flight);
        let request = self.request.0;
        let requests = self.amount.map_or(u64::MAX, |amount| amount.0.0.div_ceil(request.0));
        let began = process.now();
        let mut place = ByteCount::ZERO;
        for done in 0..requests {
            if let Some(kib_per_s) = self.kib_per_s {
                process.until(due(began, ByteCount(done * request.0), kib_per_s)).await;
            }
            let at = if self.random {
                ByteCount(rng.below(self.size.0.0 / request.0) * request.0)
            } else {
                place
            };
            let start = Sector((self.at.0 + at).0 / 512);
            process.post(slots, device, Op::Write, start, Sectors(request.0 / 512)).await;
            place = self.after(place);
        }
    }

    /// Returns the position of the request after the one at `place`.
    fn after(&self, place: ByteCount) -> ByteCount {
        let request = self.request.0;
        let mut next = place + request;
        if let Some(piece) = self.piece {
            let once = piece.0 + self.gap.0;
            let is_used_up = next.0 % once.0 >= piece.0.0;
            next += if is_used_up { self.gap.0 } else { ByteCount::ZERO };
        }
        if next + request <= self.size.0 { next } else { ByteCount::ZERO }
    }
}

fn is_whole(bytes: ByteCount) -> bool {
    bytes.0.is_multiple_of(512)
}

/// Default request size: the largest request of most drivers of 2.4 and 2.5.
fn request() -> Size {
    Size(ByteCount(128 << 10))
}

/// Requests per queue and direction in 2.4 and 2.5.
fn in_flight() -> u32 {
    128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(piece: Option<u64>, gap: u64) -> Vec<u64> {
        let size = |bytes| Size(ByteCount(bytes));
        let flood = Flood {
            device: String::new(),
            at: size(0),
            size: size(14 * 512),
            request: size(1024),
            in_flight: 1,
            piece: piece.map(size),
            gap: size(gap),
            random: false,
            kib_per_s: None,
            amount: None,
        };
        let next = |place: &ByteCount| Some(flood.after(*place));
        let places = std::iter::successors(Some(ByteCount::ZERO), next);
        places.take(8).map(|place| place.0 / 512).collect()
    }

    #[test]
    fn pieces_lie_apart_and_the_end_leads_to_the_start() {
        assert_eq!(places(None, 0), [0, 2, 4, 6, 8, 10, 12, 0]);
        assert_eq!(places(Some(2048), 512), [0, 2, 5, 7, 10, 12, 0, 2]);
    }
}
