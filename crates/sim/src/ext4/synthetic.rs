//! A random tree, and the positions that ext4 would give it.
//!
//! ```text
//!   group   |bitmaps|== inode table ==|------------ data: directories, files ------------|
//!                    ^ in the order of creation:
//!                    |dir|its files|others|dir|its files|dir|its files|others ....|late ones|
//! ```
//!
//! A directory is placed in its parent's group and its files next to it; only top-level directories
//! are spread (ext4's Orlov rule). Files of other trees, created at the same time, separate the
//! directories: the file system holds more than the tree that is walked.

use foreread_core::units::ByteCount;
use foreread_ext4::itable::BlockIndex;
use serde::Deserialize;

use super::layout::{
    BLOCK_SIZE, Directory, DirectoryEntry, DirectoryId, GroupTable, InodeNumber, TreeLayout,
};
use crate::rng::Rng;

/// Parameters of a tree and of the other files on its file system.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SyntheticTree {
    /// Number of directories.
    pub directories: u32,
    /// Number of top-level directories: each starts in a separate group, as far apart as possible.
    #[serde(default = "one")]
    pub top: u32,
    /// Mean number of files per directory.
    pub files: f64,
    /// Standard deviation of the logarithm of that number: 0 for equal directories; 1 to 2 is
    /// typical.
    #[serde(default)]
    pub files_sigma: f64,
    /// Share of files created after all others, in random order: their inodes follow the others of
    /// their group.
    #[serde(default)]
    pub late: f64,
    /// Share of the gaps between directories that contain inodes of other trees.
    #[serde(default)]
    pub gaps: f64,
    /// Mean number of inodes in such a gap.
    #[serde(default)]
    pub gap: f64,
    /// Standard deviation of the logarithm of that number.
    #[serde(default)]
    pub gap_sigma: f64,
    /// Inode size in bytes: 256, or 128 for file systems created as ext3.
    #[serde(default = "inode_size")]
    pub inode_size: u32,
    /// Inodes per group, used or not.
    #[serde(default = "inodes_per_group")]
    pub inodes_per_group: u32,
}

/// A tree under construction.
struct Drawing<'t> {
    tree: &'t SyntheticTree,
    layout: TreeLayout,
}

impl SyntheticTree {
    /// Generates the tree on a file system of this size; None if the generated files do not fit.
    #[must_use]
    pub fn draw(&self, size: ByteCount, mut rng: Rng) -> Option<TreeLayout> {
        let in_group = |group| GroupTable {
            first: BlockIndex(group * BLOCKS_PER_GROUP + HEAD_BLOCKS),
            used: 0,
        };
        let layout = TreeLayout {
            directories: Vec::new(),
            tables: (0..groups_of(size)).map(in_group).collect(),
            inodes_per_group: self.inodes_per_group,
            inodes_per_block: self.inodes_per_block(),
        };
        let mut drawing = Drawing { tree: self, layout };
        let mut late = drawing.add_directories(&mut rng)?;
        rng.shuffle(&mut late);
        for id in late {
            drawing.add_late(id, &mut rng)?;
        }
        drawing.rank_entries(&mut rng);
        drawing.place_directories()?;
        Some(drawing.layout)
    }

    /// Checks the parameters for a file system of this size.
    ///
    /// # Errors
    ///
    /// The parameter that is out of range, and the possible values.
    pub fn check(&self, size: ByteCount) -> Result<(), String> {
        let check = |holds: bool, what: &str, wants: &str| {
            if holds { Ok(()) } else { Err(format!("tree: {what}: must be {wants}")) }
        };
        check((1..=1_000_000).contains(&self.directories), "directories", "1 to 1000000")?;
        check((1..=self.directories).contains(&self.top), "top", "1 to directories")?;
        check(is_within(self.files, 1e6), "files", "0 to 1000000")?;
        check(is_within(self.files_sigma, 4.0), "files_sigma", "0 to 4")?;
        check(is_within(self.late, 1.0), "late", "0 to 1")?;
        check(is_within(self.gaps, 1.0), "gaps", "0 to 1")?;
        check(is_within(self.gap, 1e6), "gap", "0 to 1000000")?;
        check(is_within(self.gap_sigma, 4.0), "gap_sigma", "0 to 4")?;
        let is_size = self.inode_size.is_power_of_two() && (128..=4096).contains(&self.inode_size);
        check(is_size, "inode_size", "a power of two from 128 to 4096")?;
        let is_whole = self.inodes_per_group.is_multiple_of(self.inodes_per_block());
        let is_some = (1..=32768).contains(&self.inodes_per_group);
        let what = "whole blocks, at most 32768 inodes";
        check(is_whole && is_some && self.table_blocks() <= MOST_TABLE, "inodes_per_group", what)?;
        let inodes = f64::from(self.directories) * (1.0 + self.files + self.gaps * self.gap);
        let room = groups_of(size) as f64 * f64::from(self.inodes_per_group);
        // The file counts are random: half of the inodes are left as reserve.
        check(inodes * 2.0 <= room, "directories", "fewer: the tree may use half of the inodes")
    }

    /// Returns the number of inodes per table block.
    #[must_use]
    pub const fn inodes_per_block(&self) -> u32 {
        BLOCK_SIZE / self.inode_size
    }

    fn table_blocks(&self) -> u64 {
        u64::from(self.inodes_per_group / self.inodes_per_block())
    }
}

impl Drawing<'_> {
    /// Adds the directories with their initial files. Returns the directories of the late files,
    /// one element per file.
    fn add_directories(&mut self, rng: &mut Rng) -> Option<Vec<DirectoryId>> {
        let mut late = Vec::new();
        let mut path: Vec<DirectoryId> = Vec::new();
        for index in 0..self.tree.directories {
            let top = self.top_of(index);
            if index == 0 || self.top_of(index - 1) != top {
                path.clear();
            }
            path.truncate(levels(path.len(), rng));
            let parent = path.last().copied();
            let group = match parent {
                Some(parent) => self.layout.split(self.layout.directory(parent).inode).0,
                None => self.home_of(top),
            };
            if rng.unit() < self.tree.gaps {
                let others = log_normal(self.tree.gap, self.tree.gap_sigma, rng);
                self.give_others(group, others);
            }
            path.push(self.add_directory(group, parent, rng, &mut late)?);
        }
        Some(late)
    }

    fn add_directory(
        &mut self,
        group: usize,
        parent: Option<DirectoryId>,
        rng: &mut Rng,
        late: &mut Vec<DirectoryId>,
    ) -> Option<DirectoryId> {
        let id = DirectoryId(self.layout.directories.len());
        let inode = self.take_inode(group)?;
        let group = self.layout.split(inode).0;
        if let Some(DirectoryId(parent)) = parent {
            let entry = DirectoryEntry { inode, directory: Some(id), rank: 0, block: 0 };
            self.layout.directories[parent].entries.push(entry);
        }
        let mut entries = Vec::new();
        for _ in 0..log_normal(self.tree.files, self.tree.files_sigma, rng) {
            if rng.unit() < self.tree.late {
                late.push(id);
            } else {
                entries.push(DirectoryEntry {
                    inode: self.take_inode(group)?,
                    directory: None,
                    rank: 0,
                    block: 0,
                });
            }
        }
        self.layout.directories.push(Directory { inode, parent, blocks: Vec::new(), entries });
        Some(id)
    }

    fn add_late(&mut self, DirectoryId(id): DirectoryId, rng: &mut Rng) -> Option<()> {
        let group = self.layout.split(self.layout.directories[id].inode).0;
        let inode = self.take_inode(group)?;
        let entries = &mut self.layout.directories[id].entries;
        let at = rng.below(entries.len() as u64 + 1);
        let at = usize::try_from(at).expect("a number below a length is an index");
        entries.insert(at, DirectoryEntry { inode, directory: None, rank: 0, block: 0 });
        Some(())
    }

    fn rank_entries(&mut self, rng: &mut Rng) {
        for directory in &mut self.layout.directories {
            let mut order: Vec<usize> = (0..directory.entries.len()).collect();
            rng.shuffle(&mut order);
            for (rank, index) in (0..).zip(order) {
                directory.entries[index].rank = rank;
                directory.entries[index].block = rank / ENTRIES_PER_BLOCK;
            }
        }
    }

    /// Assigns blocks to each directory. The data area of a group fills in step with its inode
    /// table, so a directory's relative position in both is the same.
    fn place_directories(&mut self) -> Option<()> {
        let first_data = HEAD_BLOCKS + self.tree.table_blocks();
        let data_blocks = BLOCKS_PER_GROUP - first_data;
        let groups = self.layout.tables.len();
        let group_start = |group: usize| group as u64 * BLOCKS_PER_GROUP;
        let mut next: Vec<u64> = (0..groups).map(|group| group_start(group) + first_data).collect();
        let mut order: Vec<usize> = (0..self.layout.directories.len()).collect();
        order.sort_unstable_by_key(|index| self.layout.directories[*index].inode);
        for index in order {
            let (group, place) = self.layout.split(self.layout.directories[index].inode);
            let as_far = u64::from(place) * data_blocks / u64::from(self.tree.inodes_per_group);
            next[group] = next[group].max(group_start(group) + first_data + as_far);
            let entries = self.layout.directories[index].entries.len() as u64;
            let blocks = entries.div_ceil(u64::from(ENTRIES_PER_BLOCK)).max(1);
            let has_room = |group: &usize| next[*group] + blocks <= group_start(*group + 1);
            let group = (group..groups).chain(0..group).find(has_room)?;
            let first = next[group];
            next[group] += blocks;
            let blocks = (first..next[group]).map(BlockIndex);
            self.layout.directories[index].blocks = blocks.collect();
        }
        Some(())
    }

    /// Allocates the first free inode of a group, or of the next group with one.
    fn take_inode(&mut self, group: usize) -> Option<InodeNumber> {
        let per_group = self.tree.inodes_per_group;
        let mut groups = (group..self.layout.tables.len()).chain(0..group);
        let group = groups.find(|group| self.layout.tables[*group].used < per_group)?;
        let inode = InodeNumber(
            group as u64 * u64::from(per_group) + u64::from(self.layout.tables[group].used),
        );
        self.layout.tables[group].used += 1;
        Some(inode)
    }

    /// Allocates inodes for other trees; those that do not fit this group go elsewhere.
    fn give_others(&mut self, group: usize, inodes: u32) {
        let used = self.layout.tables[group].used.saturating_add(inodes);
        self.layout.tables[group].used = used.min(self.tree.inodes_per_group);
    }

    /// Returns the index of the top-level directory above this directory.
    fn top_of(&self, index: u32) -> u64 {
        u64::from(index) * u64::from(self.tree.top) / u64::from(self.tree.directories)
    }

    /// Returns the group in which a top-level directory starts.
    fn home_of(&self, top: u64) -> usize {
        let groups = self.layout.tables.len() as u64;
        usize::try_from(top * groups / u64::from(self.tree.top))
            .expect("the number of groups fits usize")
    }
}

/// Draws the depth of the next directory's parent: usually the current depth, or one less.
fn levels(depth: usize, rng: &mut Rng) -> usize {
    let mut depth = depth;
    while depth > 1 && rng.unit() < UP {
        depth -= 1;
    }
    depth
}

fn groups_of(size: ByteCount) -> u64 {
    size.0 / (BLOCKS_PER_GROUP * u64::from(BLOCK_SIZE))
}

fn is_within(number: f64, most: f64) -> bool {
    (0.0..=most).contains(&number)
}

/// Draws a number with this mean and a heavy tail.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn log_normal(mean: f64, sigma: f64, rng: &mut Rng) -> u32 {
    (mean * libm::exp(sigma * rng.normal() - sigma * sigma / 2.0)).round().min(1e9) as u32
}

/// Blocks per group: one block of bitmap describes them.
const BLOCKS_PER_GROUP: u64 = 32768;

/// The two bitmaps in front of a table. Superblock copies are in few groups, and are ignored here.
const HEAD_BLOCKS: u64 = 2;

/// An entry with a name of 16 letters takes 24 bytes, and blocks of a hashed directory are three
/// quarters full.
const ENTRIES_PER_BLOCK: u32 = 128;

/// Probability that the next directory is one level up, and then another: half of the directories
/// have no subdirectories.
const UP: f64 = 0.5;

/// Half of a group's blocks are reserved for files.
const MOST_TABLE: u64 = BLOCKS_PER_GROUP / 2;

fn one() -> u32 {
    1
}

fn inode_size() -> u32 {
    256
}

fn inodes_per_group() -> u32 {
    8192
}
