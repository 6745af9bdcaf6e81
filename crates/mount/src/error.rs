//! Reasons why a mount failed, each as one line with the remedy. The caller that opened the image
//! prefixes its name.

use std::path::PathBuf;
use std::{error, fmt, io};

use rustix::io::Errno;

/// Reason why an image could not be mounted.
#[derive(Debug)]
#[non_exhaustive]
pub enum MountError {
    /// The image cannot be read as ext4.
    Image(foreread_ext4::Error),
    /// The tree cannot be listed.
    Tree(io::Error),
    /// The mount point does not exist.
    Missing {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point is not a directory.
    NoDirectory {
        /// The mount point.
        path: PathBuf,
        /// Kind of file found, and the remedy.
        what: &'static str,
    },
    /// A file system is mounted there.
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Another process has locked the directory.
    Locked {
        /// The mount point.
        path: PathBuf,
    },
    /// A mount is there, but its server has exited.
    Dead {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount call failed.
    Mount {
        /// The mount point.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// This user may not open `/dev/fuse`.
    Device {
        /// The mount point.
        path: PathBuf,
    },
    /// Threads or signals are unavailable.
    System {
        /// Failed operation: a verb and its object.
        doing: &'static str,
        /// Error of the system call.
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
                write!(f, "{path}: no such directory; create it: mkdir -p {path}")
            }
            Self::NoDirectory { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Locked { path } => write!(
                f,
                "{}: locked by another process, such as a foreread that mounts there; try again, \
                 or mount elsewhere",
                path.display()
            ),
            Self::Busy { path } => {
                let path = path.display();
                write!(f, "{path}: already a mount point; umount {path}, or mount elsewhere")
            }
            Self::Dead { path } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: has a mount whose server has exited; umount {path}, or fusermount3 \
                     -u {path}, and try again"
                )
            }
            Self::Mount { path, source } => {
                let (path, kind, limit) = (path.display(), source.kind(), limit_to_raise(source));
                let source = source.to_string();
                let help = if source.contains("user_allow_other") {
                    "; add the line user_allow_other to /etc/fuse.conf, mount as root, or leave \
                     out --allow-other"
                } else if let Some(limit) = limit {
                    limit
                } else if kind == io::ErrorKind::PermissionDenied {
                    "; mount as root, or install fusermount3 (package fuse3)"
                } else if kind == io::ErrorKind::NotFound {
                    "; if /dev/fuse is missing, try 'modprobe fuse'"
                } else {
                    ""
                };
                write!(f, "{path}: cannot mount: {}{help}", source.trim_end())
            }
            Self::Device { path } => write!(
                f,
                "{}: cannot mount: no permission for /dev/fuse; mount as root, or let root allow \
                 all users: chmod 666 /dev/fuse",
                path.display()
            ),
            Self::System { doing, source } => {
                write!(f, "cannot {doing}: {source}{}", limit_to_raise(source).unwrap_or_default())
            }
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
            | Self::Device { .. }
            | Self::Dead { .. } => None,
        }
    }
}

/// Returns the remedy if a limit of the process has refused a system call.
fn limit_to_raise(error: &io::Error) -> Option<&'static str> {
    if error.kind() == io::ErrorKind::WouldBlock {
        return Some(THREADS);
    }
    (Errno::from_io_error(error) == Some(Errno::MFILE)).then_some(OPEN_FILES)
}

/// Remedy if the process may open no more files.
const OPEN_FILES: &str = "; raise ulimit -n, or close files";

/// Remedy if no thread or process can be created.
pub(crate) const THREADS: &str = "; the limit of threads is reached: raise it (ulimit -u, \
                                  TasksMax= of systemd, the pids limit of a container)";

#[cfg(test)]
mod tests {
    use super::MountError;
    use std::io::{Error, ErrorKind};

    /// Each of them was to be mended by fusermount3, which was there.
    #[test]
    fn a_refused_mount_names_its_cause_and_the_remedy() {
        let mount = |source| MountError::Mount { path: "/mnt".into(), source }.to_string();
        let helper = "option allow_other only allowed if 'user_allow_other' is set\n";
        let not_allowed = mount(Error::new(ErrorKind::PermissionDenied, helper));
        assert!(not_allowed.contains("is set; add the line user_allow_other to /etc/fuse.conf"));
        let no_thread = mount(ErrorKind::WouldBlock.into());
        assert!(no_thread.contains("ulimit -u"), "{no_thread}");
        let no_device = MountError::Device { path: "/mnt".into() }.to_string();
        assert!(no_device.contains("/dev/fuse"), "{no_device}");
        for line in [not_allowed, no_thread, no_device] {
            assert!(!line.contains("fusermount3 (package"), "{line}");
        }
    }
}
