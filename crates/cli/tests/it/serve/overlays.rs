//! `serve URL --overlay FILE`: what clients write over an object.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use foreread_serve::client::Session;
use rustix::io::Errno;

use crate::bucket_server::{BUCKET, BucketServer};
use crate::common::{Command, Need, looks_until, needs, output, unmount};
use crate::mounted::FileSystem;
use crate::serve::server::{Place, Server, bytes, foreread, printed};

/// An object, and an overlay for it.
pub(crate) struct Overlaid {
    pub(crate) store: BucketServer,
    pub(crate) place: Place,
    pub(crate) url: PathBuf,
    pub(crate) overlay: PathBuf,
}

impl Overlaid {
    pub(crate) fn new(contents: &[u8]) -> Self {
        let (store, place) = (BucketServer::start(), Place::new());
        store.put("disk.img", contents);
        let url = PathBuf::from(format!("{}/{BUCKET}/disk.img", store.endpoint()));
        let overlay = place.path("overlay");
        Self { store, place, url, overlay }
    }

    pub(crate) fn serve(&self, flags: &[&str]) -> Server {
        let overlay = self.overlay.to_str().unwrap();
        self.place.serve(&self.url, &[&["--overlay", overlay], flags].concat())
    }

    /// All that clients of a new server read.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let server = self.serve(&["--read-only"]);
        let mut session = server.session();
        let size = session.agreed().size;
        let mut all = Vec::new();
        while (all.len() as u64) < size {
            let left = size - all.len() as u64;
            let len = u32::try_from(left.min(3 << 20)).unwrap();
            all.extend(session.read(all.len() as u64, len).unwrap());
        }
        session.leave().unwrap();
        server.stop();
        all
    }

    /// The line with which it is not served.
    fn refused(&self) -> String {
        let mut command = foreread(&["serve"]);
        command.arg(&self.url).arg("--unix").arg(self.place.path("sock"));
        let output = command.arg("--overlay").arg(&self.overlay).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    }
}

#[test]
fn writes_over_an_object_are_read_again_also_by_the_next_server() {
    let size = (5 << 20) + 1000;
    let mut expected = bytes(size);
    let disk = Overlaid::new(&expected);
    let server = disk.serve(&[]);
    assert!(server.ready.contains("/overlay (0 written)"), "{}", server.ready);
    assert!(!server.ready.contains("read-only"), "{}", server.ready);
    let mut session = server.session();
    // Within a block, over the edge of two, whole blocks, the end.
    let end = size as u64 - 7;
    for (at, len, fua) in
        [(5000, 10, false), (8190, 4, true), (1 << 20, 1 << 20, false), (end, 7, false)]
    {
        let new: Vec<u8> = (0..len).map(|n| u8::try_from(n % 249).unwrap()).collect();
        session.write(at, &new, fua).unwrap();
        let at = usize::try_from(at).unwrap();
        expected[at..at + len].copy_from_slice(&new);
    }
    let mut read = Vec::new();
    for at in (0..size).step_by(2 << 20) {
        let len = (size - at).min(2 << 20);
        read.extend(session.read(at as u64, u32::try_from(len).unwrap()).unwrap());
    }
    assert!(read == expected, "before a flush");
    assert_eq!(session.read(8190, 4).unwrap(), expected[8190..8194]);
    session.leave().unwrap();
    server.stop();
    assert!(disk.contents() == expected, "after the end of the server");
    let server = disk.serve(&[]);
    assert!(server.ready.contains("/overlay (1036K written)"), "{}", server.ready);
    server.stop();
    let used = fs::metadata(&disk.overlay).unwrap().blocks() * 512;
    assert!(used < 4 << 20, "{used} bytes for 1 MiB of blocks and 1 MiB in front of them");
}

#[test]
fn an_overlay_is_for_one_version_of_one_object() {
    let disk = Overlaid::new(&bytes(100_000));
    let server = disk.serve(&[]);
    server.session().write(5, b"written", true).unwrap();
    let line = disk.refused();
    assert!(line.contains("in use by another program"), "{line}");
    server.stop();
    disk.store.put("disk.img", &bytes(100_000));
    let line = disk.refused();
    assert!(line.contains("is the overlay of http://") && line.contains("another"), "{line}");
    fs::write(&disk.overlay, "a file of the user's").unwrap();
    let line = disk.refused();
    assert!(line.contains("is not an overlay"), "{line}");
    assert_eq!(fs::read(&disk.overlay).unwrap(), b"a file of the user's");
    let file = disk.place.file("file", 4096);
    let mut command = foreread(&["serve", "--unix", "/x/y", "--overlay", "/x/z"]);
    let output = command.arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("TARGET is no URL"), "{output:?}");
}

/// What was written is there; the rest fails, and is no mixture.
/// It was left behind, and was in the way when the object was replaced.
#[test]
fn a_server_that_is_refused_leaves_no_new_overlay() {
    let disk = Overlaid::new(&bytes(100_000));
    let place = disk.place.file("sock", 10);
    let line = disk.refused();
    assert!(line.contains("sock"), "a file is in the way: {line}");
    assert!(!disk.overlay.exists());
    fs::remove_file(place).unwrap();
    let server = disk.serve(&[]);
    server.session().write(5, b"written", true).unwrap();
    server.stop();
    let taken = disk.place.file("sock", 10);
    disk.refused();
    assert!(disk.overlay.exists(), "one that was there stays");
    fs::remove_file(taken).unwrap();
    assert_eq!(disk.contents()[5..12], *b"written");
}

#[test]
fn an_object_that_is_replaced_under_an_overlay_fails_reads_of_the_rest() {
    let disk = Overlaid::new(&bytes(8 << 20));
    let server = disk.serve(&["--max-window", "128K"]);
    let mut session = server.session();
    session.write(6 << 20, &[7; 4096], false).unwrap();
    disk.store.put("disk.img", &vec![9; 8 << 20]);
    assert_eq!(session.read(6 << 20, 4096).unwrap(), [7; 4096]);
    for (at, len) in [(7 << 20, 4096), ((6 << 20) - 100, 200)] {
        session.read(at, len).expect_err("it is another object");
    }
    session.write((7 << 20) + 5, b"in a block of which the rest is gone", false).unwrap_err();
    session.write(7 << 20, &[8; 4096], true).unwrap();
    assert_eq!(session.read(7 << 20, 4096).unwrap(), [8; 4096]);
    session.leave().unwrap();
    server.stop();
}

#[test]
fn nbdcopy_and_qemu_io_write_over_an_object() {
    let test = "nbdcopy_and_qemu_io_write_over_an_object";
    if !needs(Need::Tool("nbdcopy"), test) || !needs(Need::Tool("qemu-io"), test) {
        return;
    }
    let size = 12 << 20;
    let disk = Overlaid::new(&bytes(size));
    let mut expected = bytes(size);
    expected.reverse();
    let source = disk.place.path("source");
    fs::write(&source, &expected).unwrap();
    let server = disk.serve(&["--memory", "4M"]);
    printed(Command::new("nbdcopy").args(["--flush"]).arg(&source).arg(server.uri()));
    let mut qemu = Command::new("qemu-io");
    qemu.args(["-f", "raw"]);
    for command in [
        "write -P 0x5a 12345 70000",
        "write -z 1M 64k",
        "discard 3M 1M",
        "flush",
        "read -P 0 1M 64k",
    ] {
        qemu.args(["-c", command]);
    }
    let said = printed(qemu.arg(server.uri()));
    assert!(!said.contains("failed"), "{said}");
    server.stop();
    expected[12_345..82_345].fill(0x5a);
    expected[1 << 20..(1 << 20) + (64 << 10)].fill(0);
    let mut found = disk.contents();
    // What was discarded is undefined.
    found[3 << 20..4 << 20].copy_from_slice(&expected[3 << 20..4 << 20]);
    assert!(found == expected, "what the next server has");
}

/// A block device by FUSE: the kernel writes through it as to any file.
struct NbdFuse {
    child: Child,
    at: PathBuf,
}

impl NbdFuse {
    fn new(place: &Place, server: &Server) -> Self {
        let at = place.path("fuse");
        fs::create_dir_all(&at).unwrap();
        let child = Command::new("nbdfuse").arg(&at).arg(server.uri()).spawn().unwrap();
        let fuse = Self { child, at };
        assert!(looks_until(|| fuse.file().exists()), "nbdfuse mounts");
        fuse
    }

    fn file(&self) -> PathBuf {
        self.at.join("nbd")
    }

    fn end(mut self) {
        unmount(&self.at).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for NbdFuse {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[test]
fn mkfs_and_e2fsck_work_on_an_overlay_through_nbdfuse() {
    let test = "mkfs_and_e2fsck_work_on_an_overlay_through_nbdfuse";
    let tools = ["nbdfuse", "mkfs.ext4", "e2fsck", "debugfs"];
    if !needs(Need::Fuse, test)
        || !needs(Need::Root, test)
        || !tools.iter().all(|tool| needs(Need::Tool(tool), test))
    {
        return;
    }
    let disk = Overlaid::new(&vec![0xa5; 24 << 20]);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let server = disk.serve(&[]);
    let fuse = NbdFuse::new(&disk.place, &server);
    let data = disk.place.file("data", 3_000_000);
    output(Command::new("mkfs.ext4").args(["-q", "-F", &text(&fuse.file())])).unwrap();
    let write = format!("write {} copy", text(&data));
    output(Command::new("debugfs").args(["-w", "-R", &write, &text(&fuse.file())])).unwrap();
    output(Command::new("e2fsck").args(["-fn", &text(&fuse.file())])).unwrap();
    fuse.end();
    server.stop();
    let image = disk.place.path("image");
    fs::write(&image, disk.contents()).unwrap();
    output(Command::new("e2fsck").args(["-fn", &text(&image)])).unwrap();
    let copy = disk.place.path("copy");
    let dump = format!("dump copy {}", text(&copy));
    output(Command::new("debugfs").args(["-R", &dump, &text(&image)])).unwrap();
    assert!(fs::read(&copy).unwrap() == bytes(3_000_000), "a file in the file system");
}

/// An overlay in the kernel's page cache used more than `--memory`, and nothing showed it.
#[test]
fn an_overlay_without_direct_io_is_said_to_be_buffered() {
    let test = "an_overlay_without_direct_io_is_said_to_be_buffered";
    if !needs(Need::Root, test) {
        return;
    }
    let memory = FileSystem::ramfs();
    let mut disk = Overlaid::new(&bytes(100_000));
    let server = disk.serve(&[]);
    assert!(!server.ready.contains("buffered"), "{}", server.ready);
    assert!(server.stats()["export"]["buffered"].is_null());
    server.stop();
    disk.overlay = memory.at.join("overlay");
    let server = disk.serve(&[]);
    let why = "no O_DIRECT on this file system";
    let said = format!("(0 written, buffered: {why})");
    assert!(server.ready.contains(&said), "{}", server.ready);
    assert_eq!(server.stats()["export"]["buffered"], why);
    server.stop();
}

/// The client is told, and what was acknowledged is kept.
#[test]
fn a_full_disk_is_an_error_of_the_write_and_nothing_is_lost() {
    let test = "a_full_disk_is_an_error_of_the_write_and_nothing_is_lost";
    if !needs(Need::Root, test) {
        return;
    }
    let small = FileSystem::tmpfs(4 << 20);
    let mut disk = Overlaid::new(&vec![1; 16 << 20]);
    disk.overlay = small.at.join("overlay");
    let server = disk.serve(&[]);
    let mut session = server.session();
    let mut expected = vec![1; 16 << 20];
    let mut is_full = false;
    for block in 0..64_u8 {
        let at = usize::from(block) * (64 << 10);
        let done = write(&mut session, at as u64, &vec![block; 64 << 10]);
        match done {
            Ok(()) => expected[at..at + (64 << 10)].fill(block),
            Err(errno) => {
                assert_eq!(errno, Errno::NOSPC.raw_os_error().unsigned_abs());
                is_full = true;
            }
        }
    }
    assert!(is_full, "4 MiB are less than 64 writes of 64 KiB and what is in front of them");
    // What is there can be written again.
    session.write(0, &[77; 4096], true).unwrap();
    expected[..4096].fill(77);
    session.flush().unwrap();
    let mut found = Vec::new();
    for at in (0..16 << 20).step_by(1 << 20) {
        found.extend(session.read(at, 1 << 20).unwrap());
    }
    assert!(found == expected, "what this server has");
    session.leave().unwrap();
    server.stop();
    assert!(disk.contents() == expected, "what the next server has");
}

fn write(session: &mut Session, offset: u64, bytes: &[u8]) -> Result<(), u32> {
    use foreread_serve::nbd::request::NbdRequest;
    use foreread_serve::nbd::wire;

    let len = u32::try_from(bytes.len()).unwrap();
    let request = NbdRequest { command: wire::CMD_WRITE, offset, len, ..NbdRequest::default() };
    session.ask(request, bytes).unwrap().map(drop)
}
