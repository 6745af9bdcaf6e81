//! `foreread-lab sim layout`: extracts the layout of a directory tree for scenarios.
//!
//! Names and contents are left out.

mod args;

pub(crate) use args::LayoutArgs;

use std::io::Write as _;

use foreread_ext4::{Error, Ext4, FileKind};
use foreread_sim::ext4::{BLOCK_SIZE, RecordedDirectory, RecordedEntry, RecordedLayout};

use foreread_cli::image::{Image, ImageTarget};
use foreread_cli::output::{Failure, Printer};

/// Directory tree whose layout is extracted.
struct LayoutPlan {
    image: ImageTarget,
    /// Path of its root in the image.
    path: Vec<u8>,
}

pub(super) fn run(args: &LayoutArgs, out: &mut Printer) -> Result<(), Failure> {
    let LayoutPlan { image, path } = args.resolve();
    let fs = image.open(None)?;
    if fs.superblock().block_size != BLOCK_SIZE {
        let size = fs.superblock().block_size;
        let target = image.target.display();
        return Err(Failure::WrongUse(format!(
            "{target}: cannot record a layout with blocks of {size} bytes, only of {BLOCK_SIZE}"
        )));
    }
    let wrong = |error: &Error| Failure::WrongUse(image.says_at(&path, error));
    let taken = take(&fs, &path).map_err(|error| wrong(&error))?;
    write!(out, "{}", taken.text())?;
    Ok(())
}

fn take(fs: &Ext4<Image>, path: &[u8]) -> Result<RecordedLayout, Error> {
    let superblock = fs.superblock();
    let mut taken = RecordedLayout {
        blocks: superblock.blocks,
        inodes_per_group: superblock.inodes_per_group,
        inode_size: u32::from(superblock.inode_size),
        root: fs.resolve(path)?.number,
        ..RecordedLayout::default()
    };
    for number in 0..superblock.groups {
        let group = fs.group(number)?;
        let used = superblock.inodes_per_group - group.unused_inodes;
        taken.tables.push((group.inode_table, used));
    }
    // A damaged directory may name one that is above it: no tree has more than these.
    let mut left = superblock.inodes;
    let mut ahead = std::collections::VecDeque::from([taken.root]);
    while let Some(number) = ahead.pop_front() {
        left = left.saturating_sub(1);
        let directory = take_directory(fs, number)?;
        if left > 0 {
            let below = directory.entries.iter().filter(|entry| entry.is_directory);
            ahead.extend(below.map(|entry| entry.inode));
        }
        taken.directories.push(directory);
    }
    Ok(taken)
}

fn take_directory(fs: &Ext4<Image>, number: u32) -> Result<RecordedDirectory, Error> {
    let inode = fs.inode(number)?;
    let mut directory = RecordedDirectory::default();
    if inode.has_blocks() {
        for run in fs.layout(&inode) {
            let run = run?;
            let first = run.at.unwrap_or_default();
            directory
                .blocks
                .extend(run.at.map(|_| first..first + run.blocks).into_iter().flatten());
        }
    }
    let mut named = Vec::new();
    for entry in fs.read_dir(&inode)? {
        let entry = entry?;
        // Behind the entry is still in its block, or at that one's end.
        let block = (entry.next - 1) / u64::from(BLOCK_SIZE);
        let block = if inode.has_blocks() { u32::try_from(block).unwrap_or(u32::MAX) } else { 0 };
        let is_directory = match entry.kind {
            Some(kind) => kind == FileKind::Directory,
            None => fs.inode(entry.inode)?.kind == FileKind::Directory,
        };
        named
            .push((entry.name, RecordedEntry { inode: entry.inode, is_directory, rank: 0, block }));
    }
    // Without hashes names come as they lie.
    let mut by_hash: Vec<usize> = (0..named.len()).collect();
    by_hash.sort_by_key(|&index| fs.superblock().name_hash(&named[index].0));
    for (rank, index) in (0..).zip(by_hash) {
        named[index].1.rank = rank;
    }
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    directory.entries = named.into_iter().map(|(_, entry)| entry).collect();
    Ok(directory)
}
