//! Zeros, holes and discards, on file systems and on a block device: what is read afterwards, and
//! what the disk has.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common;
use crate::common::Command;
use crate::recorded;
use crate::support;

use common::{Need, needs, output, unmount};
use foreread::testing::VolatileDisk;
use foreread::{Engine, File, IoBackend, OpenOptions, WriteMode};
use recorded::recorded;
use support::{Random, with_each_io};
use tempfile::TempDir;

const LEN: u64 = (4 << 20) + 700;

fn for_writing() -> OpenOptions {
    OpenOptions::new().write(true)
}

/// Writes, zeroes and reads at random, beside a model; then compares the disk.
fn mix(file: &File, len: u64, seed: u64, on_disk: impl Fn() -> Vec<u8>) {
    let mut want = on_disk();
    let mut random = Random(seed);
    for step in 0..300 {
        let from = random.below(len);
        let to = from + 1 + random.below((len - from).min(100_000));
        let place = usize::try_from(from).expect("small")..usize::try_from(to).expect("small");
        match random.below(5) {
            0 | 1 => {
                support::fill(step, from, &mut want[place.clone()]);
                let mode = if step % 7 == 0 { WriteMode::Fua } else { WriteMode::WriteBack };
                file.write_all_at_with(&want[place], from, mode).expect("room");
            }
            2 | 3 => {
                want[place].fill(0);
                file.write_zeroes(from..to, step % 2 == 0).expect("zeros");
            }
            _ => {
                let mut got = vec![1; place.len()];
                file.read_at(&mut got, from).expect("bytes");
                assert!(got == want[place], "step {step}: {from}..{to}");
            }
        }
    }
    file.sync_data().expect("the disk is fine");
    let disk = on_disk();
    let at = (0..want.len()).find(|&at| disk[at] != want[at]);
    assert_eq!(at, None, "the disk has other bytes");
}

fn mix_in_file(io: IoBackend, dir: &Path, options: &OpenOptions) {
    let path = support::write_file(dir, 5, LEN);
    let engine = recorded(Engine::builder().memory(2 << 20).io_backend(io));
    let file = engine.open_with(&path, options).expect("it is there");
    mix(&file, LEN, 3, || fs::read(&path).expect("it is there"));
}

#[test]
fn zeros_on_the_disk_of_the_build_and_through_the_page_cache() {
    with_each_io("zeros_on_the_disk_of_the_build", |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        mix_in_file(io, dir.path(), &for_writing());
        mix_in_file(io, dir.path(), &for_writing().buffered(true));
    });
}

#[test]
fn zeros_are_written_where_the_system_has_no_call_for_them() {
    let _watchdog = support::Watchdog::new("zeros_are_written_where_the_system_has_no_call");
    let len = 1 << 20;
    let device = VolatileDisk::new(vec![9; 1 << 20]);
    let engine = recorded(Engine::builder().memory(1 << 20).io_backend(IoBackend::Threads));
    let volatile = Some(Arc::clone(&device));
    let options = for_writing().volatile(volatile);
    let file = engine.open_with("a device of a test", &options).expect("threads know it");
    mix(&file, len, 8, || device.newest());
}

/// A mounted file system of its own, or None where that cannot be.
struct Mounted {
    dir: PathBuf,
    device: Option<String>,
    _image: TempDir,
}

impl Mounted {
    fn new(kind: &str, mkfs: &[&str], test: &str) -> Option<Self> {
        let image = TempDir::new_in(common::scratch()).expect("a directory");
        let dir = image.path().join("mnt");
        fs::create_dir(&dir).expect("a folder");
        if !needs(Need::Root, test) {
            return None;
        }
        let mut device = None;
        if !mkfs.is_empty() {
            if !needs(Need::Loop, test) {
                return None;
            }
            let path = image.path().join("image");
            fs::File::create(&path).expect("a file").set_len(400 << 20).expect("sparse");
            let attach = output(Command::new("losetup").args(["--find", "--show"]).arg(&path));
            let node = attach.expect("it attaches").trim().to_owned();
            device = Some(node.clone());
            let made = output(Command::new(mkfs[0]).args(&mkfs[1..]).arg(&node));
            if let Err(error) = made {
                common::skip(test, &error);
                let _ = output(Command::new("losetup").args(["--detach", &node]));
                return None;
            }
        }
        let source = device.clone().unwrap_or_else(|| "none".into());
        let mounted = output(Command::new("mount").args(["-t", kind, &source]).arg(&dir));
        let made = Self { dir, device, _image: image };
        if let Err(error) = mounted {
            common::skip(test, &error);
            return None;
        }
        Some(made)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.dir);
        if let Some(device) = &self.device {
            let _ = output(Command::new("losetup").args(["--detach", device]));
        }
    }
}

#[test]
fn zeros_and_holes_on_each_file_system() {
    let kinds: [(&str, &[&str]); 3] =
        [("tmpfs", &[]), ("ext4", &["mkfs.ext4", "-q"]), ("xfs", &["mkfs.xfs", "-q"])];
    for (kind, mkfs) in kinds {
        let Some(mounted) = Mounted::new(kind, mkfs, "zeros_and_holes_on_each_file_system") else {
            continue;
        };
        with_each_io("zeros_and_holes_on_each_file_system", |io| {
            mix_in_file(io, &mounted.dir, &for_writing());
            holes(io, &mounted.dir);
        });
    }
}

/// Holes are punched and found; what is written into one is data, though it is in memory only.
fn holes(io: IoBackend, dir: &Path) {
    let path = support::write_file(dir, 9, 1 << 20);
    let engine = recorded(Engine::builder().memory(2 << 20).io_backend(io));
    let file = engine.open_with(&path, &for_writing()).expect("it is there");
    let blocks = || fs::metadata(&path).expect("it is there").blocks();
    let before = blocks();
    file.write_zeroes(100_000..900_000, true).expect("zeros");
    file.sync_data().expect("the disk is fine");
    assert!(blocks() < before, "blocks were given back");
    let is_data = |at: u64| {
        let extents = file.extents(0..1 << 20).expect("an answer");
        assert_eq!(extents.first().map(|extent| extent.0.start), Some(0));
        assert_eq!(extents.last().map(|extent| extent.0.end), Some(1 << 20));
        assert!(extents.windows(2).all(|two| two[0].0.end == two[1].0.start), "{extents:?}");
        extents.into_iter().find(|extent| extent.0.contains(&at)).expect("no gaps").1
    };
    assert!(is_data(0) && !is_data(500_000) && is_data(1_000_000));
    file.write_all_at(&[1], 500_000).expect("room");
    assert!(is_data(500_000), "what was written is data");
    file.discard(0..90_000).expect("a hint");
    let mut got = vec![1; 100];
    file.read_at(&mut got, 95_000).expect("bytes");
    support::check(9, 95_000, &got);
    let all = file.extents(0..1 << 20).expect("an answer");
    for max in 0..4 {
        let first = file.extents_up_to(0..1 << 20, max).expect("an answer");
        assert_eq!(first, all[..max.min(all.len())], "the first {max} alone");
    }
    let middle = file.extents(450_000..460_000).expect("an answer");
    assert_eq!(middle, [(450_000..460_000, false)]);
    file.write_zeroes(0..1 << 20, false).expect("zeros");
    file.sync_data().expect("the disk is fine");
    assert!(fs::read(&path).expect("it is there").iter().all(|&byte| byte == 0));
}

#[test]
fn zeros_and_discards_on_a_block_device() {
    const TEST: &str = "zeros_and_discards_on_a_block_device";
    if !needs(Need::Loop, TEST) {
        return;
    }
    with_each_io(TEST, |io| {
        let dir = TempDir::new_in(common::scratch()).expect("a directory");
        let len = 2 << 20;
        let path = support::write_file(dir.path(), 5, len);
        let attach = output(Command::new("losetup").args(["--find", "--show"]).arg(&path));
        let node = attach.expect("it attaches").trim().to_owned();
        let engine = recorded(Engine::builder().memory(2 << 20).io_backend(io));
        let file = engine.open_with(&node, &for_writing()).expect("it is not in use");
        assert!(file.direct_io_unavailable().is_none());
        mix(&file, len, 4, || fs::read(&path).expect("it is there"));
        assert_eq!(file.extents(5..9000).expect("an answer"), [(5..9000, true)], "all is data");
        file.write_all_at(&[1; 8192], 0).expect("room");
        file.discard(0..1 << 20).expect("a hint");
        file.sync_data().expect("the disk is fine");
        drop(file);
        output(Command::new("losetup").args(["--detach", &node])).expect("it is not in use");
    });
}
