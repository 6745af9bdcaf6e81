//! The running kernel as a scheduler: requests go to a slow loop device, their dispatch comes out.
//!
//! In:    settings of `mq-deadline`, and requests in batches.
//! Out:   what the kernel's tracepoints say: when each was inserted, and which was issued when.
//! Never: anything left behind. A server, a mount, a loop device and a trace instance are made, and
//!        undone on drop, also after a panic.
//!
//! ```text
//!   a temporary file <-- foreread serve-slow-device: FUSE, one at a time <-- loop device, direct
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use foreread_core::sched::Op;
use rustix::fs::OFlags;
use rustix::io::FdFlags;

use super::common::{Command, output, scratch};

/// One request of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    pub(crate) sector: u64,
}

/// What the kernel did with a request, and when: microseconds of its monotonic clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Event {
    pub(crate) at_us: u64,
    pub(crate) what: What,
    pub(crate) op: Op,
    pub(crate) sector: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum What {
    Insert,
    Issue,
    Complete,
}

/// A slow device, and an ear on the kernel.
pub(crate) struct Lab {
    server: Child,
    /// Keeps the loop device, which goes away when this is closed.
    device: Option<File>,
    block: PathBuf,
    /// `major,minor`, as events have it.
    name: String,
    mounted_tracefs: bool,
    instance: Option<PathBuf>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let (server, directory) = serve();
        let mut lab = Self {
            server,
            device: None,
            block: PathBuf::new(),
            name: String::new(),
            mounted_tracefs: false,
            instance: None,
        };
        // Each step notes what it did before it goes on: whatever fails, drop undoes it.
        lab.attach(&directory.join("device"));
        lab.listen();
        lab
    }

    /// A loop device over the slow file. It goes away when its last descriptor is closed.
    fn attach(&mut self, file: &Path) {
        let attach = ["--find", "--show", "--direct-io=on"];
        let path = run(Command::new("losetup").args(attach).arg(file));
        let path = path.trim();
        let direct = i32::try_from(OFlags::DIRECT.bits()).expect("flags of open fit");
        let device = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path);
        run(Command::new("losetup").args(["--detach", path]));
        let device = device.expect("the device can be opened");
        let number = device.metadata().expect("it has a number").rdev();
        self.name = format!("{},{}", rustix::fs::major(number), rustix::fs::minor(number));
        self.block = Path::new("/sys/block").join(path.trim_start_matches("/dev/"));
        self.device = Some(device);
    }

    /// A trace instance of our own, so that other tracers are not disturbed.
    fn listen(&mut self) {
        let tracefs = Path::new(TRACEFS);
        if !tracefs.join("instances").is_dir() {
            run(Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]));
            self.mounted_tracefs = true;
        }
        let instance = tracefs.join(format!("instances/foreread-sched-{}", std::process::id()));
        fs::create_dir(&instance).expect("a trace instance");
        self.instance = Some(instance.clone());
        // Ticks of the clock by which requests expire begin at whole multiples of this one.
        write(&instance.join("trace_clock"), "mono");
        for event in ["block_rq_insert", "block_rq_issue", "block_rq_complete"] {
            write(&instance.join(format!("events/block/{event}/enable")), "1");
        }
    }

    /// A scheduler that knows nothing yet, in front of a device that takes so many at a time.
    pub(crate) fn begin_anew(&self, tags: u32) {
        // Without a scheduler, what is set is the tags; with one, its own limit.
        self.set("scheduler", "none");
        self.set("nr_requests", &tags.to_string());
        self.set("scheduler", "mq-deadline");
    }

    /// Sets a setting of the device's queue.
    pub(crate) fn set(&self, name: &str, value: &str) {
        write(&self.setting(name), value);
    }

    /// What a setting has come to: the kernel rounds times up to its ticks.
    pub(crate) fn get(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.setting(name)).expect("a setting can be read");
        text.trim().parse().unwrap_or_else(|_| panic!("{name} is {text:?}"))
    }

    /// Sends requests of a page each, and waits for them.
    ///
    /// ```text
    ///   device      |=== a ===|=== b ===|=== c ===|
    ///   issue       a .. d    e         f               a completion lets one in that was held,
    ///   pick          d e     f         g               and the next one is picked and held
    ///   sent        a b c d e f  g h i     j      k l
    ///               '-------' '------'  '--'
    ///               one by one  then a batch in the middle between two completions
    /// ```
    ///
    /// A thread that inserts also dispatches, beside the thread that does so after a completion. If
    /// both ran at once, the trace could not tell what each of them saw: hence the middle.
    pub(crate) fn send(&self, first: &[Job], batches: &[Vec<Job>]) -> Vec<Event> {
        let trace = self.instance.as_ref().expect("we listen").join("trace");
        write(&trace, "");
        let device = self.device.as_ref().expect("it is attached");
        let (ended, completions) = channel();
        std::thread::scope(|scope| {
            let begin = |job: Job| {
                let ended = ended.clone();
                scope.spawn(move || {
                    job.run(device);
                    // Fails after the last batch was sent, when the receiver is gone.
                    let _ = ended.send(());
                });
            };
            // Nothing comes of these waits but the time at which the kernel gets a request. It says
            // itself when that was.
            for job in first {
                begin(*job);
                std::thread::park_timeout(APART);
            }
            for (number, batch) in batches.iter().enumerate() {
                if number > 0 {
                    completions.recv().expect("more are on their way than have completed");
                    std::thread::park_timeout(MIDDLE);
                }
                batch.iter().copied().for_each(begin);
            }
        });
        let trace = fs::read_to_string(trace).expect("the trace can be read");
        trace.lines().filter_map(|line| event(line, &self.name)).collect()
    }

    fn setting(&self, name: &str) -> PathBuf {
        self.block.join("queue").join(name)
    }
}

impl Job {
    fn run(self, device: &File) {
        let mut page = Box::new(Page([0; 4096]));
        match self.op {
            Op::Read => device.read_exact_at(&mut page.0, self.sector * 512),
            Op::Write => device.write_all_at(&page.0, self.sector * 512),
        }
        .expect("the device works");
    }
}

impl Drop for Lab {
    /// In the reverse order. Nothing here may panic: it may run during a panic.
    fn drop(&mut self) {
        let mut failed = Vec::new();
        if let Some(instance) = &self.instance {
            failed.extend(fs::remove_dir(instance).err().map(|e| e.to_string()));
        }
        if self.mounted_tracefs {
            failed.extend(output(Command::new("umount").arg(TRACEFS)).err());
        }
        self.device = None;
        // The end of its input is its end.
        drop(self.server.stdin.take());
        failed.extend(self.server.wait().err().map(|e| e.to_string()));
        if !failed.is_empty() {
            eprintln!("left behind: {failed:?}");
        }
    }
}

/// Starts the slow device's server; says in which directory its file is.
fn serve() -> (Child, PathBuf) {
    let file = tempfile::tempfile_in(scratch()).expect("a file without a name");
    file.set_len(DEVICE_BYTES).expect("of holes");
    rustix::io::fcntl_setfd(&file, FdFlags::empty()).expect("that a child inherits");
    let mut server = Command::new(env!("CARGO_BIN_EXE_foreread"))
        .arg("serve-slow-device")
        .args([file.as_raw_fd().to_string(), DEVICE_BYTES.to_string(), DELAY.to_owned()])
        .arg("--writable")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut answers = BufReader::new(server.stdout.take().expect("it was asked for"));
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("it says something");
    let Some(directory) = answer.trim_end().strip_prefix("ready in ") else {
        panic!("the slow device does not come up: {answer}");
    };
    (server, PathBuf::from(directory))
}

/// `task-1 [0] .. 1.000000: block_rq_insert: 7,0 RS 4096 () 1024 + 8 ..` of this device.
fn event(line: &str, device: &str) -> Option<Event> {
    assert!(!line.contains("LOST"), "the trace buffer is too small");
    let (before, after) = line.split_once(": block_rq_")?;
    let (event, fields) = after.split_once(": ")?;
    let what = match event {
        "insert" => What::Insert,
        "issue" => What::Issue,
        "complete" => What::Complete,
        _ => return None,
    };
    let (fields, place) = fields.split_once(" () ")?;
    let mut fields = fields.split_whitespace();
    if fields.next() != Some(device) {
        return None;
    }
    let op = if fields.next()?.contains('W') { Op::Write } else { Op::Read };
    let (seconds, micros) = before.split_whitespace().next_back()?.split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let sector = place.split_whitespace().next()?.parse().ok()?;
    Some(Event { at_us, what, op, sector })
}

/// A buffer that goes past the page cache.
#[repr(align(4096))]
struct Page([u8; 4096]);

fn write(path: &Path, value: &str) {
    fs::write(path, value).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn run(command: &mut Command) -> String {
    output(command).unwrap_or_else(|complaint| panic!("{complaint}"))
}

const TRACEFS: &str = "/sys/kernel/tracing";

/// How slow the device is: one request at a time.
const DELAY: &str = "latency=6ms,parallel=1";

/// From a completion to the next batch.
const MIDDLE: Duration = Duration::from_millis(2);

/// Between the first requests: far more than it takes to dispatch one.
const APART: Duration = Duration::from_micros(300);

/// A file of holes; what is written to it goes with it.
const DEVICE_BYTES: u64 = 1 << 30;
