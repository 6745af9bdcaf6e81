//! Child process that simulates a slow device: a FUSE mount of one file that delays reads and
//! writes. It exits with its parent, when stdin is closed.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::Args;
use foreread::lab::{Delay, DelayModel};
use foreread_files::PrivateDirectory;
use foreread_mount::detach;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyWrite, Request, WriteFlags,
};

use super::memory_limit::remove_left_behind;
use crate::clock::clock;

/// Arguments, passed by demo and bench, not by users.
#[derive(Debug, Args)]
pub struct SlowServerArgs {
    file: RawFd,
    len: u64,
    delay: Delay,
    /// Pass writes to the file, as late as reads; read-only without this flag
    #[arg(long)]
    writable: bool,
}

/// Handle of the child process.
pub(crate) struct SlowDeviceServer {
    pub file: RawFd,
    pub len: u64,
    pub delay: Delay,
}

impl SlowDeviceServer {
    pub(crate) fn arguments(&self) -> [String; 4] {
        let Self { file, len, delay } = self;
        [VERB.to_owned(), file.to_string(), len.to_string(), delay.to_string()]
    }
}

/// Serves until stdin is closed. The first line of stdout is `READY` with the mount point, or an
/// error.
///
/// The child creates the mount point, as the parent may be killed at any time and would leave it
/// behind.
pub fn run(args: &SlowServerArgs) {
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let counts = Arc::new(ServedReads::default());
    let directory = PrivateDirectory::new();
    let mounted = directory.as_ref().map_err(|error| io::Error::other(error.to_string()));
    let session = mounted.and_then(|directory| mount(args, directory.path(), Arc::clone(&counts)));
    let place = directory.as_ref().map(|it| it.path().display().to_string()).unwrap_or_default();
    let first = session.as_ref().map_or_else(ToString::to_string, |_| format!("{READY}{place}"));
    let mut line = String::new();
    let say = |line: &str| writeln!(io::stdout(), "{line}").is_ok();
    let mut is_wanted = say(&first) && session.is_ok();
    while is_wanted {
        line.clear();
        is_wanted = io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0) && {
            let (reads, bytes) = (&counts.reads, &counts.bytes);
            say(&format!("{} {}", reads.load(Ordering::SeqCst), bytes.load(Ordering::SeqCst)))
        };
    }
    // If the parent was killed before it hid the mount, the mount is still visible. It is only
    // detached: an unmount could wait for a process that reads.
    if let Ok(directory) = directory {
        detach(directory.path());
        let _ = directory.close();
    }
    remove_left_behind(parent.unsigned_abs());
    std::process::exit(0);
}

fn mount(
    args: &SlowServerArgs,
    directory: &Path,
    counts: Arc<ServedReads>,
) -> io::Result<fuser::BackgroundSession> {
    let (late, answers) = channel();
    std::thread::Builder::new()
        .name("slow-device".to_owned())
        .spawn(move || answer_in_time(&answers))?;
    let file = format!("/proc/self/fd/{}", args.file);
    let device = SlowFile {
        file: OpenOptions::new().read(true).write(args.writable).open(file)?,
        len: args.len,
        is_writable: args.writable,
        started: clock(),
        model: Mutex::new(DelayModel::new(args.delay)),
        late,
        counts,
    };
    let mut config = Config::default();
    let mode = if args.writable { MountOption::RW } else { MountOption::RO };
    config.mount_options = vec![mode, MountOption::FSName("foreread-demo".into())];
    fuser::spawn_mount(device, directory, &config)
}

/// Requests of the kernel so far.
#[derive(Debug, Default)]
struct ServedReads {
    reads: AtomicU64,
    bytes: AtomicU64,
}

struct SlowFile {
    file: File,
    len: u64,
    is_writable: bool,
    started: Instant,
    model: Mutex<DelayModel>,
    late: Sender<PendingReply>,
    counts: Arc<ServedReads>,
}

/// Reply to the kernel with its due time.
struct PendingReply {
    due: Instant,
    reply: SlowReply,
}

enum SlowReply {
    Read(Vec<u8>, ReplyData),
    /// Bytes written.
    Write(u32, ReplyWrite),
}

impl Filesystem for SlowFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE_NAME {
            reply.entry(&FOREVER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if inode == INodeNo::ROOT || inode == FILE {
            reply.attr(&FOREVER, &self.attributes(inode));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = u64::from(size).min(self.len.saturating_sub(offset));
        let due = self.due(size);
        self.counts.reads.fetch_add(1, Ordering::SeqCst);
        self.counts.bytes.fetch_add(size, Ordering::SeqCst);

        let mut data =
            vec![0; usize::try_from(size).expect("FUSE requests are at most a megabyte")];
        match self.file.read_exact_at(&mut data, offset) {
            Ok(()) => self.answer(due, SlowReply::Read(data, reply)),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = data.len() as u64;
        if !self.is_writable || offset.saturating_add(size) > self.len {
            return reply.error(Errno::ENOSPC);
        }
        let due = self.due(size);
        match self.file.write_all_at(data, offset) {
            Ok(()) => {
                let written = u32::try_from(size).expect("FUSE requests are at most a megabyte");
                self.answer(due, SlowReply::Write(written, reply));
            }
            Err(error) => reply.error(error.into()),
        }
    }
}

impl SlowFile {
    /// Returns the completion time of a request that arrives now.
    fn due(&self, size: u64) -> Instant {
        let now = clock().duration_since(self.started);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self
            .model
            .lock()
            .expect("no thread panics while it asks the model")
            .finish_ns(now_ns, size);
        self.started + Duration::from_nanos(due_ns)
    }

    fn answer(&self, due: Instant, reply: SlowReply) {
        // The receiver lives as long as this sender.
        let _ = self.late.send(PendingReply { due, reply });
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_root = inode == INodeNo::ROOT;
        FileAttr {
            ino: inode,
            size: if is_root { 0 } else { self.len },
            blocks: self.len.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: match (is_root, self.is_writable) {
                (true, _) => 0o755,
                (false, true) => 0o644,
                (false, false) => 0o444,
            },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

/// Sends each reply at its due time; returns when all senders are gone.
fn answer_in_time(answers: &Receiver<PendingReply>) {
    let mut waiting = BinaryHeap::new();
    let mut is_open = true;
    while is_open || !waiting.is_empty() {
        let next = waiting.peek().map(|answer: &PendingReply| answer.due);
        let received = match next {
            Some(due) => answers.recv_timeout(due.saturating_duration_since(clock())),
            None => answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(answer) => waiting.push(answer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_open = false,
        }
        while waiting.peek().is_some_and(|answer| answer.due <= clock() || !is_open) {
            match waiting.pop().expect("peek has just seen it").reply {
                SlowReply::Read(data, reply) => reply.data(&data),
                SlowReply::Write(written, reply) => reply.written(written),
            }
        }
    }
}

/// Reversed, so that a heap yields the earliest first.
impl Ord for PendingReply {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for PendingReply {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingReply {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for PendingReply {}

/// Name of the file in the mount.
pub(crate) const FILE_NAME: &str = "device";
const FILE: INodeNo = INodeNo(2);

/// The kernel may cache attributes, as nothing changes.
const FOREVER: Duration = Duration::from_secs(3600);

/// Hidden verb that starts the server.
pub const VERB: &str = "serve-slow-device";

/// Line printed when the mount is ready.
pub(crate) const READY: &str = "ready in ";
