//! The arguments of `foreread serve`, and their help.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use foreread::{Delay, Policy};
use foreread_core::sizes;
use foreread_core::units::ByteCount;

use crate::args::assignment::assignment;
use crate::args::duration::duration;
use crate::args::help::CODES_AND_UNITS;
use crate::args::max_window::{MaxWindow, max_window};
use crate::args::policy::policies;
use crate::device_memory::RememberArgs;
use crate::read_recording::ReadRecordingArgs;
use crate::store::{self, StoreArgs};

/// Serve a file, block device or object to NBD clients, through foreread's cache
///
/// Any NBD client (the kernel's nbd-client, nbdcopy, qemu, libnbd) reads and writes TARGET through
/// foreread's cache, its read-ahead and its scheduler, around the kernel's page cache. Writes are
/// answered when they are in the cache, as a disk with a volatile write cache answers them; after a
/// flush, or with FUA, they are on the device and survive a kill and a power cut.
///
/// It serves until SIGTERM or Ctrl-C; then no new requests are taken, those in hand are answered
/// (for 5 seconds at most), and all that was written is flushed (for --exit-timeout at most); if
/// that fails, a line on stderr says how much is not on the device, and the exit code is 1. A
/// second SIGTERM or Ctrl-C ends it at once, and what was not flushed is lost. It stays in the
/// foreground; when it is ready, one line on stderr says so.
///
/// While it runs, `foreread stats SOCKET` shows what it does and `foreread set SOCKET NAME=VALUE`
/// changes how, by the same Unix socket that clients use.
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ServeArgs {
    /// A file or block device; it keeps its length. Or the URL of an object (s3://bucket/key,
    /// gs://, az://, https://), which is served read-only, or with an --overlay
    #[arg(value_parser = store::target())]
    pub(super) target: PathBuf,

    #[command(flatten)]
    pub(super) store: StoreArgs,

    /// Listen on a Unix socket at PATH, for its owner only (mode 0600)
    ///
    /// A stale socket file is replaced and removed at the end. If PATH names anything else, or a
    /// socket with a listener, the command is refused (docs/files.md).
    #[arg(long, value_name = "PATH")]
    pub(super) unix: Option<PathBuf>,

    /// Listen on a TCP port; 0 takes a free one, which the line on stderr says
    ///
    /// There is no TLS and no password: any client that reaches the port may read and write. 10809
    /// is NBD's.
    #[arg(long, value_name = "N")]
    pub(super) port: Option<u16>,

    /// The address of --port
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    #[arg(requires = "port")]
    pub(super) bind: IpAddr,

    /// Open TARGET for reading only, and refuse writes
    #[arg(long)]
    pub(super) read_only: bool,

    /// Serve TARGET from byte SIZE on (or with K, M, G), to its end
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, conflicts_with = "partition")]
    pub(super) offset: Option<ByteCount>,

    /// Serve partition N of TARGET, a whole disk with an MBR or GPT
    ///
    /// Numbers are those of the kernel's devices; logical partitions begin with 5. The table is
    /// read once, at the start. Clients reach no byte outside of the partition. One server may
    /// write TARGET at a time, whichever partition it serves.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) partition: Option<u32>,

    /// If TARGET is a URL: let clients write; what they write goes to FILE, and reads find it there
    ///
    /// FILE is made, sparse, if it is not there. It has the blocks of 4 KiB that were written, and
    /// belongs to this version of the object: with another one it is refused. After a flush, or
    /// with FUA, writes survive a kill and a power cut. If the disk of FILE is full, writes fail
    /// (docs/objects.md).
    #[arg(long, value_name = "FILE")]
    pub(super) overlay: Option<PathBuf>,

    /// The export name; clients that ask for no name get this export, too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = export_name)]
    pub(super) export: String,

    /// The memory limit for all cached pages, clean and dirty, and their metadata
    ///
    /// Beside it all connections share an eighth of that for replies, 4 to 64 MiB, and each has up
    /// to 384 KiB of its own.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    pub(super) memory: ByteCount,

    /// Have the system give all of that memory at the start, and not as it is used
    ///
    /// No read waits for the first use of memory later. A system without so much memory may end the
    /// process instead of refusing it.
    #[arg(long)]
    pub(super) prefault: bool,

    /// The largest read-ahead window, or auto: learnt from the device [default: auto if the policy
    /// is adaptive, else the kernel's for this device, at least 128K]
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    pub(super) max_window: Option<MaxWindow>,

    /// The read-ahead policy
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    pub(super) policy: Policy,

    /// The dirty limit: writers wait while more than this is written and not yet on the device
    /// [default: a quarter of the memory, which is also the most]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(super) dirty_limit: Option<ByteCount>,

    /// How long a page may stay dirty before it is written back
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(super) dirty_age: Duration,

    /// The I/O scheduler
    ///
    /// deadline protects readers from writers and limits the writes in flight by what it learns of
    /// the device; noop sends requests in the order of arrival.
    #[arg(long, value_name = "NAME", default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(["deadline", "noop"]))]
    pub(super) scheduler: String,

    /// Set a tunable from the start, as `foreread set` does later; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, String)>,

    #[command(flatten)]
    pub(super) remember: RememberArgs,

    #[command(flatten)]
    pub(super) recording: ReadRecordingArgs,

    /// Slow the device down, for tests and demonstrations: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    pub(super) delay: Option<Delay>,

    /// The largest number of connections of each listener; further ones are closed
    ///
    /// Clients of --port take no place of clients of --unix. stats and set have room beyond these,
    /// and so have TCP clients of a host with few connections when another host has them all.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) connections: u32,

    /// The largest number of requests of one connection in progress; others wait in the socket
    #[arg(long, value_name = "N", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) requests: u32,

    /// How long the flush after SIGTERM or Ctrl-C may take; what is not on the device then is lost
    ///
    /// Give a slow device with a large --dirty-limit more time, and the service manager, too
    /// (systemd's TimeoutStopSec is 90s by default).
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(super) exit_timeout: Duration,

    /// Run a command with sh, with the server's address in $uri, $unixsocket and $port and the name
    /// of the export in $exportname; stop the server when it ends, and exit with its code (1 if all
    /// is well with it but what was written cannot be flushed)
    ///
    /// Without --unix and --port the server listens on a socket of its own, in a fresh folder.
    #[arg(long, value_name = "CMD")]
    pub(super) run: Option<String>,

    /// Write the process id to FILE when clients may connect; the file is removed at the end
    ///
    /// FILE must not exist, or be a stale pid file: a number and a line feed, and no process of
    /// that number is running. TARGET, any other file, a symbolic link and a device are refused.
    #[arg(long, value_name = "FILE")]
    pub(super) pid_file: Option<PathBuf>,

    /// Answer GET /metrics at ADDR:PORT, or at a PORT of loopback, in Prometheus' text format
    #[arg(long, value_name = "ADDR", value_parser = metrics_addr)]
    pub(super) metrics: Option<SocketAddr>,
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

fn metrics_addr(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let addr = port.or_else(|_| text.parse().map_err(drop));
    addr.map_err(|()| "write ADDR:PORT (127.0.0.1:9100), or a PORT of loopback".to_owned())
}

/// The protocol's longest string.
const EXPORT_NAME_MAX: usize = 4096;
