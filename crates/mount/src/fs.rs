//! The FUSE file system of an image.
//!
//! Answers stay valid as long as the mount exists. They depend only on the image, so there is no
//! state for open files or directories, and the kernel need not report opens, closes and forgotten
//! nodes.
//!
//! ```text
//!   first time    lookup, readdirplus, read --> here --> the engine
//!   later         the kernel's own caches of names, attributes, directories and pages
//! ```

use std::ffi::OsStr;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use foreread_ext4::{DirectoryEntry, Error, Inode, ROOT_INODE, Superblock};
use fuser::{
    AccessFlags, Errno, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use crate::attr;
use crate::mount_state::MountState;

/// Handler of kernel requests.
pub(crate) struct FuseFs(pub(crate) Arc<MountState>);

impl Filesystem for FuseFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Flags that the kernel does not support are skipped; the mount works without them.
        for flag in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
        ] {
            let _ = config.add_capabilities(flag);
        }
        if self.0.checks_permissions {
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        // The kernel sends read-ahead requests in the background, and blocks if too many are
        // pending.
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name.len() > NAME_MAX as usize {
            // The kernel allows longer names for FUSE.
            return reply.error(Errno::ENAMETOOLONG);
        }
        let parent = number(parent);
        self.0.ahead.looked_in(parent);
        let found = self.0.directory(parent).and_then(|directory| {
            let found = self.0.inodes.fs().lookup(&directory, name.as_bytes())?;
            found.map(|number| self.0.inodes.named(number)).transpose()
        });
        match found {
            Ok(Some(inode)) => {
                reply.entry(&FOREVER, &self.attributes(&inode), generation(&inode));
            }
            // The kernel caches a missing name, too.
            Ok(None) => {
                let none = attr::of_name(0, FileType::RegularFile);
                reply.entry(&FOREVER, &none, Generation(0));
            }
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.inodes.inode(number(node)) {
            Ok(inode) => reply.attr(&FOREVER, &self.attributes(&inode)),
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let inode = self.0.inodes.inode(number(node));
        match inode.and_then(|inode| self.0.inodes.fs().read_link(&inode)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    /// Replies ENOSYS: the kernel then opens files without a request, and keeps pages from one open
    /// to the next.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    /// Replies ENOSYS for directories, too; the kernel then caches their names.
    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let give = |bytes: Result<&[u8], Error>| match bytes {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(self.0.log.errno(&error)),
        };
        self.0.contents.read(&self.0.inodes, number(node), offset, size as usize, give);
    }

    fn lseek(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let wants_data = match whence {
            SEEK_DATA => true,
            SEEK_HOLE => false,
            _ => return reply.error(Errno::EINVAL),
        };
        match self.0.seek(number(node), offset, wants_data) {
            Ok(Some(at)) => reply.offset(at.cast_signed()),
            Ok(None) => reply.error(Errno::ENXIO),
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        position: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.each_name(number(node), position, |number, next, name, kind| {
            reply.add(INodeNo(number.into()), next, kind, OsStr::from_bytes(name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        position: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.each_inode(number(node), position, |number, next, name, kind, inode| {
            let node = INodeNo(number.into());
            let name = OsStr::from_bytes(name);
            match inode {
                Some(inode) => {
                    let (attr, generation) = (self.attributes(&inode), generation(&inode));
                    reply.add(node, next, name, &FOREVER, &attr, generation)
                }
                // The name is listed nevertheless; a lookup of it returns the error.
                None => {
                    let attr = attr::of_name(number, kind);
                    reply.add(node, next, name, &NEVER, &attr, Generation(0))
                }
            }
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let fs = self.0.inodes.fs();
        let superblock = fs.superblock();
        let (blocks, free) = (superblock.blocks, superblock.free_blocks);
        // Some number is needed, and nothing else determines it.
        let reserved = superblock.reserved_blocks;
        reply.statfs(
            blocks.saturating_sub(fs.overhead_blocks()),
            free,
            free.saturating_sub(reserved.saturating_add(for_growing_maps(superblock))),
            superblock.inodes.into(),
            superblock.free_inodes.into(),
            superblock.block_size,
            NAME_MAX,
            superblock.block_size,
        );
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if let Some(errno) = is_nobodys(name.as_bytes()) {
            return reply.error(errno);
        }
        let inode = self.0.inodes.inode(number(node));
        match inode.and_then(|inode| self.0.inodes.fs().attribute(&inode, name.as_bytes())) {
            Ok(Some(value)) => answer(&value, size, reply),
            Ok(None) => reply.error(Errno::NO_XATTR),
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    fn listxattr(&self, request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let inode = self.0.inodes.inode(number(node));
        match inode.and_then(|inode| self.0.inodes.fs().attribute_names(&inode)) {
            Ok(mut names) => {
                // The kernel denies other users the values, but shows them the names that are
                // returned here.
                let is_root = request.uid() == 0;
                names.retain(|name| is_root || !name.starts_with(TRUSTED));
                let names: Vec<u8> =
                    names.into_iter().flat_map(|name| [name, vec![0]]).flatten().collect();
                answer(&names, size, reply);
            }
            Err(error) => reply.error(self.0.log.errno(&error)),
        }
    }

    /// Replies ENOSYS, which leaves the decision to the kernel: by modes and owners with
    /// `default_permissions`; otherwise the mounting user may do everything.
    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }
}

impl FuseFs {
    fn attributes(&self, inode: &Inode) -> fuser::FileAttr {
        attr::of(inode, self.0.inodes.fs().superblock().block_size)
    }

    /// Like [`Self::each_name`], but with the inode of each name; None for `.`, `..`, and damaged
    /// inodes.
    pub(crate) fn each_inode(
        &self,
        directory: u32,
        position: u64,
        mut add: impl FnMut(u32, u64, &[u8], FileType, Option<Inode>) -> bool,
    ) -> Result<(), Errno> {
        let (mut at, mut is_asked) = (position, false);
        self.each_name(directory, position, |number, next, name, kind| {
            let this = mem::replace(&mut at, next);
            // Once for each kernel request, whose reply holds no more names than this.
            let others = || {
                let was_asked = mem::replace(&mut is_asked, true);
                if was_asked { Vec::new() } else { self.0.inodes_from(directory, place_of(this)) }
            };
            let is_dot = name == b"." || name == b"..";
            let inode = (!is_dot).then(|| self.0.inodes.named_beside(number, others));
            add(number, next, name, kind, inode.and_then(Result::ok))
        })
    }

    /// Calls `add` with each name after a position, `.` and `..` first, until `add` reports that
    /// the reply is full.
    ///
    /// ```text
    ///   position    after .    after ..    location of the next name, and whether some were lost
    /// ```
    ///
    /// A damaged block is skipped. The list then ends with an error instead of an end, so that a
    /// program does not take it for complete.
    fn each_name(
        &self,
        number: u32,
        position: u64,
        mut add: impl FnMut(u32, u64, &[u8], FileType) -> bool,
    ) -> Result<(), Errno> {
        let errno = |error: Error| self.0.log.errno(&error);
        let (from, mut lost, position) = (place_of(position), position & LOST, position & !LOST);
        let directory = self.0.directory(number).map_err(errno)?;
        if directory.is_encrypted() {
            return Err(errno(Error::Encrypted));
        }
        self.0.directory_ahead(&directory, from);
        let mut is_empty = position > AFTER_DOT;
        if position == 0 {
            self.0.ahead.listed(number);
            if add(number, AFTER_DOT, b".", FileType::Directory) {
                return Ok(());
            }
        }
        if position <= AFTER_DOT {
            // The kernel does not look up `..` by this number: it knows the parent.
            let parent = self.0.inodes.fs().parent(&directory).unwrap_or(number);
            if add(parent, AFTER_DOT_DOT, b"..", FileType::Directory) {
                return Ok(());
            }
        }
        for entry in self.0.inodes.fs().read_dir_from(&directory, from).map_err(errno)? {
            match entry {
                Ok(DirectoryEntry { inode, kind, name, next, .. }) => {
                    let kind = kind.map_or(FileType::RegularFile, attr::kind);
                    if add(inode, (next + AFTER_DOT_DOT) | lost, &name, kind) {
                        return Ok(());
                    }
                    is_empty = false;
                }
                Err(error) => {
                    errno(error);
                    lost = LOST;
                }
            }
        }
        if is_empty && lost == LOST { Err(Errno::EIO) } else { Ok(()) }
    }
}

/// Returns the location of the next name in its directory.
fn place_of(position: u64) -> u64 {
    (position & !LOST).saturating_sub(AFTER_DOT_DOT)
}

/// Replies with the value if it fits, or with its length if that was requested.
fn answer(value: &[u8], size: u32, reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        Ok(_) | Err(_) => reply.error(Errno::ERANGE),
    }
}

/// Returns the error of the kernel's ext4 for a name that no attribute can have; None for a valid
/// name.
fn is_nobodys(name: &[u8]) -> Option<Errno> {
    const PREFIXES: [&[u8]; 4] = [b"user.", TRUSTED, b"security.", b"gnu."];
    const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
    match PREFIXES.iter().find_map(|&prefix| name.strip_prefix(prefix)) {
        Some([]) => Some(Errno::EINVAL),
        Some(_) => None,
        None => (!ACLS.contains(&name)).then_some(Errno::EOPNOTSUPP),
    }
}

/// Returns the ext4 inode of a FUSE node. The kernel's root is 1, ext4's is 2; all other numbers
/// are equal, and no file but the root has 1 or 2.
fn number(node: INodeNo) -> u32 {
    if node == INodeNo::ROOT { ROOT_INODE } else { u32::try_from(node.0).unwrap_or(0) }
}

/// Returns the blocks that Linux reserves in addition, for extent maps that grow during delayed
/// allocation: 2 % of the clusters, at most 4096, on file systems with extents.
fn for_growing_maps(superblock: &Superblock) -> u64 {
    const EXTENTS: u32 = 0x40;
    let cluster_blocks = u64::from(superblock.cluster_blocks);
    let has_extents = superblock.features.incompat & EXTENTS != 0;
    let clusters = superblock.blocks / cluster_blocks / 50;
    if has_extents { clusters.min(4096) * cluster_blocks } else { 0 }
}

fn generation(inode: &Inode) -> Generation {
    Generation(inode.generation.into())
}

/// Nothing changes while the image is mounted.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Makes the kernel revalidate at each use.
const NEVER: Duration = Duration::ZERO;

/// Positions in a directory: after `.`, after `..`, then the image's positions plus this offset.
const AFTER_DOT: u64 = 1;
const AFTER_DOT_DOT: u64 = 2;

/// Added to a position after a block with lost names. No directory is this long.
const LOST: u64 = 1 << 62;

/// Prefix of attributes visible only to root.
const TRUSTED: &[u8] = b"trusted.";

/// The longest name.
const NAME_MAX: u32 = 255;

/// Most read-ahead requests that the kernel may have in flight.
const BACKGROUND: u16 = 64;

/// Constants of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
