//! Walks every name below a directory.
//!
//! Damage is reported in place, and the walk continues. No directory is visited twice, so the walk
//! always ends; it remembers one number for each directory.

use std::collections::HashSet;

use crate::Ext4;
use crate::dir::ReadDir;
use crate::error::{Error, ImageLocation};
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// A visited name.
#[derive(Debug)]
#[non_exhaustive]
pub struct WalkEntry {
    /// Path from the starting directory, without a leading `/`. If a directory cannot be read
    /// further, the path of that directory.
    pub path: Vec<u8>,
    /// Inode of the name, or the damage found there.
    pub inode: Result<Inode, Error>,
}

/// Iterator over every name below a directory, directories before their names. Created by
/// [`Ext4::walk`].
#[derive(Debug)]
pub struct TreeWalk<'f, S> {
    fs: &'f Ext4<S>,
    /// Path of the current directory, with a trailing `/` unless it is empty.
    here: Vec<u8>,
    names: ReadDir<'f, S>,
    /// Directories still to be read.
    ahead: Vec<(Vec<u8>, Inode)>,
    seen: HashSet<u32>,
    /// Blocks and holes that remaining directories may have. Each block belongs to one directory,
    /// but a damaged image can assign the same blocks to all.
    left: u64,
}

impl<S: BlockSource> Ext4<S> {
    /// Walks every name below a directory.
    ///
    /// # Errors
    ///
    /// If it is not a directory.
    pub fn walk(&self, inode: &Inode) -> Result<TreeWalk<'_, S>, Error> {
        let names = self.read_dir(inode)?;
        let seen = HashSet::from([inode.number]);
        let left = self.superblock().blocks;
        Ok(TreeWalk { fs: self, here: Vec::new(), names, ahead: Vec::new(), seen, left })
    }
}

impl<S: BlockSource> TreeWalk<'_, S> {
    /// Ends the walk: its directories have more blocks than the file system.
    fn stop(&mut self) -> Option<WalkEntry> {
        self.ahead.clear();
        self.left = u64::MAX;
        let place = ImageLocation::Inode(self.names.end());
        let what = "and other directories have more blocks than the file system";
        let path = self.here.strip_suffix(b"/").unwrap_or_default().to_vec();
        Some(WalkEntry { path, inode: Err(place.is(what)) })
    }

    /// Reads the inode of a name; a directory is queued.
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
