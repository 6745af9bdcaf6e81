//! `foreread explain itable`: which blocks of an inode table come along with one.

use std::io::Write as _;

use foreread_core::itable::{BlockIndex, Bound, FixedWindow, InodeTable};
use serde::Serialize;

use crate::flags::CODES_AND_UNITS;
use crate::output::{Failure, Output};

/// Which blocks of an ext4 inode table are read when one inode is
///
/// For each BLOCK that must be read: the blocks that the fixed window reads with it, both ends
/// included, and how many these are. Windows lie at multiples of their size; the table's first one
/// is moved behind its start, the last one ends with the last used inode. A block behind that one
/// comes alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct Args {
    /// The first block of the group's inode table
    #[arg(long, value_name = "FIRST")]
    table: u64,

    /// Inodes in a group, as dumpe2fs prints them
    #[arg(long, value_name = "N")]
    inodes_per_group: u32,

    /// Inodes in a block: the block size divided by the inode size, 16 for 4096 and 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    inodes_per_block: u32,

    /// Inodes at the end of the table that were never used, as dumpe2fs prints them
    ///
    /// More than the group has means that none is used.
    #[arg(long, value_name = "N", default_value_t = 0)]
    unused: u32,

    /// Blocks in a window: a power of two up to 1073741824, or 0 for no read-ahead
    ///
    /// ext4's mount option inode_readahead_blks; its default is 32.
    #[arg(long, value_name = "N", value_parser = parse_window)]
    inode_readahead_blks: u64,

    /// Read one block too many, as Linux does
    ///
    /// The bound of the kernel's loop is included: 17 blocks for 16. For comparing block by block.
    #[arg(long)]
    compat: bool,

    /// Draw each window under its line, as is done on a terminal
    #[arg(long, conflicts_with = "json")]
    picture: bool,

    /// Print JSON: a list of objects, one a BLOCK
    ///
    /// Keys: block, first, last (both included), blocks (how many).
    #[arg(long)]
    json: bool,

    /// Blocks of the table that must be read
    #[arg(value_name = "BLOCK", required = true)]
    blocks: Vec<u64>,
}

/// One window, as JSON says it.
#[derive(Serialize)]
struct Explained {
    block: u64,
    first: u64,
    last: u64,
    blocks: u64,
}

pub(super) fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let explained = explain(args)?;
    if args.json {
        return out.json(explained);
    }
    for Explained { block, first, last, blocks } in explained {
        writeln!(out, "{block}: {first}..{last} ({blocks})")?;
        if (args.picture || out.is_terminal()) && (2..=WIDEST_PICTURE).contains(&blocks) {
            let picture: String =
                (first..=last).map(|each| if each == block { '#' } else { '=' }).collect();
            writeln!(out, "  |{picture}|")?;
        }
    }
    Ok(())
}

/// All of the answer before any of it is printed.
fn explain(args: &Args) -> Result<Vec<Explained>, Failure> {
    let first = BlockIndex(args.table);
    let bound = if args.compat { Bound::OffByOne } else { Bound::Exact };
    let table = InodeTable::new(first, args.inodes_per_group, args.inodes_per_block, args.unused)
        .ok_or_else(|| {
        wrong(format!("a table at {first} reaches the end of all block numbers"))
    })?;
    let window = FixedWindow::new(args.inode_readahead_blks, bound)
        .ok_or_else(|| wrong(WINDOW_SIZES.to_owned()))?;
    let explain = |&block: &u64| {
        let blocks = window.decide(table, BlockIndex(block)).ok_or_else(|| {
            wrong(if block < first.0 {
                format!("block {block} lies before the table, which starts at {first}")
            } else {
                format!("there is no block {block}: it is past the end of all block numbers")
            })
        })?;
        let (start, end) = (blocks.start.0, blocks.end.0);
        Ok(Explained { block, first: start, last: end - 1, blocks: end - start })
    };
    args.blocks.iter().map(explain).collect()
}

fn wrong(line: String) -> Failure {
    Failure::WrongUse(line)
}

fn parse_window(text: &str) -> Result<u64, String> {
    let blocks = text.parse().map_err(|_| WINDOW_SIZES.to_owned())?;
    let is_fine = FixedWindow::new(blocks, Bound::Exact).is_some();
    is_fine.then_some(blocks).ok_or_else(|| WINDOW_SIZES.to_owned())
}

const WINDOW_SIZES: &str = "write 0 or a power of two up to 1073741824 (16, 32, 64)";

/// As many blocks as fit on a line.
const WIDEST_PICTURE: u64 = 64;

const EXAMPLES: &str = "\
Output:
  1100: 1088..1103 (16)     for block 1100 the 16 blocks from 1088 to 1103 are read

Examples:
  A full table of 512 blocks, its first, a middle and its last window:
    foreread explain itable --table 1000 --inodes-per-group 8192 --inodes-per-block 16 \\
        --inode-readahead-blks 16 1003 1100 1505
  The same, as Linux reads it, when only 192 inodes are used:
    foreread explain itable --table 1000 --inodes-per-group 8192 --inodes-per-block 16 \\
        --unused 8000 --inode-readahead-blks 16 --compat 1003

";
