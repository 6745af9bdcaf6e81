//! Paths: from the root to an inode, name by name.
//!
//! In:    a path, absolute or from the root.
//! Out:   the inode it leads to.
//! Never: more than forty symbolic links, as in Linux; a way out of the image through `..`.

use crate::Ext4;
use crate::error::Error;
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// As many as Linux follows.
const LINKS_MAX: usize = 40;

impl<S: BlockSource> Ext4<S> {
    /// The inode that a path leads to. A symbolic link at its end is followed.
    ///
    /// # Errors
    ///
    /// If there is none, or what leads there is damaged or cannot be read.
    pub fn resolve(&self, path: &[u8]) -> Result<Inode, Error> {
        self.follow(path, true)
    }

    /// The same, but a symbolic link at its end is what it leads to; one with a `/` behind it is
    /// not at its end.
    ///
    /// # Errors
    ///
    /// As [`Self::resolve`].
    pub fn resolve_link(&self, path: &[u8]) -> Result<Inode, Error> {
        self.follow(path, false)
    }

    fn follow(&self, path: &[u8], last_too: bool) -> Result<Inode, Error> {
        // The directories down to here: what `..` goes back to.
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

/// Puts the names of a path in front of those that are ahead. A path that ends in `/` must be a
/// directory.
fn push_names(ahead: &mut Vec<Vec<u8>>, path: &[u8]) {
    if path.ends_with(b"/") {
        ahead.push(b".".to_vec());
    }
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
    ahead.extend(names.rev().map(<[u8]>::to_vec));
}
