//! Opens the file behind a descriptor that the program has opened itself. The engine gets no more
//! rights than the descriptor has. It does not use the descriptor, whose flags and offset belong to
//! the program, and which may lack `O_DIRECT`.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl};

use crate::OpenOptions;
use crate::engine::Engine;
use crate::error::{OpenError, OpenErrorKind};
use crate::file::File;

impl Engine {
    /// Opens the file behind a descriptor, even if it has no name any more: a [`std::fs::File`], or
    /// one received from another program. The access mode of the descriptor must cover the options.
    /// The descriptor is closed, because the engine opens the file again with its own flags.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let temporary = std::fs::File::options().read(true).write(true).open("/tmp/sorted")?;
    /// let options = foreread::OpenOptions::new().write(true);
    /// let file = engine.open_file(temporary, &options)?;
    /// file.append(b"a run")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the descriptor was not opened for reading, or not for writing although the options
    /// request it; otherwise as [`Self::open`]. It needs `/proc`.
    pub fn open_file(
        &self,
        file: impl Into<OwnedFd>,
        options: &OpenOptions,
    ) -> Result<File, OpenError> {
        let file = file.into();
        let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let name = std::fs::read_link(&link).unwrap_or_else(|_| link.clone());
        check_mode(&file, &name, options)?;
        let opened = File::open(&self.state, &self.files, &link, &name, options);
        opened.map_err(|error| error.kind.of(name))
    }
}

/// Checks that the descriptor's access mode covers the options.
fn check_mode(file: &OwnedFd, name: &Path, options: &OpenOptions) -> Result<(), OpenError> {
    let wrong = |why| Err(OpenErrorKind::Descriptor { why }.of(name.to_path_buf()));
    if options.create || options.create_new {
        let why = "the file is already open; leave out create and create_new";
        return Err(OpenErrorKind::Options { why }.of(name.to_path_buf()));
    }
    let flags = fcntl_getfl(file).map_err(|errno| {
        let source = errno.into();
        OpenErrorKind::Io { doing: "ask the descriptor's flags", source }.of(name)
    })?;
    if flags.contains(OFlags::PATH) {
        return wrong("its descriptor was opened with O_PATH; open it for reading");
    }
    let mode = flags & OFlags::ACCMODE;
    if mode == OFlags::WRONLY {
        return wrong("its descriptor is open only for writing; open it for reading, too");
    }
    if (options.write || options.append) && mode != OFlags::RDWR {
        return wrong("its descriptor is open only for reading; open it for writing, too");
    }
    Ok(())
}
