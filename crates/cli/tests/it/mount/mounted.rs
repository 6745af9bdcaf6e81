//! A mount of one test: the real binary.
//!
//! In:    an image, flags.
//! Out:   a directory that is ready; what was said, and how it ended.
//! Never: a wait for a time: what is ready says so.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Command, Need, needs};
use crate::images::{can_make, can_mount};

/// Whether images can be made and mounted here, by us.
pub(crate) fn can_fuse(test: &str) -> bool {
    can_make(test) && needs(Need::Fuse, test) && needs(Need::Root, test)
}

/// Whether the kernel can mount them, too.
pub(crate) fn can_compare(test: &str) -> bool {
    can_mount(test) && needs(Need::Fuse, test)
}

/// A mount; unmounted when it is dropped.
pub(crate) struct Mount {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The line that said that it is ready.
    pub(crate) ready: String,
    pub(crate) dir: PathBuf,
}

impl Mount {
    /// Mounts beside the image.
    pub(crate) fn new(image: &Path, flags: &[&str]) -> Self {
        Self::or_line(image, flags).unwrap_or_else(|line| panic!("{flags:?}: {line}"))
    }

    /// The mount, or the line that says why there is none.
    pub(crate) fn or_line(image: &Path, flags: &[&str]) -> Result<Self, String> {
        let dir = image.with_file_name("ours");
        fs::create_dir_all(&dir).unwrap();
        let mut child = command(image, &dir, flags).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut ready = String::new();
        stderr.read_line(&mut ready).unwrap();
        let is_ready = ready.starts_with("foreread: mounted ");
        let mut mount = Self { child, stderr, ready, dir };
        if is_ready {
            return Ok(mount);
        }
        assert_eq!(mount.child.wait().unwrap().code(), Some(2), "{}", mount.ready);
        Err(std::mem::take(&mut mount.ready))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The next line that it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Waits until it has ended. Returns its exit code, and its other lines without that of a mount
    /// in use.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), None, "{said}");
        (status.code(), without_use(&said))
    }

    /// Tells it to end: it must, with 0, and leave nothing mounted. Returns its lines.
    pub(crate) fn end(self) -> String {
        let dir = self.dir.clone();
        Command::wait_for_execs();
        self.signal(Signal::TERM);
        let (code, said) = self.ended();
        assert_eq!(code, Some(0), "{said}");
        assert!(!is_mounted(&dir));
        said
    }
}

/// Removes the line that a mount is in use: a program that looks at all mounts, as another test may
/// run, holds each for a moment.
pub(crate) fn without_use(said: &str) -> String {
    let is_use = |line: &str| line.ends_with("nothing in it is open, or by another signal");
    said.lines().filter(|line| !is_use(line)).flat_map(|line| [line, "\n"]).collect()
}

impl Drop for Mount {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A test has failed: reads of the mount fail, and nothing stays.
            let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub(crate) fn command(image: &Path, dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.arg("mount").arg(image).arg(dir).args(flags).stdin(Stdio::null());
    // What other runs learnt of the device is not a part of these tests.
    command.arg("--no-remember");
    command
}

/// One that must not come to be: exit code 2, nothing on stdout, one line on stderr with `hint`.
#[track_caller]
pub(crate) fn is_refused(image: &Path, dir: &Path, flags: &[&str], hint: &str) {
    let output: Output = command(image, dir, flags).output().unwrap();
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty(), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("foreread: ") && line.contains(hint), "{line}");
}

/// Whether the kernel has a mount there.
pub(crate) fn is_mounted(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|at| Path::new(at) == dir))
}
