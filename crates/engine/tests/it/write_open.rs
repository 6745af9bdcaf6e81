//! What may be opened for writing, and what is said where it may not.

use std::fs;

use crate::common;
use crate::common::Command;
use crate::recorded;
use crate::support;

use common::{Need, needs, output, unmount};
use foreread::{
    Engine, File, IoBackend, OpenError, OpenErrorKind, OpenOptions, WriteError, WriteErrorKind,
};
use recorded::{Recorded, recorded};
use support::Watchdog;
use tempfile::TempDir;

fn engine() -> Recorded {
    recorded(Engine::builder().memory(1 << 20))
}

fn for_writing() -> OpenOptions {
    OpenOptions::new().write(true)
}

/// Opens what was let go just now. Programs that other tests start have copies of all descriptors
/// for a moment, until they run: so the device may be in use a little longer.
fn open_again(engine: &Engine, path: &str) -> File {
    loop {
        match engine.open_with(path, &for_writing()) {
            Err(OpenError { kind: OpenErrorKind::InUse, .. }) => std::thread::yield_now(),
            opened => return opened.expect("it is not open elsewhere"),
        }
    }
}

/// A loop device over a file of so many bytes, detached at the end.
struct Loop(String);

impl Loop {
    fn new(dir: &TempDir, len: u64, flags: &[&str]) -> Self {
        let path = dir.path().join("image");
        fs::File::create(&path).expect("a file").set_len(len).expect("sparse");
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show"]).args(flags).arg(&path);
        Self(output(&mut attach).expect("it attaches").trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = output(Command::new("losetup").args(["--detach", &self.0]));
    }
}

#[test]
fn a_handle_for_reading_does_not_write() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, [1; 5000]).expect("a file");
    let engine = engine();
    let file = engine.open(&path).expect("it is there");
    assert!(!file.is_writable());
    let refused = |result| matches!(result, Err(WriteError { kind: WriteErrorKind::ReadOnly, .. }));
    assert!(refused(file.write_all_at(&[1], 0)));
    assert!(refused(file.try_write_at(&[1], 0).map(drop)));
    assert!(refused(file.write_zeroes(0..1, true)));
    assert!(refused(file.discard(0..1)));
    file.sync_data().expect("nothing was written");
    assert_eq!(file.extents(0..5000).expect("an answer"), [(0..5000, true)]);
}

#[test]
fn a_file_that_is_written_has_one_set_of_pages() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, [1; 5000]).expect("a file");
    let link = dir.path().join("another name");
    fs::hard_link(&path, &link).expect("a link");
    let engine = engine();
    let writer = engine.open_with(&path, &for_writing()).expect("it is there");
    let twice = engine.open_with(&link, &for_writing()).expect("the same file");
    let reader = engine.open(&path).expect("the same file");
    writer.write_all_at(&[2], 0).expect("room");
    twice.write_all_at(&[3], 4999).expect("room");
    let mut got = [0; 5000];
    reader.read_at(&mut got, 0).expect("bytes");
    assert_eq!((got[0], got[1], got[4999]), (2, 1, 3));
    assert!(!reader.is_writable());
    let is_refused = |result| matches!(result, Err(OpenError { kind: OpenErrorKind::Overlap, .. }));
    let buffered = OpenOptions::new().buffered(true);
    assert!(is_refused(engine.open_with(&path, &buffered)), "its pages would be old");
    drop((writer, twice));
    assert_eq!(fs::read(&path).expect("it is there")[4999], 3);
    assert!(is_refused(engine.open_with(&path, &buffered)), "the file is open as it was");
    drop(reader);
    let reader = engine.open_with(&path, &buffered).expect("there is no writer");
    assert!(is_refused(engine.open_with(&path, &for_writing())), "in another way");
    drop(reader);
    engine.open_with(&path, &for_writing()).expect("there is no reader");
}

/// A file that is open for writing has the length that its engine gave it, whatever others do.
#[test]
fn a_file_that_is_written_has_the_length_of_its_engine() {
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let path = dir.path().join("file");
    fs::write(&path, [1; 5000]).expect("a file");
    let engine = engine();
    let file = engine.open_with(&path, &for_writing()).expect("it is there");
    support::append(&path, 0, 5000);
    assert_eq!(file.refresh().expect("an answer"), 5000);
    assert_eq!(file.read_at(&mut [0; 9000], 0).expect("bytes"), 5000);
    let error = file.write_zeroes(0..5001, true).expect_err("past the end");
    assert!(error.to_string().contains("past the end at 5000"), "{error}");
}

#[test]
fn unwritable_files_are_refused_with_a_remedy() {
    const TEST: &str = "unwritable_files_are_refused_with_a_remedy";
    let _watchdog = Watchdog::new(TEST);
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let engine = engine();
    let refused = |path: &str| {
        let error =
            engine.open_with(path, &for_writing()).map(drop).expect_err("it may not be written");
        let line = error.to_string();
        assert!(line.starts_with(path) && !line.contains('\n'), "{line}");
        line
    };
    let folder = dir.path().to_str().expect("a name");
    assert!(refused(folder).contains("is a directory"));
    assert!(refused(&format!("{folder}/none")).contains("no such file"));
    if !needs(Need::Loop, TEST) {
        return;
    }
    let (read_only, mount) = (Loop::new(&dir, 1 << 20, &["--read-only"]), dir.path().join("mnt"));
    assert!(refused(&read_only.0).contains("blockdev --setrw"));
    engine.open(&read_only.0).expect("it may be read");

    if !needs(Need::Tool("mkfs.ext4"), TEST) {
        return;
    }
    let disk = Loop::new(&TempDir::new_in(common::scratch()).expect("a directory"), 8 << 20, &[]);
    output(Command::new("mkfs.ext4").args(["-q", &disk.0])).expect("a file system");
    fs::create_dir(&mount).expect("a folder");
    output(Command::new("mount").args([&disk.0, mount.to_str().expect("a name")]))
        .expect("mounted");
    let file = mount.join("file");
    fs::write(&file, [1; 5000]).expect("a file");
    let line = refused(&disk.0);
    assert!(line.contains("in use") && line.contains("unmount"), "{line}");
    output(Command::new("mount").args(["-o", "remount,ro"]).arg(&mount)).expect("for reading");
    let line = refused(file.to_str().expect("a name"));
    assert!(line.contains("mounted read-only"), "{line}");
    unmount(&mount).expect("unmounted");
    let file = open_again(&engine, &disk.0);
    let error = output(Command::new("mount").arg(&disk.0).arg(&mount)).expect_err("it is ours");
    assert!(error.contains("busy") || error.contains("mounted"), "{error}");
    let again = engine.open_with(&disk.0, &for_writing()).expect("we have it");
    let another = recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads));
    let error =
        another.open_with(&disk.0, &for_writing()).map(drop).expect_err("another engine has it");
    assert!(matches!(error, OpenError { kind: OpenErrorKind::InUse, .. }), "{error}");
    drop((file, again));
    open_again(&another, &disk.0);
}

#[test]
fn a_partition_beside_its_disk_is_refused() {
    const TEST: &str = "a_partition_beside_its_disk_is_refused";
    let _watchdog = Watchdog::new(TEST);
    if !needs(Need::Loop, TEST) || !needs(Need::Tool("sfdisk"), TEST) {
        return;
    }
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let disk = Loop::new(&dir, 8 << 20, &["--partscan"]);
    let table = "label: dos\n,4096\n,4096\n";
    let script = format!("printf '{table}' | sfdisk -q --no-reread {0} && partx -u {0}", disk.0);
    if let Err(error) = output(Command::new("sh").args(["-c", &script])) {
        common::skip(TEST, &error);
        return;
    }
    let (first, second) = (format!("{}p1", disk.0), format!("{}p2", disk.0));
    if !fs::exists(&first).unwrap_or(false) {
        common::skip(TEST, "the system makes no nodes for partitions");
        return;
    }
    let engine = engine();
    let is_refused = |path: &str| {
        matches!(
            engine.open_with(path, &for_writing()),
            Err(OpenError { kind: OpenErrorKind::Overlap, .. })
        )
    };
    let whole = open_again(&engine, &disk.0);
    assert!(is_refused(&first), "beside its disk");
    drop(whole);
    let part = open_again(&engine, &first);
    assert!(is_refused(&disk.0), "beside one of its partitions");
    let other = open_again(&engine, &second);
    part.write_all_at(b"first", 0).expect("room");
    other.write_all_at(b"second", 0).expect("room");
    drop((part, other));
    let whole = open_again(&engine, &disk.0);
    let mut got = [0; 6];
    let start = fs::read_to_string(format!("/sys/class/block/{}/start", &second[5..]));
    let start: u64 = start.expect("it says so").trim().parse().expect("a number");
    whole.read_at(&mut got, start * 512).expect("bytes");
    assert_eq!(&got, b"second");
}

/// They have the same bytes, and would have two sets of pages.
#[test]
fn a_loop_device_beside_the_file_below_it_is_refused_if_one_is_written() {
    const TEST: &str = "a_loop_device_beside_the_file_below_it";
    if !needs(Need::Loop, TEST) {
        return;
    }
    let dir = TempDir::new_in(common::scratch()).expect("a directory");
    let device = Loop::new(&dir, 1 << 20, &[]);
    let image = dir.path().join("image");
    let image = image.to_str().expect("text");
    for (first, second) in [(image, &*device.0), (&*device.0, image)] {
        let engine = engine();
        let written = open_again(&engine, first);
        for options in [for_writing(), OpenOptions::default()] {
            let refused = engine.open_with(second, &options);
            assert!(
                matches!(refused, Err(OpenError { kind: OpenErrorKind::Overlap, .. })),
                "{second}: {refused:?}"
            );
        }
        drop(written);
        let readers = [first, second].map(|path| engine.open(path).expect("both are only read"));
        drop(readers);
    }
}
