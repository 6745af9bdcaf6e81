//! The only place where foreread creates, replaces or removes a path in the file system.
//!
//! In:    paths that users give, and the fixed paths below /run, /var/lib and /etc.
//! Out:   files that are whole or not there, sockets, pid files, scratch files.
//! Never: a file of another program, an input of the same command, or a device node replaced or
//!        removed; a symbolic link followed at the last component of a path.
//!
//! docs/files.md lists every such path with what is refused. The data path (reads and writes of an
//! open TARGET) is not here: it creates no names.
//!
//! All checks are made on descriptors relative to the open directory: what was looked at is what is
//! replaced or removed, also if another process renames files meanwhile.

#![forbid(unsafe_code)]

pub mod attribute;
pub mod cgroup;
mod destination;
mod draft;
mod entry;
mod error;
pub mod journal;
pub mod kept_file;
mod output;
mod pid_file;
pub mod scratch;
mod socket;
pub mod system;
pub mod trusted_path;

pub use destination::{OutputDestination, is_stdout};
pub use entry::CommandInput;
pub use error::FileError;
pub use output::{KeptPart, ResultFile};
pub use pid_file::PidFile;
pub use scratch::PrivateDirectory;
pub use socket::{SOCKET_PATH_MAX, SocketFile, bind};
