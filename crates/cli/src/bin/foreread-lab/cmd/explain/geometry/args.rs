//! The arguments of `foreread-lab explain geometry`.

use clap::ValueHint;
use foreread_core::sizes::{self, Exact};
use foreread_core::units::{ByteCount, SECTOR_SIZE};

use super::GeometryPlan;
use foreread_cli::args::help::CODES_AND_UNITS;

/// Show the read-ahead limit and block size that follow from a device size
///
/// For each SIZE, prints the largest read-ahead of the capacity formula (by the published rule, and
/// by the rule that rounds to the nearest step), the rest of the default 128 KiB under the
/// published rule, the block size that Linux chooses, and the nearest sizes of whole pages.
///
/// Small devices tend to be slow, and read-ahead then penalises readers that stop early. If a size
/// is no multiple of a page (4 KiB), the kernel uses blocks smaller than a page.
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

    /// Print JSON, one data object per SIZE; key names give the unit
    ///
    /// Keys: bytes, readahead_limit_kib, readahead_limit_rounded_kib, effective_kib, block_size,
    /// nearest_whole (two sizes, below and above). The limits of a device without a known size are
    /// null.
    #[arg(long)]
    json: bool,
}

impl GeometryArgs {
    /// Resolves the options.
    pub(super) fn resolve(&self) -> GeometryPlan {
        GeometryPlan {
            sizes: self.sizes.clone(),
            logical_block: self.logical_block,
            json: self.json,
        }
    }
}

fn parse_block(text: &str) -> Result<ByteCount, String> {
    let size = sizes::parse(text)?;
    let is_fine = size.0.is_power_of_two() && (SMALLEST_BLOCK..=LARGEST_BLOCK).contains(&size);
    is_fine.then_some(size).ok_or_else(|| {
        format!("write a power of two from {} to {}", Exact(SMALLEST_BLOCK), Exact(LARGEST_BLOCK))
    })
}

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
  A disk with 4 KiB sectors:
    foreread-lab explain geometry 4G --logical-block 4K

";

/// A sector: no device has smaller blocks.
const SMALLEST_BLOCK: ByteCount = ByteCount(SECTOR_SIZE);

/// Larger than the page of any machine.
const LARGEST_BLOCK: ByteCount = ByteCount(128 << 10);
