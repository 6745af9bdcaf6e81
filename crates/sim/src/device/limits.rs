//! Performance bounds of a device that no schedule can beat, and the cost of a seek. The rate is
//! never below the model's, and the latency never above.

use foreread_core::units::{ByteCount, PAGE_SIZE};

use super::params::{DeviceParams, Hdd};

impl DeviceParams {
    /// Returns the highest transfer rate of the device, in bytes per second. Buffer hits do not
    /// exceed it: the buffer was filled from the platter at no more than that rate.
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

    /// Returns the shortest time of a request without its transfer, in seconds.
    #[must_use]
    pub fn min_latency_s(&self) -> f64 {
        match self {
            Self::Hdd(disk) => disk.overhead_us / 1e6,
            Self::Flash(chips) => chips.overhead_us * (1.0 - chips.jitter) / 1e6,
            // A random latency has no positive minimum.
            Self::Store(store) if store.latency_sigma > 0.0 => 0.0,
            Self::Store(store) => store.latency_ms / 1e3,
            Self::Mapped(mapped) => mapped.on.model.min_latency_s(),
        }
    }

    /// Returns the number of bytes that the device could transfer during a switch between streams:
    /// for a disk the mean seek and half a rotation, for others the fixed cost of a request. Whole
    /// pages, up to 64 MiB.
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
                // At its own size a command pays a part of its stall; half of it is a good
                // approximation.
                (chips.overhead_us + chips.stall_us / 2.0) / 1e6 * chips.mb_per_s
            }
            Self::Store(store) => store.latency_ms / 1e3 * store.connection_mb_per_s,
            Self::Mapped(mapped) => return mapped.on.model.switch_bytes(),
        } * 1e6;
        let pages = (bytes / PAGE_SIZE as f64).clamp(1.0, 16_384.0) as u64;
        ByteCount(pages * PAGE_SIZE)
    }
}

/// Returns the mean seek time, over a third of the stroke, plus half a rotation, in seconds.
fn switch_s(disk: &Hdd) -> f64 {
    let third = 1.0 / 3.0;
    let share = disk.seek_root_share;
    let way = share * libm::sqrt(third) + (1.0 - share) * third;
    let seek_ms = disk.seek_min_ms + (disk.seek_max_ms - disk.seek_min_ms) * way;
    seek_ms / 1e3 + 30.0 / disk.rpm
}
