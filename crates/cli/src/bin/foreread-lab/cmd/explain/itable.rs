//! `foreread-lab explain itable`: blocks of an inode table that are read for an inode.

mod image;

use std::io::Write as _;
use std::path::PathBuf;

use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_ext4::Journal;
use foreread_ext4::itable::{BlockIndex, Cost, FixedWindow, InodeTable, ItableBound};
use serde::Serialize;

use self::image::ItableWindows;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::image::ImageTarget;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::store::StoreAccess;

/// Show which blocks of an ext4 inode table are read for an inode
///
/// TARGET INODE..: for each inode of an ext4 image, prints its block, the blocks read with it, and
/// the reason; blocks read for one inode are cached for the next. By default, as many blocks are
/// read as pay off.
///
/// --table FIRST .. BLOCK..: for each BLOCK of a table given by its geometry, prints the blocks
/// that the fixed window reads with it, both ends included, and their number. Windows start at
/// multiples of their size; the first is cut off at the start of the table, the last at the last
/// used inode. A block behind that is read alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ItableArgs {
    /// First block of the group's inode table, to describe a table without an image
    #[arg(long, value_name = "FIRST", requires_all = ["inodes_per_group", "inodes_per_block"])]
    #[arg(requires = "inode_readahead_blks")]
    table: Option<u64>,

    /// Inodes per group, as in dumpe2fs
    #[arg(long, value_name = "N", requires = "table")]
    inodes_per_group: Option<u32>,

    /// Inodes per block: block size over inode size, 16 for 4096 and 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(requires = "table")]
    inodes_per_block: Option<u32>,

    /// Unused inodes at the end of the table, as in dumpe2fs
    ///
    /// More than the inodes of the group means that none is used.
    #[arg(long, value_name = "N", default_value_t = 0)]
    unused: u32,

    /// Blocks in a window: a power of two up to 1073741824, 0 for no read-ahead, or adaptive
    ///
    /// ext4's mount option inode_readahead_blks; its default is 32. adaptive reads as much as pays
    /// off; it learns from inodes, so it needs a TARGET, for which it is the default.
    #[arg(long, value_name = "N|adaptive", value_parser = parse_window)]
    inode_readahead_blks: Option<TableBlocks>,

    /// With adaptive: cost of a request in addition to its transfer, in microseconds
    ///
    /// By default, a request costs as much as a transfer of 64 KiB.
    #[arg(long, value_name = "US", requires = "mb_per_s", value_parser = parse_cost)]
    request_us: Option<f64>,

    /// With adaptive: throughput of the device, in MB/s
    #[arg(long, value_name = "MB", requires = "request_us", value_parser = parse_cost)]
    mb_per_s: Option<f64>,

    /// Read an image that needs journal recovery, without replaying the journal
    #[arg(long, conflicts_with = "table")]
    ignore_journal: bool,

    /// Offset of the file system in TARGET, in bytes (or with K, M, G)
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    #[arg(conflicts_with_all = ["table", "partition"])]
    offset: Option<ByteCount>,

    /// Read partition N of TARGET, a whole disk with an MBR or GPT
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with = "table")]
    partition: Option<u32>,

    /// Read one block too many, as Linux does
    ///
    /// The kernel's loop includes its bound: 17 blocks instead of 16. For comparing block by block.
    #[arg(long)]
    compat: bool,

    /// Draw each window below its line, as on a terminal
    #[arg(long, conflicts_with = "json", requires = "table")]
    picture: bool,

    /// Print JSON, one data object per BLOCK or INODE
    ///
    /// Keys: block, first, last (both included), blocks (count); for an image also inode, why, and
    /// for adaptive decisions pays, chance_back, chance_ahead.
    #[arg(long)]
    json: bool,

    /// Image and inode numbers; with --table, blocks of the table
    #[arg(value_name = "TARGET INODE.. | BLOCK", required = true)]
    what: Vec<String>,
}

/// Requested windows.
#[derive(Clone, Copy, Debug)]
enum TableBlocks {
    Fixed(u64),
    Adaptive,
}

/// JSON of one window.
#[derive(Serialize)]
struct TableRead {
    block: u64,
    first: u64,
    last: u64,
    blocks: u64,
}

pub(super) fn run(args: &ItableArgs, out: &mut Printer) -> Result<(), Failure> {
    let Some(table) = args.table else { return of_image(args, out) };
    let explained = explain(args, table)?;
    if args.json {
        return out.json("explain itable", explained);
    }
    for TableRead { block, first, last, blocks } in explained {
        writeln!(out, "{block}: {first}..{last} ({blocks})")?;
        if (args.picture || out.is_terminal()) && (2..=WIDEST_PICTURE).contains(&blocks) {
            let picture: String =
                (first..=last).map(|each| if each == block { '#' } else { '=' }).collect();
            writeln!(out, "  |{picture}|")?;
        }
    }
    Ok(())
}

fn of_image(args: &ItableArgs, out: &mut Printer) -> Result<(), Failure> {
    let [target, inodes @ ..] = &args.what[..] else { unreachable!("clap wants one") };
    if inodes.is_empty() {
        return Err(wrong(format!("which inodes of {target}? Write their numbers behind it")));
    }
    let inodes: Vec<u32> = numbers(inodes, "an inode's number")?;
    let bound = if args.compat { ItableBound::OffByOne } else { ItableBound::Exact };
    let windows = match args.inode_readahead_blks.unwrap_or(TableBlocks::Adaptive) {
        TableBlocks::Fixed(blocks) => ItableWindows::Fixed(
            FixedWindow::new(blocks, bound)
                .expect("parse_window accepts only sizes that a window may have"),
            bound,
        ),
        TableBlocks::Adaptive if args.compat => {
            return Err(wrong(
                "--compat is of fixed windows: give --inode-readahead-blks N".into(),
            ));
        }
        TableBlocks::Adaptive => ItableWindows::Adaptive(cost(args)),
    };
    let target = ImageTarget {
        target: PathBuf::from(target),
        journal: if args.ignore_journal { Journal::Ignore } else { Journal::Refuse },
        range: RangeChoice::new(args.offset, args.partition),
        store: StoreAccess::default(),
    };
    image::run(&target, &inodes, &windows, args.json, out)
}

fn cost(args: &ItableArgs) -> Cost {
    match (args.request_us, args.mb_per_s) {
        (Some(us), Some(mb_per_s)) => Cost { fixed_ns: us * 1e3, ns_per_byte: 1e3 / mb_per_s },
        _ => Cost::UNKNOWN,
    }
}

fn numbers<N: std::str::FromStr>(words: &[String], what: &str) -> Result<Vec<N>, Failure> {
    let number = |word: &String| word.parse().map_err(|_| wrong(format!("{word:?} is not {what}")));
    words.iter().map(number).collect()
}

/// All of the answer before any of it is printed.
fn explain(args: &ItableArgs, first: u64) -> Result<Vec<TableRead>, Failure> {
    let blocks: Vec<u64> = numbers(&args.what, "a block's number")?;
    let Some(TableBlocks::Fixed(size)) = args.inode_readahead_blks else {
        return Err(wrong("adaptive learns from inodes: give a TARGET and no --table".to_owned()));
    };
    let (in_group, in_block) =
        args.inodes_per_group.zip(args.inodes_per_block).expect("clap requires both with --table");
    let first = BlockIndex(first);
    let bound = if args.compat { ItableBound::OffByOne } else { ItableBound::Exact };
    let table = InodeTable::new(first, in_group, in_block, args.unused)
        .ok_or_else(|| wrong(format!("a table at {first} reaches the end of all block numbers")))?;
    let window = FixedWindow::new(size, bound)
        .expect("parse_window accepts only sizes that a window may have");
    let explain = |&block: &u64| {
        let blocks = window.decide(table, BlockIndex(block)).ok_or_else(|| {
            wrong(if block < first.0 {
                format!("block {block} lies before the table, which starts at {first}")
            } else {
                format!("there is no block {block}: it is past the end of all block numbers")
            })
        })?;
        let (start, end) = (blocks.start.0, blocks.end.0);
        Ok(TableRead { block, first: start, last: end - 1, blocks: end - start })
    };
    blocks.iter().map(explain).collect()
}

fn wrong(line: String) -> Failure {
    Failure::WrongUse(line)
}

fn parse_window(text: &str) -> Result<TableBlocks, String> {
    if text == "adaptive" {
        return Ok(TableBlocks::Adaptive);
    }
    let blocks = text.parse().map_err(|_| WINDOW_SIZES.to_owned())?;
    let is_fine = FixedWindow::new(blocks, ItableBound::Exact).is_some();
    is_fine.then_some(TableBlocks::Fixed(blocks)).ok_or_else(|| WINDOW_SIZES.to_owned())
}

fn parse_cost(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (1e-3..=1e9).contains(number));
    number.ok_or_else(|| "write a number from 0.001 to 1000000000".to_owned())
}

const WINDOW_SIZES: &str = "write 0 or a power of two up to 1073741824 (16, 32, 64)";

/// Largest number of blocks that fit on a line.
const WIDEST_PICTURE: u64 = 64;

const EXAMPLES: &str = "\
Printer:
  1100: 1088..1103 (16)     for block 1100 the 16 blocks from 1088 to 1103 are read
  inode 12: block 1042: 1040..1049 (10), chance back 0.310, ahead 0.072; pays from 0.059
                            chance that the last block on each side is used; -: no block left

Examples:
  Which blocks of an image are read for three inodes, on a device with 1 ms and 100 MB/s:
    $ foreread-lab explain itable disk.img 12 900 13 --request-us 1000 --mb-per-s 100
  A full table of 512 blocks, its first, a middle and its last window:
    foreread-lab explain itable --table 1000 --inodes-per-group 8192 --inodes-per-block 16 \\
        --inode-readahead-blks 16 1003 1100 1505
  The same, as Linux reads it, when only 192 inodes are used:
    foreread-lab explain itable --table 1000 --inodes-per-group 8192 --inodes-per-block 16 \\
        --unused 8000 --inode-readahead-blks 16 --compat 1003

";
