//! An ext4 image as a directory: a FUSE mount over the engine, without libfuse and without the
//! kernel's ext4.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = foreread::Engine::builder().build()?;
//! let image = engine.open("disk.img")?;
//! let settings = foreread_mount::MountSettings::default();
//! let mount = foreread_mount::PreparedMount::new(image, "/mnt".as_ref(), settings)?.mount()?;
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
mod mount_state;
mod mountinfo;
mod mountpoint;
mod source;
mod tree_walk;
mod walk_prefetch;

use std::fmt;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{mem, thread};

pub use error::MountError;
use foreread_ext4::{Ext4, Journal, Superblock};
use fuser::{Config, MountOption, Session, SessionACL};
pub use inodes::ItableReadahead;
pub use mountpoint::{UnmountOutcome, detach};

use crate::contents::Contents;
use crate::fs::FuseFs;
use crate::inodes::Inodes;
use crate::log::DamageLog;
use crate::mount_state::MountState;
use crate::mountpoint::{MountLock, Mountpoint};
use crate::source::ImageSource;
use crate::walk_prefetch::WalkNotifier;

/// How an image is mounted.
pub struct MountSettings {
    /// How far to read ahead in inode tables.
    pub itable: ItableReadahead,
    /// Whether directories that a walk comes to next are read ahead.
    pub walks: bool,
    /// What to do about a journal with changes that are not in their places.
    pub journal: Journal,
    /// The name of what is mounted, in the kernel's list of mounts.
    pub name: String,
    /// Other users may access the mount, as modes, owners and ACLs allow. Without it only the user
    /// that mounts may, and may read everything.
    pub allow_other: bool,
    /// The largest window of files, in bytes: the kernel's read-ahead asks for as much at a time.
    pub max_window: u64,
    /// The bound of the engine's memory, in bytes: a part of it is for what walks come to next.
    pub memory: u64,
    /// Where lines about damage go, one for each.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for MountSettings {
    fn default() -> Self {
        Self {
            itable: ItableReadahead::default(),
            walks: true,
            journal: Journal::Refuse,
            name: "foreread".to_owned(),
            allow_other: false,
            max_window: 128 << 10,
            memory: foreread::DEFAULT_MEMORY,
            log: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for MountSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { itable, walks, journal, name, allow_other, max_window, memory, log: _ } = self;
        let mut f = f.debug_struct("MountSettings");
        f.field("itable", itable)
            .field("walks", walks)
            .field("journal", journal)
            .field("name", name)
            .field("allow_other", allow_other);
        f.field("max_window", max_window).field("memory", memory);
        f.finish_non_exhaustive()
    }
}

/// An image that can be mounted, and is not yet: nothing is left of one that is dropped.
pub struct PreparedMount {
    shared: Arc<MountState>,
    directory: PathBuf,
    config: Config,
    max_window: u64,
}

impl PreparedMount {
    /// Reads the superblock and looks at the directory.
    ///
    /// # Errors
    ///
    /// If the image cannot be read as ext4, or nothing can be mounted there.
    pub fn new(
        image: foreread::File,
        directory: &Path,
        settings: MountSettings,
    ) -> Result<Self, MountError> {
        let directory = mountpoint::checked(directory)?;
        let fs =
            Ext4::open(ImageSource::new(image), settings.journal).map_err(MountError::Image)?;
        let inodes = Inodes::new(fs, settings.itable);
        // What cannot be listed at all is better said now.
        inodes.fs().root().map_err(MountError::Image)?;
        let inodes = Arc::new(inodes);
        let budget_bytes = settings.memory / AHEAD_PART;
        let ahead = if settings.walks {
            let started = walk_prefetch::start(Arc::clone(&inodes), budget_bytes);
            started.map_err(|source| MountError::System { doing: "start a thread", source })?
        } else {
            WalkNotifier::default()
        };
        let shared = Arc::new(MountState {
            inodes,
            contents: Contents::default(),
            ahead,
            log: DamageLog::new(settings.log),
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
        Ok(Self { shared, directory, config, max_window: settings.max_window })
    }

    /// Mounts: names below the directory are the image's from now on, and answered as soon as
    /// [`MountedImage::run`] runs. Waits for no device.
    ///
    /// # Errors
    ///
    /// If the system refuses, or another mount has come to the directory meanwhile.
    pub fn mount(self) -> Result<MountedImage, MountError> {
        let Self { shared, directory, config, max_window } = self;
        let refused = |source| MountError::Mount { path: directory.clone(), source };
        let lock = MountLock::take(&directory)?;
        let session = Session::new(FuseFs(Arc::clone(&shared)), &directory, &config);
        let session = session.map_err(refused)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(refused)?;
        let place = match lock.verified(&directory, connection) {
            Ok(place) => place,
            Err(error) => {
                // Dropped, it would unmount what the path shows, be it another's.
                mem::forget(session);
                return Err(error);
            }
        };
        place.widen_read_ahead(max_window);
        let stopper = Unmounter(Arc::new(place));
        Ok(MountedImage { session, shared, stopper })
    }

    /// What the file system says of itself.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.shared.inodes.fs().superblock()
    }

    /// Where it will be mounted, as a whole path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What changes how far is read ahead, while it is mounted.
    #[must_use]
    pub fn controls(&self) -> MountControls {
        MountControls(Arc::clone(&self.shared))
    }
}

impl fmt::Debug for PreparedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedMount").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A mount that is there. Dropping it unmounts.
pub struct MountedImage {
    session: Session<FuseFs>,
    shared: Arc<MountState>,
    stopper: Unmounter,
}

impl MountedImage {
    /// What the file system says of itself.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.shared.inodes.fs().superblock()
    }

    /// What unmounts, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Unmounter {
        self.stopper.clone()
    }

    /// FuseFs until it is unmounted, by whomever. Nothing of it stays mounted, and nothing else is
    /// unmounted.
    ///
    /// # Errors
    ///
    /// If the kernel ends the connection in another way.
    pub fn run(self) -> io::Result<()> {
        let Self { session, stopper, .. } = self;
        let mut answering = session.spawn()?;
        let nothing = thread::spawn(|| Ok(()));
        let over = mem::replace(&mut answering.guard, nothing).join();
        // Dropped, it would unmount what is at the directory by now, be it another's.
        mem::forget(answering);
        let over =
            over.unwrap_or_else(|_| Err(io::Error::other("a thread that answers has panicked")));
        match over {
            Ok(()) => stopper.0.clear(),
            // The session has failed and answers no more requests: the mount is not asked.
            Err(_) => stopper.0.take_away(),
        }
        over
    }
}

impl fmt::Debug for MountedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedImage").field("place", &self.stopper.0).finish_non_exhaustive()
    }
}

/// Changes a mount while it is there.
#[derive(Clone, Debug)]
pub struct MountControls(Arc<MountState>);

impl MountControls {
    /// How far is read ahead in inode tables.
    #[must_use]
    pub fn itable(&self) -> ItableReadahead {
        self.0.inodes.readahead()
    }

    /// Changes that, from the next decision on. What was learnt is forgotten.
    pub fn set_itable(&self, setting: ItableReadahead) {
        self.0.inodes.set_readahead(setting);
    }
}

/// Unmounts.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Mountpoint>);

impl Unmounter {
    /// Unmounts the mount wherever it is now. If files in it are open, detaches it: it ends with
    /// the last of them. A mount of others is never touched, so one that others have covered stays.
    #[must_use]
    pub fn stop(&self) -> UnmountOutcome {
        self.0.unmount()
    }
}

/// How many requests are answered at a time: as many may wait for the device, and hits are not
/// behind them.
const THREADS: usize = 16;

/// The part of the memory that may be read ahead of walks.
const AHEAD_PART: u64 = 8;
