//! `foreread mount`: mounts an ext4 image or a bucket prefix through foreread's cache.
//!
//! Read-only. The mount is removed when the command is told to end.
//!
//! docs/guide/ext4.md describes its read-ahead, docs/guide/objects.md prefixes.

mod control;
#[cfg(feature = "objects")]
mod prefix;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use foreread::lab::Delay;
use foreread::{Engine, OpenOptions, Policy};
use foreread_core::sizes::{self, Exact};
use foreread_core::units::ByteCount;
use foreread_ext4::Journal;
use foreread_files::SocketFile;
use foreread_mount::{
    ItableReadahead, MountError, MountSettings, PreparedMount, UnmountOutcome, Unmounter,
};

use self::control::Control;
use crate::args::itable_readahead::{ADAPTIVE, itable_readahead, itable_readahead_text};
use crate::read_recording::{ReadRecording, ReadRecordingArgs};
use foreread_cli::args::duration::duration;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::args::policy::policies;
use foreread_cli::device_memory::RememberArgs;
use foreread_cli::image::ImageTarget;
use foreread_cli::output::{Failure, refusal};
use foreread_cli::output_file::CommandOutputs;
use foreread_cli::signals::on_signals;
use foreread_cli::store;

/// Mount an ext4 image or a bucket prefix read-only, through foreread's cache and read-ahead
///
/// foreread parses the ext4 image itself and reads it through its own cache instead of the kernel's
/// ext4. The kernel caches names, attributes and pages of the mount as of any other. If fusermount3
/// is installed, root is only needed if TARGET is not readable otherwise.
///
/// The command stays in the foreground and prints one line on stderr when DIR is ready. It exits
/// when DIR is unmounted (umount, fusermount3 -u). On SIGTERM or Ctrl-C it unmounts DIR itself,
/// even if the mount was moved. While files are open, the mount is only detached from DIR, and the
/// command exits when the last file is closed, or on another Ctrl-C or SIGTERM. If another mount
/// covers this one, the other mount is not touched: the command exits with 1 and leaves its mount
/// without a server. Reads of damaged parts of the image fail with EIO, and one line on stderr
/// names them.
///
/// If TARGET is the URL of a bucket or ends with /, its objects are mounted as files, and the parts
/// of their keys between slashes as directories. A directory is listed on first use. Reads of a
/// file whose object was replaced after open fail with ESTALE. Keys that are no valid file names
/// are left out, with a line on stderr; a name that is both an object and a directory is shown as
/// the directory (docs/guide/objects.md).
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct MountArgs {
    #[command(flatten)]
    target: ImageTarget,

    /// Directory to mount on
    dir: PathBuf,

    /// Inode-table blocks to read ahead for one inode: adaptive learns from use; or a power of two,
    /// like ext4's inode_readahead_blks (32 by default); 0 is off
    #[arg(long, value_name = "N|adaptive", default_value = ADAPTIVE, value_parser = itable_readahead)]
    inode_readahead_blks: ItableReadahead,

    /// Allow other users access, subject to modes, owners and ACLs in the image
    ///
    /// Unprivileged users need user_allow_other in /etc/fuse.conf.
    #[arg(long)]
    allow_other: bool,

    /// Listen for `foreread stats` and `foreread set` on a Unix socket, accessible only to its
    /// owner
    ///
    /// inode_readahead_blks is one of the tunables. NBD clients may read TARGET through the same
    /// socket. A stale socket file is replaced; if PATH is any other file, or a socket with a
    /// listener, the command is refused.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Memory limit of the cache: pages and their metadata
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = sizes::parse)]
    memory: ByteCount,

    /// Allocate all cache memory at startup instead of lazily
    ///
    /// Reads then never wait for memory to be allocated. If the system is short of memory, it may
    /// kill the process instead of failing the allocation.
    #[arg(long)]
    prefault: bool,

    /// Largest read-ahead window of files, or auto: learnt from the device [default: auto if TARGET
    /// is a URL, else the kernel's window for this device, at least 128K]
    #[arg(long, value_name = "SIZE", value_parser = max_window)]
    max_window: Option<MaxWindow>,

    /// Read-ahead policy of files
    #[arg(long, value_name = "POLICY", default_value = Policy::default().name())]
    #[arg(value_parser = policies())]
    policy: Policy,

    /// If TARGET is a prefix: time for which a directory listing is cached
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    list_lifetime: Duration,

    /// If TARGET is a prefix: memory limit of cached listings, in addition to --memory
    ///
    /// A name takes 24 bytes plus its length and that of its ETag, about 80 bytes. Least recently
    /// used directories are evicted and listed again; a directory that exceeds the limit by itself
    /// fails with ENOMEM.
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = sizes::parse)]
    list_memory: ByteCount,

    #[command(flatten)]
    remember: RememberArgs,

    #[command(flatten)]
    recording: ReadRecordingArgs,

    /// Slow the device down, for tests and demonstrations: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,
}

const EXAMPLES: &str = "\
Examples:
  foreread mount disk.img /mnt
  foreread mount /dev/vdb1 /mnt --memory 1G --allow-other
  foreread mount disk.raw /mnt --partition 2
  foreread mount s3://bucket/disk.img /mnt
  foreread mount s3://bucket/photos/ /mnt --list-lifetime 10s
  foreread mount disk.img /mnt --control /tmp/mnt.sock &
  foreread set /tmp/mnt.sock inode_readahead_blks=64
  foreread mount disk.img /mnt --delay latency=1ms,parallel=1 & find /mnt -size 0; umount /mnt

";

pub(crate) fn run(args: &MountArgs) -> Result<(), Failure> {
    if args.target.url().is_some() && args.delay.is_some() {
        let line = "--delay slows down files and devices; a store is slow by itself";
        return Err(Failure::WrongUse(line.to_owned()));
    }
    let mut outputs = CommandOutputs::beside(&[]);
    for (option, path) in
        [("--control", args.control.as_deref()), ("--record", args.recording.path())]
    {
        path.map_or(Ok(()), |path| outputs.reserve(option, path))?;
    }
    #[cfg(feature = "objects")]
    if let Some(url) = args.target.url().filter(|url| store::is_prefix(url)) {
        return prefix::run(args, url);
    }
    let (engine, image, recording) = opened(args)?;
    let saver = args.remember.keep(&engine, Some(&image));
    let saver = saver.map_err(|error| {
        Failure::WrongUse(format!("cannot start a thread: {}", refusal(&error)))
    })?;
    let device = image.clone();
    let name = args.target.target.display().to_string();
    let settings = MountSettings {
        image_range: Some(args.target.image_range(&image)?),
        journal: if args.target.ignore_journal { Journal::Ignore } else { Journal::Refuse },
        name: name.clone(),
        itable: args.inode_readahead_blks,
        max_window: kernel_window(&engine),
        memory: args.memory.0,
        allow_other: args.allow_other,
        log: Box::new(move |line| say(&format!("{name}: {line}"))),
        ..MountSettings::default()
    };
    let how = match image.direct_io_unavailable() {
        Some(why) => format!("buffered ({why})"),
        None if args.target.url().is_some() => "by range requests".to_owned(),
        None => "direct".to_owned(),
    };
    let ready =
        PreparedMount::new(image, &args.dir, settings).map_err(|error| refused(args, &error))?;
    // In front of the mount, which would keep the socket's folder waiting for ourselves.
    let control = args.control.as_deref().map(|path| {
        Control::start(path, &engine, device, &ready, &args.target.target, args.memory)
    });
    let control = control.transpose()?;
    let stopper = Arc::default();
    let left = LeftBehind { socket: control.as_ref().map(Control::file), recording };
    let mount = mounted(args, left.clone(), &stopper, || {
        let mount = ready.mount()?;
        let stopper = mount.stopper();
        Ok((mount, stopper))
    })?;
    say(&format!(
        "mounted {} ({}) on {}; inode_readahead_blks {}, memory {}, \
         {how}, {}",
        args.target.target.display(),
        Exact(ByteCount(mount.superblock().size())),
        args.dir.display(),
        itable_readahead_text(args.inode_readahead_blks),
        Exact(args.memory),
        engine.io_backend(),
    ));
    let over = mount.run();
    // The thread that unmounts holds it until it has said how.
    drop(stopper.lock());
    left.recording.finish();
    drop((control, saver));
    over.map_err(|error| Failure::Check(format!("{}: {error}", args.dir.display())))
}

fn built(args: &MountArgs) -> Result<(Engine, ReadRecording), Failure> {
    let builder = Engine::builder().memory(args.memory.0).policy(args.policy);
    let builder = builder.prefault(args.prefault);
    let window = args.max_window.unwrap_or_else(|| MaxWindow::of_kernel(&args.target.target));
    let builder = args.remember.give(window.give(builder));
    let (builder, recording) = args.recording.start(&args.target.target, builder)?;
    let built = builder.build().map_err(|error| Failure::WrongUse(error.to_string()))?;
    Ok((built, recording))
}

/// Returns the largest read-ahead request of the kernel.
fn kernel_window(engine: &Engine) -> u64 {
    engine.max_window().map_or(KERNEL_WINDOW, |bytes| bytes.min(KERNEL_WINDOW))
}

fn opened(args: &MountArgs) -> Result<(Engine, foreread::File, ReadRecording), Failure> {
    let target = &args.target.target;
    let (engine, recording) = built(args)?;
    let options = args.remember.name(target, OpenOptions::new().delay(args.delay));
    let image = store::open(&engine, target, &options, &args.target.store)?;
    Ok((engine, image, recording))
}

/// Adds the image's name and the repair command to an error.
fn refused(args: &MountArgs, error: &MountError) -> Failure {
    Failure::WrongUse(if let MountError::Image(error) = error {
        args.target.says(error)
    } else {
        error.to_string()
    })
}

/// Resources that an exit without drop would leave behind.
#[derive(Clone)]
struct LeftBehind {
    socket: Option<SocketFile>,
    recording: ReadRecording,
}

/// Mounts, and unmounts on a signal.
///
/// ```text
///   reads the image  | mounts            | answers
///   a signal: ends   | waits until then  | unmounts
/// ```
fn mounted<M>(
    args: &MountArgs,
    left: LeftBehind,
    stopper: &Arc<Mutex<Option<Unmounter>>>,
    mount: impl FnOnce() -> Result<(M, Unmounter), MountError>,
) -> Result<M, Failure> {
    let mut held = stopper.lock().unwrap_or_else(PoisonError::into_inner);
    stop_on_signals(Arc::clone(stopper), args, left)?;
    let (mount, unmounter) = mount().map_err(|error| refused(args, &error))?;
    *held = Some(unmounter);
    drop(held);
    Ok(mount)
}

/// Unmounts on the first signal. If files are open or the device does not answer, the second signal
/// exits without waiting.
fn stop_on_signals(
    stopper: Arc<Mutex<Option<Unmounter>>>,
    args: &MountArgs,
    left: LeftBehind,
) -> Result<(), Failure> {
    let dir = args.dir.display().to_string();
    let leave = move |code| {
        left.recording.finish();
        if let Some(socket) = &left.socket {
            socket.remove();
        }
        std::process::exit(code);
    };
    let mut is_unmounted = None;
    let stop = move || match is_unmounted {
        None => {
            let held = stopper.lock().unwrap_or_else(PoisonError::into_inner);
            // Without it, mounting failed, and the main thread reports the error.
            let Some(stopper) = held.as_ref() else { return };
            let stopped = stopper.stop();
            is_unmounted = Some(matches!(stopped, UnmountOutcome::Unmounted { .. }));
            if let Some(line) = outcome(&stopped) {
                say(&format!("{dir}: {line}"));
            }
            if matches!(stopped, UnmountOutcome::Covered { .. }) {
                // The kernel closes the connection when the process exits.
                leave(1);
            }
        }
        Some(done) => {
            if !done {
                say(&format!("{dir}: ended while in use"));
            }
            leave(i32::from(!done));
        }
    };
    on_signals(stop)
        .map_err(|error| Failure::WrongUse(format!("cannot catch signals: {}", refusal(&error))))
}

/// Describes the outcome of an unmount.
fn outcome(stopped: &UnmountOutcome) -> Option<String> {
    match stopped {
        UnmountOutcome::Unmounted { moved: None } => None,
        UnmountOutcome::Unmounted { moved: Some(to) } => {
            Some(format!("the mount was moved to {}; it is unmounted there", to.display()))
        }
        UnmountOutcome::InUse { also: None } => Some(
            "in use; unmounted as soon as nothing in it is open, or by another signal".to_owned(),
        ),
        UnmountOutcome::InUse { also: Some(path) } => {
            let path = path.display();
            Some(format!("in use: also mounted on {path}; umount {path}, or send another signal"))
        }
        UnmountOutcome::Covered { by } => Some(format!(
            "covered by another mount ({by}), so it cannot be unmounted; it has no server any more: \
             unmount the other one, then this one"
        )),
    }
}

/// Size limit of a FUSE request of the kernel.
const KERNEL_WINDOW: u64 = 1 << 20;

fn say(line: &str) {
    // The line is lost if stderr is closed.
    let _ = writeln!(io::stderr(), "foreread: {line}");
}
