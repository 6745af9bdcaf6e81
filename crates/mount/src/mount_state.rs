//! What all threads of a mount share.
//!
//! In:    inode numbers.
//! Out:   directories; where data and holes begin.
//! Never: anything that has to be let go of.

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
    /// Whether other users than the one that has mounted have access, so that modes and owners
    /// count.
    pub(crate) checks_permissions: bool,
}

impl MountState {
    pub(crate) fn directory(&self, number: u32) -> Result<Inode, Error> {
        let inode = self.inodes.inode(number)?;
        if inode.kind == FileKind::Directory { Ok(inode) } else { Err(Error::NotADirectory) }
    }

    /// Asks for the blocks of a directory that come next, before its names are read from `from` on.
    ///
    /// ```text
    ///   blocks   |--- 16 ---|--- 16 ---|--- 16 ---|
    ///   names    ...........^ from here            the rest of these 16 and the next are asked for
    /// ```
    ///
    /// A kernel's request has names of a few blocks, so each 16 are asked for once or twice, and
    /// what is asked for twice is there.
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

    /// The inodes of the names in a directory from a place on, as many as one request of the kernel
    /// may be answered with: all of them are needed for the answer.
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

    /// Where data, or a hole, begins at `offset` or behind it; None: nowhere. The end of a file is
    /// a hole.
    pub(crate) fn seek(
        &self,
        number: u32,
        offset: u64,
        wants_data: bool,
    ) -> Result<Option<u64>, Error> {
        self.inodes.fs().seek(&self.inodes.inode(number)?, offset, wants_data)
    }
}

/// How many blocks of a directory are asked for at a time, and how near their start: 32 KiB of
/// names, as programs ask for, are of about eight blocks.
const STEP: u64 = 16;
const NEAR_START: u64 = 7;

/// So many names have room in 32 KiB of answers, 120 bytes and the name for each.
const ANSWERED: usize = 256;
