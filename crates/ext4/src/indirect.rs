//! Block maps of ext2 and ext3: block numbers, and blocks full of numbers.
//!
//! A walk takes at most three steps down. They are counted, so a block that refers to itself cannot
//! cause an endless walk.
//!
//! ```text
//!   inode   | 0 .. 11 | single | double | triple |       n = block size / 4
//!             12 blocks   n       n * n    n * n * n
//! ```

use crate::Ext4;
use crate::block_run::BlockRun;
use crate::error::{Error, ImageLocation};
use crate::fields::le32;
use crate::inode::Inode;
use crate::source::BlockSource;

/// Number of blocks that the inode itself maps.
const DIRECT: u64 = 12;

/// Returns the run from `block` on.
pub(crate) fn run<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    block: u32,
) -> Result<BlockRun, Error> {
    let first = u64::from(block);
    let place = ImageLocation::Map { inode: inode.number, block: 0 };
    if first < DIRECT {
        return count(fs, &inode.area()[..48], place, first, first, 1);
    }
    let numbers = u64::from(fs.superblock().block_size) / 4;
    // Position in the tree of this block, and the number of blocks behind each number at the root.
    let (mut within, mut span) = (first - DIRECT, 1);
    for slot in 12..15 {
        if within < span * numbers {
            return descend(fs, inode, slot, Sought { first, within, span: span * numbers });
        }
        span *= numbers;
        within -= span;
    }
    Err(place.is("has no such block"))
}

/// The block to find in one of the three trees.
struct Sought {
    /// Block of the file.
    first: u64,
    /// Index of the wanted block among the blocks under the current entry.
    within: u64,
    /// Number of blocks under the current entry.
    span: u64,
}

fn descend<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    slot: usize,
    mut sought: Sought,
) -> Result<BlockRun, Error> {
    let numbers = u64::from(fs.superblock().block_size) / 4;
    let root = ImageLocation::Map { inode: inode.number, block: 0 };
    let mut at = u64::from(le32(inode.area(), slot * 4));
    if at == 0 {
        return Ok(BlockRun { first: sought.first, blocks: sought.span - sought.within, at: None });
    }
    let mut place = root;
    loop {
        let bytes = fs.block(at, place)?;
        place = ImageLocation::Map { inode: inode.number, block: at };
        sought.span /= numbers;
        let index = sought.within / sought.span;
        let within = sought.within % sought.span;
        let number = le32(&bytes, usize::try_from(index * 4).expect("a block has at most 64 KiB"));
        if sought.span == 1 || number == 0 {
            return count(fs, &bytes, place, sought.first, index, sought.span)
                .map(|run| BlockRun { blocks: run.blocks - within, ..run });
        }
        (at, sought.within) = (u64::from(number), within);
    }
}

/// Returns the length of the run that begins with the number at `index` in a list. Each number
/// stands for `span` blocks. A run is all zeros or, if `span` is one block, consecutive.
fn count<S>(
    fs: &Ext4<S>,
    list: &[u8],
    place: ImageLocation,
    first: u64,
    index: u64,
    span: u64,
) -> Result<BlockRun, Error> {
    let index = usize::try_from(index).expect("a block has at most 16384 numbers");
    let mut rest = list.chunks_exact(4).skip(index).map(|number| u64::from(le32(number, 0)));
    let at = rest.next().expect("the caller's index is below the list's length");
    if at == 0 {
        let more = rest.take_while(|&number| number == 0).count() as u64;
        return Ok(BlockRun { first, blocks: (more + 1) * span, at: None });
    }
    assert_eq!(span, 1, "a number that stands for more is not the last");
    let more = (at + 1..).zip(rest).take_while(|(next, number)| next == number).count() as u64;
    let is_there = fs.superblock().has_blocks(at, more + 1);
    place.has(is_there, "refers to a block outside the file system")?;
    Ok(BlockRun { first, blocks: more + 1, at: Some(at) })
}
