//! Tests of geometry.

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
    assert_eq!((published_kib(decimal_64_mb), rounding_kib(decimal_64_mb)), (Some(32), Some(64)));
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
    let block =
        |sectors, logical| block_size(ByteCount(sectors * SECTOR_SIZE), ByteCount(logical), PAGE).0;
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
