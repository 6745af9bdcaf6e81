//! What no schedule of requests can better on a device, and what a change of place costs it.
//!
//! In:    the parameters of a device.
//! Out:   its best rate, its least latency, the bytes that it transfers while it changes place.
//! Never: an estimate from below: the rate is never less than what the model gives, and the latency
//!        never more.

use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::params::{DeviceParams, Hdd};

impl DeviceParams {
    /// The rate above which the device never transfers, in bytes a second. What a disk has in its
    /// buffer was read from the platter before, at no more than that rate.
    #[must_use]
    pub fn max_bytes_per_s(&self) -> f64 {
        let mb_per_s = match self {
            Self::Hdd(disk) => disk.outer_mb_per_s.max(disk.inner_mb_per_s),
            Self::Flash(chips) => chips.mb_per_s,
            Self::Store(store) => store.link_mb_per_s,
            Self::Mapped(mapped) => return mapped.on.model.max_bytes_per_s(),
        };
        mb_per_s * 1e6
    }

    /// The time below which no request of the device ends, beside its transfer, in seconds.
    #[must_use]
    pub fn min_latency_s(&self) -> f64 {
        match self {
            Self::Hdd(disk) => disk.overhead_us / 1e6,
            Self::Flash(chips) => chips.overhead_us * (1.0 - chips.jitter) / 1e6,
            // A latency that varies has no least one.
            Self::Store(store) if store.latency_sigma > 0.0 => 0.0,
            Self::Store(store) => store.latency_ms / 1e3,
            Self::Mapped(mapped) => mapped.on.model.min_latency_s(),
        }
    }

    /// What the device transfers in the time that it takes to turn to another stream: of a disk the
    /// mean seek and half a turn, of others the fixed cost of a request. Whole pages, up to 64 MiB.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between a page and 64 MiB"
    )]
    pub fn switch_bytes(&self) -> ByteCount {
        let bytes = match self {
            Self::Hdd(disk) => switch_s(disk) * (disk.outer_mb_per_s + disk.inner_mb_per_s) / 2.0,
            Self::Flash(chips) => {
                // At its own size a command pays a part of its stall; half of it is near enough.
                (chips.overhead_us + chips.stall_us / 2.0) / 1e6 * chips.mb_per_s
            }
            Self::Store(store) => store.latency_ms / 1e3 * store.connection_mb_per_s,
            Self::Mapped(mapped) => return mapped.on.model.switch_bytes(),
        } * 1e6;
        let pages = (bytes / PAGE_SIZE as f64).clamp(1.0, 16_384.0) as u64;
        ByteCount(pages * PAGE_SIZE)
    }
}

/// The mean time of a seek, which is a third of the way, and half a turn.
fn switch_s(disk: &Hdd) -> f64 {
    let third = 1.0 / 3.0;
    let share = disk.seek_root_share;
    let way = share * libm::sqrt(third) + (1.0 - share) * third;
    let seek_ms = disk.seek_min_ms + (disk.seek_max_ms - disk.seek_min_ms) * way;
    seek_ms / 1e3 + 30.0 / disk.rpm
}
