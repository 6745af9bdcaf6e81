//! One open of a file, as `open(2)` gives one: what clones of a `File` and its streams share.
//!
//! In:    a file of the engine, its path, hints.
//! Out:   the same, to its readers and writers; pages asked for, or forgotten.
//! Never: a dirty page left when a handle that may write ends, unless the device fails.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foreread_core::path::WriteMode;

use crate::OpenOptions;
use crate::advice::HandleAdvice;
use crate::error::{ForkedError, ReadError};
use crate::file_state::{FileState, pages_of};
use crate::open_files::OpenFiles;

/// One open of a file.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<FileState>,
    /// Which files are open in its engine.
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) path: PathBuf,
    pub(crate) advice: HandleAdvice,
    pub(crate) may_write: bool,
    /// All that it writes goes to the end.
    pub(crate) appends: bool,
    /// When a write is done whose caller does not say.
    pub(crate) write_mode: WriteMode,
    /// Never used again, in any engine: the name of the handle in each thread's list of streams.
    pub(crate) serial: u64,
}

impl Handle {
    /// One more handle to a file.
    pub(crate) fn new(
        file: Arc<FileState>,
        files: Arc<OpenFiles>,
        path: PathBuf,
        options: &OpenOptions,
    ) -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(0);

        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let OpenOptions { write: may_write, append: appends, write_mode, .. } = *options;
        let advice = HandleAdvice::default();
        Self { file, files, path, advice, may_write, appends, write_mode, serial }
    }

    pub(crate) fn will_need(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<u64, ReadError> {
        let file = &self.file;
        // Before the mutex is taken: what gives the ranges may read by this engine to find them.
        let ranges: Vec<_> = ranges.into_iter().collect();
        let forked = |ForkedError| ReadError::Forked { path: self.path.clone() };
        let mut driver = file.engine.drive().map_err(forked)?;
        if let Some(errno) = driver.broken() {
            let source = io::Error::from_raw_os_error(errno);
            return Err(ReadError::Io { path: self.path.clone(), offset: 0, source });
        }
        driver.take_events();
        let mut asked = 0;
        for range in ranges {
            // All of it first, then one submission.
            asked += driver.will_need(file.id, pages_of(&range));
        }
        driver.start_all();
        Ok(asked)
    }
}

impl Drop for Handle {
    /// Writes dirty pages back, and waits for that. Errors are not reported: only
    /// [`File::sync_data`](crate::File::sync_data) says whether the pages got to the device.
    fn drop(&mut self) {
        if self.may_write {
            self.file.write_back_at_the_end();
        }
    }
}
