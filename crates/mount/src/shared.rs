//! What all threads of a mount share.
//!
//! In:    inode numbers.
//! Out:   directories; where data and holes begin.
//! Never: anything that has to be let go of.

use foreread_ext4::{Error, FileKind, Inode};

use crate::contents::Contents;
use crate::inodes::Inodes;
use crate::log::Log;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) inodes: Inodes,
    pub(crate) contents: Contents,
    pub(crate) log: Log,
    /// Whether others than who has mounted may come, so that modes and owners count.
    pub(crate) checks_permissions: bool,
}

impl Shared {
    pub(crate) fn directory(&self, number: u32) -> Result<Inode, Error> {
        let inode = self.inodes.inode(number)?;
        if inode.kind == FileKind::Directory { Ok(inode) } else { Err(Error::NotADirectory) }
    }

    /// Where data, or a hole, begins at `offset` or behind it; None: nowhere. The end of a file is
    /// a hole.
    pub(crate) fn seek(
        &self,
        number: u32,
        offset: u64,
        wants_data: bool,
    ) -> Result<Option<u64>, Error> {
        let fs = self.inodes.fs();
        let inode = self.inodes.inode(number)?;
        if offset >= inode.size {
            return Ok(None);
        }
        if !inode.has_blocks() {
            return Ok(Some(if wants_data { offset } else { inode.size }));
        }
        let block_size = u64::from(fs.superblock().block_size);
        let mut at = offset;
        // Each run is one block at least, and a hole ends at a node or a block.
        while at < inode.size {
            let run = fs.run(&inode, at / block_size)?;
            if run.at.is_some() == wants_data {
                return Ok(Some(at));
            }
            at = run.end().saturating_mul(block_size);
        }
        Ok((!wants_data).then_some(inode.size))
    }
}
