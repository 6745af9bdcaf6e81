//! `foreread-lab explain geometry`: read-ahead limit and block size of a device size.

use clap::ValueHint;
use foreread_core::geometry::{
    DEFAULT_WINDOW, LimitRule, WholePages, block_size, nearest_whole, readahead_limit, scaled_down,
    whole_pages,
};
use foreread_core::units::{ByteCount, SECTOR_SIZE, Sectors};
use serde::Serialize;

use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::table;
use foreread_core::sizes::{self, Exact};

/// Show the read-ahead limit and block size that follow from a device size
///
/// For each SIZE, prints the largest read-ahead of the capacity formula (by the published rule, and
/// by the rule that rounds to the nearest step), the rest of the default 128 KiB under the
/// published rule, the block size that Linux chooses, and the nearest sizes of whole pages.
///
/// Small devices tend to be slow, and read-ahead then penalises readers that stop early. If a size
/// is no multiple of a page, the kernel uses blocks smaller than a page.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct GeometryArgs {
    /// Device sizes: bytes, or with K, M, G, T or s (sectors) after the number
    #[arg(value_name = "SIZE", required = true, value_parser = sizes::parse)]
    #[arg(value_hint = ValueHint::Other)]
    sizes: Vec<ByteCount>,

    /// Logical block size of the device, a power of two
    ///
    /// The kernel never uses a smaller block.
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = parse_block)]
    logical_block: ByteCount,

    /// Page size of the machine, a power of two
    ///
    /// Limits are whole pages, at least one; blocks are at most a page.
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = parse_page)]
    page_size: ByteCount,

    /// Print JSON, one data object per SIZE; key names give the unit
    ///
    /// Keys: bytes, readahead_limit_kib, readahead_limit_rounded_kib, effective_kib, block_size,
    /// nearest_whole (two sizes, below and above). The limits of a device without a known size are
    /// null.
    #[arg(long)]
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
    let devices = args.sizes.iter().map(|&size| explain(size, args));
    if args.json {
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

fn explain(size: ByteCount, args: &GeometryArgs) -> GeometryAnswer {
    let limit = |rule| readahead_limit(size, rule).map(|limit| whole_pages(limit, args.page_size));
    let published = limit(LimitRule::Published);
    let WholePages { below, above } = nearest_whole(size, args.page_size);
    GeometryAnswer {
        bytes: size.0,
        readahead_limit_kib: published.map(in_kib),
        readahead_limit_rounded_kib: limit(LimitRule::Rounding).map(in_kib),
        effective_kib: in_kib(scaled_down(DEFAULT_WINDOW, published)),
        block_size: block_size(size, args.logical_block, args.page_size).0,
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

fn parse_block(text: &str) -> Result<ByteCount, String> {
    power_of_two(text, SMALLEST_BLOCK)
}

fn parse_page(text: &str) -> Result<ByteCount, String> {
    power_of_two(text, SMALLEST_PAGE)
}

fn power_of_two(text: &str, smallest: ByteCount) -> Result<ByteCount, String> {
    let size = sizes::parse(text)?;
    let is_fine = size.0.is_power_of_two() && (smallest..=LARGEST_PAGE).contains(&size);
    is_fine.then_some(size).ok_or_else(|| {
        format!("write a power of two from {} to {}", Exact(smallest), Exact(LARGEST_PAGE))
    })
}

const HEADING: [&str; 8] =
    ["device", "size", "limit", "rounded", "effective", "block", "whole pages below", "above"];

const EXAMPLES: &str = "\
Columns:
  limit, rounded      the read-ahead limit by the published rule and by the rounding rule
  effective           what is left of 128 KiB under the published rule; it never raises
  block               the block size in bytes
  whole pages below,  the nearest sizes at which no page is cut into smaller blocks
  above

Examples:
  A stick sold as 64 MB, one of 64 MiB, and a partition with one sector too many:
    foreread-lab explain geometry 125000s 64M 1870001s
  A disk with 4 KiB sectors on a machine with 64 KiB pages:
    foreread-lab explain geometry 4G --logical-block 4K --page-size 64K

";

const KIB: u64 = 1 << 10;

/// A sector: no device has smaller blocks.
const SMALLEST_BLOCK: ByteCount = ByteCount(SECTOR_SIZE);

/// Smallest page size of any machine that runs Linux.
const SMALLEST_PAGE: ByteCount = ByteCount(4 * KIB);

/// The largest page with which a window of the default size is still a whole number of pages.
const LARGEST_PAGE: ByteCount = DEFAULT_WINDOW;
