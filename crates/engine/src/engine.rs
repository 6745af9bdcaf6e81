//! The engine: opens files, and provides their shared settings and counters.
//!
//! In:    paths, settings.
//! Out:   files, counters, the trace and the log of the core.
//! Never: a call that needs the driver in a forked child; it returns [`EngineError::Forked`].

use std::path::Path;
use std::sync::Arc;

use foreread_core::sched::Submitter;

use crate::OpenOptions;
use crate::counters::Counters;
use crate::engine_state::EngineState;
use crate::error::{EngineError, OpenError, SettingError};
use crate::file::File;
use crate::open_files::OpenFiles;
use crate::ring::RingKind;
use crate::settings::EngineSetting;

/// A page cache and the ring that fills it. Clones are handles to the same engine.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().memory(512 << 20).build()?;
/// let table = engine.open("/var/lib/db/table")?;
/// let mut page = vec![0; 8192];
/// table.read_at(&mut page, 0)?;
/// engine.set(foreread::EngineSetting::DirtyLimit(32 << 20))?; // while it runs
/// println!("{} reads were hits, by {}", engine.counters()?.hits, engine.io_backend());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) state: Arc<EngineState>,
    pub(crate) files: Arc<OpenFiles>,
}

impl Engine {
    /// Opens a regular file or a block device for reading.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let table = engine.open("/var/lib/db/table")?;
    /// let disk = engine.open("/dev/sdb")?; // a block device, too
    /// assert!(disk.len() > table.len());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is neither; the error names the remedy.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, OpenError> {
        self.open_with(path, &OpenOptions::default())
    }

    /// Opens a file with options, for example for writing.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// use foreread::{OpenOptions, WriteMode};
    ///
    /// let options = OpenOptions::new().write(true).write_mode(WriteMode::Fua);
    /// let journal = engine.open_with("/var/lib/db/journal", &options)?;
    /// journal.write_all_at(b"a record", 0)?; // durable when it returns
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_with(
        &self,
        path: impl AsRef<Path>,
        options: &OpenOptions,
    ) -> Result<File, OpenError> {
        let path = path.as_ref();
        File::open(&self.state, &self.files, path, path, options)
    }

    /// Opens a file for reading and writing. As [`std::fs::File::create`], creates it if it does
    /// not exist, and truncates it if it does.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let file = engine.create("/var/lib/db/table")?;
    /// file.write_all_at(b"it grows as it is written", 1 << 20)?;
    /// assert_eq!(file.len(), (1 << 20) + 25);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; if the file cannot be created or written.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File, OpenError> {
        self.open_with(path, &OpenOptions::made_anew())
    }

    /// Returns a snapshot of the counters.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let counters = engine.counters()?;
    /// println!("{} hits, {} bytes to be written", counters.hits, counters.dirty);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    ///
    /// # Panics
    ///
    /// If a thread has panicked while driving the engine, which leaves the cache in an unknown
    /// state. Every call that needs the driver then panics.
    pub fn counters(&self) -> Result<Counters, EngineError> {
        let driver = self.state.drive()?;
        Ok(Counters {
            hits: self.state.hits.sum(),
            inline_reads: driver.inline_reads,
            inline_writes: driver.inline_writes,
            path: driver.path.stats(),
            cache: driver.path.cache_stats(),
            windows: driver.path.windows(),
            markers_dropped: self.state.queue().dropped(),
            dirty: driver.path.dirty().bytes().0,
        })
    }

    /// Returns the largest window, in bytes, for reads that do not exceed it: the configured size
    /// in whole pages, at most an eighth of the memory; an eighth if windows are learnt.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// println!("at most {} KiB are read ahead at once", engine.max_window()? >> 10);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn max_window(&self) -> Result<u64, EngineError> {
        Ok(self.state.drive()?.path.max_window().bytes().0)
    }

    /// Changes one setting of the engine while it runs, from the next decision on.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// engine.set(foreread::EngineSetting::MaxWindow(Some(1 << 20)))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the value is not valid; in a forked child.
    pub fn set(&self, setting: EngineSetting) -> Result<(), SettingError> {
        self.set_by_name(setting.name(), &setting.value())
    }

    /// Changes one setting by its name, with the value as text: for control sockets and
    /// configuration files. [`Self::settings`] lists the names.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// engine.set_by_name("dirty_age", "500")?; // milliseconds
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no setting of that name, or the value is not valid; in a forked child.
    pub fn set_by_name(&self, name: &str, value: &str) -> Result<(), SettingError> {
        let mut driver = self.state.drive()?;
        driver.path.set(name, value)?;
        // Start requests that the new value unblocks, without waiting for another event.
        let now = driver.now();
        driver.path.timeout(now);
        driver.note_ready();
        driver.start_all();
        Ok(())
    }

    /// Sets the weight of `submitter`
    /// ([`ReadStream::set_submitter`](crate::ReadStream::set_submitter)): when memory is short,
    /// [`Policy::Adaptive`](crate::Policy::Adaptive) divides it among submitters by weight,
    /// regardless of their number of streams, and lends unused shares. Submitters without a weight
    /// count as one of weight 1; 0 removes the weight.
    ///
    /// # Errors
    ///
    /// If [`TooManyWeights::MOST`](crate::TooManyWeights::MOST) others already have weights;
    /// nothing changes then. In a forked child.
    pub fn set_weight(&self, submitter: Submitter, weight: u32) -> Result<(), SettingError> {
        self.state.drive()?.path.set_weight(submitter, weight)?;
        Ok(())
    }

    /// Returns the current values of all settings that [`Self::set_by_name`] changes.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// for (name, value) in engine.settings()? {
    ///     println!("{name}={value}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn settings(&self) -> Result<Vec<(&'static str, String)>, EngineError> {
        Ok(self.state.drive()?.path.settings())
    }

    /// Returns the I/O backend in use: `io_uring`, or threads and the reason.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// println!("requests go through {}", engine.io_backend());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn io_backend(&self) -> &RingKind {
        &self.state.ring_kind
    }

    /// Returns the number of idle frames (not being filled, held or pinned) and of all frames, for
    /// tests that check for leaks.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let (idle, all) = engine.frames()?;
    /// println!("{} of {all} frames are in use", all - idle);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    #[doc(hidden)]
    pub fn frames(&self) -> Result<(u64, u64), EngineError> {
        let mut driver = self.state.drive()?;
        driver.take_events();
        driver.reap_unless_led();
        driver.start_all();
        Ok((driver.path.idle_frames(), driver.path.frame_count().into()))
    }
}

#[cfg(test)]
mod tests;
