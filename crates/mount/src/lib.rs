//! An ext4 image, or a tree of files that is listed elsewhere, as a directory: a FUSE mount over
//! the engine, without libfuse and without the kernel's ext4.
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
//! In:    a file of the engine, or a [`FileTree`]; a directory to mount on.
//! Out:   every name, attribute and byte of it, read-only.
//! Never: a write to the image; an error in one file that affects others.
//!
//! Read-ahead and its reasons: docs/guide/ext4.md and docs/design/itable.md.

mod attr;
mod clock;
mod contents;
mod error;
#[cfg(test)]
#[path = "tests/find_requests.rs"]
mod find_requests;
mod fs;
mod inodes;
mod log;
mod mount_state;
mod mountinfo;
mod mountpoint;
#[cfg(feature = "objects")]
mod prefix_tree;
mod session;
mod source;
mod table_gaps;
mod tree;
mod tree_walk;
mod unmount_helper;
mod walk_prefetch;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use error::MountError;
use foreread_ext4::{Ext4, Journal, Superblock};
pub use inodes::ItableReadahead;
pub use mountpoint::UnmountOutcome;
#[cfg(feature = "objects")]
pub use prefix_tree::PrefixTree;
pub use session::Unmounter;
pub use tree::{
    FileTree, MountedTree, PreparedTree, TreeFile, TreeName, TreePage, TreeSettings, TreeUsage,
};
pub use unmount_helper::detach;

use crate::contents::Contents;
use crate::fs::FuseFs;
use crate::inodes::Inodes;
use crate::log::DamageLog;
use crate::mount_state::MountState;
use crate::session::{FuseMount, MountPlan};
use crate::source::ImageSource;
use crate::walk_prefetch::WalkNotifier;

/// Settings of an image's mount.
pub struct MountSettings {
    /// Read-ahead in inode tables.
    pub itable: ItableReadahead,
    /// True to read ahead the next directories of a walk.
    pub walks: bool,
    /// Treatment of a journal with changes that have not been replayed.
    pub journal: Journal,
    /// Byte range of the image in the file, such as a partition; None for the whole file.
    pub image_range: Option<Range<u64>>,
    /// Source name in the kernel's list of mounts.
    pub name: String,
    /// Gives other users access, as modes, owners and ACLs allow. Otherwise only the mounting user
    /// has access, and may read everything.
    pub allow_other: bool,
    /// Largest window of files, in bytes, which also limits requests of the kernel's read-ahead.
    pub max_window: u64,
    /// Memory limit of the engine, in bytes; a part of it is for read-ahead of walks.
    pub memory: u64,
    /// Receives one line for each damage.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for MountSettings {
    fn default() -> Self {
        Self {
            itable: ItableReadahead::default(),
            walks: true,
            journal: Journal::Refuse,
            image_range: None,
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
        let Self { itable, walks, journal, image_range, name, .. } = self;
        let Self { allow_other, max_window, memory, log: _, .. } = self;
        let mut f = f.debug_struct("MountSettings");
        f.field("itable", itable)
            .field("walks", walks)
            .field("journal", journal)
            .field("image_range", image_range)
            .field("name", name)
            .field("allow_other", allow_other);
        f.field("max_window", max_window).field("memory", memory);
        f.finish_non_exhaustive()
    }
}

/// An image ready to be mounted. Dropping it leaves nothing behind.
pub struct PreparedMount {
    shared: Arc<MountState>,
    plan: MountPlan,
}

impl PreparedMount {
    /// Reads the superblock and checks the directory.
    ///
    /// # Errors
    ///
    /// If the image cannot be read as ext4, or nothing can be mounted there.
    pub fn new(
        image: foreread::File,
        directory: &Path,
        settings: MountSettings,
    ) -> Result<Self, MountError> {
        let sizes = (THREADS, settings.max_window);
        let plan = MountPlan::new(directory, settings.name, settings.allow_other, sizes)?;
        let len = image.len();
        let range = settings.image_range.unwrap_or(0..len);
        if range.start > range.end || range.end > len {
            let (wanted, found) = (range.end.max(range.start), len);
            return Err(MountError::Image(foreread_ext4::Error::Short { wanted, found }));
        }
        let source = ImageSource::part(image, range);
        let fs = Ext4::open(source, settings.journal).map_err(MountError::Image)?;
        let inodes = Inodes::new(fs, settings.itable);
        // Reports an unreadable root before mounting.
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
        Ok(Self { shared, plan })
    }

    /// Mounts the image. Names below the directory are the image's from now on, and requests are
    /// answered once [`MountedImage::run`] runs. Does not wait for any device.
    ///
    /// # Errors
    ///
    /// If the system refuses, or another mount has appeared on the directory.
    pub fn mount(self) -> Result<MountedImage, MountError> {
        let Self { shared, plan } = self;
        let mount = plan.mount(FuseFs(Arc::clone(&shared)))?;
        Ok(MountedImage { mount, shared })
    }

    /// Returns the superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.shared.inodes.fs().superblock()
    }

    /// Returns the absolute path of the mount point.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.plan.directory()
    }

    /// Returns controls for the read-ahead of the mount.
    #[must_use]
    pub fn controls(&self) -> MountControls {
        MountControls(Arc::clone(&self.shared))
    }
}

impl fmt::Debug for PreparedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedMount").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// A mounted image. Dropping it unmounts.
pub struct MountedImage {
    mount: FuseMount<FuseFs>,
    shared: Arc<MountState>,
}

impl MountedImage {
    /// Returns the superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        self.shared.inodes.fs().superblock()
    }

    /// Returns a handle that unmounts from any thread.
    #[must_use]
    pub fn stopper(&self) -> Unmounter {
        self.mount.stopper()
    }

    /// Answers requests until any program unmounts the image. No mount stays behind, and
    /// nothing else is unmounted.
    ///
    /// # Errors
    ///
    /// If the kernel ends the connection in another way.
    pub fn run(self) -> io::Result<()> {
        self.mount.run()
    }
}

impl fmt::Debug for MountedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedImage").field("mount", &self.mount).finish_non_exhaustive()
    }
}

/// Controls of an active mount.
#[derive(Clone, Debug)]
pub struct MountControls(Arc<MountState>);

impl MountControls {
    /// Returns the read-ahead setting for inode tables.
    #[must_use]
    pub fn itable(&self) -> ItableReadahead {
        self.0.inodes.readahead()
    }

    /// Changes that setting from the next decision on, and discards what was learnt.
    pub fn set_itable(&self, setting: ItableReadahead) {
        self.0.inodes.set_readahead(setting);
    }
}

/// Number of threads: as many requests may wait for the device without delaying hits.
const THREADS: usize = 16;

/// Divisor of the memory for read-ahead of walks.
const AHEAD_PART: u64 = 8;
