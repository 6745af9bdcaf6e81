//! The kernel's largest window: what it is for a device, and what it shall be for a while.
//!
//! In:    a device; a window.
//! Out:   `read_ahead_kb` as it is, or as it was asked for until the guard is dropped.
//! Never: a setting that stays behind. Another process sets it and sets it back when it sees that
//!        ours has ended, however that ends.
//!
//! ```text
//!   bench --- starts ---> holder: locks read_ahead_kb, remembers it, sets it, says "ready"
//!     |                     |
//!     +--- a pipe: its end->+ sets it back
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::Args as Flags;
use rustix::fs::FlockOperation;

/// How bench starts the holder; no user does.
#[derive(Debug, Flags)]
pub(crate) struct Args {
    file: PathBuf,
    kib: u64,
}

/// A window that is what was asked for, as long as this lives.
pub(crate) struct Held {
    holder: Child,
    /// Open as long as it shall hold.
    hold: Option<ChildStdin>,
}

/// The kernel's largest window for a device, in bytes, where it says so.
pub(crate) fn of(device: u64) -> Option<u64> {
    let text = std::fs::read_to_string(setting_of(device)?).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Where the kernel keeps it. A partition has its disk's.
fn setting_of(device: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let places = [
        format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"),
        format!("/sys/dev/block/{major}:{minor}/queue/read_ahead_kb"),
        format!("/sys/dev/block/{major}:{minor}/../queue/read_ahead_kb"),
    ];
    places.into_iter().map(PathBuf::from).find(|place| place.exists())
}

impl Held {
    pub(crate) fn new(device: u64, kib: u64) -> io::Result<Self> {
        let file = setting_of(device).ok_or_else(|| io::Error::other("its device has none"))?;
        let mut holder = Command::new(std::env::current_exe()?)
            .args([VERB.as_ref(), file.as_os_str(), kib.to_string().as_ref()])
            // Not in our group: Ctrl-C ends us, and the end of the pipe ends the holder.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let hold = holder.stdin.take();
        let mut answer = String::new();
        BufReader::new(holder.stdout.take().expect("it was asked for")).read_line(&mut answer)?;
        let held = Self { holder, hold };
        if answer.trim_end() != READY {
            return Err(io::Error::other(answer.trim_end().to_owned()));
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.hold.take());
        let _ = self.holder.wait();
    }
}

/// The holder: holds until stdin ends. The first line of stdout says [`READY`], or what is wrong.
pub(crate) fn run(args: &Args) {
    let setting = Setting::change(&args.file, args.kib);
    let first = setting.as_ref().map_or_else(ToString::to_string, |_| READY.to_owned());
    // With stdout closed there is nobody to hold it for: stdin has ended, too.
    let _ = writeln!(io::stdout(), "{first}");
    if let Ok(setting) = setting {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        setting.restore();
    }
}

struct Setting {
    file: File,
    was: String,
}

impl Setting {
    fn change(path: &Path, kib: u64) -> io::Result<Self> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let takes_root = |error: io::Error| {
            let is_refusal = error.kind() == io::ErrorKind::PermissionDenied;
            if is_refusal { io::Error::other("it takes root to set it") } else { error }
        };
        let mut file = opened.map_err(takes_root)?;
        // Two that set it at once would each restore what the other has set.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(io::Error::other("another run of bench has set it"));
        }
        let mut was = String::new();
        file.read_to_string(&mut was)?;
        let mut setting = Self { file, was };
        setting.write(&kib.to_string())?;
        Ok(setting)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }

    fn restore(mut self) {
        // If the device has gone meanwhile, its setting has, too.
        let _ = self.write(&self.was.clone());
    }
}

/// The verb that starts it, which no help shows.
pub(crate) const VERB: &str = "hold-window";

/// What it says when the window is set.
const READY: &str = "ready";
