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
    /// No lock is held while it is made, or let go: whoever drives runs wakers when it stops, and
    /// they may open files. If two threads make one at a time, the second takes that of the first.
    pub(crate) fn find_or<E>(
        &self,
        key: Key,
        open: impl FnOnce() -> Result<Arc<FileShared>, E>,
    ) -> Result<Arc<FileShared>, E> {
        if let Some(file) = self.find(&key) {
            return Ok(file);
        }
        let made = open()?;
        let mut files = self.lock();
        if let Some(file) = files.get(&key).and_then(Weak::upgrade) {
            drop(files);
            return Ok(file);
        }
        if files.len() == files.capacity() {
            // Closed files leave their key behind. (They do not take it away themselves: the last
            // handle may end wherever a lock is held.)
            files.retain(|_, file| file.strong_count() > 0);
        }
        files.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    fn find(&self, key: &Key) -> Option<Arc<FileShared>> {
        self.lock().get(key).and_then(Weak::upgrade)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<FileShared>>> {
        // Nothing panics while it holds this lock, and the map is whole at any time all the same.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
