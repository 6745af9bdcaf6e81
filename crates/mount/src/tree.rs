//! A tree of files that something else lists, such as the keys below a prefix, as a mount.
//!
//! In:    a [`FileTree`]: names, directory by directory, and files of the engine.
//! Out:   a mount, read only.
//! Never: bytes of two versions of a file in one inode; memory that grows with the tree.
//!
//! ```text
//!   lookup, readdir --> listings   a directory's names, for their lifetime, in bounded memory
//!        |                 ^ miss: FileTree::list, page by page
//!        v
//!      nodes            what the kernel remembers: a path and the version of the file there
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

/// A tree of files that is listed a directory at a time. [`PreparedTree`] mounts one.
pub trait FileTree: Send + Sync + 'static {
    /// Lists a page of what is directly in a directory: `""` is the root, `a/b` one below it. The
    /// first page is asked for with None, each further one with what the one before said.
    ///
    /// # Errors
    ///
    /// What is wrong, with the name of the directory: a program gets EIO, and the log the text.
    fn list(&self, directory: &str, page: Option<String>) -> io::Result<TreePage>;

    /// Opens a file in the version that a page has told of.
    ///
    /// # Errors
    ///
    /// As for [`Self::list`]. Errors here and of reads that are `InvalidData` or `NotFound` mean
    /// that there is another version by now, or none: programs get ESTALE.
    fn open(&self, path: &str, file: &TreeFile) -> io::Result<foreread::File>;
}

/// A part of the names in a directory, in any order.
#[derive(Clone, Debug, Default)]
pub struct TreePage {
    /// The names.
    pub names: Vec<TreeName>,
    /// What cannot be shown, in words, one for each: lines in the log.
    pub left_out: Vec<String>,
    /// The next page; None: there is none.
    pub next: Option<String>,
}

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TreeName {
    /// The name.
    pub name: String,
    /// The file; None: it is a directory.
    pub file: Option<TreeFile>,
}

/// What is listed of a file.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TreeFile {
    /// Its length in bytes.
    pub size: u64,
    /// When it was modified, in seconds since 1970.
    pub modified: i64,
    /// What tells it from other versions, beside length and time; may be empty.
    pub version: Box<str>,
}

/// How a tree is mounted.
pub struct TreeSettings {
    /// The name of what is mounted, in the kernel's list of mounts.
    pub name: String,
    /// Other users may access the mount. Without it only the user that mounts may.
    pub allow_other: bool,
    /// The largest window of files, in bytes, as in [`MountSettings`](crate::MountSettings).
    pub max_window: u64,
    /// For how long the names in a directory are believed.
    pub lifetime: Duration,
    /// How many bytes all listings may take together. A directory whose names need more cannot be
    /// looked at.
    pub listing_memory: usize,
    /// How many names the kernel may remember, as far as they are not in use: beyond that the
    /// oldest are taken from it.
    pub nodes: usize,
    /// Where lines about what is wrong go, one for each.
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

/// What all threads of a mounted tree share.
#[derive(Debug)]
pub(crate) struct TreeState {
    listings: ListingCache,
    nodes: NodeTable,
    files: OpenFiles,
    owner: NodeOwner,
    log: Arc<DamageLog>,
}

/// A tree that can be mounted, and is not yet: nothing is left of one that is dropped.
#[derive(Debug)]
pub struct PreparedTree {
    state: Arc<TreeState>,
    plan: MountPlan,
    /// How many names the root has.
    names: usize,
    nodes: usize,
}

impl PreparedTree {
    /// Lists the root and looks at the directory.
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
        // What cannot be listed at all is better said now.
        let names = listings.of("", clock::now()).map_err(MountError::Tree)?.len();
        let files = OpenFiles::new(tree);
        let (nodes, owner) = (NodeTable::default(), NodeOwner::of_process());
        let state = Arc::new(TreeState { listings, nodes, files, owner, log });
        Ok(Self { state, plan, names, nodes: settings.nodes })
    }

    /// Where it will be mounted, as a whole path.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.plan.directory()
    }

    /// Returns how many names are directly in the root.
    #[must_use]
    pub fn names(&self) -> usize {
        self.names
    }

    /// Mounts: names below the directory are the tree's from now on, and answered as soon as
    /// [`MountedTree::run`] runs. Waits for nothing.
    ///
    /// # Errors
    ///
    /// If the system refuses, or another mount has come to the directory meanwhile.
    pub fn mount(self) -> Result<MountedTree, MountError> {
        let Self { state, plan, nodes, .. } = self;
        let (to, from) = TrimmerQueue::new(nodes);
        let mount = plan.mount(TreeFs::new(Arc::clone(&state), to))?;
        let started = trimmer::start(Arc::downgrade(&state), mount.notifier(), nodes, from);
        started.map_err(|source| MountError::System { doing: "start a thread", source })?;
        Ok(MountedTree { mount, state })
    }
}

/// A tree that is mounted. Dropping it unmounts.
#[derive(Debug)]
pub struct MountedTree {
    mount: FuseMount<TreeFs>,
    state: Arc<TreeState>,
}

impl MountedTree {
    /// What unmounts, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Unmounter {
        self.mount.stopper()
    }

    /// What counts the memory of the mount, from any thread.
    #[must_use]
    pub fn usage(&self) -> TreeUsage {
        TreeUsage(Arc::clone(&self.state))
    }

    /// Answers until it is unmounted, by whatever program. Nothing of it stays mounted, and nothing
    /// else is unmounted.
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

/// What a mounted tree has in memory beside the engine.
#[derive(Clone, Debug)]
pub struct TreeUsage(Arc<TreeState>);

impl TreeUsage {
    /// Returns how many bytes the listings take.
    #[must_use]
    pub fn listing_bytes(&self) -> usize {
        self.0.listings.bytes()
    }

    /// Returns how many names the kernel remembers, or keeps for those that are in them.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.0.nodes.len()
    }
}

/// How many requests are answered at a time: a store answers many at once, each late.
const THREADS: usize = 32;
