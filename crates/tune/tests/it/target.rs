//! What a path of the user's means, on real devices and file systems.
//!
//! In:    loop devices: odd, small, unbound, with an ext4 that is mounted.
//! Out:   targets; lines that say what to do.
//! Never: a device that is not the test's own.

use crate::common::Command;
use crate::machine;

use std::fs;
use std::path::Path;

use foreread_core::units::ByteCount;
use foreread_tune::setting::READ_AHEAD_KB;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::{TuneTarget, window_in_force};
use machine::{Loop, Need, done, needs};

fn loops(test: &str) -> bool {
    needs(Need::Loop, test) && needs(Need::Tool("losetup"), test)
}

fn refused(path: &Path) -> String {
    let line = TuneTarget::resolve(path, &SystemRoot::here()).expect_err("it is refused");
    assert!(line.starts_with(&format!("{}: ", path.display())), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn odd_small_and_empty_devices() {
    const NAME: &str = "odd_small_and_empty_devices";
    if !loops(NAME) {
        return;
    }
    let folder = tempfile::TempDir::new_in(machine::scratch()).expect("a folder");
    let disk = |name: &str, bytes: usize| {
        let path = folder.path().join(name);
        fs::write(&path, vec![1; bytes]).expect("it is written");
        Loop::over(&path)
    };
    let odd = disk("odd", (2 << 20) + 512);
    let target = TuneTarget::resolve(&odd.node(), &SystemRoot::here()).expect("it is one");
    assert_eq!(target.device.size, ByteCount((2 << 20) + 512));
    assert_eq!(target.len, ByteCount(2 << 20), "whole pages");
    let setting = window_in_force(&SystemRoot::here(), target.device.number).expect("it has one");
    assert_eq!((setting.device, setting.attribute.as_str()), (odd.name.clone(), READ_AHEAD_KB));
    assert_eq!(setting.value, odd.window_kib().to_string());

    let small = disk("small", 986 * 512);
    assert!(refused(&small.node()).contains("493 KiB are too few to measure; give"));
    let empty = disk("empty", 0);
    assert!(refused(&empty.node()).contains("it; give a device"), "{}", refused(&empty.node()));
    let tiny = folder.path().join("tiny");
    fs::write(&tiny, [1; 5000]).expect("it is written");
    assert!(refused(&tiny).contains("too small to measure; give one of at least 1 MiB"));
    let holes = folder.path().join("holes");
    fs::File::create(&holes).expect("a file").set_len(1 << 30).expect("holes");
    assert!(refused(&holes).contains("consists almost entirely of holes; give a file with data"));
}

struct Mounted<'d>(&'d Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = crate::common::unmount(self.0);
    }
}

#[test]
fn a_folder_is_its_disk_and_a_file_is_itself() {
    const NAME: &str = "a_folder_is_its_disk_and_a_file_is_itself";
    if !loops(NAME) || !needs(Need::Root, NAME) || !needs(Need::Tool("mkfs.ext4"), NAME) {
        return;
    }
    let device = Loop::new(32);
    done(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.node()));
    let unused = TuneTarget::resolve(&device.node(), &SystemRoot::here()).expect("it is one");
    assert!(unused.in_use.is_empty() && unused.ext4.is_empty(), "{unused:?}");

    let folder = tempfile::tempdir().expect("a folder");
    done(Command::new("mount").arg(device.node()).arg(folder.path()));
    let _mounted = Mounted(folder.path());
    let data = folder.path().join("data");
    fs::write(&data, vec![1; 2 << 20]).expect("it is written");
    fs::File::open(&data).expect("a file").sync_all().expect("it is on its disk");

    let target = TuneTarget::resolve(folder.path(), &SystemRoot::here()).expect("it is one");
    assert_eq!((target.path.clone(), target.is_device), (device.node(), true));
    let mounted = format!("{} is mounted at {}", device.name, folder.path().display());
    assert_eq!(target.in_use, [mounted.as_str()]);
    assert_eq!(target.ext4, [device.name.as_str()]);
    assert!(target.notes[0].starts_with(&format!("reads {}: ", device.node().display())));

    let target = TuneTarget::resolve(&data, &SystemRoot::here()).expect("it is one");
    assert_eq!((target.path, target.is_device, target.len), (data, false, ByteCount(2 << 20)));
    assert_eq!((target.device.name, target.has_own_window), (device.name.clone(), None));
    assert_eq!((target.in_use, target.ext4), (vec![mounted], vec![device.name.clone()]));
    assert_eq!(target.not_direct, None);
}
