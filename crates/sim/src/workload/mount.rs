//! A mounted ext4: how those who walk a tree come to its directories and inodes.
//!
//! ```text
//!   stat -> the inode's block is cached           nothing
//!        -> it is not: hint its window, read it   docs/itable.md says which window
//! ```
//!
//! All blocks are the device's own, read with the advice `random`: nothing but the window is read
//! ahead.

use foreread_core::itable::{BlockIndex, Bound, FixedWindow};
use foreread_core::path::Fault;
use foreread_core::readahead::Advice;
use foreread_core::units::Bytes;
use serde::Deserialize;

use super::{check, file_of};
use crate::ext4::{BLOCK_SIZE, Directory, Entry, Inode, Layout, Tree};
use crate::process::Process;
use crate::reader::Reader;
use crate::run::SimFile;
use crate::scenario::Scenario;

/// Where a file system is, and with which options it is mounted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Which file: the whole file system.
    pub file: String,
    /// Blocks of a window, a power of two; 0 reads each block alone.
    #[serde(default = "default_blocks")]
    pub inode_readahead_blks: u64,
    /// Windows as Linux reads them, a block too long.
    #[serde(default)]
    pub compat: bool,
}

/// By which name a process's meter counts the windows that it asked for.
pub const WINDOWS: &str = "inode_table_windows";

/// In which order the entries of a directory are looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By their names, in which they were made.
    #[default]
    Sorted,
    /// By the hashes of their names, as a hashed directory gives them.
    Htree,
}

/// A mounted file system, as one process sees it.
#[derive(Debug)]
pub(super) struct Ext4 {
    layout: Layout,
    window: FixedWindow,
    reader: Reader,
    process: Process,
}

impl Mount {
    pub(super) fn check(&self, scenario: &Scenario, tree: &Tree) -> Result<(), String> {
        let size = file_of(scenario, &self.file)?.size.0;
        let wants = "0 or a power of two, at most 2^30";
        check(self.window().is_some(), "inode_readahead_blks", wants)?;
        tree.check(size)
    }

    fn window(&self) -> Option<FixedWindow> {
        let bound = if self.compat { Bound::OffByOne } else { Bound::Exact };
        FixedWindow::new(self.inode_readahead_blks, bound)
    }
}

impl Order {
    /// A directory's entries in this order.
    pub(super) fn of(self, directory: &Directory) -> Vec<Entry> {
        let mut entries = directory.entries.clone();
        match self {
            Self::Sorted => {}
            Self::Htree => entries.sort_unstable_by_key(|entry| entry.rank),
        }
        entries
    }
}

impl Ext4 {
    /// Mounts it; None if the tree that was drawn is too large for it.
    ///
    /// All who mount the same file with the same tree find the same layout.
    pub(super) fn open(
        process: &Process,
        file: SimFile,
        mount: &Mount,
        tree: &Tree,
    ) -> Option<Self> {
        let layout = Layout::new(tree, file.len, process.rng(&mount.file))?;
        let reader = process.open(file);
        reader.advise(Advice::Random);
        let window = mount.window().expect("it was checked");
        Some(Self { layout, window, reader, process: process.clone() })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads all blocks of a directory.
    pub(super) async fn list(&self, directory: &Directory) -> Result<(), Fault> {
        let len = Bytes(directory.blocks() * u64::from(BLOCK_SIZE));
        self.reader.read(at(directory.first), len).await.map(drop)
    }

    /// Reads one block of a directory.
    pub(super) async fn look_up(&self, block: BlockIndex) -> Result<(), Fault> {
        self.reader.read(at(block), Bytes(u64::from(BLOCK_SIZE))).await.map(drop)
    }

    /// Reads an inode. If its block has to be read, its window comes along.
    pub(super) async fn stat(&self, inode: Inode) -> Result<(), Fault> {
        let (block, table) = self.layout.place(inode);
        if !self.reader.is_resident(at(block)) {
            let window = self.window.decide(table, block).expect("an inode of this table");
            let blocks = window.end.0 - window.start.0;
            self.process.meter(|meter, _| *meter.other.entry(WINDOWS).or_default() += 1.0);
            self.reader.will_need(at(window.start), Bytes(blocks * u64::from(BLOCK_SIZE)));
        }
        self.reader.read(at(block), Bytes(u64::from(BLOCK_SIZE))).await.map(drop)
    }
}

fn at(block: BlockIndex) -> Bytes {
    Bytes(block.0 * u64::from(BLOCK_SIZE))
}

fn default_blocks() -> u64 {
    FixedWindow::DEFAULT_BLOCKS
}
