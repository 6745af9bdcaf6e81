//! Text format for the layout of a tree in a real image. It holds no names or contents: a walk
//! depends only on positions.
//!
//! ```text
//!   # comments, in front
//!   foreread layout 1
//!   blocks 1048576 inodes-per-group 8192 inode-size 256 root 2
//!   tables 1042:8192 1554:5051 ..      each group: the table's first block, inodes used
//!   9266 0:1,2:2,1:3d                  a directory: its blocks, its entries by name
//!   9268-9270 0:2,1:7@1,..             directory k is the k-th entry with a d, after the root
//!   - =1                               same entries as directory 1; no blocks: inline
//! ```
//!
//! An entry: `rank:inode`, then `@` and a block if it is not in the first, and `d` for a directory.
//! The rank is the position in hash order; the inode is given relative to the directory's inode.

use std::fmt::Write as _;

use foreread_core::units::ByteCount;
use foreread_ext4::itable::BlockIndex;

use super::layout::{
    BLOCK_SIZE, Directory, DirectoryEntry, DirectoryId, GroupTable, InodeNumber, TreeLayout,
};

/// Layout of a tree in an image.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordedLayout {
    /// Size of the file system, in blocks of 4096 bytes.
    pub blocks: u64,
    /// Number of inodes per group.
    pub inodes_per_group: u32,
    /// Size of an inode, in bytes.
    pub inode_size: u32,
    /// Inode of the directory at the root of the tree, from 1.
    pub root: u32,
    /// Inode tables of all groups: the first block, and the number of used inodes.
    pub tables: Vec<(u64, u32)>,
    /// Directories: the root, then the others in the order in which entries name them.
    pub directories: Vec<RecordedDirectory>,
}

/// A directory of an image.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordedDirectory {
    /// Blocks of the directory.
    pub blocks: Vec<u64>,
    /// Entries, sorted by name.
    pub entries: Vec<RecordedEntry>,
}

/// A directory entry in an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordedEntry {
    /// Inode number, from 1.
    pub inode: u32,
    /// True if the inode is a directory.
    pub is_directory: bool,
    /// Position in hash order.
    pub rank: u32,
    /// Index of its block in the directory, from 0.
    pub block: u32,
}

impl RecordedLayout {
    /// Formats the layout.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{HEAD}\nblocks {} inodes-per-group {} inode-size {} root {}\ntables",
            self.blocks, self.inodes_per_group, self.inode_size, self.root
        );
        for (first, used) in &self.tables {
            let _ = write!(text, " {first}:{used}");
        }
        text.push('\n');
        let mut known: Vec<String> = Vec::new();
        let mut numbers = vec![self.root];
        for (index, directory) in self.directories.iter().enumerate() {
            let own = numbers[index];
            let below = directory.entries.iter().filter(|entry| entry.is_directory);
            numbers.extend(below.map(|entry| entry.inode));
            let entries = entries_text(own, &directory.entries);
            text.push_str(&blocks_text(&directory.blocks));
            text.push(' ');
            // Directories with equal entries share one line.
            match known.iter().position(|other| *other == entries) {
                Some(index) if entries.len() > 8 => {
                    let _ = write!(text, "={index}");
                }
                _ => text.push_str(&entries),
            }
            known.push(entries);
            text.push('\n');
        }
        text
    }

    /// Parses the text.
    ///
    /// # Errors
    ///
    /// The line that is malformed, and the reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines =
            (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut line = |what: &str| lines.next().ok_or_else(|| format!("line {what} is missing"));
        let (number, head) = line(HEAD)?;
        at(number, if head == HEAD { Some(()) } else { None }, HEAD)?;
        let (number, sizes) = line("blocks")?;
        let mut taken =
            at(number, sizes_of(sizes), "blocks N inodes-per-group N inode-size N root N")?;
        let (number, tables) = line("tables")?;
        taken.tables = at(number, tables_of(tables), "tables FIRST:USED ..")?;
        at(number, taken.has_sane_tables().then_some(()), "tables within the file system")?;

        let mut numbers = vec![taken.root];
        for (number, line) in lines {
            let own = numbers.get(taken.directories.len()).copied();
            let own = at(number, own, "as many directories as entries with a d")?;
            let directory =
                at(number, taken.directory_of(own, line), "BLOCKS RANK:INODE[@BLOCK][d],..")?;
            at(number, taken.has(&directory).then_some(()), "valid blocks, inodes and ranks")?;
            let below = directory.entries.iter().filter(|entry| entry.is_directory);
            numbers.extend(below.map(|entry| entry.inode));
            taken.directories.push(directory);
        }
        if taken.directories.len() < numbers.len() {
            let (has, names) = (taken.directories.len(), numbers.len());
            return Err(format!("it names {names} directories and has {has}"));
        }
        Ok(taken)
    }

    /// Returns the size of the file system.
    #[must_use]
    pub fn size(&self) -> ByteCount {
        ByteCount(self.blocks * u64::from(BLOCK_SIZE))
    }

    /// Converts it to the layout that a run walks.
    #[must_use]
    pub fn layout(&self) -> TreeLayout {
        let mut directories: Vec<Directory> = Vec::new();
        let mut homes = vec![(self.root, None)];
        for (index, taken) in self.directories.iter().enumerate() {
            let (inode, parent) = homes[index];
            let mut entry = |entry: &RecordedEntry| {
                let RecordedEntry { inode, is_directory, rank, block } = *entry;
                let directory = is_directory.then(|| {
                    homes.push((inode, Some(DirectoryId(index))));
                    DirectoryId(homes.len() - 1)
                });
                DirectoryEntry { inode: place_of(inode), directory, rank, block }
            };
            let entries = taken.entries.iter().map(&mut entry).collect();
            let blocks = taken.blocks.iter().copied().map(BlockIndex).collect();
            directories.push(Directory { inode: place_of(inode), parent, blocks, entries });
        }
        let table = |&(first, used): &(u64, u32)| GroupTable { first: BlockIndex(first), used };
        TreeLayout {
            directories,
            tables: self.tables.iter().map(table).collect(),
            inodes_per_group: self.inodes_per_group,
            inodes_per_block: BLOCK_SIZE / self.inode_size,
        }
    }

    fn has_sane_tables(&self) -> bool {
        let is_size =
            self.inode_size.is_power_of_two() && (128..=BLOCK_SIZE).contains(&self.inode_size);
        let in_block = BLOCK_SIZE / self.inode_size.max(1);
        is_size
            && self.blocks <= 1 << 48
            && (1..=BLOCK_SIZE * 8).contains(&self.inodes_per_group)
            && self.has_inode(self.root)
            && self.tables.iter().all(|&(first, used)| {
                let blocks = u64::from(self.inodes_per_group.div_ceil(in_block));
                used <= self.inodes_per_group
                    && first.checked_add(blocks).is_some_and(|end| end <= self.blocks)
            })
    }

    fn has_inode(&self, inode: u32) -> bool {
        let groups = self.tables.len() as u64;
        inode > 0 && u64::from(inode - 1) < groups * u64::from(self.inodes_per_group)
    }

    fn has(&self, directory: &RecordedDirectory) -> bool {
        let RecordedDirectory { blocks, entries } = directory;
        let mut ranks: Vec<u32> = entries.iter().map(|entry| entry.rank).collect();
        ranks.sort_unstable();
        (0..).zip(&ranks).all(|(place, &rank): (u32, _)| place == rank)
            && blocks.iter().all(|&block| block < self.blocks)
            && entries.iter().all(|entry| {
                self.has_inode(entry.inode)
                    && (entry.block == 0 || (entry.block as usize) < blocks.len())
            })
    }

    fn directory_of(&self, own: u32, line: &str) -> Option<RecordedDirectory> {
        let (blocks, entries) = line.split_once(' ')?;
        let entries = match entries.strip_prefix('=') {
            None => entries_of(own, entries)?,
            Some(index) => {
                let index: usize = index.parse().ok()?;
                let moved = i64::from(own) - i64::from(self.own_inode(index)?);
                let move_one = |entry: &RecordedEntry| {
                    let inode = u32::try_from(i64::from(entry.inode) + moved).ok()?;
                    Some(RecordedEntry { inode, ..*entry })
                };
                self.directories.get(index)?.entries.iter().map(move_one).collect::<Option<_>>()?
            }
        };
        Some(RecordedDirectory { blocks: blocks_of(blocks)?, entries })
    }

    /// Returns the inode of a parsed directory.
    fn own_inode(&self, index: usize) -> Option<u32> {
        let entries = self.directories.iter().flat_map(|directory| &directory.entries);
        let below = entries.filter(|entry| entry.is_directory).map(|entry| entry.inode);
        std::iter::once(self.root).chain(below).nth(index)
    }
}

const HEAD: &str = "foreread layout 1";

/// Converts an inode number to its index over all groups.
fn place_of(inode: u32) -> InodeNumber {
    InodeNumber(u64::from(inode) - 1)
}

fn at<T>(number: u64, found: Option<T>, wants: &str) -> Result<T, String> {
    found.ok_or_else(|| format!("line {number}: expected {wants}"))
}

fn sizes_of(line: &str) -> Option<RecordedLayout> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["blocks", blocks, "inodes-per-group", in_group, "inode-size", inode_size, "root", root] =
        words[..]
    else {
        return None;
    };
    Some(RecordedLayout {
        blocks: blocks.parse().ok()?,
        inodes_per_group: in_group.parse().ok()?,
        inode_size: inode_size.parse().ok()?,
        root: root.parse().ok()?,
        ..RecordedLayout::default()
    })
}

fn tables_of(line: &str) -> Option<Vec<(u64, u32)>> {
    let table = |word: &str| {
        let (first, used) = word.split_once(':')?;
        Some((first.parse().ok()?, used.parse().ok()?))
    };
    line.strip_prefix("tables ")?.split(' ').map(table).collect()
}

fn blocks_text(blocks: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == block => *last = block,
            _ => runs.push((block, block)),
        }
    }
    let run = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    if runs.is_empty() { "-".into() } else { runs.iter().map(run).collect::<Vec<_>>().join(",") }
}

fn blocks_of(text: &str) -> Option<Vec<u64>> {
    let mut blocks = Vec::new();
    for run in text.split(',').filter(|run| *run != "-") {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? >= LARGEST_DIRECTORY {
            return None;
        }
        blocks.extend(first..=last);
    }
    Some(blocks)
}

fn entries_text(own: u32, entries: &[RecordedEntry]) -> String {
    let entry = |entry: &RecordedEntry| {
        let mut text = format!("{}:{}", entry.rank, i64::from(entry.inode) - i64::from(own));
        if entry.block > 0 {
            let _ = write!(text, "@{}", entry.block);
        }
        if entry.is_directory {
            text.push('d');
        }
        text
    };
    if entries.is_empty() {
        return "-".into();
    }
    entries.iter().map(entry).collect::<Vec<_>>().join(",")
}

fn entries_of(own: u32, text: &str) -> Option<Vec<RecordedEntry>> {
    let entry = |text: &str| {
        let (text, is_directory) =
            text.strip_suffix('d').map_or((text, false), |text| (text, true));
        let (rank, inode) = text.split_once(':')?;
        let (inode, block) = inode.split_once('@').unwrap_or((inode, "0"));
        let inode = i64::from(own).checked_add(inode.parse().ok()?)?;
        Some(RecordedEntry {
            inode: u32::try_from(inode).ok()?,
            is_directory,
            rank: rank.parse().ok()?,
            block: block.parse().ok()?,
        })
    };
    if text == "-" { Some(Vec::new()) } else { text.split(',').map(entry).collect() }
}

/// Largest directory, in blocks: bounds the memory that a few bytes of text can allocate.
const LARGEST_DIRECTORY: u64 = 1 << 20;
