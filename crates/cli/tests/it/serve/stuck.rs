//! Servers whose device is full, slow, frozen or gone: they end, and say what did not get there.
//!
//! In:    the real binary over file systems and devices of its own.
//! Out:   exit codes, the last line, what is in the file.
//! Never: a server that outlives its test; a claim about time, but for the watchdog's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Command, Need, looks_until, needs, output};
use crate::mounted::{FileSystem, text};
use crate::serve::server::{Place, Server};

const MIB: u64 = 1 << 20;
const PIECE: usize = 64 << 10;
const ROOM: u64 = 4 * MIB;

/// Kills the server if it does not end in many times what it may take.
struct Watchdog(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

impl Watchdog {
    fn new(pid: Pid) -> Self {
        let (sender, receiver) = channel::<()>();
        std::thread::spawn(move || {
            let late = receiver.recv_timeout(Duration::from_secs(40));
            if late == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self(sender)
    }
}

/// Ends it as a service manager does: exit code 1, and a last line with all of `parts` in it.
#[track_caller]
fn ends_with(server: Server, parts: &[&str]) {
    let _watchdog = Watchdog::new(server.pid());
    server.signal(Signal::TERM);
    let (code, said) = server.ended();
    assert_eq!(code, Some(1), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Fills a sparse file until there is no room: what was flushed before is there.
fn overflows(disk: &FileSystem) {
    let place = Place::new();
    let target = disk.at.join("file");
    fs::File::create(&target).unwrap().set_len(8 * ROOM).unwrap();
    disk.fill_but(ROOM);
    let server = place.serve(&target, &["--memory", "8M", "--dirty-age", "200ms"]);
    let _watchdog = Watchdog::new(server.pid());
    let mut client = server.session();
    let flushed = ROOM / 2 / PIECE as u64;
    let mut failed = false;
    for number in 0..8 * ROOM / PIECE as u64 {
        let bytes = [tag(number); PIECE];
        if client.write(number * PIECE as u64, &bytes, false).is_err() {
            failed = true;
            break;
        }
        if number + 1 == flushed {
            client.flush().expect("there is room");
        }
    }
    assert!(client.flush().is_err(), "there is no room");
    assert!(failed, "memory is full of what the device refuses");
    assert!(client.write(8 * ROOM - 4096, &[1; 4096], true).is_err(), "there is no room");
    drop(client);
    ends_with(server, &[text(&target), "bytes written by clients", "No space left"]);
    let bytes = fs::read(&target).unwrap();
    for (number, piece) in (0..flushed).zip(bytes.chunks(PIECE)) {
        assert!(piece.iter().all(|byte| *byte == tag(number)), "piece {number}");
    }
}

/// What a piece is filled with.
fn tag(number: u64) -> u8 {
    number.to_le_bytes()[0] | 1
}

fn on_a_full_file_system(test: &str, make: &[&'static str], bytes: u64) {
    if needs(Need::Loop, test) && needs(Need::Tool(make[0]), test) {
        overflows(&FileSystem::new(make, bytes));
    }
}

#[test]
fn a_server_on_a_full_ext4_with_small_blocks_ends() {
    let make = &["mkfs.ext4", "-q", "-m", "0", "-b", "1024"];
    on_a_full_file_system("a_server_on_a_full_ext4_with_small_blocks_ends", make, 24 * MIB);
}

#[test]
fn a_server_on_a_full_ext4_ends() {
    on_a_full_file_system("a_server_on_a_full_ext4_ends", &["mkfs.ext4", "-q"], 32 * MIB);
}

#[test]
fn a_server_on_a_full_xfs_ends() {
    on_a_full_file_system("a_server_on_a_full_xfs_ends", &["mkfs.xfs", "-q"], 320 * MIB);
}

#[test]
fn a_server_on_a_full_tmpfs_ends() {
    if needs(Need::Root, "a_server_on_a_full_tmpfs_ends") {
        overflows(&FileSystem::tmpfs(16 * MIB));
    }
}

/// A device that takes a minute for each request: the flush is given up, whatever is in hand.
#[test]
fn a_server_of_a_device_that_does_not_answer_ends_after_the_exit_timeout() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let slow = ["--delay", "latency=60s", "--exit-timeout", "200ms", "--dirty-age", "3600s"];
    let server = place.serve(&file, &slow);
    let mut client = server.session();
    client.write(0, &[7; PIECE], false).unwrap();
    ends_with(server, &[text(&file), "65536 bytes", "within 200ms", "--exit-timeout"]);
    assert!(!place.path("sock").exists(), "the socket stays behind");
}

/// Nothing is to be flushed, and a read is never answered.
#[test]
fn a_server_with_a_read_that_is_not_answered_ends() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--read-only", "--delay", "latency=60s"]);
    let _watchdog = Watchdog::new(server.pid());
    let mut client = server.session();
    let reader = std::thread::spawn(move || client.read(0, 4096));
    while server.stats()["clients"]["requests"]["read"] != 1 {
        std::thread::yield_now();
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), (Some(0), String::new()));
    assert!(reader.join().unwrap().is_err(), "its connection was closed");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let file = place.file("disk", 1 << 20);
        let slow = ["--delay", "latency=60s", "--exit-timeout", "3600s", "--dirty-age", "3600s"];
        let server = place.serve(&file, &slow);
        let _watchdog = Watchdog::new(server.pid());
        server.session().write(0, &[7; PIECE], false).unwrap();
        server.signal(Signal::TERM);
        // It has taken notice of the first one when it listens no more.
        while foreread_serve::client::Client::connect(text(&server.socket)).is_ok() {
            std::thread::yield_now();
        }
        server.signal(second);
        assert_eq!(server.ended(), (None, String::new()), "a signal ended it: {second:?}");
    }
}

/// Writes wait in the kernel, where no signal reaches them. The process cannot end before the
/// kernel lets them go; the line, and the end of the socket, come in time.
#[test]
fn a_server_on_a_frozen_file_system_says_what_is_lost_and_ends_when_the_kernel_lets_it() {
    const TEST: &str = "a_server_on_a_frozen_file_system";
    if !needs(Need::Loop, TEST) || !needs(Need::Tool("fsfreeze"), TEST) {
        return;
    }
    let disk = FileSystem::new(&["mkfs.ext4", "-q"], 32 * MIB);
    let place = Place::new();
    let target = disk.at.join("file");
    fs::write(&target, vec![0; 4 << 20]).unwrap();
    let server = place.serve(&target, &["--exit-timeout", "200ms", "--dirty-age", "3600s"]);
    server.session().write(0, &[7; PIECE], false).unwrap();
    let frozen = Frozen::new(&disk.at);
    server.signal(Signal::TERM);
    let (said, server) = server.says();
    assert!(said.contains("65536 bytes") && said.contains("within 200ms"), "{said}");
    assert!(!place.path("sock").exists(), "the socket stays behind");
    drop(frozen);
    let _watchdog = Watchdog::new(server.pid());
    assert_eq!(server.ended(), (Some(1), String::new()));
}

/// io_uring waited for the file system's server in the thread that submits, with the engine's
/// mutex: `stats` and all clients waited with it.
#[test]
fn a_fuse_file_whose_server_hangs_holds_no_control_request() {
    const TEST: &str = "a_fuse_file_whose_server_hangs_holds_no_control_request";
    for need in [Need::Root, Need::Tool("nbdkit"), Need::Tool("nbdfuse")] {
        if !needs(need, TEST) {
            return;
        }
    }
    let place = Place::new();
    let fuse = FuseFile::new(&place);
    let server = place.serve(&fuse.file, &["--dirty-age", "3600s"]);
    let watchdog = Watchdog::new(server.pid());
    let mut client = server.session();
    client.write(0, &[7; PIECE], false).unwrap();
    kill_process(fuse.server(), Signal::STOP).unwrap();
    let flushes = std::thread::spawn(move || client.flush());
    let is_written = || server.stats()["device"]["write"]["in_flight"] == 1;
    assert!(looks_until(is_written), "the write is at the file system");
    kill_process(fuse.server(), Signal::CONT).unwrap();
    flushes.join().unwrap().unwrap();
    drop(watchdog);
    server.stop();
    drop(fuse);
}

/// A file of zeros that another process serves by FUSE.
struct FuseFile {
    file: PathBuf,
    server: Child,
}

impl FuseFile {
    fn new(place: &Place) -> Self {
        let (directory, ready) = (place.path("fuse"), place.path("ready"));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("file");
        let mut server = Command::new("nbdfuse");
        server.arg("-P").arg(&ready).arg(&file).args(["[", "nbdkit", "memory", "4M", "]"]);
        let server = server.spawn().unwrap();
        assert!(looks_until(|| ready.exists()), "nbdfuse");
        Self { file, server }
    }

    fn server(&self) -> Pid {
        Pid::from_child(&self.server)
    }
}

impl Drop for FuseFile {
    fn drop(&mut self) {
        let _ = kill_process(self.server(), Signal::CONT);
        let _ = output(Command::new("fusermount3").arg("-uz").arg(self.file.parent().unwrap()));
        let _ = self.server.wait();
    }
}

/// No write gets in until it is dropped.
struct Frozen<'p>(&'p Path);

impl<'p> Frozen<'p> {
    fn new(at: &'p Path) -> Self {
        output(Command::new("fsfreeze").arg("--freeze").arg(at)).unwrap();
        Self(at)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let thawed = output(Command::new("fsfreeze").arg("--unfreeze").arg(self.0));
        assert!(thawed.is_ok() || std::thread::panicking(), "{thawed:?}");
    }
}

/// The file below a loop device is cut to nothing: the device has its length, and refuses all.
#[test]
fn a_server_of_a_device_that_vanishes_ends() {
    const TEST: &str = "a_server_of_a_device_that_vanishes_ends";
    if !needs(Need::Loop, TEST) || !needs(Need::Tool("mkfs.ext4"), TEST) {
        return;
    }
    // On a full file system, so that the device cannot grow its file again.
    let disk = FileSystem::new(&["mkfs.ext4", "-q", "-m", "0"], 24 * MIB);
    let below = disk.at.join("below");
    fs::write(&below, vec![0; 4 << 20]).unwrap();
    let device = crate::loop_device::Loop::new(&below);
    let place = Place::new();
    let server = place.serve(Path::new(&device.0), &["--dirty-age", "3600s"]);
    let mut client = server.session();
    client.write(0, &[7; PIECE], false).unwrap();
    client.flush().expect("the device is there");
    client.write(1 << 20, &[8; 512 << 10], false).unwrap();
    fs::File::options().write(true).open(&below).unwrap().set_len(0).unwrap();
    disk.fill_but(0);
    assert!(client.flush().is_err(), "the device is gone");
    drop(client);
    ends_with(server, &[&device.0, "clients"]);
}

/// Not more than once: a file that another program has cut is not made longer by what is cached.
#[test]
fn a_file_that_is_cut_beneath_its_server_stays_cut() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--dirty-age", "3600s"]);
    let mut client = server.session();
    client.write(0, &[7; 4096], false).unwrap();
    client.write(1 << 19, &[8; PIECE], false).unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_len(8192).unwrap();
    assert!(client.flush().is_err(), "a part of it has no place");
    drop(client);
    ends_with(server, &[text(&file), "bytes written by clients"]);
    let bytes = fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 8192, "it was made longer");
    assert!(bytes[..4096].iter().all(|byte| *byte == 7), "what has a place is there");
}

/// Two servers would have two caches of the same bytes.
#[test]
fn a_loop_device_over_a_served_file_is_refused() {
    const TEST: &str = "a_loop_device_over_a_served_file_is_refused";
    if !needs(Need::Loop, TEST) {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let device = crate::loop_device::Loop::new(&file);
    for (first, second) in [(&file, Path::new(&device.0)), (&device.0.clone().into(), &file)] {
        let server = place.serve(first, &[]);
        let mut again = crate::serve::server::foreread(&["serve"]);
        let said =
            crate::serve::server::refused(again.arg(second).arg("--unix").arg(place.path("other")));
        assert!(said.contains("another server writes it"), "{said}");
        server.stop();
    }
}
