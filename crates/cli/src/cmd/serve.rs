//! `foreread serve`: a file or device as an NBD export, behind foreread's cache.
//!
//! In:    a target, where to listen, what is allowed.
//! Out:   a server until it is told to stop; then what was written is on the device.
//! Never: a socket or a pid file that stays behind; an address beyond this machine by default.
//!
//! What it promises, its counters and its tunables: docs/serve.md.

mod claim;
mod command;
pub(super) mod control;
mod duration;
pub(super) mod leave;
mod place;

use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Flags;
use clap::builder::PossibleValuesParser;
use foreread::{Delay, Engine, OpenError, OpenOptions, Policy};
use foreread_core::sched::Choice;
use foreread_core::sizes::{self, Exact};
use foreread_core::units::ByteCount;
use foreread_files::{CommandInput, PidFile, PrivateDirectory, SOCKET_PATH_MAX};
use foreread_serve::metrics::{self, Metrics};
use foreread_serve::{CounterReader, Export, ServeError, Server, ServerLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::command::Running;
use self::control::Served;
use self::leave::on_signal;
use self::place::Place;
use crate::flags::{CODES_AND_UNITS, MaxWindow, max_window, policies};
use crate::measure::clock;
use crate::output::Failure;

/// Serve a file or block device to NBD clients, through foreread's cache
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
#[derive(Debug, Flags)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct Args {
    /// A file or block device; it keeps its length
    target: PathBuf,

    /// Listen on a Unix socket at PATH, for its owner only (mode 0600)
    ///
    /// A stale socket file is replaced and removed at the end. If PATH names anything else, or a
    /// socket with a listener, the command is refused (docs/files.md).
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,

    /// Listen on a TCP port; 0 takes a free one, which the line on stderr says
    ///
    /// There is no TLS and no password: any client that reaches the port may read and write. 10809
    /// is NBD's.
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// The address of --port
    #[arg(long, value_name = "ADDR", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    #[arg(requires = "port")]
    bind: IpAddr,

    /// Open TARGET for reading only, and refuse writes
    #[arg(long)]
    read_only: bool,

    /// The export name; clients that ask for no name get this export, too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    #[arg(value_parser = export_name)]
    export: String,

    /// The memory limit for all cached pages, clean and dirty, and their metadata
    ///
    /// Beside it all connections share an eighth of that for replies, 4 to 64 MiB, and each has up
    /// to 384 KiB of its own.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// The largest read-ahead window, or auto: learnt from the device [default: auto if the policy
    /// is adaptive, else the kernel's for this device, at least 128K]
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,

    /// The read-ahead policy
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    policy: Policy,

    /// The dirty limit: writers wait while more than this is written and not yet on the device
    /// [default: a quarter of the memory, which is also the most]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    dirty_limit: Option<ByteCount>,

    /// How long a page may stay dirty before it is written back
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    dirty_age: Duration,

    /// The I/O scheduler
    ///
    /// deadline protects readers from writers and limits the writes in flight by what it learns of
    /// the device; noop sends requests in the order of arrival.
    #[arg(long, value_name = "NAME", default_value = "deadline")]
    #[arg(value_parser = PossibleValuesParser::new(["deadline", "noop"]))]
    scheduler: String,

    /// Set a tunable from the start, as `foreread set` does later; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// Slow the device down, for tests and demonstrations: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,

    /// The largest number of connections; further ones are closed at once
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    connections: u32,

    /// The largest number of requests of one connection in progress; others wait in the socket
    #[arg(long, value_name = "N", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    requests: u32,

    /// How long the flush after SIGTERM or Ctrl-C may take; what is not on the device then is lost
    ///
    /// Give a slow device with a large --dirty-limit more time, and the service manager, too
    /// (systemd's TimeoutStopSec is 90s by default).
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    exit_timeout: Duration,

    /// Run a command with sh, with the server's address in $uri, $unixsocket and $port; stop the
    /// server when it ends, and exit with its code (1 if all is well with it but what was written
    /// cannot be flushed)
    ///
    /// Without --unix and --port the server listens on a socket of its own, in a fresh folder.
    #[arg(long, value_name = "CMD")]
    run: Option<String>,

    /// Write the process id to FILE when clients may connect; the file is removed at the end
    ///
    /// FILE must not exist, or be a stale pid file: a number and a line feed, and no process of
    /// that number is running. TARGET, any other file, a symbolic link and a device are refused.
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    /// Answer GET /metrics at ADDR:PORT, or at a PORT of loopback, in Prometheus' text format
    #[arg(long, value_name = "ADDR", value_parser = metrics_addr)]
    metrics: Option<SocketAddr>,
}

const EXAMPLES: &str = "\
Examples:
  foreread serve disk.img --unix /tmp/disk.sock
  nbdinfo 'nbd+unix:///?socket=/tmp/disk.sock'
  foreread serve disk.img --read-only --run 'nbdcopy \"$uri\" - | sha256sum'
  foreread serve /dev/sdb --port 10809 --memory 2G --metrics 9100 --pid-file /run/sdb.pid
  foreread stats /tmp/disk.sock; foreread set /tmp/disk.sock dirty_age=1000

";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    raise_open_files(args.connections);
    let private = private_folder(args)?;
    let (engine, file) = opened(args)?;
    // Until the end of this process, however that comes.
    let _claim = claim::claimed(args)?;
    // Never dropped: the last handle to the engine waits for all that is in flight, and a device
    // may never answer. The end of the process needs no answer.
    let served = ManuallyDrop::new(Served {
        engine: engine.clone(),
        file: file.clone(),
        target: args.target.display().to_string(),
        export: args.export.clone(),
        read_only: args.read_only,
        memory: args.memory,
        started: clock(),
    });
    for (name, value) in &args.set {
        served.set(name, value).map_err(|why| Failure::WrongUse(format!("--set {why}")))?;
    }
    let export = Export {
        name: args.export.clone(),
        file,
        read_only: args.read_only,
        description: served.target.clone(),
    };
    let limits = ServerLimits {
        connections: args.connections as usize,
        requests: args.requests as usize,
        exit_timeout: args.exit_timeout,
        ..ServerLimits::default()
    };
    let mut server = Server::new(engine, export, limits);
    let place = listen(args, private.as_ref(), &mut server)?;
    let stopper = server.stopper();
    let meter = server.counter_reader();
    let control = (Served::clone(&served), meter.clone());
    server.on_control(Box::new(move |text| control.0.answer(text, &control.1)));
    let metrics = match args.metrics {
        Some(addr) => Some(serve_metrics(addr, Served::clone(&served), meter)?),
        None => None,
    };
    let stop = stopper.clone();
    on_signal(move || stop.stop()).map_err(cannot("catch signals"))?;
    let pid_file = args.pid_file.as_deref().map(|path| {
        let inputs = [CommandInput { name: "TARGET", path: &args.target }];
        let refused = |error| Failure::WrongUse(format!("--pid-file {error}"));
        PidFile::create(path, &inputs).map_err(refused)
    });
    let pid_file = pid_file.transpose()?;
    ready(&served, &place, args, metrics.as_ref());
    let command = args.run.as_deref().map(|line| {
        Running::start(line, &place, &args.export, move || stopper.stop())
            .map_err(cannot("run a shell"))
    });
    let command = command.transpose()?;

    let over = server.run();
    let code = command.map(|command| command.finish(COMMAND_GRACE)).transpose();
    drop((metrics, pid_file, private));
    over.map_err(|error| Failure::Check(error.to_string()))?;
    match code.map_err(cannot("wait for the command"))? {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::Command(code)),
    }
}

/// A connection takes two descriptors, and many systems begin with 1024 for a process: beyond that
/// clients would wait without a word. What the hard limit refuses stays refused.
fn raise_open_files(connections: u32) {
    let wanted = 2 * u64::from(connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |most| most.min(wanted)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    }
}

/// Where a command's own socket lies, if there is no other.
fn private_folder(args: &Args) -> Result<Option<PrivateDirectory>, Failure> {
    if args.unix.is_some() || args.port.is_some() {
        return Ok(None);
    }
    if args.run.is_none() {
        let line = "nowhere to listen; give --unix PATH, --port N, or a command with --run";
        return Err(Failure::WrongUse(line.to_owned()));
    }
    // Only this user may enter it.
    let folder = PrivateDirectory::new();
    let folder = folder.map_err(|error| Failure::WrongUse(format!("--run: {error}")))?;
    if folder.path().join(PRIVATE_SOCKET).as_os_str().len() > SOCKET_PATH_MAX {
        return Err(Failure::WrongUse(format!(
            "--run: TMPDIR is too long for a socket's path ({SOCKET_PATH_MAX} bytes); set it to a \
             shorter one, or give --unix"
        )));
    }
    Ok(Some(folder))
}

fn opened(args: &Args) -> Result<(Engine, foreread::File), Failure> {
    let builder =
        Engine::builder().memory(args.memory.0).policy(args.policy).dirty_age(args.dirty_age);
    let mut builder = window(args).give(builder);
    if let Some(limit) = args.dirty_limit {
        builder = builder.dirty_limit(limit.0);
    }
    let engine = builder.build().map_err(|error| Failure::WrongUse(error.to_string()))?;
    // Clap has let through only what there is.
    let scheduler = Choice::for_device(&args.scheduler).expect("the name of a scheduler");
    let options = OpenOptions {
        write: !args.read_only,
        delay: args.delay,
        scheduler,
        ..OpenOptions::default()
    };
    match engine.open_with(&args.target, &options) {
        Ok(file) => Ok((engine, file)),
        Err(error) => Err(not_opened(&engine, args, &error)),
    }
}

/// The engine's own words; and if only writing is refused, what else can be done.
fn not_opened(engine: &Engine, args: &Args, error: &OpenError) -> Failure {
    let line = error.to_string();
    if args.read_only || engine.open(&args.target).is_err() {
        return Failure::WrongUse(line);
    }
    // What a program would do, a user does by a flag.
    let by_program = [", or open it for reading", ", or open the file for reading"];
    let line = by_program.iter().find_map(|end| line.strip_suffix(end)).unwrap_or(&line);
    Failure::WrongUse(format!("{line}, or serve it with --read-only"))
}

/// A policy that does not learn has what the kernel has.
fn window(args: &Args) -> MaxWindow {
    args.max_window.unwrap_or_else(|| {
        if args.policy == Policy::Adaptive {
            MaxWindow::Auto
        } else {
            MaxWindow::of_kernel(&args.target)
        }
    })
}

fn listen(
    args: &Args,
    private: Option<&PrivateDirectory>,
    server: &mut Server,
) -> Result<Place, Failure> {
    let refused = |error: ServeError| Failure::WrongUse(error.to_string());
    let unix =
        args.unix.clone().or_else(|| private.map(|folder| folder.path().join(PRIVATE_SOCKET)));
    if let Some(path) = &unix {
        server.unix(path).map_err(refused)?;
    }
    // Clients may be elsewhere.
    let unix = unix.map(|path| std::path::absolute(&path).unwrap_or(path));
    let addr = args.port.map(|port| SocketAddr::new(args.bind, port));
    let tcp = addr.map(|addr| server.tcp(addr)).transpose().map_err(refused)?;
    Ok(Place { unix, tcp })
}

fn serve_metrics(
    addr: SocketAddr,
    served: Served,
    meter: CounterReader,
) -> Result<Metrics, Failure> {
    let page = move || {
        let stats = served.stats(&meter);
        metrics::page(&stats.expect("a thread of the process that made the engine asks"))
    };
    Metrics::serve(addr, page)
        .map_err(|error| Failure::WrongUse(format!("--metrics {addr}: {error}; give another port")))
}

/// One line: clients may come, and what they find.
fn ready(served: &Served, place: &Place, args: &Args, metrics: Option<&Metrics>) {
    let Served { engine, file, target, .. } = served;
    let mut line = format!("serving {target} ({})", Exact(ByteCount(file.len())));
    line += if args.read_only { ", read-only" } else { "" };
    for uri in place.uris(&args.export) {
        line += &format!(" at {uri}");
    }
    let how = match file.direct_io_unavailable() {
        Some(why) => format!("buffered ({why})"),
        None => "direct".to_owned(),
    };
    let window = match window(args) {
        MaxWindow::Auto => "as learnt".to_owned(),
        MaxWindow::Size(_) => engine
            .max_window()
            .map_or_else(|_| "unknown".to_owned(), |bytes| Exact(ByteCount(bytes)).to_string()),
    };
    line += &format!(
        "; memory {}, window {window}, {}, {how}, {}",
        Exact(args.memory),
        args.scheduler,
        engine.io_backend()
    );
    if let Some(delay) = args.delay {
        line += &format!(", slowed down: {delay}");
    }
    if let Some(metrics) = metrics {
        line += &format!("; metrics at http://{}/metrics", metrics.addr());
    }
    if place.tcp.is_some_and(|addr| !addr.ip().is_loopback()) {
        line += "; open to other machines, without password or encryption";
    }
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::Check(format!("cannot {what}: {error}"))
}

fn export_name(text: &str) -> Result<String, String> {
    if text.len() > EXPORT_NAME_MAX || text.contains('\0') {
        return Err(format!("at most {EXPORT_NAME_MAX} bytes, none of them zero"));
    }
    Ok(text.to_owned())
}

pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn metrics_addr(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let addr = port.or_else(|_| text.parse().map_err(drop));
    addr.map_err(|()| "write ADDR:PORT (127.0.0.1:9100), or a PORT of loopback".to_owned())
}

/// The name of the socket that only the command of --run knows.
const PRIVATE_SOCKET: &str = "nbd";
/// A command that has not ended so long after SIGTERM is killed.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// Descriptors beside those of connections: the target, rings, listeners, and some to spare.
const OTHER_FILES: u64 = 64;
/// The protocol's longest string.
const EXPORT_NAME_MAX: usize = 4096;
