//! A real S3 server for the tests of one process: SeaweedFS.
//!
//! In:    objects.
//! Out:   a bucket at an endpoint of this machine, and commands that know it.
//! Never: a server that outlives the tests: a shell kills it when its input ends, and that ends
//!        with this process, however it ends. A port of its own choice.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::common::{Command, Need, looks_until, needs, scratch};

/// The server; stopped when the last handle is dropped.
#[derive(Clone)]
pub(crate) struct Weed(std::sync::Arc<RunningWeed>);

struct RunningWeed {
    shell: Child,
    ports: Vec<u16>,
    _folder: TempDir,
}

/// The bucket of all tests.
pub(crate) const BUCKET: &str = "tests";

/// The server that other tests use, too; None if there is none, which was said.
pub(crate) fn weed(test: &str) -> Option<Weed> {
    static SHARED: Mutex<std::sync::Weak<RunningWeed>> = Mutex::new(std::sync::Weak::new());

    if !needs(Need::Tool("weed"), test) {
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return Some(Weed(running));
    }
    // Another process may take a port between the moment that it is found and its use.
    let started = (0..3).find_map(|_| RunningWeed::start());
    let running = std::sync::Arc::new(started.expect("SeaweedFS starts"));
    *shared = std::sync::Arc::downgrade(&running);
    Some(Weed(running))
}

impl Weed {
    /// Puts an object, in place of the one that is there.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> String {
        let status = self.0.put(&format!("{BUCKET}/{key}"), bytes);
        assert_eq!(status, Some(200), "{key} is put");
        format!("s3://{BUCKET}/{key}")
    }

    /// Where it speaks S3.
    #[cfg(feature = "objects")]
    pub(crate) fn port(&self) -> u16 {
        self.0.s3()
    }

    /// The command, with the endpoint and a key that may read.
    pub(crate) fn foreread(&self, args: &[&str]) -> Command {
        let mut command = self.without_key(args);
        command.env("AWS_ACCESS_KEY_ID", "tests").env("AWS_SECRET_ACCESS_KEY", SECRET);
        command
    }

    /// The command, with the endpoint alone.
    pub(crate) fn without_key(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(args).stdin(Stdio::null()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // What stores are like is remembered here, and not in the system's directory.
        command.env("STATE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.0.s3()));
        command.env("AWS_REGION", "us-east-1");
        command
    }
}

impl RunningWeed {
    fn start() -> Option<Self> {
        let folder = TempDir::new_in(scratch()).unwrap();
        let ports = free_ports();
        let config = folder.path().join("s3.json");
        fs::write(&config, IDENTITIES).unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(WATCHED).arg("sh").stdin(Stdio::piped());
        shell.arg("server").arg(format!("-dir={}", folder.path().display()));
        shell.args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=8"]);
        shell.args(["-master.volumeSizeLimitMB=64", "-s3", "-s3.port.iceberg=0"]);
        shell.args(["-s3.port.lance=0"]).arg(format!("-s3.config={}", config.display()));
        for (name, port) in PORTS.iter().zip(&ports) {
            shell.arg(format!("-{name}={port}"));
        }
        let shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Self { shell, ports, _folder: folder };
        let is_there = looks_until(|| TcpStream::connect(("127.0.0.1", server.s3())).is_ok());
        // It answers before it can store anything.
        let is_ready = is_there
            && looks_until(|| server.put(BUCKET, b"").is_some_and(|status| status != 500))
            && looks_until(|| server.put(&format!("{BUCKET}/ready"), b"yes") == Some(200));
        is_ready.then_some(server)
    }

    fn s3(&self) -> u16 {
        self.ports[0]
    }

    /// Puts an object, or makes a bucket; the status of the answer.
    fn put(&self, path: &str, bytes: &[u8]) -> Option<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.s3())).ok()?;
        let head = format!(
            "PUT /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: \
             {}\r\n\r\n",
            bytes.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(bytes).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for RunningWeed {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
        // It leaves its local sockets where no option says.
        for (name, port) in PORTS.iter().zip(&self.ports) {
            let name = name.replace(".port.grpc", "-grpc").replace(".port", "");
            let _ = fs::remove_file(format!("/tmp/seaweedfs-{name}-{port}.sock"));
        }
    }
}

/// Ports that were free a moment ago.
fn free_ports() -> Vec<u16> {
    let bind = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let listeners: Vec<_> = PORTS.iter().map(bind).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// Runs the server until the input ends, and kills it: asked to end, it takes ten seconds.
const WATCHED: &str = "weed \"$@\" & read -r end; kill -9 $!; wait";

/// Of all its parts, so that none takes a port that is fixed.
const PORTS: [&str; 8] = [
    "s3.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
];

const SECRET: &str = "tests-secret";

/// One that signs, and all others, who may do the same: the tests put objects without a signature.
const IDENTITIES: &str = r#"{"identities":[
{"name":"tests","credentials":[{"accessKey":"tests","secretKey":"tests-secret"}],
 "actions":["Admin","Read","Write","List"]},
{"name":"anonymous","actions":["Admin","Read","Write","List"]}]}"#;
