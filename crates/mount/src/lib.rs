//! An ext4 image as a directory: a FUSE mount over the engine, without libfuse and without the
//! kernel's ext4.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().build()?;
//! let image = engine.open("disk.img")?;
//! let settings = foreread_mount::Settings::default();
//! let mount = foreread_mount::Mount::new(image, "/mnt".as_ref(), settings)?;
//! let stopper = mount.stopper(); // for a signal's thread
//! mount.run()?; // until it is unmounted
//! # drop(stopper);
//! # Ok(()) }
//! ```
//!
//! In:    a file of the engine, a directory to mount on.
//! Out:   every name, attribute and byte of the image, read only.
//! Never: a write to the image; an error of one file that ends the rest.
//!
//! What is read ahead and why: docs/ext4.md and docs/itable.md.

mod attr;
mod contents;
mod error;
mod fs;
mod inodes;
mod log;
mod place;
mod shared;
mod source;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use error::MountError;
use foreread_ext4::{Ext4, Journal, Superblock};
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};

use crate::contents::Contents;
use crate::fs::Answers;
use crate::inodes::Inodes;
use crate::log::Log;
use crate::shared::Shared;
use crate::source::Image;

/// How an image is mounted.
pub struct Settings {
    /// What to do about a journal with changes that are not in their places.
    pub journal: Journal,
    /// The name of what is mounted, in the kernel's list of mounts.
    pub name: String,
    /// Others than who mounts may come; then modes, owners and ACLs decide who reads what. Without
    /// it nobody else comes, and who has mounted reads everything.
    pub allow_other: bool,
    /// Where lines about damage go, one for each.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            journal: Journal::Refuse,
            name: "foreread".to_owned(),
            allow_other: false,
            log: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { journal, name, allow_other, log: _ } = self;
        let mut f = f.debug_struct("Settings");
        f.field("journal", journal).field("name", name).field("allow_other", allow_other);
        f.finish_non_exhaustive()
    }
}

/// A mount that is there. Dropping it unmounts.
pub struct Mount {
    session: Session<Answers>,
    shared: Arc<Shared>,
    stopper: Stopper,
}

impl Mount {
    /// Reads the superblock and mounts: names below `directory` are the image's from now on, and
    /// answered as soon as [`Self::run`] runs.
    ///
    /// # Errors
    ///
    /// If the image cannot be read as ext4, or nothing can be mounted there.
    pub fn new(
        image: foreread::File,
        directory: &Path,
        settings: Settings,
    ) -> Result<Self, MountError> {
        let directory = place::checked(directory)?;
        let fs = Ext4::open(Image::new(image), settings.journal).map_err(MountError::Image)?;
        let inodes = Inodes::new(fs);
        // What cannot be listed at all is better said now.
        inodes.fs().root().map_err(MountError::Image)?;
        let shared = Arc::new(Shared {
            inodes,
            contents: Contents::default(),
            log: Log::new(settings.log),
            checks_permissions: settings.allow_other,
        });
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::FSName(settings.name),
            MountOption::Subtype("foreread".to_owned()),
        ];
        if settings.allow_other {
            config.mount_options.push(MountOption::DefaultPermissions);
            config.acl = SessionACL::All;
        }
        config.n_threads = Some(THREADS);
        let session = Session::new(Answers(Arc::clone(&shared)), &directory, &config);
        let mut session =
            session.map_err(|source| MountError::Mount { path: directory.clone(), source })?;
        let unmounter = Arc::new(Mutex::new(session.unmount_callable()));
        let stopper = Stopper { unmounter, directory };
        Ok(Self { session, shared, stopper })
    }

    /// What the file system says of itself.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.shared.inodes.fs().superblock()
    }

    /// What unmounts, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Answers until it is unmounted, by whomever.
    ///
    /// # Errors
    ///
    /// If the kernel ends the connection in another way.
    pub fn run(self) -> io::Result<()> {
        self.session.run()
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount").field("directory", &self.stopper.directory).finish_non_exhaustive()
    }
}

/// Unmounts.
#[derive(Clone, Debug)]
pub struct Stopper {
    unmounter: Arc<Mutex<SessionUnmounter>>,
    directory: PathBuf,
}

impl Stopper {
    /// Unmounts, and says true. If somebody has something in it open, takes the mount out of sight
    /// and says false: it ends with the last who has.
    #[must_use]
    pub fn stop(&self) -> bool {
        let mut unmounter = self.unmounter.lock().unwrap_or_else(PoisonError::into_inner);
        unmounter.unmount().is_ok() || {
            place::detach(&self.directory);
            false
        }
    }
}

/// How many requests are answered at a time: as many may wait for the device, and hits are not
/// behind them.
const THREADS: usize = 16;
