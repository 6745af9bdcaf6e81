//! Open file description, like that of `open(2)`, shared by the clones of a `File` and its streams.
//! A writable handle writes dirty pages back when it is dropped.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foreread_core::path::WriteMode;

use crate::OpenOptions;
use crate::advice::HandleAdvice;
use crate::error::{ForkedError, ReadError, ReadErrorKind};
use crate::file_state::{FileState, pages_of};
use crate::open_files::OpenFiles;

/// Open file description.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) file: Arc<FileState>,
    /// Open files of the engine.
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) path: PathBuf,
    pub(crate) advice: HandleAdvice,
    pub(crate) may_write: bool,
    /// Every write goes to the end of the file.
    pub(crate) appends: bool,
    /// Mode of writes that specify none.
    pub(crate) write_mode: WriteMode,
    /// Identifies the handle in each thread's list of streams. Unique in the process, never reused.
    pub(crate) serial: u64,
}

impl Handle {
    /// Creates another handle to a file.
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
        // Collected before the mutex is taken: the iterator may read through this engine.
        let ranges: Vec<_> = ranges.into_iter().collect();
        let forked = |ForkedError| ReadErrorKind::Forked.of(self.path.clone());
        let mut driver = file.engine.drive().map_err(forked)?;
        if let Some(errno) = driver.broken() {
            let source = io::Error::from_raw_os_error(errno);
            return Err(ReadErrorKind::Io { offset: 0, source }.of(self.path.clone()));
        }
        driver.take_events();
        let mut asked = 0;
        for range in ranges {
            // All ranges are queued before the one submission below.
            asked += driver.will_need(file.id, pages_of(&range));
        }
        driver.start_all();
        Ok(asked)
    }
}

impl Drop for Handle {
    /// Writes dirty pages back and blocks until that is done. Errors are not reported: only
    /// [`File::sync_data`](crate::File::sync_data) confirms that the pages reached the device.
    fn drop(&mut self) {
        if self.may_write {
            self.file.write_back_at_the_end();
        }
    }
}
