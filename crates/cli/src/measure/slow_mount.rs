//! The kernel's page cache over a slow device: a FUSE mount of one file, served by another process.
//!
//! The mount is detached as soon as it is opened, and ends with its server process, which ends with
//! this one.
//!
//! ```text
//!   demo --- reads ---> kernel: page cache, read-ahead --- requests ---> server process
//!     |                                                                    | waits as the model says
//!     +--- a pipe: requests for counts; closed at exit ---------------------->|
//! ```
//!
//! Why another process: one that waits for its own answers cannot be killed.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::slow_server::{FILE_NAME, READY, SlowDeviceServer};
use foreread::lab::Delay;
use foreread_mount::detach;
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;

/// The mount, as long as it lives.
pub(crate) struct SlowMount {
    root: OwnedFd,
    server: Child,
    /// Open as long as the server shall serve.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl SlowMount {
    pub(crate) fn new(file: &File, len: u64, delay: Delay) -> io::Result<Self> {
        // The server inherits the descriptor: the file may have no name.
        let inherited = file.try_clone()?;
        rustix::io::fcntl_setfd(&inherited, FdFlags::empty())?;
        let mut server = Command::new("/proc/self/exe")
            .arg0(std::env::current_exe()?)
            .args(SlowDeviceServer { file: inherited.as_raw_fd(), len, delay }.arguments())
            // Not in our group: Ctrl-C ends us, and the end of the pipe ends the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let ask = server.stdin.take();
        let mut answers = BufReader::new(server.stdout.take().expect("spawned with stdout piped"));
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        let Some(directory) = answer.trim_end_matches('\n').strip_prefix(READY) else {
            server.wait()?;
            return Err(io::Error::other(answer.trim_end().to_owned()));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        detach(Path::new(directory));
        Ok(Self { root, server, ask, answers })
    }

    /// Opens the file, through the kernel's page cache.
    pub(crate) fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.root, FILE_NAME, flags, Mode::empty())?.into())
    }

    /// Returns the device number of the mount, as in `st_dev`.
    pub(crate) fn device(&self) -> Option<u64> {
        rustix::fs::fstat(&self.root).ok().map(|stat| stat.st_dev)
    }

    /// Returns the device reads of the kernel so far, and their bytes.
    pub(crate) fn counts(&mut self) -> io::Result<(u64, u64)> {
        self.ask.as_mut().expect("the pipe is taken in drop only").write_all(b"\n")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let numbers = answer.trim_end().split_once(' ');
        let parsed =
            numbers.and_then(|(reads, bytes)| Some((reads.parse().ok()?, bytes.parse().ok()?)));
        parsed.ok_or_else(|| io::Error::other("the slow device's server has ended"))
    }
}

impl Drop for SlowMount {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.server.wait();
    }
}
