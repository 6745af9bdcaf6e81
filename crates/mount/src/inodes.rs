//! Inodes, and read-ahead in inode tables. A block that was only read ahead is never waited for.
//!
//! ```text
//!   number --> group, block --- there? ----------------------------> the inode; the policy hears
//!                                 | no                                that the block was used
//!                                 '--> requested recently? yes ---> waits for it
//!                                            | no
//!                                            '--> needed together with others? request all of
//!                                                 them; else the policy: which blocks?
//!                                                 --> request, wait
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foreread_ext4::itable::{Adaptive, BlockIndex, Cost, FixedWindow, InodeTable, ItableBound};
use foreread_ext4::{BlockSource as _, Error, Ext4, GroupDescriptor, ImageLocation, Inode};

use crate::source::ImageSource;

/// Read-ahead in inode tables.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ItableReadahead {
    /// Reads as many blocks as pay off, judged by the use of earlier ones.
    #[default]
    Adaptive,
    /// Windows of this many blocks, as ext4's `inode_readahead_blks`: a power of two up to 2^30; 0
    /// or any other number turns it off.
    Blocks(u64),
}

/// Blocks of inode tables requested together, in order of offset, as byte ranges of the image.
#[derive(Debug, Default)]
pub(crate) struct AskedBlocks {
    /// Needed blocks, each once.
    pub(crate) needed: Vec<Range<u64>>,
    /// Ranges read: the needed blocks and the gaps between them.
    pub(crate) read: Vec<Range<u64>>,
}

/// Inodes of an image.
#[derive(Debug)]
pub(crate) struct Inodes {
    fs: Ext4<ImageSource>,
    policy: Mutex<ItablePolicy>,
    /// Ranges of the image requested recently, possibly in flight, the latest at the end.
    asked: Mutex<VecDeque<Range<u64>>>,
    /// Block last reported to the policy.
    last_used: AtomicU64,
}

#[derive(Debug)]
struct ItablePolicy {
    setting: ItableReadahead,
    adaptive: Box<Adaptive>,
    fixed: FixedWindow,
}

impl Inodes {
    pub(crate) fn new(fs: Ext4<ImageSource>, setting: ItableReadahead) -> Self {
        Self {
            fs,
            policy: Mutex::new(ItablePolicy::new(setting)),
            asked: Mutex::default(),
            last_used: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn fs(&self) -> &Ext4<ImageSource> {
        &self.fs
    }

    pub(crate) fn set_readahead(&self, setting: ItableReadahead) {
        *self.policy() = ItablePolicy::new(setting);
    }

    pub(crate) fn readahead(&self) -> ItableReadahead {
        self.policy().setting
    }

    /// Returns an inode named by a directory.
    ///
    /// The lowest numbers belong to the file system itself, including the root, and the kernel uses
    /// number 1 for the root: a directory that names one of them is damaged.
    pub(crate) fn named(&self, number: u32) -> Result<Inode, Error> {
        self.named_beside(number, Vec::new)
    }

    /// Returns an inode that is needed together with others: if it is not cached, all are
    /// requested, with a single wait.
    pub(crate) fn named_beside(
        &self,
        number: u32,
        others: impl FnOnce() -> Vec<u32>,
    ) -> Result<Inode, Error> {
        if number < self.fs.superblock().first_inode {
            let what = "is reserved for the file system, but a directory refers to it";
            return Err(Error::Corrupt { place: ImageLocation::Inode(number), what });
        }
        self.inode_beside(number, others)
    }

    /// Returns an inode by its number.
    pub(crate) fn inode(&self, number: u32) -> Result<Inode, Error> {
        self.inode_beside(number, Vec::new)
    }

    fn inode_beside(&self, number: u32, others: impl FnOnce() -> Vec<u32>) -> Result<Inode, Error> {
        let superblock = self.fs.superblock();
        let (offset, group) = self.fs.inode_place(number)?;
        let mut raw = vec![0; usize::from(superblock.inode_size)].into_boxed_slice();
        let block = BlockIndex(offset / u64::from(superblock.block_size));
        if self.fs.source().try_read(offset, &mut raw) {
            self.used(block);
        } else {
            // Even if this was done before: cached blocks and those in flight cost nothing, and
            // blocks evicted since are read together again.
            self.ask_for(others(), |gap| gap);
            let is_asked = self.was_asked(offset);
            if !is_asked {
                self.ask_around(group, block);
            }
            let read = self.fs.source().read(offset, &mut raw);
            read.map_err(|source| Error::Io { offset, source })?;
            if is_asked {
                self.used(block);
            }
        }
        Inode::parse(superblock, number, raw)
    }

    /// Requests the table blocks of these inodes; `widen` changes the largest gap between two
    /// blocks that is read along.
    pub(crate) fn ask_for(
        &self,
        numbers: impl IntoIterator<Item = u32>,
        widen: impl FnOnce(u64) -> u64,
    ) -> AskedBlocks {
        let mut needed: Vec<Range<u64>> = Vec::new();
        for number in numbers {
            // Names created together have inodes in the same block.
            let Ok(block) = self.block_of(number) else { continue };
            if needed.last() != Some(&block) {
                needed.push(block);
            }
        }
        needed.sort_by_key(|range| range.start);
        needed.dedup();
        let read = self.fs.source().will_need(needed.clone(), widen);
        self.remember(&read);
        AskedBlocks { needed, read }
    }

    /// Requests blocks of directories or maps that will be needed.
    pub(crate) fn will_need(&self, ranges: Vec<Range<u64>>) {
        self.fs.source().will_need(ranges, |gap| gap);
    }

    /// Returns the block of an inode, as a byte range of the image.
    fn block_of(&self, number: u32) -> Result<Range<u64>, Error> {
        let block_size = u64::from(self.fs.superblock().block_size);
        let (offset, _) = self.fs.inode_place(number)?;
        let start = offset / block_size * block_size;
        Ok(start..start + block_size)
    }

    /// Remembers ranges that may be in flight.
    fn remember(&self, asked: &[Range<u64>]) {
        let mut kept = self.asked();
        for range in asked {
            if kept.len() == ASKED {
                kept.pop_front();
            }
            kept.push_back(range.clone());
        }
    }

    /// Requests the blocks that the policy reads ahead with this one.
    fn ask_around(&self, group: GroupDescriptor, block: BlockIndex) {
        let superblock = self.fs.superblock();
        let block_bytes = superblock.block_size;
        let in_a_block = block_bytes / u32::from(superblock.inode_size);
        let table = InodeTable::new(
            BlockIndex(group.inode_table),
            superblock.inodes_per_group,
            in_a_block,
            group.unused_inodes,
        );
        let Some(table) = table else { return };
        let model = self.fs.source().file.device().model().ok().flatten();
        let cost =
            model.map_or(Cost::UNKNOWN, |it| Cost::measured(it.per_request_ns, it.per_kib_ns));
        let blocks = self.policy().decide(table, block, cost, block_bytes);
        let end = group.inode_table + superblock.table_blocks();
        if let Some(Range { start, end: last }) = blocks {
            let bytes = |block: u64| block.min(end) * u64::from(block_bytes);
            let range = bytes(start.0)..bytes(last.0);
            self.remember(&self.fs.source().will_need(vec![range], |gap| gap));
        }
    }

    /// Reports each block once while its inodes are used one after another.
    fn used(&self, block: BlockIndex) {
        if self.last_used.swap(block.0, Ordering::Relaxed) != block.0 {
            let mut policy = self.policy();
            if policy.setting == ItableReadahead::Adaptive {
                policy.adaptive.used(block);
            }
        }
    }

    fn was_asked(&self, offset: u64) -> bool {
        self.asked().iter().rev().any(|range| range.contains(&offset))
    }

    fn asked(&self) -> MutexGuard<'_, VecDeque<Range<u64>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn policy(&self) -> MutexGuard<'_, ItablePolicy> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ItablePolicy {
    fn new(setting: ItableReadahead) -> Self {
        let blocks = match setting {
            ItableReadahead::Adaptive => 0,
            ItableReadahead::Blocks(blocks) => blocks,
        };
        let fixed = FixedWindow::new(blocks, ItableBound::Exact);
        let fixed = fixed
            .or(FixedWindow::new(0, ItableBound::Exact))
            .expect("a window of 0 blocks switches read-ahead off, and is a valid size");
        Self { setting, adaptive: Box::new(Adaptive::new()), fixed }
    }

    fn decide(
        &mut self,
        table: InodeTable,
        block: BlockIndex,
        cost: Cost,
        block_bytes: u32,
    ) -> Option<Range<BlockIndex>> {
        match self.setting {
            ItableReadahead::Adaptive => {
                self.adaptive.decide(table, block, cost, block_bytes).map(|it| it.blocks)
            }
            ItableReadahead::Blocks(_) => self.fixed.decide(table, block),
        }
    }
}

/// Number of remembered ranges: more than any device has in flight. While a range is remembered, a
/// block of it that was evicted is read alone.
const ASKED: usize = 1024;
