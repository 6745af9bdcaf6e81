//! What a test needs of the machine, and how it says that it was skipped.
//!
//! In:    a [`Need`] and the test's name.
//! Out:   true: go on. false: the machine cannot, and a line `SKIP <test>: <reason>` says so.
//! Never: a silent skip. What the variable REQUIRE names (`REQUIRE=root,loop`, or `all`) has to be
//!        there: without it the test fails.
//!
//! Include it by `mod common;`, from another crate by `#[path]`; it uses io-uring and rustix.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

mod command;

pub use command::Command;

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// The right to mount and to change settings (`CAP_SYS_ADMIN`).
    Root,
    /// Loop devices that can be attached.
    Loop,
    /// The kernel's trace file system, mounted or mountable.
    Tracefs,
    /// A ring can be set up.
    IoUring,
    /// Files below [`scratch`] can be opened with `O_DIRECT`.
    ODirect,
    /// `/dev/fuse` can be opened.
    Fuse,
    /// A program on PATH.
    Tool(&'static str),
}

impl Need {
    /// The name in REQUIRE.
    const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Loop => "loop",
            Self::Tracefs => "tracefs",
            Self::IoUring => "io_uring",
            Self::ODirect => "o_direct",
            Self::Fuse => "fuse",
            Self::Tool(_) => "tools",
        }
    }

    fn probe(self) -> Result<(), String> {
        match self {
            Self::Root => root(),
            Self::Loop => root().and_then(|()| loop_device()),
            Self::Tracefs => root().and_then(|()| tracefs()),
            Self::IoUring => {
                io_uring::IoUring::new(2).map(drop).map_err(|e| format!("no io_uring here: {e}"))
            }
            Self::ODirect => o_direct(),
            Self::Fuse => OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/fuse")
                .map(drop)
                .map_err(|e| format!("/dev/fuse: {e}")),
            Self::Tool(name) => find_tool(name).map(drop).ok_or(format!("no {name} on PATH")),
        }
    }
}

/// Whether the machine has `what`. If not, says that `test` is skipped, or fails where it may not.
#[must_use]
pub fn needs(what: Need, test: &str) -> bool {
    match what.probe() {
        Ok(()) => true,
        Err(reason) => {
            let required = is_required(what.name());
            assert!(!required, "{test}: REQUIRE names {}, but: {reason}", what.name());
            skip(test, &reason);
            false
        }
    }
}

/// Says that `test` is skipped. For what cannot be expected of a machine, such as a newer kernel.
pub fn skip(test: &str, reason: &str) {
    // Straight to the handle: the test harness captures what the print macros write.
    let line = format!("SKIP {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr takes a line");
}

/// Where tests put their files: on the disk of the build, not on a tmpfs.
#[must_use]
pub fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Whether REQUIRE names it.
#[must_use]
pub fn is_required(name: &str) -> bool {
    let list = std::env::var("REQUIRE").unwrap_or_default();
    list.split(',').map(str::trim).any(|word| word == name || word == "all")
}

fn root() -> Result<(), String> {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    if effective & CAP_SYS_ADMIN != 0 { Ok(()) } else { Err("not root".into()) }
}

/// Attaches one page of a file and detaches it again.
fn loop_device() -> Result<(), String> {
    let path = probe_path();
    let file = File::create(&path).map_err(|e| e.to_string())?;
    file.set_len(4096).map_err(|e| e.to_string())?;
    let attached = output(Command::new("losetup").args(["--find", "--show"]).arg(&path));
    fs::remove_file(&path).map_err(|e| e.to_string())?;
    output(Command::new("losetup").args(["--detach", attached?.trim()])).map(drop)
}

fn tracefs() -> Result<(), String> {
    if Path::new("/sys/kernel/tracing/instances").is_dir() {
        return Ok(());
    }
    let known = fs::read_to_string("/proc/filesystems").map_err(|e| e.to_string())?;
    let mountable = known.split_whitespace().any(|word| word == "tracefs")
        && Path::new("/sys/kernel/tracing").is_dir();
    if mountable { Ok(()) } else { Err("no tracefs in this kernel".into()) }
}

fn o_direct() -> Result<(), String> {
    let path = probe_path();
    fs::write(&path, [0; 4096]).map_err(|e| e.to_string())?;
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("flags of open fit");
    let opened = OpenOptions::new().read(true).custom_flags(direct).open(&path).map(drop);
    fs::remove_file(&path).map_err(|e| e.to_string())?;
    opened.map_err(|e| format!("no O_DIRECT in {}: {e}", scratch().display()))
}

/// Each probe gets a new one, because the tests of a process run in parallel.
fn probe_path() -> PathBuf {
    static PROBES: AtomicU32 = AtomicU32::new(0);

    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    scratch().join(format!("probe-{}-{number}", std::process::id()))
}

fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// What a program printed; if it failed, what it complained about.
pub fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("{program}: {e}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}

/// Unmounts a file system, and tries again while it is busy: a process that looks at all file
/// systems leaves each a moment later.
pub fn unmount(at: &Path) -> Result<(), String> {
    let mut done = Ok(String::new());
    for _ in 0..MOST_UNMOUNTS {
        done = output(Command::new("umount").arg(at));
        if !done.as_ref().is_err_and(|error| error.contains("busy")) {
            break;
        }
    }
    done.map(drop)
}

const MOST_UNMOUNTS: u32 = 500;

/// Looks until it is so; after some seconds' worth of looks it will not be.
pub fn looks_until(is_so: impl Fn() -> bool) -> bool {
    (0..MOST_LOOKS).any(|_| {
        is_so() || {
            std::thread::yield_now();
            false
        }
    })
}

const MOST_LOOKS: u32 = 1_000_000;

/// Copies a program that a test runs, with its mode. A child that inherits the file while it is
/// open for writing would keep the program from being run (`ETXTBSY`).
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::while_none_starts(|| fs::copy(from, &to));
    copied.unwrap_or_else(|error| panic!("{}: {error}", to.as_ref().display()));
}
