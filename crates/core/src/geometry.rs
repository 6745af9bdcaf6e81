//! Device geometry: read-ahead limit, block size and nearest whole-page sizes, derived from sizes.
//!
//! In:    sizes of the device, its logical block and the machine's page.
//! Out:   limits and sizes; and, for one device, the limits of the engine ([`Geometry`]).
//! Never: a device: nothing is queried, measured or guessed.
//!
//! Design, worked tables and sources: docs/design/geometry.md.

#[cfg(test)]
mod tests;

use crate::units::{ByteCount, PAGE_SIZE, Pages, SECTOR_SIZE};

/// The window a reader gets when nothing is known of the device.
///
/// 128 KiB, Linux's own default throughout 2.6 and since, so that a comparison starts equal.
pub const DEFAULT_WINDOW: ByteCount = ByteCount(128 << 10);

/// The smallest read-ahead limit: one page, which is no read-ahead at all, but still a read.
pub const SMALLEST_LIMIT: ByteCount = ByteCount(PAGE_SIZE);

/// One unit of the capacity formula, 512 sectors.
///
/// With it the limit meets the default window at 256 MiB, and only smaller devices notice it.
const UNIT: ByteCount = ByteCount(512 * SECTOR_SIZE);

/// Rounding of a capacity between two steps of the formula.
///
/// ```text
///   capacity    256K    512K    1M      2M      4M      8M      16M     32M     64M
///   published   |4K-------------|8K-------------|16K------------|32K------------|64K
///   rounding    |4K-----|8K-------------|16K------------|32K------------|64K---------
/// ```
///
/// The limit is 4 KiB x 2^e; it doubles each time the capacity becomes four times as large. It is
/// fitted to sweeps of eight devices, to leave each of them the window that it needs for its
/// throughput; for three of them it does not (docs/design/geometry.md).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LimitRule {
    /// The largest e with capacity >= 256 KiB x 4^e: the formula as its author published it.
    ///
    /// Sold as "64 MB", a stick has 125000 sectors, a little less than 64 MiB, and gets half of the
    /// limit that it needs; 255 MiB count as 64.
    Published,
    /// The largest e with capacity >= 128 KiB x 4^e: a step half as far, so that a size a little
    /// under a power of four still counts as that power.
    Rounding,
}

/// Returns the read-ahead limit of a device of this capacity, or None if the capacity is unknown.
///
/// ```text
///   sectors   published     rounding
///              e  limit      e  limit
///       0      -  unknown    -  unknown    not known yet: leave the default
///     986      0    4K       0    4K       a 505 kB device
///  125000      3   32K       4   64K       "64 MB"
///  522240      4   64K       5  128K       255 MiB
///  524288      5  128K       5  128K       256 MiB
/// ```
///
/// In bytes, not in the machine's pages: a formula that counts pages gives a machine with 64 KiB
/// pages windows 16 times as large for the same device. In 64 bits: a sector count kept in 32 wraps
/// at 2 TiB and calls the largest devices the smallest.
///
/// Why a capacity of 0 is unknown and not "tiny": stacked devices report 0 until their tables are
/// loaded, and would stay at one page for life.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "its asserts are about its own result")]
pub fn readahead_limit(capacity: ByteCount, rule: LimitRule) -> Option<ByteCount> {
    if capacity < ByteCount(SECTOR_SIZE) {
        return None;
    }
    let scale = match rule {
        LimitRule::Published => UNIT,
        LimitRule::Rounding => ByteCount(UNIT.0 / 2),
    };
    // Under one unit the logarithm has no value; such a device is the smallest there is.
    let exponent = (capacity.0 / scale.0).max(1).ilog2() / 2;
    let limit = ByteCount(SMALLEST_LIMIT.0 << exponent);

    assert!(limit >= SMALLEST_LIMIT);
    assert!(limit.0.is_power_of_two());
    Some(limit)
}

/// Returns a limit as applied with pages of `page_size`: whole pages, at least one.
///
/// # Panics
///
/// If `page_size` is not a power of two.
#[must_use]
pub fn whole_pages(limit: ByteCount, page_size: ByteCount) -> ByteCount {
    assert!(page_size.0.is_power_of_two());
    ByteCount((limit.0 & !(page_size.0 - 1)).max(page_size.0))
}

/// Returns the window `chosen` so far, reduced to `limit`.
///
/// It never increases the window: the formula finds the limits of small devices, and says nothing
/// about a large device that would justify more memory than the user, or the default, allows.
#[must_use]
pub fn scaled_down(chosen: ByteCount, limit: Option<ByteCount>) -> ByteCount {
    match limit {
        Some(limit) => chosen.min(limit),
        None => chosen,
    }
}

/// Returns the block size that Linux gives a device of this size when it opens it.
///
/// ```text
///   sectors   1870000 = 16 x 116875   4096    one block a page
///             1870001   odd            512    eight
///             1870002 = 2 x odd       1024    four
///             1870004 = 4 x odd       2048    two
/// ```
///
/// The largest power of two that divides the size, between the logical block and a page. A kernel
/// that moved pages block by block sent eight times as many requests to a device with one odd
/// sector at its end (docs/design/geometry.md). A size that is no multiple of the logical block
/// gets the logical block all the same, a size of 0 gets a page.
///
/// # Panics
///
/// If `logical_block` or `page_size` is not a power of two.
#[must_use]
pub fn block_size(size: ByteCount, logical_block: ByteCount, page_size: ByteCount) -> ByteCount {
    assert!(logical_block.0.is_power_of_two());
    assert!(page_size.0.is_power_of_two());

    let divisor = if size == ByteCount::ZERO { page_size.0 } else { 1 << size.0.trailing_zeros() };
    let block = divisor.min(page_size.0).max(logical_block.0);

    assert!(block <= logical_block.0.max(page_size.0));
    ByteCount(block)
}

/// Nearest sizes of whole pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WholePages {
    /// Largest size that is not larger: to truncate the device to.
    pub below: ByteCount,
    /// Smallest size that is not smaller: to extend it to. None beyond 64 bits.
    pub above: Option<ByteCount>,
}

/// Returns the nearest sizes at which every page of a device is whole, and so one block.
///
/// A size of whole pages is its own neighbour, on both sides.
///
/// # Panics
///
/// If `page_size` is not a power of two.
#[must_use]
pub fn nearest_whole(size: ByteCount, page_size: ByteCount) -> WholePages {
    assert!(page_size.0.is_power_of_two());
    WholePages {
        below: ByteCount(size.0 & !(page_size.0 - 1)),
        above: size.0.checked_next_multiple_of(page_size.0).map(ByteCount),
    }
}

/// Limits and block size of one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    /// Size; zero if unknown.
    pub capacity: ByteCount,
    /// Largest request.
    pub max_io: Pages,
    /// Most requests in flight.
    pub depth: u32,
    /// Writes that begin and end at multiples of this reach the device directly. Any other write
    /// is [durable](crate::path::DeviceIo::fua), because the driver has to send it through a cache
    /// that may report a loss too late.
    pub write_block: ByteCount,
}

impl Geometry {
    /// 1 MiB: no device of the sweeps in docs/design/geometry.md gains more than 7 % from larger
    /// windows, and a disk of 100 MB/s takes about 10 ms for one, during which the next one waits.
    pub const DEFAULT_MAX_IO: Pages = Pages(256);

    /// 32, the tags of a SATA disk with native command queueing: enough for flash to use its
    /// channels, and requests beyond it stay in the scheduler to be sorted.
    pub const DEFAULT_DEPTH: u32 = 32;

    /// Creates the geometry of a device of which only the size is known.
    #[must_use]
    pub const fn new(capacity: ByteCount) -> Self {
        let (max_io, depth) = (Self::DEFAULT_MAX_IO, Self::DEFAULT_DEPTH);
        Self { capacity, max_io, depth, write_block: ByteCount(1) }
    }
}
