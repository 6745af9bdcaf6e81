//! Opens sources. Length and identity are queried once.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use foreread_core::prefetch::LearntDevice;
use foreread_core::units::{ByteCount, MAX_FILE_BYTES};

use super::contract::Source;
use super::names::OpenSource;
use crate::OpenOptions;
use crate::backend::Backend;
use crate::engine::Engine;
use crate::error::{OpenError, OpenErrorKind};
use crate::file::{File, check_ring};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::open_files::FileKey;

/// # Sources
impl Engine {
    /// Opens a source for reading. If a source of the same identity is open, this returns another
    /// handle to it and drops `source`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// use foreread::{Blocking, ReadRange, Reply, SourceIdentity};
    /// use std::{io, ops::Range};
    ///
    /// struct Zeros;
    ///
    /// impl ReadRange for Zeros {
    ///     fn identity(&self) -> SourceIdentity {
    ///         SourceIdentity::new("zeros", "1")
    ///     }
    ///
    ///     fn length(&self) -> io::Result<u64> {
    ///         Ok(1 << 30)
    ///     }
    ///
    ///     fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()> {
    ///         reply.write(&vec![0; (range.end - range.start) as usize])
    ///     }
    /// }
    ///
    /// let file = engine.open_source(Blocking::new(Zeros))?;
    /// assert_eq!(file.len(), 1 << 30);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the source cannot determine its length; in a forked child; if too many files are open.
    pub fn open_source(&self, source: impl Source) -> Result<File, OpenError> {
        self.open_source_with(source, &OpenOptions::default())
    }

    /// Opens a source as [`Self::open_source`] does, with options. Sources are read-only, so that
    /// only three options apply: the scheduler, the name under which the device is remembered, and
    /// the starting window.
    ///
    /// # Errors
    ///
    /// As for [`Self::open_source`].
    pub fn open_source_with(
        &self,
        source: impl Source,
        options: &OpenOptions,
    ) -> Result<File, OpenError> {
        let identity = source.identity();
        let path = PathBuf::from(identity.name());
        check_ring(&self.state, &path)?;
        let failed =
            |source| OpenErrorKind::Io { doing: "ask the length", source }.of(path.clone());
        let len = ByteCount(source.length().map_err(failed)?);
        if len > MAX_FILE_BYTES {
            let why = format!("its length of {len} bytes exceeds the limit of {MAX_FILE_BYTES}");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let expected = source.expected_device().filter(LearntDevice::is_plausible);
        let opened = OpenSource::new(source, self.state.sources.shared(identity));
        let options = &options.clone().for_source(expected);
        let backend = Backend::of_source(opened, len);
        let key = FileKey::new(&backend, options);
        let open = || FileState::open(&self.state, backend, options);
        let file = self.files.find_or(&key, open).map_err(|error| error.of(&path))?;
        Ok(File::new(Handle::new(file, Arc::clone(&self.files), path, options)))
    }
}
