//! Child processes of tests that run beside others in one process.
//!
//! In:    a program and its arguments, as [`std::process::Command`] takes them.
//! Out:   the child, started while no other thread starts one.
//! Never: a child of another test that holds a file of this one between its fork and its exec.
//!
//! ```text
//!   a thread that forks   fork | the child has all descriptors | exec
//!   another thread                close(file)   umount: busy; exec of the file: text file busy
//! ```
//!
//! Rust opens files with `O_CLOEXEC`, so only a child that has not reached its exec holds them.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// A [`std::process::Command`] whose children are started one at a time.
#[derive(Debug)]
pub struct Command {
    std: std::process::Command,
    /// Which of stdin, stdout and stderr the test has set.
    is_set: [bool; 3],
}

impl Command {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { std: std::process::Command::new(program), is_set: [false; 3] }
    }

    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.std.arg(arg);
        self
    }

    pub fn args<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.std.args(args);
        self
    }

    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.std.env(name, value);
        self
    }

    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> &mut Self {
        self.std.envs(variables);
        self
    }

    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.std.env_remove(name);
        self
    }

    pub fn env_clear(&mut self) -> &mut Self {
        self.std.env_clear();
        self
    }

    pub fn current_dir(&mut self, dir: impl AsRef<Path>) -> &mut Self {
        self.std.current_dir(dir);
        self
    }

    pub fn process_group(&mut self, group: i32) -> &mut Self {
        self.std.process_group(group);
        self
    }

    pub fn uid(&mut self, user: u32) -> &mut Self {
        self.std.uid(user);
        self
    }

    pub fn gid(&mut self, group: u32) -> &mut Self {
        self.std.gid(group);
        self
    }

    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.std.stdin(stdin);
        self.is_set[0] = true;
        self
    }

    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Self {
        self.std.stdout(stdout);
        self.is_set[1] = true;
        self
    }

    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Self {
        self.std.stderr(stderr);
        self.is_set[2] = true;
        self
    }

    pub fn get_program(&self) -> &OsStr {
        self.std.get_program()
    }

    /// The command, for code that starts the child itself.
    pub fn into_std(self) -> std::process::Command {
        self.std
    }

    /// Starts the child. When this returns, the child has executed its program.
    pub fn spawn(&mut self) -> std::io::Result<Child> {
        let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        self.std.spawn()
    }

    pub fn status(&mut self) -> std::io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// As that of `std`: an input that is not set is empty, and outputs that are not set are read.
    pub fn output(&mut self) -> std::io::Result<Output> {
        let [has_stdin, has_stdout, has_stderr] = self.is_set;
        if !has_stdin {
            self.std.stdin(Stdio::null());
        }
        if !has_stdout {
            self.std.stdout(Stdio::piped());
        }
        if !has_stderr {
            self.std.stderr(Stdio::piped());
        }
        self.spawn()?.wait_with_output()
    }

    /// Waits until each child that another thread is starting has executed its program: none holds
    /// a file any more that this thread has closed.
    pub fn wait_for_execs() {
        Self::while_none_starts(|| ());
    }

    /// Runs `work` while no other thread starts a child: none inherits a file that it opens.
    pub fn while_none_starts<T>(work: impl FnOnce() -> T) -> T {
        let _none_is_starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }
}

static STARTING: Mutex<()> = Mutex::new(());
