//! A FUSE session, from the mount point's check to its end. No mount stays behind, and no other
//! mount is touched.

use std::fmt;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::{mem, thread};

use fuser::{Config, Filesystem, MountOption, Notifier, Session, SessionACL};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::error::{MountError, THREADS};
use crate::mountpoint::{self, MountLock, Mountpoint, UnmountOutcome};

/// A prepared mount. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct MountPlan {
    directory: PathBuf,
    config: Config,
    max_window: u64,
}

impl MountPlan {
    /// Checks the directory. `threads` requests are answered in parallel.
    pub(crate) fn new(
        directory: &Path,
        name: String,
        allow_other: bool,
        (threads, max_window): (usize, u64),
    ) -> Result<Self, MountError> {
        let directory = mountpoint::checked(directory)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::FSName(name),
            MountOption::Subtype("foreread".to_owned()),
        ];
        if allow_other {
            config.mount_options.push(MountOption::DefaultPermissions);
            config.acl = SessionACL::All;
        }
        config.n_threads = Some(threads);
        Ok(Self { directory, config, max_window })
    }

    /// Returns the absolute path of the mount point.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Mounts the file system; requests are answered once the mount runs.
    pub(crate) fn mount<F: Filesystem>(self, fs: F) -> Result<FuseMount<F>, MountError> {
        let Self { directory, config, max_window } = self;
        let refused = |source: io::Error| {
            let path = directory.clone();
            let is_denied = source.kind() == io::ErrorKind::PermissionDenied;
            if is_denied && access(FUSE_DEVICE, Access::READ_OK | Access::WRITE_OK) == DENIED {
                return MountError::Device { path };
            }
            MountError::Mount { path, source }
        };
        check_threads(config.n_threads.unwrap_or(1) + OTHER_THREADS)?;
        let lock = MountLock::take(&directory)?;
        let session = Session::new(fs, &directory, &config).map_err(refused)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(refused)?;
        let place = match lock.verified(&directory, connection) {
            Ok(place) => place,
            Err(error) => {
                // Its drop would unmount whichever mount is at the path.
                mem::forget(session);
                return Err(error);
            }
        };
        place.widen_read_ahead(max_window);
        Ok(FuseMount { session, stopper: Unmounter(Arc::new(place)) })
    }
}

/// An active mount. Dropping it unmounts.
pub(crate) struct FuseMount<F: Filesystem> {
    session: Session<F>,
    stopper: Unmounter,
}

impl<F: Filesystem> FuseMount<F> {
    pub(crate) fn stopper(&self) -> Unmounter {
        self.stopper.clone()
    }

    /// Returns the notifier, which makes the kernel forget names.
    pub(crate) fn notifier(&self) -> Notifier {
        self.session.notifier()
    }

    /// Answers requests until any program unmounts it. No mount stays behind, and nothing
    /// else is unmounted.
    pub(crate) fn run(self) -> io::Result<()> {
        let Self { session, stopper } = self;
        let nothing = thread::Builder::new().spawn(|| Ok(())).map_err(with_limit)?;
        let mut answering = session.spawn().map_err(with_limit)?;
        let over = mem::replace(&mut answering.guard, nothing).join();
        // Its drop would unmount whichever mount is at the directory by now.
        mem::forget(answering);
        let over = over.unwrap_or_else(|_| {
            Err(io::Error::other("a thread that serves requests has panicked"))
        });
        match over {
            Ok(()) => stopper.0.clear(),
            // The session has failed and answers no more requests, so the mount is not called.
            Err(_) => stopper.0.take_away(),
        }
        over.map_err(with_limit)
    }
}

/// Refuses to mount if the threads that answer cannot be created. An unprivileged user unmounts by
/// a helper process, which would fail, too, and leave a dead mount.
fn check_threads(count: usize) -> Result<(), MountError> {
    let (ended, end) = mpsc::channel::<()>();
    let end = Mutex::new(end);
    thread::scope(|scope| {
        // All of them run until the last one has started.
        let ended = ended;
        let waits = || drop(end.lock().map(|end| end.recv()));
        let mut started = (0..count).map(|_| thread::Builder::new().spawn_scoped(scope, waits));
        let refused = started.find_map(Result::err);
        drop(ended);
        let doing = "start the threads that serve requests";
        refused.map_or(Ok(()), |source| Err(MountError::System { doing, source }))
    })
}

/// Returns an error of the answering threads, with the limit to raise if none could be created.
fn with_limit(error: io::Error) -> io::Error {
    let kind = error.kind();
    if kind != io::ErrorKind::WouldBlock {
        return error;
    }
    io::Error::new(kind, format!("cannot start a thread: {error}{THREADS}"))
}

impl<F: Filesystem> fmt::Debug for FuseMount<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuseMount").field("place", &self.stopper.0).finish_non_exhaustive()
    }
}

/// Handle that unmounts.
#[derive(Clone, Debug)]
pub struct Unmounter(Arc<Mountpoint>);

impl Unmounter {
    /// Unmounts the mount wherever it is now. If files in it are open, detaches it: it ends with
    /// the last of them. Other mounts are never touched, so a covered mount stays.
    #[must_use]
    pub fn stop(&self) -> UnmountOutcome {
        self.0.unmount()
    }
}

/// Further threads: the one that joins the answering ones, a helper, the trimmer.
const OTHER_THREADS: usize = 4;
const FUSE_DEVICE: &str = "/dev/fuse";
const DENIED: rustix::io::Result<()> = Err(Errno::ACCESS);
