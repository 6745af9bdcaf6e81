//! `foreread-lab explain geometry`: read-ahead limit and block size of a device size.

mod args;

pub(crate) use args::GeometryArgs;

use foreread_core::geometry::{
    DEFAULT_WINDOW, LimitRule, WholePages, block_size, nearest_whole, readahead_limit, scaled_down,
    whole_pages,
};
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE, SECTOR_SIZE, Sectors};
use serde::Serialize;

use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;

/// Devices to explain.
struct GeometryPlan {
    sizes: Vec<ByteCount>,
    /// Smallest block that the devices accept.
    logical_block: ByteCount,
    json: bool,
}

/// JSON of one device.
#[derive(Serialize)]
struct GeometryAnswer {
    bytes: u64,
    readahead_limit_kib: Option<u64>,
    readahead_limit_rounded_kib: Option<u64>,
    effective_kib: u64,
    block_size: u64,
    nearest_whole: [Option<u64>; 2],
}

pub(super) fn run(args: &GeometryArgs, out: &mut Printer) -> Result<(), Failure> {
    let plan = args.resolve();
    let devices = plan.sizes.iter().map(|&size| explain(size, plan.logical_block));
    if plan.json {
        return out.json("explain geometry", devices);
    }
    let rows = devices.map(|device| {
        let kib = |kib: u64| Exact(ByteCount(kib * KIB)).to_string();
        let [below, above] = device.nearest_whole;
        [
            in_sectors(device.bytes),
            Exact(ByteCount(device.bytes)).to_string(),
            table::or_dash(device.readahead_limit_kib.map(kib)),
            table::or_dash(device.readahead_limit_rounded_kib.map(kib)),
            kib(device.effective_kib),
            device.block_size.to_string(),
            table::or_dash(below.map(in_sectors)),
            table::or_dash(above.map(in_sectors)),
        ]
    });
    table::print(out, HEADING, rows)
}

fn explain(size: ByteCount, logical_block: ByteCount) -> GeometryAnswer {
    let limit = |rule| readahead_limit(size, rule).map(|limit| whole_pages(limit, PAGE));
    let published = limit(LimitRule::Published);
    let WholePages { below, above } = nearest_whole(size, PAGE);
    GeometryAnswer {
        bytes: size.0,
        readahead_limit_kib: published.map(in_kib),
        readahead_limit_rounded_kib: limit(LimitRule::Rounding).map(in_kib),
        effective_kib: in_kib(scaled_down(DEFAULT_WINDOW, published)),
        block_size: block_size(size, logical_block, PAGE).0,
        nearest_whole: [Some(below.0), above.map(|ByteCount(bytes)| bytes)],
    }
}

fn in_kib(size: ByteCount) -> u64 {
    size.0 / KIB
}

/// Formats a length in sectors, as `dmsetup`, `blockdev` and this command accept it; in bytes if it
/// is not a multiple of a sector.
fn in_sectors(bytes: u64) -> String {
    if bytes.is_multiple_of(SECTOR_SIZE) {
        format!("{}s", Sectors(bytes / SECTOR_SIZE))
    } else {
        bytes.to_string()
    }
}

const HEADING: [&str; 8] =
    ["device", "size", "limit", "rounded", "effective", "block", "whole pages below", "above"];

const KIB: u64 = 1 << 10;

/// Size of a page of the machine.
const PAGE: ByteCount = ByteCount(PAGE_SIZE);
