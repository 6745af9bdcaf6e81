//! How an image is mounted.
//!
//! In:    flags of the caller.
//! Out:   [`MountSettings`].
//! Never: a check; the kernel and the image make those.

use std::fmt;

use foreread_ext4::Journal;

/// How far to read ahead in inode tables.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ItableReadahead {
    /// As many blocks as pay, by what earlier ones were used for.
    #[default]
    Adaptive,
    /// Windows of so many blocks, as ext4's `inode_readahead_blks`: a power of two up to 2^30; 0 is
    /// off, and so is any other number.
    Blocks(u64),
}

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
