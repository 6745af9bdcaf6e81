//! Mounts a tree of files that is listed elsewhere, such as the keys below a prefix.
//!
//! In:    a [`FileTree`]: names, directory by directory, and files of the engine.
//! Out:   a mount, read-only.
//! Never: bytes of two versions of a file in one inode; memory that grows with the tree.
//!
//! ```text
//!   lookup, readdir --> listings   a directory's names, for their lifetime, in bounded memory
//!        |                 ^ miss: FileTree::list, page by page
//!        v
//!      nodes            known to the kernel: a path and the version of the file there
//!        |
//!   read '-----------> open_files  FileTree::open: that version, or an error
//! ```

mod attributes;
mod fs;
mod listing;
mod listings;
mod nodes;
mod open_files;
mod trimmer;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::error::MountError;
use crate::log::DamageLog;
use crate::session::{FuseMount, MountPlan, Unmounter};
use crate::tree::attributes::NodeOwner;
use crate::tree::fs::TreeFs;
use crate::tree::listings::ListingCache;
use crate::tree::nodes::NodeTable;
use crate::tree::open_files::OpenFiles;
use crate::tree::trimmer::TrimmerQueue;

/// A tree of files, listed one directory at a time. [`PreparedTree`] mounts one.
pub trait FileTree: Send + Sync + 'static {
    /// Lists a page of a directory's direct entries: `""` is the root, `a/b` a directory below. The
    /// first page is requested with None, each further one with the token in the page before.
    ///
    /// # Errors
    ///
    /// The problem, with the name of the directory: the program gets EIO, and the log the text.
    fn list(&self, directory: &str, page: Option<String>) -> io::Result<TreePage>;

    /// Opens a file in the version that a page has listed.
    ///
    /// # Errors
    ///
    /// As for [`Self::list`]. `InvalidData` or `NotFound`, here and from reads, mean that the
    /// version was replaced or removed: programs get ESTALE.
    fn open(&self, path: &str, file: &TreeFile) -> io::Result<foreread::File>;
}

/// Some of the names in a directory, in any order.
#[derive(Clone, Debug, Default)]
pub struct TreePage {
    /// Names.
    pub names: Vec<TreeName>,
    /// A log line for each entry that cannot be shown.
    pub left_out: Vec<String>,
    /// Token of the next page; None for the last page.
    pub next: Option<String>,
}

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TreeName {
    /// Name.
    pub name: String,
    /// The file; None for a directory.
    pub file: Option<TreeFile>,
}

/// A file as it was listed.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TreeFile {
    /// Length in bytes.
    pub size: u64,
    /// Time of modification, in seconds since 1970.
    pub modified: i64,
    /// Distinguishes versions of equal length and time; may be empty.
    pub version: Box<str>,
}

/// Settings of a tree's mount.
pub struct TreeSettings {
    /// Source name in the kernel's list of mounts.
    pub name: String,
    /// Gives other users access. Otherwise only the mounting user has access.
    pub allow_other: bool,
    /// Largest window of files, in bytes, as in [`MountSettings`](crate::MountSettings).
    pub max_window: u64,
    /// Lifetime of a listing.
    pub lifetime: Duration,
    /// Memory limit of all listings, in bytes. A directory that needs more cannot be listed.
    pub listing_memory: usize,
    /// Number of unused names that the kernel may cache; beyond it the oldest are dropped.
    pub nodes: usize,
    /// Receives one line for each problem.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for TreeSettings {
    fn default() -> Self {
        Self {
            name: "foreread".to_owned(),
            allow_other: false,
            max_window: 128 << 10,
            lifetime: Duration::from_secs(60),
            listing_memory: 128 << 20,
            nodes: 200_000,
            log: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for TreeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, allow_other, max_window, lifetime, listing_memory, nodes, log: _ } = self;
        let mut f = f.debug_struct("TreeSettings");
        f.field("name", name).field("allow_other", allow_other).field("max_window", max_window);
        f.field("lifetime", lifetime).field("listing_memory", listing_memory);
        f.field("nodes", nodes).finish_non_exhaustive()
    }
}

/// State shared by all threads of a mounted tree.
#[derive(Debug)]
pub(crate) struct TreeState {
    listings: ListingCache,
    nodes: NodeTable,
    files: OpenFiles,
    owner: NodeOwner,
    log: Arc<DamageLog>,
}

/// A tree ready to be mounted. Dropping it leaves nothing behind.
#[derive(Debug)]
pub struct PreparedTree {
    state: Arc<TreeState>,
    plan: MountPlan,
    /// Number of names in the root.
    names: usize,
    nodes: usize,
}

impl PreparedTree {
    /// Lists the root and checks the directory.
    ///
    /// # Errors
    ///
    /// If the root cannot be listed, or nothing can be mounted there.
    pub fn new(
        tree: Arc<dyn FileTree>,
        directory: &Path,
        settings: TreeSettings,
    ) -> Result<Self, MountError> {
        let sizes = (THREADS, settings.max_window);
        let plan = MountPlan::new(directory, settings.name, settings.allow_other, sizes)?;
        let log = Arc::new(DamageLog::new(settings.log));
        let (lifetime, memory) = (settings.lifetime, settings.listing_memory);
        let listings = ListingCache::new(Arc::clone(&tree), lifetime, memory, Arc::clone(&log));
        // Reports an unlistable root before mounting.
        let names = listings.of("", clock::now()).map_err(MountError::Tree)?.len();
        let files = OpenFiles::new(tree);
        let (nodes, owner) = (NodeTable::default(), NodeOwner::of_process());
        let state = Arc::new(TreeState { listings, nodes, files, owner, log });
        Ok(Self { state, plan, names, nodes: settings.nodes })
    }

    /// Returns the absolute path of the mount point.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.plan.directory()
    }

    /// Returns the number of names directly in the root.
    #[must_use]
    pub fn names(&self) -> usize {
        self.names
    }

    /// Mounts the tree. Names below the directory are the tree's from now on, and requests are
    /// answered once [`MountedTree::run`] runs. Does not block.
    ///
    /// # Errors
    ///
    /// If the system refuses, or another mount has appeared on the directory.
    pub fn mount(self) -> Result<MountedTree, MountError> {
        let Self { state, plan, nodes, .. } = self;
        let (to, from) = TrimmerQueue::new(nodes);
        let mount = plan.mount(TreeFs::new(Arc::clone(&state), to))?;
        let started = trimmer::start(Arc::downgrade(&state), mount.notifier(), nodes, from);
        started.map_err(|source| MountError::System { doing: "start a thread", source })?;
        Ok(MountedTree { mount, state })
    }
}

/// A mounted tree. Dropping it unmounts.
#[derive(Debug)]
pub struct MountedTree {
    mount: FuseMount<TreeFs>,
    state: Arc<TreeState>,
}

impl MountedTree {
    /// Returns a handle that unmounts from any thread.
    #[must_use]
    pub fn stopper(&self) -> Unmounter {
        self.mount.stopper()
    }

    /// Returns a handle that reports the memory of the mount from any thread.
    #[must_use]
    pub fn usage(&self) -> TreeUsage {
        TreeUsage(Arc::clone(&self.state))
    }

    /// Answers requests until any program unmounts the tree. No mount stays behind, and
    /// nothing else is unmounted.
    ///
    /// # Errors
    ///
    /// If the kernel ends the connection in another way.
    pub fn run(self) -> io::Result<()> {
        let Self { mount, state } = self;
        drop(state);
        mount.run()
    }
}

/// Memory use of a mounted tree outside the engine.
#[derive(Clone, Debug)]
pub struct TreeUsage(Arc<TreeState>);

impl TreeUsage {
    /// Returns the number of bytes in listings.
    #[must_use]
    pub fn listing_bytes(&self) -> usize {
        self.0.listings.bytes()
    }

    /// Returns the number of names that the kernel caches, including their parents.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.nodes.len()
    }
}

/// Number of threads: a store serves many requests in parallel, each with high latency.
const THREADS: usize = 32;
