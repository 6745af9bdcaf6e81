//! What is in files.
//!
//! In:    an inode's number, an offset.
//! Out:   bytes, as the engine reads them ahead.
//! Never: an open file that the kernel has to close: it does not tell us of opens and closes, so
//!        the last files that were read are kept, and no more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use foreread_ext4::{Error, Inode};

use crate::inodes::Inodes;

/// The files that were read last.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The last one at the end.
    kept: Mutex<VecDeque<Arc<Inode>>>,
}

impl Contents {
    /// Bytes of a regular file: fewer than asked only at its end.
    pub(crate) fn read(
        &self,
        inodes: &Inodes,
        number: u32,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, Error> {
        let inode = self.file(inodes, number)?;
        let left = usize::try_from(inode.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        let read = inodes.fs().read_at(&inode, offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn file(&self, inodes: &Inodes, number: u32) -> Result<Arc<Inode>, Error> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut kept = kept();
            let at = kept.iter().rposition(|file| file.number == number);
            if let Some(file) = at.and_then(|at| kept.remove(at)) {
                kept.push_back(Arc::clone(&file));
                return Ok(file);
            }
        }
        // Without the lock: others find theirs meanwhile.
        let file = Arc::new(inodes.inode(number)?);
        let mut kept = kept();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&file));
        Ok(file)
    }
}

/// How many files are kept.
const KEPT: usize = 128;
