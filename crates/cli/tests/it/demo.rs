//! The demo, as a user runs it: what it prints, what it refuses, what it leaves behind.

use crate::common;
use crate::common::Command;
use crate::html::chromium;
use crate::said;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::{Need, copy_program, looks_until, needs};
use serde_json::Value;
use tempfile::TempDir;

fn foreread() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foreread"))
}

/// Wrong use: exit 2, one line on stderr, nothing on stdout.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("foreread: "), "{line}");
    line
}

fn demo_of(target: &Path) -> Output {
    foreread().arg("demo").arg(target).output().unwrap()
}

#[test]
fn every_figure_is_there_and_the_slow_device_is_asked_for_what_was_wanted() {
    let dir = TempDir::new().unwrap();
    let pages = TempDir::new().unwrap();
    let page = pages.path().join("demo.html");
    let output = foreread()
        .args(["demo", "--runs", "1", "--size", "64M", "--json"])
        .arg(dir.path())
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(
        notes.lines().all(|line| line.starts_with("note: ")),
        "no progress bar without a terminal: {notes}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the scratch file is gone");

    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Cached reads of 4 KiB") && html.contains("foreread, defaults"));
    if needs(Need::Tool("chromium"), "every_figure_is_there") {
        chromium::picture(&page, chromium::View { width: 1200, is_dark: false });
    }

    let rows = said::data(&output.stdout);
    let row = |scene: &str, pattern: &str| {
        let is_it = |row: &&Value| {
            row["scene"] == scene && row["pattern"] == pattern && row["method"] == "foreread"
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{scene} {pattern}"))
    };
    for pattern in ["seq4k", "inter2", "rand4k", "hot4k"] {
        let figures = row("as-it-is", pattern);
        assert_eq!(figures["policy"], "adaptive");
        assert!(figures["mb_per_s"]["median"].as_f64().unwrap() > 0.0);
        assert!(figures["ns_per_read"]["min"].as_f64() <= figures["ns_per_read"]["max"].as_f64());
    }
    let random = row("as-it-is", "rand4k");
    let [asked, wanted] = ["device_bytes", "bytes_wanted"].map(|key| random[key].as_u64().unwrap());
    assert!((wanted..wanted + wanted / 50).contains(&asked), "{random}");
    let hot = row("as-it-is", "hot4k");
    assert_eq!(hot["device_reads"], 0, "a cached page costs the device nothing");
    // Sequential reads come in windows: far fewer requests than pages.
    for scene in ["one-head", "eight-at-once"] {
        let stream = row(scene, "seq4k");
        let pages = stream["bytes_wanted"].as_u64().unwrap() / 4096;
        assert!(stream["device_reads"].as_u64().unwrap() < pages / 8, "{stream}");
        assert_eq!((&stream["setting"], &stream["window_kib"]), (&"default".into(), &Value::Null));
    }
    assert_eq!(row("200-streams", "inter200")["evicted_before_use"], 0);
    // The kernel stands beside it in each scene, or a note says why it does not.
    for scene in ["one-head", "eight-at-once", "200-streams"] {
        let is_kernel = |row: &Value| row["scene"] == scene && row["method"] == "buffered";
        let is_there = rows.iter().any(is_kernel);
        assert!(is_there || notes.contains(&format!("{scene}: the kernel is skipped")), "{notes}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_in_one_line_that_says_what_to_do() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("small"), [1; 5000]).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());

    for (target, says) in [
        (PathBuf::from("/proc"), "give another directory, or less with --size"),
        (path("none"), "no such file"),
        (path("empty"), "is empty; give a file with something to read"),
        (path("pipe"), "is a pipe"),
        (path("small"), "at least 16 MiB"),
        (PathBuf::from("/dev/zero"), "is a character device"),
    ] {
        let line = refused(&demo_of(&target));
        assert!(line.contains(says), "{line}");
    }
    for (flags, says) in [
        (["--size", "1M"], "at least 16M"),
        (["--size", "lots"], "powers of 1024"),
        (["--delay", "latency=4"], "latency=4ms"),
        (["--runs", "0"], "1..=99"),
    ] {
        let line = refused(&foreread().arg("demo").args(flags).output().unwrap());
        assert!(line.contains(says), "{flags:?}: {line}");
    }
}

/// When a demo is ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Moment {
    /// It has just been started.
    AtOnce,
    /// It has made its scratch file: an open file without a name.
    HasScratch,
    /// It has started the process that serves its slow device.
    HasServer,
}

impl Moment {
    fn has_come(self, demo: u32) -> bool {
        match self {
            Self::AtOnce => true,
            Self::HasScratch => fs::read_dir(format!("/proc/{demo}/fd")).is_ok_and(|open| {
                open.flatten().any(|file| {
                    let is_without_name =
                        |to: PathBuf| to.to_string_lossy().ends_with(" (deleted)");
                    fs::read_link(file.path()).is_ok_and(is_without_name)
                })
            }),
            Self::HasServer => fs::read_to_string(format!("/proc/{demo}/task/{demo}/children"))
                .is_ok_and(|children| !children.trim().is_empty()),
        }
    }
}

/// A demo that was killed once left a mount behind, or a process that nothing could end: it waited
/// for an answer of its own.
///
/// So many runs take hours: whenever it is ended, it is not done.
#[test]
fn however_it_ends_nothing_is_left() {
    use Moment::{AtOnce, HasScratch, HasServer};
    for (signal, moment) in [
        ("INT", HasScratch),
        ("TERM", HasServer),
        ("KILL", AtOnce),
        ("KILL", HasScratch),
        ("KILL", HasServer),
    ] {
        if moment == HasServer && !needs(Need::Fuse, "however_it_ends_nothing_is_left") {
            continue;
        }
        let dir = TempDir::new().unwrap();
        let mut demo = foreread()
            .args(["demo", "--runs", "99", "--size", "64M", "--delay", "latency=100ms"])
            .env("TMPDIR", dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // However slow the machine is: the moment comes, or the demo ends before it.
        while !moment.has_come(demo.id()) {
            assert_eq!(demo.try_wait().unwrap(), None, "it ended before {moment:?}");
            std::thread::yield_now();
        }
        let kill = Command::new("kill").args(["-s", signal, &demo.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert!(!demo.wait().unwrap().success(), "{signal} {moment:?}: it was not done yet");
        // The process that serves the slow device ends when it sees that ours has.
        let is_left = || {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            let is_mounted = mounts.contains(dir.path().to_str().unwrap());
            is_mounted || fs::read_dir(dir.path()).unwrap().next().is_some()
        };
        assert!(looks_until(|| !is_left()), "{signal}, {moment:?}: something is left in {dir:?}");
    }
}

/// A file that the user may not read. Root may read everything, so as root this runs as another
/// user.
#[test]
fn without_permission_the_error_says_whose_it_takes() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("secret");
    fs::write(&file, vec![1; 17 << 20]).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read(&file).is_ok();
    // The binary is copied: its own folder may be closed to others.
    let binary = dir.path().join("foreread");
    copy_program(env!("CARGO_BIN_EXE_foreread"), &binary);
    let mut command = Command::new(&binary);
    if is_root {
        command.uid(UNPRIVILEGED);
    }
    let line = refused(&command.arg("demo").arg(&file).output().unwrap());
    assert!(line.contains("permission denied; run as a user with read access"), "{line}");
}

/// The uid that most systems reserve for an account without rights.
const UNPRIVILEGED: u32 = 65534;
