//! The running kernel as a read-ahead policy: reads go in, its own decisions come out.
//!
//! In:    the lengths of some files, the largest window, the largest request, and reads.
//! Out:   what the kernel's tracepoints print while it reads, one [`Line`] a decision.
//! Never: anything left behind. A mount, a loop device, a trace instance and a directory are made,
//!        and undone on drop, also after a panic.
//!
//! The files lie on a small ext4 that journals its data: such a mapping has no large folios, so the
//! windows are those of `linux-6`.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags, fadvise};

use super::common::{output, scratch, unmount};
use crate::common::Command;

/// One decision, as far as both sides tell it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    pub(crate) page: u64,
    pub(crate) count: u64,
    pub(crate) is_async: bool,
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) async_size: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, count, is_async, start, size, async_size } = self;
        let is_async = u8::from(*is_async);
        write!(f, "req={page}+{count}, ra={start}+{size}-{async_size}, async={is_async}")
    }
}

/// What came of a sequence of reads.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) lines: Vec<Line>,
    /// How many pages of the file are resident afterwards.
    pub(crate) resident: u64,
}

/// Files on a device whose read-ahead can be set, and an ear on the kernel.
pub(crate) struct Kernel {
    dir: PathBuf,
    /// `/dev/loopN` until it is certain to go away by itself.
    attached: Option<String>,
    /// `/sys/block/loopN`.
    block: PathBuf,
    is_mounted: bool,
    mounted_tracefs: bool,
    instance: Option<PathBuf>,
    /// Gives each event once.
    trace: Option<File>,
}

impl Kernel {
    /// Makes one file of each of these lengths in bytes.
    pub(crate) fn new(files: &[u64]) -> Self {
        let mut kernel = Self {
            dir: scratch().join(format!("kernel-{}", std::process::id())),
            attached: None,
            block: PathBuf::new(),
            is_mounted: false,
            mounted_tracefs: false,
            instance: None,
            trace: None,
        };
        // Each step notes what it did before it goes on: whatever fails, drop undoes it.
        kernel.make_files(files);
        kernel.listen();
        kernel
    }

    fn make_files(&mut self, files: &[u64]) {
        fs::create_dir_all(self.mount_point()).expect("a directory");
        let image = self.dir.join("image");
        File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES)).expect("a sparse image");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(&image));
        let device = device.trim().to_owned();
        self.block = Path::new("/sys/block").join(device.trim_start_matches("/dev/"));
        self.attached = Some(device.clone());

        // Written through the default journal, which is fast. The second mount finds the files on
        // the device and nothing of them in memory.
        self.mount(&device, "noatime");
        for (i, len) in files.iter().enumerate() {
            let bytes = vec![b'f'; usize::try_from(*len).expect("a small file")];
            fs::write(self.file(i), bytes).expect("a file is written");
        }
        self.unmount();
        self.mount(&device, "noatime,data=journal");

        // From here on the device goes away with the mount, and the image with the device.
        run(Command::new("losetup").args(["--detach", &device]));
        self.attached = None;
        fs::remove_file(&image).expect("the image has a name");
    }

    /// A trace instance of our own, so that other tracers are not disturbed.
    fn listen(&mut self) {
        let tracefs = Path::new(TRACEFS);
        if !tracefs.join("instances").is_dir() {
            run(Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]));
            self.mounted_tracefs = true;
        }
        let instance = tracefs.join(format!("instances/foreread-test-{}", std::process::id()));
        fs::create_dir(&instance).expect("a trace instance");
        self.instance = Some(instance.clone());
        write(&instance.join("set_event_pid"), &thread_id());
        write(&instance.join("events/readahead/enable"), "1");
        let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).expect("flags of open fit");
        let pipe = instance.join("trace_pipe");
        let trace = OpenOptions::new().read(true).custom_flags(nonblock).open(pipe);
        self.trace = Some(trace.expect("the trace can be read"));
    }

    /// The kernel's decisions for `reads` (position and length in bytes) of a file that was not in
    /// memory, with windows of at most `max` pages and requests of at most `io_pages`.
    pub(crate) fn answer(
        &self,
        file: usize,
        max: u64,
        io_pages: u64,
        reads: &[(u64, u64)],
    ) -> Answer {
        // Setting the largest request may set the window too, so the window comes last.
        self.set("max_sectors_kb", io_pages * 4);
        self.set("read_ahead_kb", max * 4);
        let path = self.file(file);
        self.forget(&path);
        self.heard();

        // An open file copies the device's window and starts with no history of its own.
        let open = File::open(&path).expect("the file is there");
        let mut buffer = Vec::new();
        for (pos, len) in reads {
            buffer.resize(usize::try_from(*len).expect("a small read"), 0);
            open.read_at(&mut buffer, *pos).expect("the file can be read");
        }

        let trace = self.heard();
        let inode = open.metadata().expect("an open file has an inode").ino();
        let lines = parse(&trace, inode, max);
        self.settle();
        Answer { lines, resident: resident(&path) }
    }

    /// The events since the last call.
    fn heard(&self) -> String {
        let mut pipe = self.trace.as_ref().expect("we listen");
        let mut trace = String::new();
        match pipe.read_to_string(&mut trace) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => trace,
            other => panic!("a trace never ends, but: {other:?}"),
        }
    }

    /// Sets a setting of the device and checks that it took it.
    fn set(&self, name: &str, value: u64) {
        let path = self.block.join("queue").join(name);
        let value = value.to_string();
        let in_force = || fs::read_to_string(&path).expect("a setting can be read");
        if in_force().trim() != value {
            write(&path, &value);
            assert_eq!(in_force().trim(), value, "{} does not take it", path.display());
        }
    }

    /// Drops the file's pages from the page cache, and no others.
    fn forget(&self, path: &Path) {
        self.settle();
        let file = File::open(path).expect("the file is there");
        // A request is counted as ended a moment before its pages are unlocked, and a page that is
        // locked is not dropped.
        for _ in 0..FORGET_TRIES {
            fadvise(&file, 0, None, Advice::DontNeed).expect("advice is taken");
            if resident(path) == 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{} is still in memory", path.display());
    }

    /// Waits until the device is idle: a page under I/O can be neither counted nor dropped.
    fn settle(&self) {
        let inflight = self.block.join("inflight");
        for _ in 0..SETTLE_TRIES {
            let counts = fs::read_to_string(&inflight).expect("a device counts its requests");
            if counts.split_whitespace().all(|count| count == "0") {
                return;
            }
            std::thread::yield_now();
        }
        panic!("{}: still not idle", self.block.display());
    }

    fn mount(&mut self, device: &str, options: &str) {
        run(Command::new("mount").args(["-o", options, device]).arg(self.mount_point()));
        self.is_mounted = true;
    }

    fn unmount(&mut self) {
        unmount(&self.mount_point()).unwrap();
        self.is_mounted = false;
    }

    fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    fn file(&self, i: usize) -> PathBuf {
        self.mount_point().join(format!("file-{i}"))
    }
}

impl Drop for Kernel {
    /// In the reverse order. Nothing here may panic: it may run during a panic.
    fn drop(&mut self) {
        let mut failed = Vec::new();
        self.trace = None;
        if let Some(instance) = &self.instance {
            failed.extend(fs::remove_dir(instance).err().map(|e| e.to_string()));
        }
        if self.mounted_tracefs {
            failed.extend(output(Command::new("umount").arg(TRACEFS)).err());
        }
        if self.is_mounted {
            failed.extend(unmount(&self.mount_point()).err());
        }
        if let Some(device) = &self.attached {
            failed.extend(output(Command::new("losetup").args(["--detach", device])).err());
        }
        failed.extend(fs::remove_dir_all(&self.dir).err().map(|e| e.to_string()));
        if !failed.is_empty() {
            eprintln!("left behind: {failed:?}");
        }
    }
}

/// The decisions in a trace, in their order. Each is a question and at most one answer:
///
/// ```text
///   page_cache_sync_ra, page_cache_async_ra    the question: page, pages left in the read
///   page_cache_ra_order                        a window
///   page_cache_ra_unbounded                    its submission, clipped at the end of the file; or,
///                                              without a window before it, a random read
/// ```
///
/// A question without an answer is a marker with nothing left to read ahead.
fn parse(trace: &str, inode: u64, max: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut asked: Option<(u64, u64, bool)> = None;
    for (event, fields) in events(trace) {
        assert!(event != "CPU:", "the trace buffer is too small");
        if fields.get("ino").and_then(|hex| u64::from_str_radix(hex, 16).ok()) != Some(inode) {
            continue;
        }
        let number = |name: &str| -> u64 {
            let text = fields.get(name).unwrap_or_else(|| panic!("{event} has no {name}"));
            text.parse().unwrap_or_else(|_| panic!("{event}: {name} is {text}"))
        };
        let window = match event {
            "page_cache_sync_ra" | "page_cache_async_ra" => {
                assert_eq!(number("ra_pages"), max, "the file was opened with another window");
                asked = Some((number("index"), number("req_count"), event.contains("async")));
                continue;
            }
            "page_cache_ra_order" => (number("index"), number("size"), number("async_size")),
            "page_cache_ra_unbounded" => (number("index"), number("nr_to_read"), 0),
            _ => panic!("an unknown event: {event}"),
        };
        if let Some((page, count, is_async)) = asked.take() {
            let (start, size, async_size) = window;
            lines.push(Line { page, count, is_async, start, size, async_size });
        }
    }
    lines
}

/// `task-1 [0] .. 1.0: page_cache_sync_ra: dev=7:0 ino=d index=0 ..` as name and fields.
fn events(trace: &str) -> impl Iterator<Item = (&str, HashMap<&str, &str>)> {
    trace.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("page_cache_"));
        match words.next() {
            Some(event) => {
                let fields = words.filter_map(|word| word.split_once('=')).collect();
                (event.trim_end_matches(':'), fields)
            }
            // The kernel says so in a line of its own when it had to drop events.
            None => ("CPU:", HashMap::new()),
        }
    })
}

/// How many pages of the file are in memory.
fn resident(path: &Path) -> u64 {
    let args = ["--bytes", "--noheadings", "--output", "PAGES"];
    let pages = run(Command::new("fincore").args(args).arg(path));
    pages.trim().parse().expect("fincore prints a number")
}

/// What the kernel calls the pid of an event is the thread.
fn thread_id() -> String {
    let link = fs::read_link("/proc/thread-self").expect("a thread has an entry in /proc");
    link.file_name().expect("which ends in its number").to_string_lossy().into_owned()
}

fn write(path: &Path, value: &str) {
    fs::write(path, value).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn run(command: &mut Command) -> String {
    output(command).unwrap_or_else(|complaint| panic!("{complaint}"))
}

const TRACEFS: &str = "/sys/kernel/tracing";

/// Room for the files and the journal.
const IMAGE_BYTES: u64 = 600 << 20;

/// Each try is a system call; a request on a loop device takes some hundred of them.
const SETTLE_TRIES: u32 = 10_000_000;

/// Each of these looks at all pages of a file.
const FORGET_TRIES: u32 = 100_000;
