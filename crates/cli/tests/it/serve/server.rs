//! A server for one test: the real binary, over a file of its own.
//!
//! In:    flags.
//! Out:   a server that is ready, with its socket; what it said, and how it ended.
//! Never: a server that outlives its test, or a wait for a time: what is ready says so.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Output, Stdio};

use foreread_serve::client::{Client, Session};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::{Command, scratch};

/// A server that is ready.
pub(crate) struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The line that said so.
    pub(crate) ready: String,
    pub(crate) socket: PathBuf,
}

/// A folder with a file in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    /// Below the build's own folder, where there is `O_DIRECT`.
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new_in(scratch()).unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of so many bytes, each page other than its neighbours.
    pub(crate) fn file(&self, name: &str, len: usize) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes(len)).unwrap();
        path
    }

    /// Serves a file of this folder at a socket of this folder.
    pub(crate) fn serve(&self, target: &Path, flags: &[&str]) -> Server {
        self.serve_at(&self.path("sock"), target, flags)
    }

    pub(crate) fn serve_at(&self, socket: &Path, target: &Path, flags: &[&str]) -> Server {
        let mut command = foreread(&["serve"]);
        command.arg(target).arg("--unix").arg(socket).args(flags);
        // What other runs learnt of the device is not a part of these tests.
        command.arg("--no-remember");
        Server::started(&mut command, socket.to_owned())
    }
}

/// The binary.
pub(crate) fn foreread(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(args).stdin(Stdio::null());
    // Not in the system's directory.
    command.env("STATE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command
}

impl Server {
    /// Starts it, and reads what it says until it is ready.
    pub(crate) fn started(command: &mut Command, socket: PathBuf) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut ready = String::new();
        stderr.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("foreread: serving "), "{command:?}: {ready}");
        Self { child, stderr, ready, socket }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// As nbdinfo and its like take it.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// A connection of our own.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.socket.to_str().unwrap()).unwrap()
    }

    /// One that has taken the export.
    pub(crate) fn session(&self) -> Session {
        self.client().go(false).unwrap()
    }

    /// Its stdout, if its command has one.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Kills it as no program can prevent.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Waits for its end; its exit code, and what it said since it was ready.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    /// The next line that it says, before it has ended.
    pub(crate) fn says(mut self) -> (String, Self) {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        (line, self)
    }

    /// Ends it as a service manager does, and holds it to ending well and without a word.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.signal(Signal::TERM);
        let socket = self.socket.clone();
        assert_eq!(self.ended(), (Some(0), String::new()));
        assert!(!socket.exists(), "the socket stays behind");
    }

    /// What `foreread stats --json` or the like prints.
    pub(crate) fn asked(&self, verb: &str, args: &[&str]) -> Output {
        foreread(&[verb]).arg(&self.socket).args(args).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn stats(&self) -> serde_json::Value {
        let output = self.asked("stats", &["--json"]);
        assert!(output.status.success(), "{output:?}");
        crate::said::data(&output.stdout).remove(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of a test that failed; otherwise it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that tell where they are from.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    let word = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|n| word(n).to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// What a program prints that must succeed.
#[track_caller]
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a program says that must fail.
#[track_caller]
pub(crate) fn refused(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}
