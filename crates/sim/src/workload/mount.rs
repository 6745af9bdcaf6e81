//! A mounted ext4: access to directories and inodes for a process that walks a tree.
//!
//! ```text
//!   stat -> hit: no I/O
//!        -> miss: hint the window of the inode's block, read it   docs/design/itable.md has the
//!        windows
//! ```
//!
//! All blocks are read through the device, with the advice `random`: only the window is read ahead.

use std::cell::RefCell;

use foreread_core::path::Fault;
use foreread_core::prefetch::Advice;
use foreread_core::units::ByteCount;
use foreread_ext4::itable::{Adaptive, BlockIndex, Cost, FixedWindow, InodeTable, ItableBound};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::ext4::{BLOCK_SIZE, Directory, DirectoryEntry, InodeNumber, LayoutSource, TreeLayout};
use crate::machine::Machine;
use crate::process::Process;
use crate::reader::SimReader;
use crate::run::SimFile;
use crate::validate::check;

/// Position of a file system and its mount options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountSpec {
    /// File that contains the whole file system.
    pub file: String,
    /// Read-ahead windows over inode tables.
    #[serde(default)]
    pub inode_readahead_blks: InodeReadahead,
    /// Windows like Linux's, one block too long.
    #[serde(default)]
    pub compat: bool,
}

/// Blocks read ahead with an inode-table block: ext4's `inode_readahead_blks`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InodeReadahead {
    /// Windows of this size, a power of two; 0 reads each block alone.
    Fixed(u64),
    /// Windows sized by the device's cost and the use of earlier ones.
    Adaptive,
}

/// Name of the window count in a process's meter.
pub const WINDOWS: &str = "inode_table_windows";

/// Order in which the entries of a directory are visited.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum EntryOrder {
    /// By name, which is also the order of creation.
    #[default]
    Sorted,
    /// By hash of the name, the order in which a hashed directory lists them.
    Htree,
}

/// A mounted file system, from the view of one process.
#[derive(Debug)]
pub(super) struct Ext4Mount {
    layout: TreeLayout,
    window: TableWindow,
    reader: SimReader,
    process: Process,
    file: SimFile,
}

#[derive(Debug)]
enum TableWindow {
    Fixed(FixedWindow),
    Adaptive(Box<RefCell<Adaptive>>),
}

impl MountSpec {
    pub(super) fn check(&self, machine: &Machine<'_>, tree: &LayoutSource) -> Result<(), String> {
        let size = machine.file(&self.file)?.size.0;
        let wants = "0 or a power of two, at most 2^30";
        check(self.window().is_some(), "inode_readahead_blks", wants)?;
        tree.check(size)
    }

    fn window(&self) -> Option<TableWindow> {
        let bound = if self.compat { ItableBound::OffByOne } else { ItableBound::Exact };
        match self.inode_readahead_blks {
            InodeReadahead::Fixed(blocks) => {
                FixedWindow::new(blocks, bound).map(TableWindow::Fixed)
            }
            InodeReadahead::Adaptive => Some(TableWindow::Adaptive(Box::default())),
        }
    }
}

impl EntryOrder {
    /// Returns a directory's entries in this order.
    pub(super) fn of(self, directory: &Directory) -> Vec<DirectoryEntry> {
        let mut entries = directory.entries.clone();
        match self {
            Self::Sorted => {}
            Self::Htree => entries.sort_unstable_by_key(|entry| entry.rank),
        }
        entries
    }
}

impl Ext4Mount {
    /// Mounts the file system; None if the generated tree does not fit it.
    ///
    /// All processes that mount the same file with the same tree see the same layout.
    pub(super) fn open(
        process: &Process,
        file: SimFile,
        mount: &MountSpec,
        tree: &LayoutSource,
    ) -> Option<Self> {
        let layout = tree.layout(file.len, process.rng(&mount.file))?;
        let reader = process.open(file);
        reader.advise(Advice::Random);
        let window = mount.window().expect("the parameters were checked with the scenario");
        Some(Self { layout, window, reader, process: process.clone(), file })
    }

    pub(super) fn layout(&self) -> &TreeLayout {
        &self.layout
    }

    /// Reads all blocks of a directory.
    pub(super) async fn list(&self, directory: &Directory) -> Result<(), Fault> {
        // Contiguous blocks are one read.
        for run in directory.blocks.chunk_by(|one, next| one.0 + 1 == next.0) {
            let len = ByteCount(run.len() as u64 * u64::from(BLOCK_SIZE));
            self.reader.read(at(run[0]), len).await?;
        }
        Ok(())
    }

    /// Reads the directory block that contains an entry.
    pub(super) async fn look_up(
        &self,
        directory: &Directory,
        entry: &DirectoryEntry,
    ) -> Result<(), Fault> {
        let Some(block) = directory.block_of(entry) else { return Ok(()) };
        self.reader.read(at(block), ByteCount(u64::from(BLOCK_SIZE))).await.map(drop)
    }

    /// Reads an inode. On a miss, its window is read ahead.
    pub(super) async fn stat(&self, inode: InodeNumber) -> Result<(), Fault> {
        let (block, table) = self.layout.place(inode);
        if !self.reader.is_resident(at(block)) {
            let (start, end) = self.window(table, block);
            self.process.meter(|meter, _| *meter.other.entry(WINDOWS).or_default() += 1.0);
            self.reader.will_need(at(start), ByteCount((end.0 - start.0) * u64::from(BLOCK_SIZE)));
        }
        if let TableWindow::Adaptive(adaptive) = &self.window {
            adaptive.borrow_mut().used(block);
        }
        self.reader.read(at(block), ByteCount(u64::from(BLOCK_SIZE))).await.map(drop)
    }

    /// Returns the window to read for a block.
    fn window(&self, table: InodeTable, block: BlockIndex) -> (BlockIndex, BlockIndex) {
        let blocks = match &self.window {
            TableWindow::Fixed(window) => window.decide(table, block),
            TableWindow::Adaptive(adaptive) => {
                let device = self.file.device;
                let model = self.process.world(|world| world.path.device_model(device));
                let cost = model
                    .map_or(Cost::UNKNOWN, |it| Cost::measured(it.per_request_ns, it.per_kib_ns));
                let decision = adaptive.borrow_mut().decide(table, block, cost, BLOCK_SIZE);
                decision.map(|decision| decision.blocks)
            }
        };
        let blocks = blocks.expect("the block is one of the table");
        (blocks.start, blocks.end)
    }
}

fn at(block: BlockIndex) -> ByteCount {
    ByteCount(block.0 * u64::from(BLOCK_SIZE))
}

impl Default for InodeReadahead {
    fn default() -> Self {
        Self::Fixed(FixedWindow::DEFAULT_BLOCKS)
    }
}

impl<'de> Deserialize<'de> for InodeReadahead {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberOrAdaptive)
    }
}

struct NumberOrAdaptive;

impl Visitor<'_> for NumberOrAdaptive {
    type Value = InodeReadahead;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0, a power of two, or \"adaptive\"")
    }

    fn visit_i64<E: Error>(self, blocks: i64) -> Result<InodeReadahead, E> {
        let blocks = u64::try_from(blocks);
        blocks
            .map(InodeReadahead::Fixed)
            .map_err(|_| E::custom("inode_readahead_blks: is negative"))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<InodeReadahead, E> {
        match word {
            "adaptive" => Ok(InodeReadahead::Adaptive),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
        }
    }
}
