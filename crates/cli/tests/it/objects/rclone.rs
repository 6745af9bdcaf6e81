//! A second kind of S3 server: rclone's `serve s3`, over a folder.
//!
//! In:    objects, as files of the folder.
//! Out:   a bucket at an endpoint of this machine, and commands that know it.
//! Never: a server that outlives the tests; a port of its own choice.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::common::{Command, Need, looks_until, needs, scratch};
use crate::objects::weed::BUCKET;

/// The server; stopped when it is dropped.
pub(crate) struct Rclone {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Rclone {
    /// None if there is none, which was said.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !needs(Need::Tool("rclone"), test) {
            return None;
        }
        // Another process may take a port between the moment that it is found and its use.
        let started = (0..3).find_map(|_| Self::at_free_port());
        Some(started.expect("rclone starts"))
    }

    fn at_free_port() -> Option<Self> {
        let folder = TempDir::new_in(scratch()).unwrap();
        fs::create_dir_all(folder.path().join("s3").join(BUCKET)).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut command = Command::new("rclone");
        command.args(["serve", "s3", "--auth-key", "tests,tests-secret", "--config", "/dev/null"]);
        // Files that are replaced below it are seen at once.
        command.args(["--dir-cache-time", "0s", "--addr", &format!("127.0.0.1:{port}")]);
        command.arg(folder.path().join("s3")).env("HOME", folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { child: command.spawn().unwrap(), port, folder };
        let is_there = looks_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        // With the port taken by another it has ended.
        (is_there && matches!(server.child.try_wait(), Ok(None))).then_some(server)
    }

    /// Puts an object, in place of the one that is there.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> String {
        let (bucket, new) =
            (self.folder.path().join("s3").join(BUCKET), self.folder.path().join("new"));
        let path = bucket.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&new, bytes).unwrap();
        fs::rename(&new, path).unwrap();
        format!("s3://{BUCKET}/{key}")
    }

    /// The command, with the endpoint and a key that may read.
    pub(crate) fn foreread(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(args).stdin(Stdio::null()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("STATE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port));
        command.env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "tests").env("AWS_SECRET_ACCESS_KEY", "tests-secret");
        command
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
