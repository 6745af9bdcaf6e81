//! State shared by all threads of a mount. Nothing in it needs to be released.

use std::sync::Arc;

use foreread_ext4::{Error, FileKind, Inode};

use crate::contents::Contents;
use crate::inodes::Inodes;
use crate::log::DamageLog;
use crate::walk_prefetch::WalkNotifier;

#[derive(Debug)]
pub(crate) struct MountState {
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) contents: Contents,
    pub(crate) ahead: WalkNotifier,
    pub(crate) log: DamageLog,
    /// True if users other than the mounting one have access, so that modes and owners apply.
    pub(crate) checks_permissions: bool,
}

impl MountState {
    pub(crate) fn directory(&self, number: u32) -> Result<Inode, Error> {
        let inode = self.inodes.inode(number)?;
        if inode.kind == FileKind::Directory { Ok(inode) } else { Err(Error::NotADirectory) }
    }

    /// Requests the next blocks of a directory, before its names from `from` on are read.
    ///
    /// ```text
    ///   blocks   |--- 16 ---|--- 16 ---|--- 16 ---|
    ///   names    ...........^ from here            requests the rest of these 16 and the next
    /// ```
    ///
    /// A kernel request returns names of a few blocks, so each group of 16 is requested once or
    /// twice; the second request finds it cached.
    pub(crate) fn directory_ahead(&self, directory: &Inode, from: u64) {
        let fs = self.inodes.fs();
        let block_size = u64::from(fs.superblock().block_size);
        let (first, blocks) = (from / block_size, directory.size.div_ceil(block_size));
        if !directory.has_blocks() || blocks < 2 || first % STEP > NEAR_START {
            return;
        }
        let end = (first + 2 * STEP).min(blocks);
        let mut ranges = Vec::new();
        let mut at = first;
        while at < end {
            // A read of the damaged part returns the error again.
            let Ok(run) = fs.run(directory, at) else { break };
            let run_end = run.end().min(end);
            if let Some(place) = run.at {
                ranges.push(place * block_size..(place + run_end - at) * block_size);
            }
            at = run_end;
        }
        self.inodes.will_need(ranges);
    }

    /// Returns the inodes of the names in a directory from a position on, up to the number in one
    /// reply. The reply needs all of them.
    ///
    /// ```text
    ///   names     a    b    c    d           one after another: a round trip for each block
    ///   blocks    7    2    7    5           together: |2| |5| |7|, in one round trip
    /// ```
    pub(crate) fn inodes_from(&self, directory: u32, from: u64) -> Vec<u32> {
        // A read of the damaged part returns the error again.
        let Ok(directory) = self.directory(directory) else { return Vec::new() };
        let Ok(names) = self.inodes.fs().read_dir_from(&directory, from) else { return Vec::new() };
        names.filter_map(Result::ok).take(ANSWERED).map(|entry| entry.inode).collect()
    }

    /// Returns the next offset of data, or of a hole, at or after `offset`; None if there is none.
    /// The end of a file counts as a hole.
    pub(crate) fn seek(
        &self,
        number: u32,
        offset: u64,
        wants_data: bool,
    ) -> Result<Option<u64>, Error> {
        self.inodes.fs().seek(&self.inodes.inode(number)?, offset, wants_data)
    }
}

/// Number of directory blocks requested at a time, and the distance from their start that triggers
/// it. 32 KiB of names, a usual request, come from about eight blocks.
const STEP: u64 = 16;
const NEAR_START: u64 = 7;

/// Names that fit into a reply of 32 KiB, at 120 bytes and the name for each.
const ANSWERED: usize = 256;
