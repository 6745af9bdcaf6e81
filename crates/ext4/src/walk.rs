//! A walk: every name below a directory.
//!
//! In:    a directory, and its path.
//! Out:   each name with its inode; what is damaged in its place, and then the rest.
//! Never: a directory twice, which could be a walk without an end. So many numbers are kept as
//!        there are directories.

use std::collections::HashSet;

use crate::Ext4;
use crate::dir::ReadDir;
use crate::error::{Error, ImageLocation};
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// A name that was met.
#[derive(Debug)]
#[non_exhaustive]
pub struct WalkEntry {
    /// Its path from the directory on where the walk began, without a `/` in front. Where a
    /// directory cannot be read on, that directory's.
    pub path: Vec<u8>,
    /// What has the name, or what is wrong there.
    pub inode: Result<Inode, Error>,
}

/// Every name below a directory, a directory in front of its names. Made by [`Ext4::walk`].
#[derive(Debug)]
pub struct TreeWalk<'f, S> {
    fs: &'f Ext4<S>,
    /// The directory that is read, with a `/` behind its path if it has one.
    here: Vec<u8>,
    names: ReadDir<'f, S>,
    /// Directories that are still to be read.
    ahead: Vec<(Vec<u8>, Inode)>,
    seen: HashSet<u32>,
    /// Blocks and holes that earlier directories may still have. Each block is one directory's:
    /// a damaged image can give the same blocks to all.
    left: u64,
}

impl<S: BlockSource> Ext4<S> {
    /// Every name below a directory.
    ///
    /// # Errors
    ///
    /// If it is no directory.
    pub fn walk(&self, inode: &Inode) -> Result<TreeWalk<'_, S>, Error> {
        let names = self.read_dir(inode)?;
        let seen = HashSet::from([inode.number]);
        let left = self.superblock().blocks;
        Ok(TreeWalk { fs: self, here: Vec::new(), names, ahead: Vec::new(), seen, left })
    }
}

impl<S: BlockSource> TreeWalk<'_, S> {
    /// Ends the walk: its directories have met more blocks than there are.
    fn stop(&mut self) -> Option<WalkEntry> {
        self.ahead.clear();
        self.left = u64::MAX;
        let place = ImageLocation::Inode(self.names.end());
        let what = "and other directories have more blocks than the file system";
        let path = self.here.strip_suffix(b"/").unwrap_or_default().to_vec();
        Some(WalkEntry { path, inode: Err(place.is(what)) })
    }

    /// An inode that has a name; a directory is put aside to be read.
    fn meet(&mut self, path: &[u8], number: u32) -> Result<Inode, Error> {
        let inode = self.fs.inode(number)?;
        if inode.kind == FileKind::Directory {
            let is_new = self.seen.insert(number);
            ImageLocation::Inode(number).has(is_new, "is a directory in more than one place")?;
            self.ahead.push(([path, b"/"].concat(), inode.clone()));
        }
        Ok(inode)
    }
}

impl<S: BlockSource> Iterator for TreeWalk<'_, S> {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            if self.names.met() > self.left {
                return self.stop();
            }
            match self.names.next() {
                Some(Ok(entry)) => {
                    let path = [self.here.as_slice(), &entry.name].concat();
                    let inode = self.meet(&path, entry.inode);
                    return Some(WalkEntry { path, inode });
                }
                Some(Err(error)) => {
                    let path = self.here.strip_suffix(b"/").unwrap_or_default().to_vec();
                    return Some(WalkEntry { path, inode: Err(error) });
                }
                None => {
                    self.left = self.left.saturating_sub(self.names.met());
                    let (path, inode) = self.ahead.pop()?;
                    self.here = path;
                    self.names = self.fs.read_dir(&inode).expect("only directories are put ahead");
                }
            }
        }
    }
}
