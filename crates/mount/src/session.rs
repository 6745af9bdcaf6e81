//! A FUSE session: from the directory that is to be mounted on to its end.
//!
//! In:    a directory, a file system.
//! Out:   a mount that is answered until it is unmounted.
//! Never: a mount that stays behind; another mount touched.

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

/// A mount that is prepared: nothing is left of one that is dropped.
#[derive(Debug)]
pub(crate) struct MountPlan {
    directory: PathBuf,
    config: Config,
    max_window: u64,
}

impl MountPlan {
    /// Looks at the directory. `threads` requests are answered at a time.
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

    /// Where it will be mounted, as a whole path.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Mounts; requests are answered as soon as the mount runs.
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
                // Dropped, it would unmount what the path shows, be it another's.
                mem::forget(session);
                return Err(error);
            }
        };
        place.widen_read_ahead(max_window);
        Ok(FuseMount { session, stopper: Unmounter(Arc::new(place)) })
    }
}

/// A mount that is there. Dropping it unmounts.
pub(crate) struct FuseMount<F: Filesystem> {
    session: Session<F>,
    stopper: Unmounter,
}

impl<F: Filesystem> FuseMount<F> {
    pub(crate) fn stopper(&self) -> Unmounter {
        self.stopper.clone()
    }

    /// What tells the kernel to forget a name.
    pub(crate) fn notifier(&self) -> Notifier {
        self.session.notifier()
    }

    /// Answers until it is unmounted, by whatever program. Nothing of it stays mounted, and nothing
    /// else is unmounted.
    pub(crate) fn run(self) -> io::Result<()> {
        let Self { session, stopper } = self;
        let nothing = thread::Builder::new().spawn(|| Ok(())).map_err(with_limit)?;
        let mut answering = session.spawn().map_err(with_limit)?;
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
        over.map_err(with_limit)
    }
}

/// Refuses to mount where the system would not give the threads that answer: an unprivileged user
/// unmounts by a helper, which would get no process either, and a dead mount would stay.
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
        let doing = "start the threads that answer";
        refused.map_or(Ok(()), |source| Err(MountError::System { doing, source }))
    })
}

/// An error of the threads that answer, with the limit to raise where the system gave none.
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

/// Beside the threads that answer: the one that joins them, a helper, the trimmer.
const OTHER_THREADS: usize = 4;
const FUSE_DEVICE: &str = "/dev/fuse";
const DENIED: rustix::io::Result<()> = Err(Errno::ACCESS);
