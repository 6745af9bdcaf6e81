//! The mount point: checks it, and finds the mount again to unmount it.
//!
//! It never mounts over another mount, which would become unreachable, and never touches other
//! mounts.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use foreread_files::attribute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, StatxAttributes, StatxFlags, flock, open, statx,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::{UnmountFlags, unmount};

use crate::error::MountError;
use crate::mountinfo::{MountEntry, MountTable};
use crate::unmount_helper::{detach, helped, try_detach};

/// Returns the absolute path of the directory, if it can be mounted on.
pub(crate) fn checked(path: &Path) -> Result<PathBuf, MountError> {
    let wrong = |what| MountError::NoDirectory { path: path.to_owned(), what };
    let refused = |source| MountError::Mount { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(wrong("is not a directory; give a directory to mount on")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link: mkdir would refuse the path.
            if path.symlink_metadata().is_ok() {
                return Err(wrong("is a dangling symbolic link; give a directory to mount on"));
            }
            return Err(MountError::Missing { path: path.to_owned() });
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
            return Err(MountError::Dead { path: path.to_owned() });
        }
        Err(error) => return Err(refused(error)),
    }
    let whole = path.canonicalize().map_err(refused)?;
    is_free(&whole)?;
    Ok(whole)
}

/// Refuses a directory that is the root of a mount.
fn is_free(directory: &Path) -> Result<(), MountError> {
    match mounted_on(directory, AtFlags::STATX_DONT_SYNC) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(MountError::Busy { path: directory.to_owned() }),
        Err(errno) => Err(MountError::Mount { path: directory.to_owned(), source: errno.into() }),
    }
}

/// Lock on the directory during a mount: if several foreread start together, one mounts, and the
/// others find its mount.
///
/// ```text
///   lock the directory | is it free? | mount | is our mount, and only ours, there? | unlock
/// ```
///
/// Other programs do not take this lock, so the mount is verified.
#[derive(Debug)]
pub(crate) struct MountLock {
    /// Closing it unlocks.
    _directory: OwnedFd,
    parent: OwnedFd,
    table: MountTable,
}

impl MountLock {
    /// Locks a directory on which nothing is mounted.
    pub(crate) fn take(directory: &Path) -> Result<Self, MountError> {
        let refused =
            |errno: Errno| MountError::Mount { path: directory.to_owned(), source: errno.into() };
        // Before open, which would call the file system mounted there.
        is_free(directory)?;
        // Before the mount, which could not be undone without it.
        let doing = "open the table of mounts";
        let table = MountTable::open().map_err(|source| MountError::System { doing, source })?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = directory.parent().unwrap_or(directory);
        let parent = open(parent, OFlags::PATH | flags, Mode::empty()).map_err(refused)?;
        let opened = match open(directory, OFlags::RDONLY | flags, Mode::empty()) {
            // An unreadable directory cannot be locked, but it can be mounted on.
            Err(Errno::ACCESS) => {
                let directory = open(directory, OFlags::PATH | flags, Mode::empty());
                return Ok(Self { _directory: directory.map_err(refused)?, parent, table });
            }
            opened => opened.map_err(refused)?,
        };
        let mut tries = 0;
        loop {
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) if tries < LOCK_TRIES => {
                    tries += 1;
                    let _ = poll(&mut [], Some(&LOCK_PAUSE));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(MountError::Locked { path: directory.to_owned() });
                }
                // Locked, or the file system has no locks.
                Ok(()) | Err(_) => break,
            }
        }
        is_free(directory)?;
        Ok(Self { _directory: opened, parent, table })
    }

    /// Verifies the new mount, and unlocks. On an error the mount is undone, or disconnected from
    /// its server if another mount covers it.
    ///
    /// # Errors
    ///
    /// If another mount has appeared at the same path, below ours or above.
    pub(crate) fn verified(
        self,
        directory: &Path,
        connection: OwnedFd,
    ) -> Result<Mountpoint, MountError> {
        let refused = |source| MountError::Mount { path: directory.to_owned(), source };
        let mounts = self.table.read().map_err(refused)?;
        let top = mounted_on(directory, AtFlags::STATX_DONT_SYNC);
        let top = top.map_err(|errno| refused(errno.into()))?;
        let top = top.and_then(|top| mounts.iter().find(|mount| top.is(mount)));
        // From the topmost mount down to the lowest.
        let under = |mount: &MountEntry| {
            let under = mounts.iter().find(|it| it.id == mount.parent);
            under.filter(|it| it.point == mount.point && it.id != mount.id)
        };
        let stack: Vec<_> = std::iter::successors(top, |mount| under(mount)).collect();
        let busy = || MountError::Busy { path: directory.to_owned() };
        let mut fuse = stack.iter().copied().filter(|it| KINDS.contains(&it.kind.as_str()));
        // If there are several, ours is unknown, and none is touched.
        let (Some(ours), None) = (fuse.next(), fuse.next()) else { return Err(busy()) };
        let place = Mountpoint {
            directory: directory.to_owned(),
            id: ours.id,
            device: ours.device,
            connection,
            parent: self.parent,
            table: self.table,
        };
        if stack.len() > 1 {
            if !matches!(place.unmount(), UnmountOutcome::Unmounted { .. }) {
                place.cut();
            }
            return Err(busy());
        }
        Ok(place)
    }
}

/// Result of unmounting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnmountOutcome {
    /// The mount is gone.
    Unmounted {
        /// Last mount point of a moved mount.
        moved: Option<PathBuf>,
    },
    /// Files in it are open. It has no path any more, and ends with the last of them.
    InUse {
        /// Another mount that keeps the same file system, such as a bind mount.
        also: Option<PathBuf>,
    },
    /// Another mount covers it or is inside it, so it cannot be unmounted. It stays, and its server
    /// answers; the connection is cut when the process ends.
    Covered {
        /// Description of the covering mount.
        by: String,
    },
    /// Unmounting failed for another reason. The mount stays, as if it were covered.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Identity of our mount, used to find its current path.
///
/// ```text
///   in the table of mounts, by its id           action
///   at any path, and the path shows it          unmounted there, or detached if it is in use
///   another mount is on it or in it             nothing is touched: it can only be cut
///   not there                                   it was detached by another; it ends by itself
/// ```
#[derive(Debug)]
pub(crate) struct Mountpoint {
    directory: PathBuf,
    /// The kernel's id of the mount.
    id: u64,
    /// Device number of the mount, unique while the file system is mounted anywhere.
    device: (u32, u32),
    /// Duplicate descriptor of /dev/fuse, which shows whether the file system still exists.
    connection: OwnedFd,
    /// Directory that contains the mount point. It leads to the mount when a mount on an upper
    /// directory hides the path.
    parent: OwnedFd,
    table: MountTable,
}

impl Mountpoint {
    /// Raises the kernel's read-ahead for files to requests of this size, if permitted (root). Its
    /// FUSE default is 128 KiB, which would split one device request into eight FUSE requests.
    pub(crate) fn widen_read_ahead(&self, bytes: u64) {
        let (major, minor) = self.device;
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let kib = (bytes >> 10).max(KERNEL_KIB).to_string();
        let _ = attribute::set(Path::new(&setting), &kib);
    }

    /// Unmounts our mount wherever it is now, and no other. If it is in use, detaches it.
    pub(crate) fn unmount(&self) -> UnmountOutcome {
        let mut moved = None;
        let mut is_refused = false;
        for _ in 0..UNMOUNT_TRIES {
            let (mounts, ours) = match self.found() {
                Ok(Some(found)) => found,
                Ok(None) => return self.remaining(moved),
                Err(error) => {
                    let why = format!("the table of mounts cannot be read: {error}");
                    return UnmountOutcome::Failed { why };
                }
            };
            if ours.point != self.directory {
                moved = Some(ours.point.clone());
            }
            if let Some(over) = mounts.iter().find(|mount| mount.parent == ours.id) {
                let by = format!("{} on {}", over.kind, over.point.display());
                return UnmountOutcome::Covered { by };
            }
            let Some(path) = self.path_to(&ours) else {
                let by = format!("a mount over a directory above {}", ours.point.display());
                return UnmountOutcome::Covered { by };
            };
            let done = match unmount(&path, UnmountFlags::NOFOLLOW) {
                Err(Errno::PERM) if helped("-u", &path) => Ok(()),
                Err(Errno::PERM) => Err(Errno::BUSY),
                done => done,
            };
            match done {
                Ok(()) => return self.remaining(moved),
                Err(Errno::BUSY) if !self.is_covered() => {
                    if try_detach(&path) {
                        return UnmountOutcome::InUse { also: None };
                    }
                    is_refused = true;
                }
                // The table has changed, so look again.
                Err(_) => {}
            }
        }
        if is_refused {
            let why = "fusermount3 has failed, or could not be started".to_owned();
            return UnmountOutcome::Failed { why };
        }
        UnmountOutcome::Covered { by: "mounts that keep changing".to_owned() }
    }

    /// Detaches a mount without a server: one whose connection was cut, as `umount -f` does with a
    /// mount in use.
    pub(crate) fn clear(&self) {
        let is_dead = |path: &Path| {
            let asked = mounted_on(path, AtFlags::STATX_FORCE_SYNC);
            asked.is_err_and(|errno| errno == Errno::NOTCONN)
        };
        self.detach_if(is_dead);
    }

    /// Detaches the mount, whether or not a server answers.
    pub(crate) fn take_away(&self) {
        self.detach_if(|_| true);
    }

    /// Cuts the connection of a mount that cannot be unmounted, if permitted.
    fn cut(&self) {
        let (_, minor) = self.device;
        let abort = format!("/sys/fs/fuse/connections/{minor}/abort");
        let _ = attribute::set(Path::new(&abort), "1");
    }

    fn detach_if(&self, may: impl Fn(&Path) -> bool) {
        let Ok(Some((mounts, ours))) = self.found() else { return };
        if mounts.iter().any(|mount| mount.parent == ours.id) {
            return;
        }
        if let Some(path) = self.path_to(&ours)
            && may(&path)
        {
            detach(&path);
        }
    }

    /// Returns all mounts, and ours among them.
    fn found(&self) -> io::Result<Option<(Vec<MountEntry>, MountEntry)>> {
        let mounts = self.table.read()?;
        let ours = mounts.iter().find(|it| it.id == self.id && it.device == self.device).cloned();
        Ok(ours.map(|ours| (mounts, ours)))
    }

    fn is_covered(&self) -> bool {
        let found = self.found().ok().flatten();
        found.is_some_and(|(all, ours)| all.iter().any(|it| it.parent == ours.id))
    }

    /// Returns a path that shows our mount.
    fn path_to(&self, ours: &MountEntry) -> Option<PathBuf> {
        let mut paths = vec![ours.point.clone()];
        // A directory cannot be renamed while it is a mount point.
        if let Some(name) = self.directory.file_name() {
            let parent = format!("/proc/self/fd/{}", self.parent.as_raw_fd());
            paths.push(Path::new(&parent).join(name));
        }
        paths.into_iter().find(|path| {
            let found = mounted_on(path, AtFlags::STATX_DONT_SYNC);
            found.is_ok_and(|found| found.is_some_and(|found| found.is(ours)))
        })
    }

    /// Returns the outcome when our mount has no path: whether something still keeps the file
    /// system.
    fn remaining(&self, moved: Option<PathBuf>) -> UnmountOutcome {
        if self.is_over() {
            return UnmountOutcome::Unmounted { moved };
        }
        let mounts = self.table.read().unwrap_or_default();
        let also = mounts.into_iter().find(|mount| mount.device == self.device);
        // It ends a moment after unmounting, so only a longer delay means that it is in use.
        if also.is_none() && self.ends_soon() {
            return UnmountOutcome::Unmounted { moved };
        }
        UnmountOutcome::InUse { also: also.map(|mount| mount.point) }
    }

    /// Returns whether the kernel has released the file system.
    fn is_over(&self) -> bool {
        self.waits(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    fn ends_soon(&self) -> bool {
        self.waits(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 })
    }

    /// Waits until the connection ends, up to this time.
    fn waits(&self, at_most: &Timespec) -> bool {
        let mut connection = [PollFd::new(&self.connection, PollFlags::empty())];
        let found = retry_on_intr(|| poll(&mut connection, Some(at_most)));
        found.is_ok_and(|count| count > 0)
            && connection[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }
}

/// Root of a mount, from statx.
#[derive(Clone, Copy, Debug)]
struct MountRoot {
    /// Mount id, since Linux 5.8.
    id: Option<u64>,
    device: (u32, u32),
}

impl MountRoot {
    fn is(&self, mount: &MountEntry) -> bool {
        self.device == mount.device && self.id.is_none_or(|id| id == mount.id)
    }
}

/// Returns the mount on a directory, if there is one. Without sync the kernel answers by itself; a
/// call to the mount would make us wait for our own answer.
fn mounted_on(directory: &Path, sync: AtFlags) -> rustix::io::Result<Option<MountRoot>> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let found = statx(CWD, directory, sync, wanted)?;
    let has_id = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let is_mounted = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(is_mounted.then_some(MountRoot {
        id: has_id.then_some(found.stx_mnt_id),
        device: (found.stx_dev_major, found.stx_dev_minor),
    }))
}

/// Types of our mounts: mounted directly as root, and by fusermount3.
const KINDS: [&str; 2] = ["fuse", "fuse.foreread"];

/// Two seconds: another foreread holds the lock for a few system calls.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Attempts if the mounts change while ours is being unmounted.
const UNMOUNT_TRIES: usize = 16;

/// The kernel's default for FUSE.
const KERNEL_KIB: u64 = 128;
