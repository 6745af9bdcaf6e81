//! Maps a file's blocks to runs of device blocks or zeros. A block outside the file system is an
//! error.
//!
//! ```text
//!   file     0         4         8                   18
//!            |-- 4 ----|-- 4 ----|------- 10 --------|
//!   device   | 700..704| (zeros) |     9000..9010    |
//! ```
//!
//! A cycle cannot be followed, because each step down must find a block of the next lower level. A
//! tree whose branches share blocks can describe a file of any length with few blocks, so
//! [`FileRuns`] stops once it has seen more blocks than the file system has.

use crate::block_run::BlockRun;
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::inode::Inode;
use crate::source::BlockSource;
use crate::{Ext4, extents, indirect};

impl<S: BlockSource> Ext4<S> {
    /// Returns a run from `block` of the file on: at least one block, and possibly shorter than the
    /// contiguous range.
    ///
    /// # Errors
    ///
    /// If the map is damaged or cannot be read, or the file has none.
    ///
    /// # Panics
    ///
    /// Only by a bug of this reader, never because of an image.
    pub fn run(&self, inode: &Inode, block: u64) -> Result<BlockRun, Error> {
        if !inode.has_blocks() {
            return Err(Error::WrongKind { wanted: "a file with blocks" });
        }
        let run = match u32::try_from(block) {
            Ok(block) if inode.has_extents() => extents::run(self, inode, block)?,
            Ok(block) => indirect::run(self, inode, block)?,
            Err(_) => return Err(ImageLocation::Inode(inode.number).is("has no such block")),
        };
        assert_eq!(run.first, block, "a run begins at the block that was asked for");
        assert!(run.blocks > 0, "a run has a block");
        Ok(run)
    }

    /// Returns all runs of a file in order, up to its size; none for a file without blocks.
    pub fn layout<'f>(&'f self, inode: &'f Inode) -> FileRuns<'f, S> {
        let end = inode.size.div_ceil(u64::from(self.superblock().block_size));
        let end = if inode.has_blocks() { end } else { 0 };
        let is_shared = self.superblock().features.ro_compat(features::SHARED_BLOCKS);
        let limit = if is_shared { u64::MAX } else { self.superblock().blocks };
        let numbers = u64::from(self.superblock().block_size / 4);
        // Even if blocks are shared, each run needs a number in some block, or in the inode.
        let runs_left = (self.superblock().blocks * numbers).saturating_add(numbers);
        FileRuns { fs: self, inode, next: None, at: 0, end, blocks: 0, holes: 0, limit, runs_left }
    }

    /// Returns the next offset of data, or of a hole, at or after `offset`; None if there is none.
    /// The end of a file counts as a hole.
    ///
    /// # Errors
    ///
    /// If the map up to there is damaged or cannot be read.
    pub fn seek(&self, inode: &Inode, offset: u64, wants_data: bool) -> Result<Option<u64>, Error> {
        if offset >= inode.size {
            return Ok(None);
        }
        if !inode.has_blocks() {
            return Ok(Some(if wants_data { offset } else { inode.size }));
        }
        let block_size = u64::from(self.superblock().block_size);
        let mut runs = self.layout(inode);
        runs.at = offset / block_size;
        // Reads only as many runs as necessary, and at most as many as there can be blocks.
        while let Some(run) = runs.read()? {
            if run.at.is_some() == wants_data {
                return Ok(Some(offset.max(run.first * block_size)));
            }
        }
        Ok((!wants_data).then_some(inode.size))
    }
}

/// Iterator over the runs of a file, created by [`Ext4::layout`].
#[derive(Debug)]
pub struct FileRuns<'f, S> {
    fs: &'f Ext4<S>,
    inode: &'f Inode,
    /// A run that was read ahead because it does not extend the previous one.
    next: Option<BlockRun>,
    /// Next block to map.
    at: u64,
    end: u64,
    /// Device blocks and holes seen so far. Each block belongs to one file, at one offset.
    blocks: u64,
    holes: u64,
    limit: u64,
    runs_left: u64,
}

impl<S: BlockSource> FileRuns<'_, S> {
    fn read(&mut self) -> Result<Option<BlockRun>, Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut run = self.fs.run(self.inode, self.at)?;
        run.blocks = run.blocks.min(self.end - self.at);
        self.at = run.end();
        match run.at {
            Some(_) => self.blocks += run.blocks,
            None => self.holes += 1,
        }
        // A hole follows a block, or ends a node, which is a block itself.
        let holes_max = self.limit.saturating_mul(2).saturating_add(3);
        let is_possible =
            self.blocks <= self.limit && self.holes <= holes_max && self.runs_left > 0;
        self.runs_left = self.runs_left.saturating_sub(1);
        let place = ImageLocation::Map { inode: self.inode.number, block: 0 };
        place.has(is_possible, "has more blocks than the file system")?;
        Ok(Some(run))
    }

    fn step(&mut self) -> Result<Option<BlockRun>, Error> {
        let Some(mut run) = self.next.take().map_or_else(|| self.read(), |run| Ok(Some(run)))?
        else {
            return Ok(None);
        };
        while let Some(next) = self.read()? {
            if !run.goes_on_with(&next) {
                self.next = Some(next);
                break;
            }
            run.blocks += next.blocks;
        }
        Ok(Some(run))
    }
}

impl<S: BlockSource> Iterator for FileRuns<'_, S> {
    type Item = Result<BlockRun, Error>;

    /// Returns the next run. An error ends the iteration.
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            (self.at, self.next) = (self.end, None);
        }
        step.transpose()
    }
}
