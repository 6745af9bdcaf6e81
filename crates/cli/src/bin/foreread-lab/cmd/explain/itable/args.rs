//! The arguments of `foreread-lab explain itable`.

use std::path::PathBuf;
use std::str::FromStr;

use foreread_ext4::itable::{BlockIndex, Cost, FixedWindow, InodeTable, ItableBound};

use super::image::ItableWindows;
use super::{ItablePlan, ItableSubject, TableSubject};
use crate::args::image_range::ImageRangeArgs;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;

/// Show which blocks of an ext4 inode table are read for an inode
///
/// TARGET INODE..: for each inode of an ext4 image, prints its block, the blocks read with it, and
/// the reason; blocks read for one inode are cached for the next. By default, as many blocks are
/// read as pay off.
///
/// --table TABLE BLOCK..: for each BLOCK of a table given by its geometry, prints the blocks that
/// the fixed window reads with it, both ends included, and their number; on a terminal, it draws
/// them. Windows start at multiples of their size; the first is cut off at the start of the table,
/// the last at the last used inode. A block behind that is read alone.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ItableArgs {
    /// Describe a table without an image: 1000+8192/16 starts at block 1000 and has 8192 inodes, 16
    /// in a block; 1000+8192/16-8000 has 8000 unused inodes at its end
    ///
    /// dumpe2fs prints the numbers of each group. Inodes per block are the block size over the
    /// inode size: 16 for 4096 and 256.
    #[arg(long, value_name = "FIRST+INODES/PER_BLOCK[-UNUSED]", value_parser = parse_table)]
    #[arg(requires = "inode_readahead_blks")]
    #[arg(conflicts_with_all = ["ignore_journal", "offset", "partition"])]
    table: Option<InodeTable>,

    /// Blocks in a window: a power of two up to 1073741824, 0 for no read-ahead, or adaptive
    ///
    /// ext4's mount option inode_readahead_blks; its default is 32. N+1 reads one block too many,
    /// as Linux does, whose loop includes its bound: 16+1 reads 17. adaptive reads as much as pays
    /// off; it learns from inodes, so it needs a TARGET, for which it is the default.
    #[arg(long, value_name = "N|N+1|adaptive", value_parser = parse_window)]
    inode_readahead_blks: Option<TableWindow>,

    /// With adaptive: cost of a request in addition to its transfer, in microseconds, and
    /// throughput of the device, in MB/s
    ///
    /// By default, a request costs as much as a transfer of 64 KiB.
    #[arg(long, value_name = "US,MB", value_parser = parse_cost)]
    cost: Option<Cost>,

    #[command(flatten)]
    range: ImageRangeArgs,

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
enum TableWindow {
    Fixed(FixedWindow, ItableBound),
    Adaptive,
}

impl ItableArgs {
    /// Checks and resolves the options.
    pub(super) fn resolve(&self) -> Result<ItablePlan, Failure> {
        let subject = match self.table {
            Some(table) => ItableSubject::Table(self.of_table(table)?),
            None => self.of_image()?,
        };
        Ok(ItablePlan { subject, json: self.json })
    }

    fn of_table(&self, table: InodeTable) -> Result<TableSubject, Failure> {
        let blocks = numbers(&self.what, "a block's number")?;
        let Some(TableWindow::Fixed(window, _)) = self.inode_readahead_blks else {
            return Err(wrong("adaptive learns from inodes: give a TARGET and no --table".into()));
        };
        let blocks = blocks.into_iter().map(BlockIndex).collect();
        Ok(TableSubject { table, window, blocks })
    }

    fn of_image(&self) -> Result<ItableSubject, Failure> {
        let [target, inodes @ ..] = &self.what[..] else { unreachable!("clap wants one") };
        if inodes.is_empty() {
            return Err(wrong(format!("which inodes of {target}? Write their numbers behind it")));
        }
        let windows = match self.inode_readahead_blks.unwrap_or(TableWindow::Adaptive) {
            TableWindow::Fixed(window, bound) => ItableWindows::Fixed(window, bound),
            TableWindow::Adaptive => ItableWindows::Adaptive(self.cost.unwrap_or(Cost::UNKNOWN)),
        };
        let inodes = numbers(inodes, "an inode's number")?;
        let target = self.range.resolve(PathBuf::from(target));
        Ok(ItableSubject::Image { target, inodes, windows })
    }
}

fn numbers<N: FromStr>(words: &[String], what: &str) -> Result<Vec<N>, Failure> {
    let number = |word: &String| word.parse().map_err(|_| wrong(format!("{word:?} is not {what}")));
    words.iter().map(number).collect()
}

fn wrong(line: String) -> Failure {
    Failure::WrongUse(line)
}

fn parse_table(text: &str) -> Result<InodeTable, String> {
    let parts = text.split_once('+').and_then(|(first, rest)| {
        let (inodes, in_block) = rest.split_once('/')?;
        let (in_block, unused) = in_block.split_once('-').unwrap_or((in_block, "0"));
        let in_block = digits::<u32>(in_block).filter(|count| *count > 0)?;
        Some((digits(first)?, digits(inodes)?, in_block, digits(unused)?))
    });
    let (first, inodes, in_block, unused) = parts.ok_or_else(|| {
        "write FIRST+INODES/PER_BLOCK (1000+8192/16), and -UNUSED if the last inodes are unused \
         (1000+8192/16-8000)"
            .to_owned()
    })?;
    InodeTable::new(BlockIndex(first), inodes, in_block, unused)
        .ok_or_else(|| format!("a table at {first} reaches the end of all block numbers"))
}

/// Parses digits only: `FromStr` accepts a sign.
fn digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn parse_window(text: &str) -> Result<TableWindow, String> {
    if text == "adaptive" {
        return Ok(TableWindow::Adaptive);
    }
    let (blocks, bound) = match text.strip_suffix("+1") {
        Some(blocks) => (blocks, ItableBound::OffByOne),
        None => (text, ItableBound::Exact),
    };
    let window = digits(blocks).and_then(|blocks| FixedWindow::new(blocks, bound));
    let window = window.map(|window| TableWindow::Fixed(window, bound));
    window.ok_or_else(|| {
        "write 0 or a power of two up to 1073741824 (16, 32, 64), or 16+1, or adaptive".to_owned()
    })
}

fn parse_cost(text: &str) -> Result<Cost, String> {
    let number = |text: &str| {
        let number = text.parse::<f64>().ok();
        number.filter(|number| (1e-3..=1e9).contains(number))
    };
    let cost = text.split_once(',').and_then(|(us, mb)| Some((number(us)?, number(mb)?)));
    let cost = cost.map(|(us, mb)| Cost { fixed_ns: us * 1e3, ns_per_byte: 1e3 / mb });
    cost.ok_or_else(|| "write US,MB: two numbers from 0.001 to 1000000000 (1000,100)".to_owned())
}

const EXAMPLES: &str = "\
Printed:
  1100: 1088..1103 (16)     for block 1100 the 16 blocks from 1088 to 1103 are read
  inode 12: block 1042: 1040..1049 (10), chance back 0.310, ahead 0.072; pays from 0.059
                            chance that the last block on each side is used; -: no block left

Examples:
  Which blocks of an image are read for three inodes, on a device with 1 ms and 100 MB/s:
    $ foreread-lab explain itable disk.img 12 900 13 --cost 1000,100
  A full table of 512 blocks, its first, a middle and its last window:
    foreread-lab explain itable --table 1000+8192/16 --inode-readahead-blks 16 1003 1100 1505
  The same, as Linux reads it, when only 192 inodes are used:
    foreread-lab explain itable --table 1000+8192/16-8000 --inode-readahead-blks 16+1 1003

";
