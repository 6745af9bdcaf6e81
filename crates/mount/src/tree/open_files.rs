//! Recently read files of a tree. The kernel does not report opens and closes, so this cache
//! decides which files stay open.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foreread::File;

use crate::tree::{FileTree, TreeFile};

/// Recently read files.
pub(super) struct OpenFiles {
    tree: Arc<dyn FileTree>,
    /// Open files by node number, least recently used first.
    open: Mutex<VecDeque<(u64, File)>>,
}

impl OpenFiles {
    pub(super) fn new(tree: Arc<dyn FileTree>) -> Self {
        Self { tree, open: Mutex::default() }
    }

    /// Calls `give` with bytes of a file: fewer than requested only at its end. `path` is called
    /// only if the file has to be opened.
    pub(super) fn read<T>(
        &self,
        (number, node): (u64, &TreeFile),
        path: impl FnOnce() -> io::Result<String>,
        (offset, len): (u64, usize),
        give: impl FnOnce(io::Result<&[u8]>) -> T,
    ) -> T {
        BUFFER.with_borrow_mut(|buffer| {
            let left = usize::try_from(node.size.saturating_sub(offset)).unwrap_or(usize::MAX);
            let len = len.min(left);
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            let bytes = &mut buffer[..len];
            let read = self.opened(number, node, path).and_then(|file| whole(&file, bytes, offset));
            if read.is_err() {
                self.close(number);
            }
            give(read.map(|()| &*bytes))
        })
    }

    fn opened(
        &self,
        number: u64,
        node: &TreeFile,
        path: impl FnOnce() -> io::Result<String>,
    ) -> io::Result<File> {
        {
            let mut open = self.lock();
            let at = open.iter().rposition(|(open, _)| *open == number);
            if let Some(found) = at.and_then(|at| open.remove(at)) {
                let file = found.1.clone();
                open.push_back(found);
                return Ok(file);
            }
        }
        // Without the lock, so that others can use open files at the same time.
        let file = self.tree.open(&path()?, node)?;
        let mut open = self.lock();
        let oldest = if open.len() >= OPEN_MAX { open.pop_front() } else { None };
        open.push_back((number, file.clone()));
        drop(open);
        // This may drop the last handle, which closes the file.
        drop(oldest);
        Ok(file)
    }

    fn close(&self, number: u64) {
        let mut open = self.lock();
        let at = open.iter().rposition(|(open, _)| *open == number);
        let closed = at.and_then(|at| open.remove(at));
        drop(open);
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, File)>> {
        // No code panics while it holds this lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads all of it: the listed length is valid for this version.
fn whole(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    if to.is_empty() {
        return Ok(());
    }
    let read = file.read_at(to, offset).map_err(io::Error::from)?;
    if read < to.len() {
        let why = format!("{read} of {} bytes at {offset}: it has become shorter", to.len());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(())
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("open", &self.lock().len()).finish_non_exhaustive()
    }
}

thread_local! {
    /// Size of the largest kernel request so far: one megabyte.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Number of files kept open. The pages of a closed file are discarded; the kernel has those that
/// programs have read.
const OPEN_MAX: usize = 256;
