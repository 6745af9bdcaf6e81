//! The FUSE file system of a tree.
//!
//! Names are valid for their listing's lifetime; attributes and bytes of a node belong to one
//! version of a file and never change.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};

use crate::clock;
use crate::tree::TreeState;
use crate::tree::listing::DirectoryListing;
use crate::tree::nodes::{ROOT, number};
use crate::tree::trimmer::TrimmerQueue;

/// Handler of kernel requests.
#[derive(Debug)]
pub(crate) struct TreeFs {
    state: Arc<TreeState>,
    trimmer: TrimmerQueue,
    /// Listings shown by open directories; None before the first read.
    directories: Mutex<HashMap<u64, Option<Arc<DirectoryListing>>>>,
    next_handle: AtomicU64,
}

impl Filesystem for TreeFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Flags that the kernel does not support are skipped; the mount works without them.
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_NO_OPEN_SUPPORT] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.looked_up(parent.0, name) {
            Ok((attr, lifetime)) => reply.entry(&lifetime, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.state.nodes.forgotten(node.0, times);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.state.nodes.get(node.0) {
            Some((_, _, file)) => {
                reply.attr(&FOREVER, &self.state.owner.attributes(node.0, file.as_ref()));
            }
            None => reply.error(Errno::ESTALE),
        }
    }

    /// Replies ENOSYS: the kernel then opens files without a request, and keeps pages from one open
    /// to the next, since a node is one version of a file.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
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
        let state = &*self.state;
        let Some((parent, name, file)) = state.nodes.get(node.0) else {
            return reply.error(Errno::ESTALE);
        };
        let Some(file) = file else { return reply.error(Errno::EISDIR) };
        let path = || state.nodes.path(node.0).ok_or_else(|| io::ErrorKind::NotFound.into());
        state.files.read((node.0, &file), path, (offset, size as usize), |read| match read {
            Ok(bytes) => reply.data(bytes),
            Err(error) => {
                let errno = self.errno(&error);
                if errno.code() == Errno::ESTALE.code() {
                    // Programs that open it again get the current version.
                    state.listings.expire(&state.nodes.path(parent).unwrap_or_default());
                    self.trimmer.forget(parent, name);
                }
                reply.error(errno);
            }
        });
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.directories().insert(handle, None);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        handle: FileHandle,
        position: u64,
        mut reply: ReplyDirectory,
    ) {
        let add = |number, next, kind, name: &str| reply.add(INodeNo(number), next, kind, name);
        match self.each_name(node.0, handle.0, position, add) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let listing = self.directories().remove(&handle.0);
        drop(listing);
        reply.ok();
    }

    /// Reports no sizes, because the amount stored is unknown.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK, NAME_MAX, BLOCK);
    }
}

impl TreeFs {
    pub(super) fn new(state: Arc<TreeState>, trimmer: TrimmerQueue) -> Self {
        let (directories, next_handle) = (Mutex::default(), AtomicU64::new(1));
        Self { state, trimmer, directories, next_handle }
    }

    /// Returns the attributes of a name, and the lifetime of the answer. A missing name is an
    /// answer as well, with number 0.
    fn looked_up(&self, parent: u64, name: &OsStr) -> Result<(fuser::FileAttr, Duration), Errno> {
        if name.len() > NAME_MAX as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        let state = &*self.state;
        let directory = state.nodes.path(parent).ok_or(Errno::ESTALE)?;
        let now = clock::now();
        let listing = state.listings.of(&directory, now).map_err(|error| self.errno(&error))?;
        let lifetime = listing.expires.saturating_duration_since(now);
        // All names in stores are UTF-8.
        let Some(found) = name.to_str().and_then(|name| listing.find(name)) else {
            return Ok((state.owner.attributes(0, None), lifetime));
        };
        let path = joined(&directory, found.name);
        let number = state.nodes.told(parent, &path, found.file.as_ref());
        self.trimmer.counted(state.nodes.len());
        Ok((state.owner.attributes(number, found.file.as_ref()), lifetime))
    }

    /// Calls `add` with each name after a position, `.` and `..` first, until `add` reports that
    /// the reply is full. An open directory shows one listing, from its first name to its last.
    fn each_name(
        &self,
        node: u64,
        handle: u64,
        position: u64,
        mut add: impl FnMut(u64, u64, FileType, &str) -> bool,
    ) -> Result<(), Errno> {
        let state = &*self.state;
        let directory = state.nodes.path(node).ok_or(Errno::ESTALE)?;
        let (parent, ..) = state.nodes.get(node).ok_or(Errno::ESTALE)?;
        let held = self.directories().get(&handle).cloned().flatten();
        let listing = match held {
            Some(listing) if position > 0 => listing,
            // A read from the start shows the current listing.
            Some(_) | None => {
                let listing = state.listings.of(&directory, clock::now());
                let listing = listing.map_err(|error| self.errno(&error))?;
                let before = self.directories().insert(handle, Some(Arc::clone(&listing)));
                drop(before);
                listing
            }
        };
        for at in position.. {
            let is_full = match at {
                0 => add(node, 1, FileType::Directory, "."),
                1 => add(if node == ROOT { ROOT } else { parent }, 2, FileType::Directory, ".."),
                _ => {
                    let place = usize::try_from(at - DOTS).unwrap_or(usize::MAX);
                    let Some(found) = listing.at(place) else { return Ok(()) };
                    let is_file = found.file.is_some();
                    let kind = if is_file { FileType::RegularFile } else { FileType::Directory };
                    let number = number(&joined(&directory, found.name), found.file.as_ref());
                    add(number, at + 1, kind, found.name)
                }
            };
            if is_full {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the errno of an error, and logs it once.
    fn errno(&self, error: &io::Error) -> Errno {
        self.state.log.say_once(error.to_string());
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::InvalidData | io::ErrorKind::NotFound) {
            Errno::ESTALE
        } else if kind == io::ErrorKind::PermissionDenied {
            Errno::EACCES
        } else if kind == io::ErrorKind::OutOfMemory {
            Errno::ENOMEM
        } else {
            Errno::EIO
        }
    }

    fn directories(&self) -> MutexGuard<'_, HashMap<u64, Option<Arc<DirectoryListing>>>> {
        // No code panics while it holds this lock.
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// A node is one version, and its attributes never change.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// `.` and `..` precede a directory's names.
const DOTS: u64 = 2;

/// The longest name.
const NAME_MAX: u32 = 255;
const BLOCK: u32 = 4096;

/// Most read-ahead requests that the kernel may have in flight.
const BACKGROUND: u16 = 64;
