//! Reads the contents of files, and the targets of symbolic links.
//!
//! Holes and unwritten extents read as zeros. Bytes beyond the end or in merely reserved blocks are
//! never returned.

use crate::Ext4;
use crate::error::{Error, ImageLocation};
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// Maximum length of a path, and thus of a link.
const LINK_MAX: u64 = 4096;

impl<S: BlockSource> Ext4<S> {
    /// Reads a regular file from `offset` on, and returns the number of bytes. It is less than the
    /// length of `to` only at the end of the file, and 0 beyond it.
    ///
    /// # Errors
    ///
    /// If it is not a regular file, is encrypted, its map is damaged, or it cannot be read.
    pub fn read_at(&self, inode: &Inode, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        if inode.kind != FileKind::Regular {
            return Err(Error::WrongKind { wanted: "a regular file" });
        }
        inode.can_be_read()?;
        let left = inode.size.saturating_sub(offset);
        let len = usize::try_from(left).map_or(to.len(), |left| left.min(to.len()));
        if len > 0 {
            self.fill(inode, offset, &mut to[..len])?;
        }
        Ok(len)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    ///
    /// If it is not a symbolic link, is encrypted or damaged, or cannot be read.
    ///
    /// # Panics
    ///
    /// Only by a bug of this reader, never because of an image.
    pub fn read_link(&self, inode: &Inode) -> Result<Vec<u8>, Error> {
        if inode.kind != FileKind::Symlink {
            return Err(Error::WrongKind { wanted: "a symbolic link" });
        }
        inode.can_be_read()?;
        let place = ImageLocation::Inode(inode.number);
        place.has(inode.size <= LINK_MAX, "is a symbolic link longer than any path")?;
        let size = usize::try_from(inode.size).expect("LINK_MAX was checked above");
        let mut target = vec![0; size];
        if inode.is_short_link() {
            target.copy_from_slice(&inode.area()[..size]);
        } else {
            self.fill(inode, 0, &mut target)?;
        }
        // A path ends at the first zero byte.
        let end = target.iter().position(|&byte| byte == 0);
        target.truncate(end.unwrap_or(size));
        place.has(!target.is_empty(), "is a symbolic link without a target")?;
        Ok(target)
    }

    /// Fills `to` with the bytes from `offset` on, which must be inside the file.
    pub(crate) fn fill(&self, inode: &Inode, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        assert!(offset.checked_add(to.len() as u64).is_some_and(|end| end <= inode.size));
        if inode.is_inline() {
            let (head, tail) = inode.inline_parts()?;
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            let mut bytes = head.iter().chain(tail).skip(skipped);
            to.fill_with(|| bytes.next().copied().unwrap_or(0));
            return Ok(());
        }
        let block_size = u64::from(self.superblock().block_size);
        let (mut at, mut to) = (offset, to);
        while !to.is_empty() {
            let run = self.run(inode, at / block_size)?;
            let left = usize::try_from(run.end() * block_size - at);
            let (now, later) = to.split_at_mut(left.map_or(to.len(), |left| left.min(to.len())));
            match run.at {
                None => now.fill(0),
                Some(block) => {
                    let offset = block * block_size + at % block_size;
                    let read = self.source().read_contents(offset, now);
                    read.map_err(|source| Error::Io { offset, source })?;
                }
            }
            at += now.len() as u64;
            to = later;
        }
        Ok(())
    }
}
