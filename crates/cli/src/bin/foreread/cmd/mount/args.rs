//! The arguments of `foreread mount`, their help, and the plan that follows from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use foreread::lab::Delay;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
#[cfg(feature = "objects")]
use foreread_ext4::Journal;
use foreread_mount::ItableReadahead;

#[cfg(feature = "objects")]
use super::plan::PrefixMount;
use super::plan::{ImageMount, MountPlan, MountSource};
use crate::args::itable_readahead::{ADAPTIVE, itable_readahead};
use crate::read_recording::ReadRecordingArgs;
use foreread_cli::args::duration::duration;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::args::max_window::{MaxWindow, max_window};
use foreread_cli::device_memory::RememberArgs;
use foreread_cli::image::{ImageArgs, ImageTarget};
use foreread_cli::output::Failure;
use foreread_cli::store::StoreLimitArgs;
#[cfg(feature = "objects")]
use foreread_cli::{image::byte_range::RangeChoice, store::is_prefix};

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
    target: ImageArgs,

    #[command(flatten)]
    limits: StoreLimitArgs,

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
    ///
    /// If TARGET is a prefix, cached listings take up to half of SIZE in addition. A name takes 24
    /// bytes plus its length and that of its ETag, about 80 bytes. Least recently used directories
    /// are evicted and listed again; a directory that exceeds the limit by itself fails with
    /// ENOMEM.
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

    /// If TARGET is a prefix: time for which a directory listing is cached
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    list_lifetime: Duration,

    #[command(flatten)]
    remember: RememberArgs,

    #[command(flatten)]
    recording: ReadRecordingArgs,

    /// Slow the device down, for tests and demonstrations: latency=4ms,parallel=1,bandwidth=100M
    #[arg(long, value_name = "DELAY")]
    delay: Option<Delay>,
}

impl MountArgs {
    /// Resolves the options into a plan.
    ///
    /// # Errors
    ///
    /// Refuses options that do not fit the kind of target.
    pub(super) fn plan(self) -> Result<MountPlan, Failure> {
        let target = self.target.resolve();
        let target = ImageTarget { store: self.limits.limit(target.store), ..target };
        if target.url().is_some() && self.delay.is_some() {
            let line = "--delay slows down files and devices; a store is slow by itself";
            return Err(Failure::WrongUse(line.to_owned()));
        }
        let window = self.max_window.unwrap_or_else(|| MaxWindow::of_kernel(&target.target));
        let image = ImageMount {
            target,
            itable: self.inode_readahead_blks,
            control: self.control,
            delay: self.delay,
        };
        Ok(MountPlan {
            source: source(image, self.list_lifetime)?,
            dir: self.dir,
            allow_other: self.allow_other,
            memory: self.memory,
            prefault: self.prefault,
            window,
            remember: self.remember.resolve(),
            recording: self.recording.resolve(),
        })
    }
}

/// Returns what is mounted: the image, or the prefix that its URL names.
#[cfg(feature = "objects")]
fn source(image: ImageMount, list_lifetime: Duration) -> Result<MountSource, Failure> {
    let ImageMount { target, itable, control, .. } = &image;
    let Some(url) = target.url().filter(|url| is_prefix(url)) else {
        return Ok(MountSource::Image(image));
    };
    let of_image = [
        (control.is_some(), "--control"),
        (target.journal == Journal::Ignore, "--ignore-journal"),
        (matches!(target.range, RangeChoice::From(_)), "--offset"),
        (matches!(target.range, RangeChoice::Partition(_)), "--partition"),
        (*itable != ItableReadahead::Adaptive, "--inode-readahead-blks"),
    ];
    if let Some((_, flag)) = of_image.into_iter().find(|(is_given, _)| *is_given) {
        let line = format!("{url}: {flag} is valid for images only, not for a prefix");
        return Err(Failure::WrongUse(line));
    }
    let (url, store) = (url.to_owned(), target.store);
    Ok(MountSource::Prefix(PrefixMount { url, store, list_lifetime }))
}

#[cfg(not(feature = "objects"))]
#[expect(clippy::unnecessary_wraps, reason = "with stores, options may not fit")]
fn source(image: ImageMount, _: Duration) -> Result<MountSource, Failure> {
    Ok(MountSource::Image(image))
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
