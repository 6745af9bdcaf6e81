//! The same bytes from every file system and block device that a machine can make for itself.

#![allow(clippy::cast_possible_truncation, reason = "offsets are drawn from words")]

use crate::common;
use crate::common::Command;
use crate::mounted;
use crate::recorded;
use crate::support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use common::{Need, needs, output, scratch};
use foreread::{Engine, File, IoBackend, OpenOptions, WriteError, WriteErrorKind};
use mounted::{FileSystem, Mounted, run, text};
use recorded::recorded;
use support::{Random, check, fill, read_and_check, wait_until_idle, with_each_io, write_file};
use tempfile::TempDir;

/// Ends in the middle of a sector, and is larger than the smallest cache.
const LEN: u64 = (3 << 20) + 1234;

/// Reads it with little memory, in order and in none: file number 1, of `len` bytes.
fn check_everything(path: &Path, len: u64, io: IoBackend, options: &OpenOptions) -> File {
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
    let file = engine.open_with(path, options).unwrap();
    assert_eq!(file.len(), len);
    let mut buffer = vec![0; 1_000_000];
    for piece in [777, 65_536, 1_000_000] {
        let (stream, mut offset) = (file.stream(), 0);
        loop {
            let got = stream.read_at(&mut buffer[..piece], offset).unwrap();
            assert_eq!(got as u64, (piece as u64).min(len - offset));
            check(1, offset, &buffer[..got]);
            if got == 0 {
                break;
            }
            offset += got as u64;
        }
    }
    let mut random = Random(len);
    for _ in 0..200 {
        let (offset, room) = (random.below(len + 1), random.below(9000) as usize);
        read_and_check(&file, 1, &mut buffer[..room], offset);
    }
    wait_until_idle(&engine);
    file
}

/// A file in a new file system of its own, read with each kind of ring.
fn on_a_file_system(test: &str, make: &[&'static str], bytes: u64) {
    if !needs(Need::Loop, test) || !needs(Need::Tool(make[0]), test) {
        return;
    }
    let disk = FileSystem::new(make, bytes);
    let path = write_file(&disk.at, 1, LEN);
    with_each_io(test, |io| {
        let file = check_everything(&path, LEN, io, &OpenOptions::default());
        assert_eq!(file.direct_io_unavailable(), None);
        let buffered = OpenOptions::new().buffered(true);
        let file = check_everything(&path, LEN, io, &buffered);
        assert_eq!(file.direct_io_unavailable(), Some("as asked"));
    });
}

#[test]
fn on_ext4() {
    on_a_file_system("on_ext4", &EXT4, 32 << 20);
}

/// Blocks that are smaller than a page: extents begin and end in the middle of one.
#[test]
fn on_ext4_with_small_blocks() {
    on_a_file_system("on_ext4_with_small_blocks", &["mkfs.ext4", "-q", "-b", "1024"], 32 << 20);
}

#[test]
fn on_xfs() {
    on_a_file_system("on_xfs", &["mkfs.xfs", "-q"], 320 << 20);
}

#[test]
fn on_tmpfs() {
    let dir = TempDir::new_in("/dev/shm").unwrap();
    let path = write_file(dir.path(), 1, LEN);
    with_each_io("on_tmpfs", |io| {
        check_everything(&path, LEN, io, &OpenOptions::default());
    });
}

#[test]
fn where_direct_io_is_refused() {
    const TEST: &str = "where_direct_io_is_refused";
    if !needs(Need::Root, TEST) {
        return;
    }
    let dir = TempDir::new().unwrap();
    run("mount", &["-t", "ramfs", "none", text(dir.path())]);
    let _mounted = Mounted(dir.path());
    let path = write_file(dir.path(), 1, LEN);
    with_each_io(TEST, |io| {
        let file = check_everything(&path, LEN, io, &OpenOptions::default());
        assert_eq!(file.direct_io_unavailable(), Some("no O_DIRECT on this file system"));
    });
}

#[test]
fn while_the_disk_is_full() {
    const TEST: &str = "while_the_disk_is_full";
    if !needs(Need::Loop, TEST) || !needs(Need::Tool("mkfs.ext4"), TEST) {
        return;
    }
    let disk = FileSystem::new(&EXT4, 16 << 20);
    let path = write_file(&disk.at, 1, LEN);
    // The last file has as much as there was room for.
    let cut = disk.at.join("cut");
    let mut file = fs::File::create(&cut).unwrap();
    let (mut piece, mut len) = (vec![0; 10_000], 0);
    let error = loop {
        fill(1, len, &mut piece);
        match file.write(&piece) {
            Ok(written) => len += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    // What the page cache took may find no room later.
    let _ = file.sync_all();
    let len = file.metadata().unwrap().len();
    assert!(len > LEN, "{len} bytes");
    with_each_io(TEST, |io| {
        check_everything(&path, LEN, io, &OpenOptions::default());
        check_everything(&cut, len, io, &OpenOptions::default());
    });
}

/// The last page of a device may have any number of sectors; nothing is behind them to be read.
#[test]
fn on_block_devices_of_even_and_odd_size() {
    const TEST: &str = "on_block_devices_of_even_and_odd_size";
    if !needs(Need::Loop, TEST) {
        return;
    }
    let dir = TempDir::new_in(scratch()).unwrap();
    for (sectors, size) in [(6144, 512), (6145, 512), (6151, 512), (700, 4096), (701, 4096)] {
        let path = write_file(dir.path(), 1, sectors * size);
        let device = match LoopDevice::new(&path, size) {
            Ok(device) => device,
            Err(reason) if size > 512 => {
                common::skip(&format!("{TEST}, sectors of {size} bytes"), &reason);
                continue;
            }
            Err(reason) => panic!("{reason}"),
        };
        with_each_io(TEST, |io| {
            let file = check_everything(&device.0, sectors * size, io, &OpenOptions::default());
            assert_eq!(file.direct_io_unavailable(), None, "{sectors} sectors of {size}");
        });
    }
}

/// Its last page ends behind the largest offset that a system call takes: reads of it failed.
fn the_longest_file(test: &str, at: &Path) {
    const LONGEST: u64 = i64::MAX as u64;
    const WHOLE: u64 = LONGEST / 4096 * 4096;
    with_each_io(test, |io| {
        let path = at.join("file");
        let options = fs::File::options().read(true).write(true).create_new(true).clone();
        let on_disk = options.open(&path).expect("a file");
        on_disk.set_len(LONGEST).expect("a sparse file");
        on_disk.write_all_at(b"end", LONGEST - 3).expect("its last bytes");
        let engine = recorded(Engine::builder().memory(1 << 20).io_backend(io));
        let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
        assert_eq!((file.len(), file.direct_io_unavailable().is_some()), (LONGEST, true));
        let mut got = vec![1; 20_000];
        let len = file.read_at(&mut got, LONGEST - 10_000).expect("the last pages");
        assert_eq!((len, &got[9_990..len]), (10_000, &b"\0\0\0\0\0\0\0end"[..]));
        file.write_all_at(b"new end", LONGEST - 7).expect("room");
        assert!(matches!(
            file.append(b"x"),
            Err(WriteError { kind: WriteErrorKind::Length { .. }, .. })
        ));
        file.sync_data().expect("it is on the disk");
        on_disk.read_exact_at(&mut got[..8], LONGEST - 8).expect("its last bytes");
        assert_eq!(&got[..8], b"\0new end");
        drop(file);

        // O_DIRECT reads a file whose last page is whole, and makes none of which it is not.
        on_disk.set_len(WHOLE).expect("a sparse file");
        let file = engine.open_with(&path, &OpenOptions::new().write(true)).expect("it is there");
        assert_eq!(file.read_at(&mut got, WHOLE - 5000).expect("the last pages"), 5000);
        if file.direct_io_unavailable().is_none() {
            let refused = [file.set_len(LONGEST), file.append(b"x").map(drop)];
            assert!(refused.iter().all(|it| matches!(
                it,
                Err(WriteError { kind: WriteErrorKind::Length { .. }, .. })
            )));
            assert_eq!((file.len(), file.sync_data().is_ok()), (WHOLE, true));
        }
        drop(file);
        fs::remove_file(&path).expect("it is there");
    });
}

#[test]
fn the_longest_file_of_xfs() {
    const TEST: &str = "the_longest_file_of_xfs";
    if needs(Need::Loop, TEST) && needs(Need::Tool("mkfs.xfs"), TEST) {
        the_longest_file(TEST, &FileSystem::new(&["mkfs.xfs", "-q"], 320 << 20).at);
    }
}

#[test]
fn the_longest_file_of_tmpfs() {
    const TEST: &str = "the_longest_file_of_tmpfs";
    if needs(Need::Root, TEST) {
        the_longest_file(TEST, &FileSystem::tmpfs(16 << 20).at);
    }
}

const EXT4: [&str; 4] = ["mkfs.ext4", "-q", "-m", "0"];

struct LoopDevice(PathBuf);

impl LoopDevice {
    fn new(path: &Path, sector: u64) -> Result<Self, String> {
        let sector = sector.to_string();
        let options = ["--find", "--show", "--sector-size", &sector];
        let device = output(Command::new("losetup").args(options).arg(path))?;
        Ok(Self(PathBuf::from(device.trim())))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = output(Command::new("losetup").arg("--detach").arg(&self.0));
        assert!(detached.is_ok() || std::thread::panicking(), "{detached:?}");
    }
}
