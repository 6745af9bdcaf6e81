//! Geometry: what the shape of a device says about reading it.
//!
//! In:    sizes: of the device, its logical block, a page of the machine.
//! Out:   the read-ahead limit, the block size, the nearest sizes of whole pages; and, of one
//!        device, what the engine must respect ([`Geometry`]).
//! Never: a device. Nothing is asked, measured or guessed here.
//!
//! Design, worked tables and sources: docs/geometry.md.

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

/// How a capacity between two steps of the formula is taken.
///
/// ```text
///   capacity    256K    512K    1M      2M      4M      8M      16M     32M     64M
///   published   |4K-------------|8K-------------|16K------------|32K------------|64K
///   rounding    |4K-----|8K-------------|16K------------|32K------------|64K---------
/// ```
///
/// The limit is 4 KiB x 2^e; it doubles each time the capacity becomes four times as large. It is
/// fitted to sweeps of eight devices, so as not to take from any of them a window that it needs to
/// reach its throughput; docs/geometry.md says for which three of them it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LimitRule {
    /// The largest e with capacity >= 256 KiB x 4^e: the formula as its author published it.
    ///
    /// Sold as "64 MB", a stick has 125000 sectors, a little less than 64 MiB, and gets half of
    /// what it needs; 255 MiB count as 64.
    Published,
    /// The largest e with capacity >= 128 KiB x 4^e: a step half as far, so that a size a little
    /// under a power of four still counts as that power.
    Rounding,
}

/// The most to read ahead on a device of this capacity; None when the capacity is not known.
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

/// A limit as a machine with pages of `page_size` applies it: whole pages, at least one.
///
/// # Panics
///
/// If `page_size` is not a power of two.
#[must_use]
pub fn whole_pages(limit: ByteCount, page_size: ByteCount) -> ByteCount {
    assert!(page_size.0.is_power_of_two());
    ByteCount((limit.0 & !(page_size.0 - 1)).max(page_size.0))
}

/// The window that `limit` leaves of the window `chosen` so far: never more than `chosen`.
///
/// Why only downwards: the limit knows what a small device cannot use. It knows nothing of a large
/// one that would justify more memory than its user, or the default, gave it.
#[must_use]
pub fn scaled_down(chosen: ByteCount, limit: Option<ByteCount>) -> ByteCount {
    match limit {
        Some(limit) => chosen.min(limit),
        None => chosen,
    }
}

/// The block size Linux gives a device of this size, when it opens it.
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
/// sector at its end (docs/geometry.md). A size that is no multiple of the logical block gets the
/// logical block all the same, a size of 0 gets a page.
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

/// The sizes of whole pages nearest to a size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WholePages {
    /// The largest that is not larger: what to cut the device to.
    pub below: ByteCount,
    /// The smallest that is not smaller: what to grow it to. None beyond 64 bits.
    pub above: Option<ByteCount>,
}

/// The sizes nearest to `size` at which every page of a device is whole, and so one block.
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

/// What the engine must respect when it talks to one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    /// Its size; zero when it is not known.
    pub capacity: ByteCount,
    /// The largest request.
    pub max_io: Pages,
    /// How many requests it is given at once.
    pub depth: u32,
    /// Writes that begin and end at multiples of this reach the device directly. Any other write
    /// is [durable](crate::path::DeviceIo::fua), because the driver has to send it through a cache
    /// that may report a loss too late.
    pub write_block: ByteCount,
}

impl Geometry {
    /// 1 MiB: no device of the sweeps in docs/geometry.md gains more than 7 % from larger windows,
    /// and a disk of 100 MB/s is done with one in about 10 ms, which is what the next one waits.
    pub const DEFAULT_MAX_IO: Pages = Pages(256);

    /// 32, the tags of a SATA disk with native command queueing: enough for flash to use its
    /// channels, and what is held back is still ours to sort.
    pub const DEFAULT_DEPTH: u32 = 32;

    /// A device of which nothing is known but its size.
    #[must_use]
    pub const fn new(capacity: ByteCount) -> Self {
        let (max_io, depth) = (Self::DEFAULT_MAX_IO, Self::DEFAULT_DEPTH);
        Self { capacity, max_io, depth, write_block: ByteCount(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const PAGE: ByteCount = ByteCount(4 * KIB);
    const RULES: [LimitRule; 2] = [LimitRule::Published, LimitRule::Rounding];

    fn published_kib(bytes: u64) -> Option<u64> {
        readahead_limit(ByteCount(bytes), LimitRule::Published).map(|limit| limit.0 / KIB)
    }

    fn rounding_kib(bytes: u64) -> Option<u64> {
        readahead_limit(ByteCount(bytes), LimitRule::Rounding).map(|limit| limit.0 / KIB)
    }

    /// Sizes around every step of both rules, and the ends.
    fn sizes() -> impl Iterator<Item = u64> {
        let steps = (9..64).flat_map(|shift| {
            let size = 1_u64 << shift;
            [size - 1, size, size + 1, size + size / 2, size - size / 20]
        });
        steps.chain([u64::MAX - 1, u64::MAX])
    }

    #[test]
    fn the_published_table_comes_out_row_by_row() {
        // Wu Fengguang, "block: limit default readahead size for small devices", Nov 2011: the
        // table of the changelog, then the row that the code's comment adds.
        let rows = [
            (MIB, 8),
            (4 * MIB, 16),
            (16 * MIB, 32),
            (64 * MIB, 64),
            (256 * MIB, 128),
            (GIB, 256),
            (4 * GIB, 512),
            (16 * GIB, 1024),
            (64 * GIB, 2048),
            (256 * GIB, 4096),
            (255 * MIB, 64),
        ];
        for (size, limit_kib) in rows {
            assert_eq!(published_kib(size), Some(limit_kib), "{size} bytes");
        }
    }

    #[test]
    fn the_smallest_devices_get_one_page() {
        for size in [512, 256 * KIB - 1, 256 * KIB, MIB - 1, 986 * 512, 1010 * 512] {
            assert_eq!(published_kib(size), Some(4), "{size} bytes");
        }
        for size in [512, 128 * KIB, 256 * KIB, 512 * KIB - 1] {
            assert_eq!(rounding_kib(size), Some(4), "{size} bytes");
        }
    }

    #[test]
    fn a_capacity_under_one_sector_is_unknown() {
        for rule in RULES {
            assert_eq!(readahead_limit(ByteCount(0), rule), None);
            assert_eq!(readahead_limit(ByteCount(511), rule), None);
            assert!(readahead_limit(ByteCount(512), rule).is_some());
        }
    }

    #[test]
    fn decimal_sizes_reach_their_plateau_by_the_rounding_rule() {
        let decimal_64_mb = 125_000 * SECTOR_SIZE;
        assert_eq!(
            (published_kib(decimal_64_mb), rounding_kib(decimal_64_mb)),
            (Some(32), Some(64))
        );
        assert_eq!((published_kib(255 * MIB), rounding_kib(255 * MIB)), (Some(64), Some(128)));
        assert_eq!(published_kib(2_000_000_000), Some(256));
        assert_eq!(published_kib(4_000_000_000), Some(256));
    }

    #[test]
    fn devices_of_2_tib_and_more_are_large() {
        let tib = 1 << 40;
        assert_eq!(published_kib(tib), Some(8 << 10));
        assert_eq!(published_kib(2 * tib), Some(8 << 10));
        assert_eq!(published_kib(2 * tib + MIB), Some(8 << 10));
        assert_eq!(published_kib(4 * tib), Some(16 << 10));
        assert_eq!(published_kib(u64::MAX), Some(4 << 22));
        assert_eq!(rounding_kib(u64::MAX), Some(4 << 23));
    }

    #[test]
    fn a_limit_never_falls_as_the_capacity_grows() {
        let mut sorted: Vec<_> = sizes().filter(|&size| size >= SECTOR_SIZE).collect();
        sorted.sort_unstable();
        for rule in RULES {
            let limits = sorted.iter().map(|&size| readahead_limit(ByteCount(size), rule));
            assert!(limits.is_sorted());
        }
    }

    #[test]
    fn a_limit_is_a_power_of_two_and_no_more_than_the_square_root_allows() {
        for size in sizes().filter(|&size| size >= SECTOR_SIZE) {
            for (rule, half) in [(LimitRule::Published, 1), (LimitRule::Rounding, 2)] {
                let limit = readahead_limit(ByteCount(size), rule).unwrap();
                assert!(limit.0.is_power_of_two());
                // (limit / 4K)^2 <= capacity / 256K, or twice that when rounding.
                let pages = u128::from(limit.0 / PAGE.0);
                let units = u128::from(size) * half;
                assert!(limit == SMALLEST_LIMIT || pages * pages * u128::from(256 * KIB) <= units);
                assert!(4 * pages * pages * u128::from(256 * KIB) > units);
            }
        }
    }

    #[test]
    fn the_rounding_rule_gives_the_same_or_twice_as_much() {
        for size in sizes().filter(|&size| size >= SECTOR_SIZE) {
            let published = published_kib(size).unwrap();
            let rounding = rounding_kib(size).unwrap();
            assert!(rounding == published || rounding == 2 * published, "{size} bytes");
        }
    }

    #[test]
    fn the_limit_in_bytes_does_not_depend_on_the_page() {
        for page_kib in [4, 16, 64] {
            let page = ByteCount(page_kib * KIB);
            for size in sizes().filter(|&size| size >= SECTOR_SIZE) {
                let limit = readahead_limit(ByteCount(size), LimitRule::Published).unwrap();
                let applied = whole_pages(limit, page);
                assert_eq!(applied, limit.max(page), "{size} bytes, {page_kib}K pages");
            }
        }
        assert_eq!(whole_pages(ByteCount(100 * KIB), ByteCount(16 * KIB)), ByteCount(96 * KIB));
    }

    #[test]
    fn a_limit_scales_down_and_never_up() {
        let effective_kib = |size| {
            let limit = readahead_limit(ByteCount(size), LimitRule::Published);
            scaled_down(DEFAULT_WINDOW, limit).0 / KIB
        };
        assert_eq!(effective_kib(0), 128);
        assert_eq!(effective_kib(505 * KIB), 4);
        assert_eq!(effective_kib(64 * MIB), 64);
        for size in sizes().filter(|&size| size >= 256 * MIB) {
            assert_eq!(effective_kib(size), 128, "{size} bytes");
        }
    }

    #[test]
    fn the_published_block_sizes_come_out() {
        let block = |sectors, logical| {
            block_size(ByteCount(sectors * SECTOR_SIZE), ByteCount(logical), PAGE).0
        };
        let rows = [
            (1_870_000, 4096),
            (1_870_001, 512),
            (1_870_002, 1024),
            (1_870_004, 2048),
            (1_870_006, 1024),
            (1_870_008, 4096),
            (0, 4096),
        ];
        for (sectors, want) in rows {
            assert_eq!(block(sectors, 512), want, "{sectors} sectors");
            assert_eq!(block(sectors, 4096), 4096, "{sectors} sectors, 4096-byte blocks");
        }
    }

    #[test]
    fn a_size_that_is_no_multiple_of_the_logical_block_gets_the_logical_block() {
        for (size, logical_block) in [(8193, 512), (505_000, 512), (511, 512), (1089 * 512, 1024)] {
            let block = block_size(ByteCount(size), ByteCount(logical_block), ByteCount(4096));
            assert_eq!(block, ByteCount(logical_block), "{size}");
        }
        assert_eq!(block_size(ByteCount(3 * 512 + 1), ByteCount(512), PAGE), ByteCount(512));
        assert_eq!(block_size(ByteCount(3 * 512), ByteCount(1024), PAGE), ByteCount(1024));
    }

    #[test]
    fn a_logical_block_of_a_page_or_more_is_the_block() {
        assert_eq!(block_size(ByteCount(512), ByteCount(4096), PAGE), ByteCount(4096));
        assert_eq!(block_size(ByteCount(512), ByteCount(16384), PAGE), ByteCount(16384));
    }

    #[test]
    fn the_block_is_the_largest_power_of_two_that_divides_the_size() {
        for page_kib in [4, 16, 64] {
            let page = page_kib * KIB;
            for sectors in 1..=4 * page / SECTOR_SIZE {
                let size = sectors * SECTOR_SIZE;
                let divides = (0..).map(|shift| 512 << shift).take_while(|&block| block <= page);
                let want = divides.filter(|&block| size.is_multiple_of(block)).max();
                let got = block_size(ByteCount(size), ByteCount(512), ByteCount(page));
                assert_eq!(Some(got.0), want, "{size} bytes, {page_kib}K pages");
            }
        }
    }

    #[test]
    fn the_nearest_whole_sizes_enclose_a_size_and_have_whole_blocks() {
        for page_kib in [4, 16, 64] {
            let page = ByteCount(page_kib * KIB);
            for size in 0..=3 * page.0 / 512 * 512 {
                if size % 512 > 1 {
                    continue;
                }
                let WholePages { below, above } = nearest_whole(ByteCount(size), page);
                let above = above.unwrap();
                assert!(below.0 <= size);
                assert!(size <= above.0);
                assert!(above - below <= page);
                assert_eq!(block_size(below, ByteCount(512), page), page);
                assert_eq!(block_size(above, ByteCount(512), page), page);
                assert_eq!(below == above, size.is_multiple_of(page.0));
            }
        }
    }

    #[test]
    fn no_whole_size_above_the_largest_number() {
        let whole = nearest_whole(ByteCount(u64::MAX), PAGE);
        assert_eq!(whole, WholePages { below: ByteCount(u64::MAX - 4095), above: None });
    }

    #[test]
    fn a_device_with_one_odd_sector_has_whole_sizes_on_both_sides() {
        let whole = nearest_whole(ByteCount(1_870_001 * SECTOR_SIZE), PAGE);
        assert_eq!(whole.below, ByteCount(1_870_000 * SECTOR_SIZE));
        assert_eq!(whole.above, Some(ByteCount(1_870_008 * SECTOR_SIZE)));
    }
}
