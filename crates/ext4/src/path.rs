//! Resolves paths from the root to an inode. At most forty symbolic links are followed, as in
//! Linux, and `..` never leads out of the image.

use crate::Ext4;
use crate::error::Error;
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// Largest number of symbolic links followed, as in Linux.
const LINKS_MAX: usize = 40;

impl<S: BlockSource> Ext4<S> {
    /// Returns the inode of a path. A symbolic link at the end is followed.
    ///
    /// # Errors
    ///
    /// If it does not exist, or a component is damaged or cannot be read.
    pub fn resolve(&self, path: &[u8]) -> Result<Inode, Error> {
        self.follow(path, true)
    }

    /// Returns the inode of a path without following a symbolic link at the end. A link followed by
    /// `/` is not at the end.
    ///
    /// # Errors
    ///
    /// As [`Self::resolve`].
    pub fn resolve_link(&self, path: &[u8]) -> Result<Inode, Error> {
        self.follow(path, false)
    }

    fn follow(&self, path: &[u8], last_too: bool) -> Result<Inode, Error> {
        // Directories down to the current one, for `..`.
        let mut down = vec![self.root()?];
        let mut ahead = Vec::new();
        push_names(&mut ahead, path);
        let mut links = 0;
        while let Some(name) = ahead.pop() {
            let here = down.last().expect("`..` never removes the root");
            if here.kind != FileKind::Directory {
                return Err(Error::NotADirectory);
            }
            match name.as_slice() {
                b"." => continue,
                b".." => {
                    down.truncate((down.len() - 1).max(1));
                    continue;
                }
                _ => {}
            }
            let number = self.lookup(here, &name)?.ok_or(Error::NotFound)?;
            let inode = self.inode(number)?;
            let is_last = ahead.is_empty();
            if inode.kind != FileKind::Symlink || (is_last && !last_too) {
                down.push(inode);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Error::TooManyLinks);
            }
            let target = self.read_link(&inode)?;
            if target.starts_with(b"/") {
                down.truncate(1);
            }
            push_names(&mut ahead, &target);
        }
        Ok(down.pop().expect("`..` never removes the root"))
    }
}

/// Pushes the names of a path in front of the remaining ones. A path that ends in `/` must be a
/// directory.
fn push_names(ahead: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        ahead.push(b".".to_vec());
    }
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    ahead.extend(names.rev().map(<[u8]>::to_vec));
}
