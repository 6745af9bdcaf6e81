//! Control socket of a mount, for `foreread stats` and `foreread set`.
//!
//! The socket is removed on exit.
//!
//! It is the server's own socket: its clients are known, and one more protocol is not.

use std::path::Path;
use std::thread::JoinHandle;

use foreread::{Engine, File};
use foreread_core::units::ByteCount;
use foreread_files::SocketFile;
use foreread_mount::{MountControls, PreparedMount};
use foreread_serve::stats::SettingValue;
use foreread_serve::{CounterReader, Export, Server, ServerLimits, Stopper};

use crate::args::itable_readahead::{itable_readahead, itable_readahead_text};
use crate::control::served::Served;
use foreread_cli::clock::clock;
use foreread_cli::output::{Failure, refusal};

/// A socket that answers; gone when it is dropped.
#[derive(Debug)]
pub(super) struct Control {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    file: SocketFile,
}

impl Control {
    pub(super) fn start(
        path: &Path,
        engine: &Engine,
        image: File,
        ready: &PreparedMount,
        target: &Path,
        memory: ByteCount,
    ) -> Result<Self, Failure> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        if folder.is_ok_and(|folder| folder.starts_with(ready.directory())) {
            let (path, dir) = (path.display(), ready.directory().display());
            return Err(Failure::WrongUse(format!(
                "{path}: the socket cannot be below {dir}, which the mount will hide; give a path \
                 in another directory"
            )));
        }
        let controls = ready.controls();
        let served = Served {
            engine: engine.clone(),
            file: image.clone(),
            written: image.clone(),
            losses: None,
            target: target.display().to_string(),
            export: String::new(),
            bytes: image.len(),
            read_only: true,
            memory,
            started: clock(),
        };
        let export = Export {
            name: String::new(),
            range: 0..image.len(),
            file: image,
            read_only: true,
            description: served.target.clone(),
        };
        let limits = ServerLimits { connections: CONNECTIONS, ..ServerLimits::default() };
        let mut server = Server::new(engine.clone(), export, limits);
        let refused = |error: &dyn ToString| Failure::WrongUse(error.to_string());
        let file = server.unix(path).map_err(|error| refused(&error))?;
        let (stopper, meter) = (server.stopper(), server.counter_reader());
        server.on_control(Box::new(move |text| answer(&served, &controls, text, &meter)));
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            // Errors concern the client only.
            let _ = server.run();
        });
        let thread = thread
            .map_err(|error| refused(&format!("cannot start a thread: {}", refusal(&error))))?;
        Ok(Self { stopper, thread: Some(thread), file })
    }

    /// Returns the socket's file, for a process that ends without dropping this.
    pub(super) fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers for the mount's own setting, or passes the request to the server.
fn answer(
    served: &Served,
    controls: &MountControls,
    text: &str,
    meter: &CounterReader,
) -> Result<String, String> {
    if let Some(value) = text.strip_prefix("set ").and_then(|text| text.strip_prefix(ASSIGN)) {
        controls.set_itable(itable_readahead(value)?);
        return Ok("ok".to_owned());
    }
    if text != "settings" {
        return served.answer(text, meter);
    }
    let mut settings = served.settings().map_err(|forked| forked.to_string())?;
    settings.push(SettingValue {
        name: NAME.to_owned(),
        value: itable_readahead_text(controls.itable()),
        of: "mount".to_owned(),
    });
    serde_json::to_string(&settings).map_err(|error| error.to_string())
}

/// NBD clients that may use the socket at a time. Each takes two descriptors, and the mount itself
/// and control requests must get some below the usual limit of 1024.
const CONNECTIONS: usize = 64;

const NAME: &str = "inode_readahead_blks";
const ASSIGN: &str = "inode_readahead_blks=";
