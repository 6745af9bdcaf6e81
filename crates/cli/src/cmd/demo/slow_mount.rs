//! The kernel's page cache over a slow device: a FUSE mount of one file, whose answers come late.
//!
//! In:    a file, and how slow its device is.
//! Out:   a path to read through the kernel's own read-ahead and page cache.
//! Never: another cache. Each request of the kernel is one read of the file, held back as the model
//!        says; the same model holds back foreread's.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use foreread::{Delay, DelayModel};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request,
};
use tempfile::TempDir;

use crate::cmd::demo::clock;

/// The mount, as long as it lives.
pub(super) struct SlowMount {
    // In this order: the mount ends before its directory does.
    _session: BackgroundSession,
    directory: TempDir,
    counts: Arc<Counts>,
}

/// What the kernel asked of the device so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl SlowMount {
    pub(super) fn new(file: File, len: u64, delay: Delay) -> io::Result<Self> {
        let directory = TempDir::new()?;
        let counts = Arc::new(Counts::default());
        let (late, answers) = channel();
        std::thread::Builder::new()
            .name("slow-device".to_owned())
            .spawn(move || answer_in_time(&answers))?;
        let started = clock();
        let device = SlowFile {
            file,
            len,
            started,
            model: Mutex::new(DelayModel::new(delay)),
            late,
            counts: Arc::clone(&counts),
        };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("foreread-demo".into())];
        let session = fuser::spawn_mount(device, directory.path(), &config)?;
        Ok(Self { _session: session, directory, counts })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        let Counts { reads, bytes } = &*self.counts;
        (reads.load(Ordering::SeqCst), bytes.load(Ordering::SeqCst))
    }
}

struct SlowFile {
    file: File,
    len: u64,
    started: Instant,
    model: Mutex<DelayModel>,
    late: Sender<Answer>,
    counts: Arc<Counts>,
}

/// An answer to the kernel, and when it is due.
struct Answer {
    due: Instant,
    data: Vec<u8>,
    reply: ReplyData,
}

impl Filesystem for SlowFile {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
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
        let now = clock().duration_since(self.started);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let due_ns = self.model.lock().expect("no panic").finish_ns(now_ns, size);
        self.counts.reads.fetch_add(1, Ordering::SeqCst);
        self.counts.bytes.fetch_add(size, Ordering::SeqCst);

        let mut data = vec![0; usize::try_from(size).expect("a request is small")];
        match self.file.read_exact_at(&mut data, offset) {
            Ok(()) => {
                let due = self.started + Duration::from_nanos(due_ns);
                // The other end lives as long as this one.
                let _ = self.late.send(Answer { due, data, reply });
            }
            Err(error) => reply.error(error.into()),
        }
    }
}

impl SlowFile {
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
            perm: if is_root { 0o755 } else { 0o444 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

/// Sends each answer when it is due. Ends when nobody can send another.
fn answer_in_time(answers: &Receiver<Answer>) {
    let mut waiting = BinaryHeap::new();
    let mut is_open = true;
    while is_open || !waiting.is_empty() {
        let next = waiting.peek().map(|answer: &Answer| answer.due);
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
            let Answer { data, reply, .. } = waiting.pop().expect("just seen");
            reply.data(&data);
        }
    }
}

/// The earliest first.
impl Ord for Answer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.due.cmp(&self.due)
    }
}

impl PartialOrd for Answer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Answer {}

/// The one file of the mount.
const NAME: &str = "device";
const FILE: INodeNo = INodeNo(2);

/// Nothing changes.
const FOREVER: Duration = Duration::from_secs(3600);
