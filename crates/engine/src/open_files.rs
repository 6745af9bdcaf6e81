//! Which files are open, so that the same file opened twice is one file with one set of pages.
//!
//! In:    which file it is, and how it is read.
//! Out:   the one that is open already, if there is one.
//! Never: a file kept open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::OpenOptions;
use crate::backend::{Backend, Identity};
use crate::delay::Delay;
use crate::file::FileShared;

#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    files: Mutex<HashMap<Key, Weak<FileShared>>>,
}

/// The same file read in another way has other pages: a delay belongs to a device of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    identity: Identity,
    is_buffered: bool,
    delay: Option<Delay>,
    /// Where its faults are, if it fails on purpose.
    faults: usize,
}

impl Key {
    pub(crate) fn new(backend: &Backend, options: &OpenOptions) -> Self {
        Self {
            identity: backend.identity,
            is_buffered: backend.buffered.is_some(),
            delay: options.delay,
            faults: backend.faults.as_ref().map_or(0, |faults| Arc::as_ptr(faults).addr()),
        }
    }
}

impl OpenFiles {
    /// The file of this key: the one that is open, or the one that `open` makes.
    ///
    /// The lock is not held while it is made: whoever makes it drives, and then wakes tasks, which
    /// may open files. Of two threads that open the same file, both get the one that came first.
    pub(crate) fn find_or<E>(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<Arc<FileShared>, E>,
    ) -> Result<Arc<FileShared>, E> {
        let found = self.lock().get(&key).and_then(Weak::upgrade);
        if let Some(file) = found {
            return Ok(file);
        }
        let file = open()?;
        let mut files = self.lock();
        if let Some(first) = files.get(&key).and_then(Weak::upgrade) {
            // Ours closes, for which somebody drives.
            drop(files);
            return Ok(first);
        }
        if files.len() == files.capacity() {
            // Closed files leave their key behind. (They do not take it away themselves: the last
            // handle may end wherever a lock is held.)
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<FileShared>>> {
        // Nothing panics while it holds this lock, and the map is whole at any time all the same.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
