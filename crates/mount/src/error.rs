//! Why there is no mount.
//!
//! In:    what the system or the image said.
//! Out:   one line: what is wrong and what to do.
//! Never: the image's name, which the caller that has opened it puts in front.

use std::path::PathBuf;
use std::{error, fmt, io};

/// Why an image could not be mounted.
#[derive(Debug)]
#[non_exhaustive]
pub enum MountError {
    /// The image cannot be read as ext4.
    Image(foreread_ext4::Error),
    /// The tree cannot be listed.
    Tree(io::Error),
    /// Nothing is at the mount point.
    Missing {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point is something else than a directory.
    NoDirectory {
        /// The mount point.
        path: PathBuf,
        /// What is there instead, and what to do.
        what: &'static str,
    },
    /// Something is mounted there.
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Another process has locked the directory.
    Locked {
        /// The mount point.
        path: PathBuf,
    },
    /// A mount is there whose server has ended.
    Dead {
        /// The mount point.
        path: PathBuf,
    },
    /// The system refuses to mount.
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Threads or signals cannot be had.
    System {
        /// What we were doing: a verb and its object.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => write!(f, "{error}"),
            Self::Tree(error) => write!(f, "{error}"),
            Self::Missing { path } => {
                let path = path.display();
                write!(f, "{path}: there is no such directory; make one: mkdir -p {path}")
            }
            Self::NoDirectory { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Locked { path } => write!(
                f,
                "{}: another process has locked it, such as a foreread that mounts there; try \
                 again, or mount elsewhere",
                path.display()
            ),
            Self::Busy { path } => {
                let path = path.display();
                write!(f, "{path}: something is mounted there; umount {path}, or mount elsewhere")
            }
            Self::Dead { path } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: a mount is there whose server has ended; umount {path}, or \
                     fusermount3 -u {path}, and try again"
                )
            }
            Self::Mount { path, source } => {
                let path = path.display();
                let help = if source.kind() == io::ErrorKind::PermissionDenied {
                    "; mount as root, or install fusermount3 (package fuse3)"
                } else if source.kind() == io::ErrorKind::NotFound {
                    "; is there /dev/fuse? try 'modprobe fuse'"
                } else {
                    ""
                };
                write!(f, "{path}: cannot mount: {source}{help}")
            }
            Self::System { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl error::Error for MountError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Image(error) => Some(error),
            Self::Tree(source) | Self::Mount { source, .. } | Self::System { source, .. } => {
                Some(source)
            }
            Self::Missing { .. }
            | Self::NoDirectory { .. }
            | Self::Busy { .. }
            | Self::Locked { .. }
            | Self::Dead { .. } => None,
        }
    }
}
