//! `foreread-lab explain itable TARGET INODE..`: the windows over the tables of a real image.
//!
//! Reads only the group descriptors, not the table blocks.

use std::collections::HashSet;
use std::io::Write as _;

use foreread_ext4::itable::{
    Adaptive, BlockIndex, Cost, FixedWindow, InodeTable, ItableBound, ItableDecision, Why,
};
use serde::Serialize;

use foreread_cli::image::ImageTarget;
use foreread_cli::output::{Failure, Printer};

/// Which windows are explained.
pub(super) enum ItableWindows {
    Fixed(FixedWindow, ItableBound),
    Adaptive(Cost),
}

/// JSON of one inode.
#[derive(Serialize)]
struct ImageTableRead {
    inode: u32,
    block: u64,
    first: u64,
    last: u64,
    blocks: u64,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pays: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance_back: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance_ahead: Option<f64>,
}

pub(super) fn run(
    target: &ImageTarget,
    inodes: &[u32],
    windows: &ItableWindows,
    json: bool,
    out: &mut Printer,
) -> Result<(), Failure> {
    let explained = explain(target, inodes, windows)?;
    if json {
        return out.json("explain itable", explained);
    }
    for ImageTableRead { inode, block, first, last, blocks, why, .. } in explained {
        match blocks {
            0 => writeln!(out, "inode {inode}: block {block}: {why}")?,
            _ => writeln!(out, "inode {inode}: block {block}: {first}..{last} ({blocks}), {why}")?,
        }
    }
    Ok(())
}

/// Explains the inodes in order; blocks read for one are cached for the next.
fn explain(
    target: &ImageTarget,
    inodes: &[u32],
    windows: &ItableWindows,
) -> Result<Vec<ImageTableRead>, Failure> {
    let fs = target.open(None)?;
    let superblock = fs.superblock();
    let block_bytes = superblock.block_size;
    let in_block = block_bytes / u32::from(superblock.inode_size);
    let mut cached = HashSet::new();
    let mut adaptive = Adaptive::new();
    let mut explained = Vec::new();
    for &inode in inodes {
        let most = superblock.inodes;
        if !(1..=most).contains(&inode) {
            let target = target.target.display();
            let line = format!("{target}: has the inodes 1 to {most}, and no {inode}");
            return Err(Failure::WrongUse(line));
        }
        let place = fs.inode_place(inode);
        let (offset, group) = place.map_err(|error| Failure::WrongUse(target.says(&error)))?;
        let (first, block) =
            (BlockIndex(group.inode_table), BlockIndex(offset / u64::from(block_bytes)));
        let in_group = superblock.inodes_per_group;
        let table = InodeTable::new(first, in_group, in_block, group.unused_inodes);
        let table = table.expect("ext4 has checked that the table lies in the file system");
        let decision = if cached.contains(&block) {
            None
        } else {
            Some(decide(windows, &mut adaptive, table, block, block_bytes))
        };
        adaptive.used(block);
        let blocks = decision.as_ref().map(|decision| decision.blocks.clone());
        let blocks = blocks.map_or(block.0..block.0, |blocks| blocks.start.0..blocks.end.0);
        cached.extend(blocks.clone().map(BlockIndex));
        let mut one = ImageTableRead {
            inode,
            block: block.0,
            first: blocks.start,
            last: blocks.end.max(block.0 + 1) - 1,
            blocks: blocks.end - blocks.start,
            why: decision
                .as_ref()
                .map_or("cached".to_owned(), |decision| why_of(windows, decision)),
            pays: None,
            chance_back: None,
            chance_ahead: None,
        };
        if let Some(ItableDecision { why: Why::Weighed { pays, back, ahead }, .. }) = decision {
            (one.pays, one.chance_back, one.chance_ahead) = (Some(pays), back, ahead);
        }
        explained.push(one);
    }
    Ok(explained)
}

fn decide(
    windows: &ItableWindows,
    adaptive: &mut Adaptive,
    table: InodeTable,
    block: BlockIndex,
    block_bytes: u32,
) -> ItableDecision {
    let decision = match windows {
        ItableWindows::Fixed(window, _) => {
            let why = if block >= table.used_end() { Why::Unused } else { Why::Single };
            window.decide(table, block).map(|blocks| ItableDecision { blocks, why })
        }
        ItableWindows::Adaptive(cost) => adaptive.decide(table, block, *cost, block_bytes),
    };
    decision.expect("the block of an inode lies in its group's table")
}

fn why_of(windows: &ItableWindows, decision: &ItableDecision) -> String {
    let (back, ahead, pays) = match (windows, decision.why) {
        (_, Why::Unused) => return "behind the used inodes".into(),
        (ItableWindows::Fixed(_, ItableBound::Exact), _) => return "fixed window".into(),
        (ItableWindows::Fixed(_, ItableBound::OffByOne), _) => {
            return "fixed window, as Linux reads it".into();
        }
        (ItableWindows::Adaptive(_), Why::Single) => {
            return "no inode near it was wanted lately".into();
        }
        (ItableWindows::Adaptive(_), Why::Weighed { pays, back, ahead }) => (back, ahead, pays),
    };
    // Of the last block on that side; of the nearest if none comes along; `-` if none is left.
    let chance = |chance: Option<f64>| chance.map_or("-".into(), |chance| format!("{chance:.3}"));
    format!("chance back {}, ahead {}; pays from {pays:.3}", chance(back), chance(ahead))
}
