//! The arguments of `foreread serve`, their help, and the plan that follows from them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use foreread::Policy;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use super::plan::{ServePlan, ServeSource};
use crate::args::assignment::assignment;
use crate::read_recording::ReadRecordingArgs;
use foreread_cli::args::duration::duration;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::args::policy::policies;
use foreread_cli::device_memory::RememberArgs;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::output::Failure;
use foreread_cli::store::{self, StoreArgs, StoreLimitArgs};

/// Serve a file, block device or object to NBD clients through foreread's cache
///
/// NBD clients (the kernel's nbd-client, nbdcopy, qemu, libnbd) read and write TARGET through
/// foreread's cache, read-ahead and scheduler, bypassing the kernel's page cache. A write is
/// acknowledged when it is in the cache, like on a disk with a volatile write cache. After a flush,
/// or with FUA, it is on the device and survives a kill or a power failure.
///
/// The server stays in the foreground and prints one line on stderr when it is ready. On SIGTERM or
/// Ctrl-C it accepts no new requests, completes those in progress (5 seconds at most) and flushes
/// all writes (--exit-timeout at most). If the flush fails, a line on stderr gives the amount that
/// is not on the device, and the exit code is 1. A second SIGTERM or Ctrl-C exits at once and loses
/// writes that were not flushed.
///
/// While it runs, `foreread stats SOCKET` shows statistics and `foreread set SOCKET NAME=VALUE`
/// changes tunables, over the same Unix socket.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ServeArgs {
    /// File or block device; its length never changes. Or the URL of an object (s3://bucket/key,
    /// gs://, az://, https://), served read-only or with an --overlay
    #[arg(value_parser = store::target())]
    target: PathBuf,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    limits: StoreLimitArgs,

    /// Listen on a Unix socket at PATH, accessible only to its owner (mode 0600)
    ///
    /// A stale socket file is replaced, and the socket is removed on exit. If PATH is any other
    /// file, or a socket with a listener, the command is refused (docs/guide/files.md).
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Listen on a TCP port, on loopback unless ADDR is given; 0 picks a free port and prints it on
    /// stderr
    ///
    /// There is no TLS and no password: any client that reaches the port may read and write. NBD's
    /// port is 10809; 0.0.0.0:10809 or [::]:10809 listens on all addresses.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = listen_addr)]
    port: Option<SocketAddr>,

    /// Open TARGET read-only and refuse writes
    #[arg(long)]
    read_only: bool,

    /// Serve TARGET from byte SIZE on (or with K, M, G), to its end
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, conflicts_with = "partition")]
    offset: Option<ByteCount>,

    /// Serve partition N of TARGET, a whole disk with an MBR or GPT
    ///
    /// Numbers are those of the kernel's devices; logical partitions begin with 5. The table is
    /// read once, at the start. Clients reach no byte outside the partition. Only one server at a
    /// time may write TARGET, even if others serve another partition.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    partition: Option<u32>,

    /// If TARGET is a URL: accept writes and store them in FILE
    ///
    /// FILE is created, sparse, if it does not exist. It holds the written 4 KiB blocks and belongs
    /// to this version of the object; any other version is refused. After a flush, or with FUA,
    /// writes survive a kill or a power failure. If the disk of FILE is full, writes fail
    /// (docs/guide/objects.md).
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,

    /// Export name; clients that request no name get this export, too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = export_name)]
    export: String,

    /// Memory limit of the cache: clean and dirty pages and their metadata
    ///
    /// In addition, all connections share reply buffers of an eighth of SIZE (4 to 64 MiB), and
    /// each connection uses up to 384 KiB.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// Allocate all cache memory at startup instead of lazily
    ///
    /// Reads then never wait for memory to be allocated. If the system is short of memory, it may
    /// kill the process instead of failing the allocation.
    #[arg(long)]
    prefault: bool,

    /// Largest read-ahead window, or auto: learnt from the device [default: auto with the policy
    /// adaptive, else the kernel's window for this device, at least 128K]
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,

    /// Read-ahead policy
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    policy: Policy,

    /// Age at which a dirty page is written back
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    dirty_age: Duration,

    /// Set a tunable at startup, like `foreread set`; may be repeated
    ///
    /// dirty_limit=BYTES is the amount of writes not yet on the device beyond which writers block:
    /// a quarter of --memory by default, which is also the maximum.
    ///
    /// With scheduler=noop, requests are sent in order of arrival; the default scheduler, deadline,
    /// protects readers from writers and learns from the device how many writes to keep in flight.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    #[command(flatten)]
    remember: RememberArgs,

    #[command(flatten)]
    recording: ReadRecordingArgs,

    /// Slow the device down, for tests and demonstrations: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,

    /// Maximum number of connections per listener; further ones are closed
    ///
    /// --unix and --port are counted separately. stats and set have their own connections, and so
    /// have TCP clients of a host with few connections while another host has taken all.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    connections: u32,

    /// Maximum number of requests in progress per connection; others wait in the socket
    #[arg(long, value_name = "N", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    requests: u32,

    /// Time limit of the flush on SIGTERM or Ctrl-C; writes not on the device by then are lost
    ///
    /// Raise it for a slow device with a large dirty limit, together with the service manager's
    /// limit (systemd's TimeoutStopSec, 90s by default).
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    exit_timeout: Duration,

    /// Run a command with sh, stop the server when the command exits, and exit with its code (1 if
    /// the command succeeded but the final flush failed)
    ///
    /// The environment has the server's address in $uri, $unixsocket and $port, and the export name
    /// in $exportname. Without --unix and --port the server listens on a private socket in a
    /// temporary directory.
    #[arg(long, value_name = "CMD")]
    run: Option<String>,

    /// Write the process id to FILE when clients may connect; remove the file on exit
    ///
    /// FILE must be absent or a stale pid file: a number and a line feed, with no running process
    /// of that number. TARGET, any other file, symbolic links and devices are refused.
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    /// Serve Prometheus metrics at http://ADDR:PORT/metrics, on loopback unless ADDR is given
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = listen_addr)]
    metrics: Option<SocketAddr>,
}

impl ServeArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses options that do not fit the kind of target, and a server without a listener.
    pub(super) fn plan(self) -> Result<ServePlan, Failure> {
        let is_object = store::url_of(&self.target).is_some();
        let wrong = |line: String| Err(Failure::WrongUse(line));
        if let Some(overlay) = self.overlay.as_deref().filter(|_| !is_object) {
            let overlay = overlay.display();
            return wrong(format!(
                "--overlay {overlay}: TARGET is no URL; files are written themselves"
            ));
        }
        if is_object && self.delay.is_some() {
            return wrong("--delay slows down files and devices; a store is slow by itself".into());
        }
        if self.unix.is_none() && self.port.is_none() && self.run.is_none() {
            return wrong(
                "nowhere to listen; give --unix PATH, --port N, or a command with --run".into(),
            );
        }
        // Policies that do not learn use the kernel's window.
        let window = match (self.max_window, self.policy) {
            (Some(window), _) => window,
            (None, Policy::Adaptive) => MaxWindow::Auto,
            (None, _) => MaxWindow::of_kernel(&self.target),
        };
        let read_only = self.read_only || is_object && self.overlay.is_none();
        let source = if is_object {
            let store = self.limits.limit(self.store.access());
            ServeSource::Object { store, overlay: self.overlay }
        } else {
            ServeSource::File { delay: self.delay }
        };
        Ok(ServePlan {
            target: self.target,
            source,
            read_only,
            range: RangeChoice::new(self.offset, self.partition),
            unix: self.unix,
            tcp: self.port,
            export: self.export,
            memory: self.memory,
            prefault: self.prefault,
            window,
            policy: self.policy,
            dirty_age: self.dirty_age,
            tunables: self.set,
            remember: self.remember.resolve(),
            recording: self.recording.resolve(),
            connections: self.connections,
            requests: self.requests,
            exit_timeout: self.exit_timeout,
            command: self.run,
            pid_file: self.pid_file,
            metrics: self.metrics,
        })
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread serve disk.img --unix /tmp/disk.sock
  nbdinfo 'nbd+unix:///?socket=/tmp/disk.sock'
  foreread serve disk.img --read-only --run 'nbdcopy \"$uri\" - | sha256sum'
  foreread serve s3://bucket/disk.img --unix /tmp/disk.sock --memory 1G
  foreread serve s3://bucket/disk.img --unix /tmp/disk.sock --overlay disk.overlay
  foreread serve disk.img --partition 2 --unix /tmp/disk.sock
  foreread serve disk.img --read-only --unix /tmp/disk.sock --record disk.frt
  foreread serve /dev/sdb --port 10809 --memory 2G --metrics 9100 --pid-file /run/sdb.pid
  foreread stats /tmp/disk.sock; foreread set /tmp/disk.sock dirty_age=1000

";

fn export_name(text: &str) -> Result<String, String> {
    if text.len() > EXPORT_NAME_MAX || text.contains('\0') {
        return Err(format!("at most {EXPORT_NAME_MAX} bytes, none of them zero"));
    }
    Ok(text.to_owned())
}

fn listen_addr(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let addr = port.or_else(|_| text.parse().map_err(drop));
    addr.map_err(|()| "write ADDR:PORT (127.0.0.1:9100), or a PORT of loopback".to_owned())
}

/// Length of the longest string in the NBD protocol.
const EXPORT_NAME_MAX: usize = 4096;
