//! How a server ends, and what it leaves: nothing.
//!
//! In:    signals; a file's name.
//! Out:   a call when a signal comes; a file that is there while the server is.
//! Never: a half-written file, or the file of another process removed.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tempfile::NamedTempFile;

/// Calls `stop` once, when SIGTERM or SIGINT comes. A second one of either has the signal's default
/// effect: it ends the process at once. SIGHUP is ignored: a server outlives its terminal. (So is
/// SIGPIPE, by Rust.)
pub(super) fn on_signal(stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let is_second = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(&is_second))?;
        flag::register(signal, Arc::clone(&is_second))?;
    }
    let mut stop = Some(stop);
    on_signals(move || {
        if let Some(stop) = stop.take() {
            stop();
        }
    })
}

/// The same, but each SIGTERM and each SIGINT is a call, one after another.
pub(in crate::cmd) fn on_signals(mut stop: impl FnMut() + Send + 'static) -> io::Result<()> {
    // A handler that does nothing, so that commands which we run get the signal's own meaning back.
    flag::register(SIGHUP, Arc::default())?;
    let (mut heard, said) = UnixStream::pair()?;
    low_level::pipe::register(SIGTERM, said.try_clone()?)?;
    low_level::pipe::register(SIGINT, said)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut one = [0];
        while matches!(heard.read(&mut one), Ok(1)) {
            stop();
        }
    })?;
    Ok(())
}

/// A file with our process id, as long as this lives.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    id: String,
}

impl PidFile {
    /// Writes it at once or not at all: who sees the file sees the number.
    pub(super) fn write(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        let id = std::process::id().to_string();
        writeln!(file, "{id}")?;
        // Everybody may read whom to send a signal to, as with other servers.
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::fchmod(file.as_file(), mode)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(Self { path: path.to_owned(), id })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have taken the name meanwhile.
        if fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
