//! Opening a source.
//!
//! In:    a source.
//! Out:   a file of the engine.
//! Never: a source that is asked again for its length or its identity.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use foreread_core::units::{ByteCount, MAX_FILE_BYTES};

use super::contract::Source;
use super::names::OpenSource;
use crate::OpenOptions;
use crate::backend::Backend;
use crate::engine::Engine;
use crate::error::OpenError;
use crate::file::{File, check_ring};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::open_files::FileKey;

/// # Sources
impl Engine {
    /// Opens a source for reading. If one of the same identity is open, this is another handle to
    /// that one, and `source` is dropped.
    ///
    /// # Errors
    ///
    /// If the source does not know its length; in a forked child; if too many files are open.
    ///
    /// # Examples
    ///
    /// [`Source`] has one.
    pub fn open_source(&self, source: impl Source) -> Result<File, OpenError> {
        self.open_source_with(source, &OpenOptions::default())
    }

    /// The same with options, of which only the scheduler, the name of the device under which what
    /// is learnt of it is remembered, and where its window begins are of use for a source. The
    /// others are ignored, as a source is only read.
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
        let failed = |source| OpenError::Io { path: path.clone(), doing: "ask the length", source };
        let len = ByteCount(source.length().map_err(failed)?);
        if len > MAX_FILE_BYTES {
            let why = format!("it says {len} bytes, and no file has more than {MAX_FILE_BYTES}");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        let opened = OpenSource::new(source, self.state.sources.shared(identity));
        let options = &options.clone().for_source();
        let backend = Backend::of_source(opened, len);
        let key = FileKey::new(&backend, options);
        let open = || FileState::open(&self.state, backend, options);
        let file = self.files.find_or(&key, open).map_err(|error| error.of(&path))?;
        Ok(File::new(Handle::new(file, Arc::clone(&self.files), path, options)))
    }
}
