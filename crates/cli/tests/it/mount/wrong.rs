//! What cannot be mounted, what ends a mount, and what is damaged in one.
//!
//! In:    images and directories that are not what they should be; signals.
//! Out:   one line that says what to do; an exit code; an error for one file, and the rest goes on.
//! Never: a directory that stays mounted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::Command;
use crate::images::{debugfs, debugfs_write, folder, make, pattern};
use crate::mount::mounted::{Mount, can_fuse, command, is_mounted, is_refused};

/// An image with a few files in it.
fn planted(folder: &Path, options: &[&str]) -> PathBuf {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/large"), pattern(3_000_000)).unwrap();
    fs::write(tree.join("a/b/small"), "small\n").unwrap();
    fs::write(tree.join("a/other"), "other\n").unwrap();
    make(folder, 16, &[options, &["-d", tree.to_str().unwrap()]].concat())
}

#[test]
fn what_cannot_be_mounted_is_one_line_with_what_to_do() {
    if !can_fuse("what_cannot_be_mounted_is_one_line_with_what_to_do") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    let tree = folder.path().join("tree");
    let dir = folder.path().join("dir");
    is_refused(&image, &dir, &[], "mkdir -p");
    let file = tree.join("a/large");
    let hint = format!("{}: is not a directory; give", file.display());
    is_refused(&image, &file, &[], &hint);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nothing", &link).unwrap();
    is_refused(&image, &link, &[], "link: is a dangling symbolic link; give");
    fs::create_dir(&dir).unwrap();
    is_refused(&tree.join("a/large"), &dir, &[], "not an ext4 file system");
    is_refused(Path::new("/nonexistent/image"), &dir, &[], "/nonexistent/image");
    is_refused(&tree, &dir, &[], tree.to_str().unwrap());
    is_refused(&image, &dir, &["--memory", "4K"], "1 MiB");
    let socket = dir.join("socket");
    is_refused(&image, &dir, &["--control", socket.to_str().unwrap()], "which the mount will hide");
    let socket = image.to_str().unwrap();
    is_refused(&image, &dir, &["--control", socket], "is a regular file, not a socket");

    let mount = Mount::new(&image, &[]);
    is_refused(&image, &mount.dir, &[], "already a mount point; umount");
    mount.end();

    debugfs_write(&image, "feature needs_recovery");
    is_refused(&image, &dir, &[], "--ignore-journal");
    let mount = Mount::new(&image, &["--ignore-journal"]);
    assert_eq!(fs::read(mount.dir.join("a/b/small")).unwrap(), b"small\n");
    mount.end();

    File::options().write(true).open(&image).unwrap().set_len(8 << 20).unwrap();
    is_refused(&image, &dir, &["--ignore-journal"], "copy the whole image");
    assert!(!is_mounted(&dir));
}

#[test]
fn an_unmount_by_another_ends_it_with_0() {
    if !can_fuse("an_unmount_by_another_ends_it_with_0") {
        return;
    }
    let folder = folder();
    let mount = Mount::new(&planted(folder.path(), &[]), &[]);
    assert!(mount.ready.contains("image (16M) on "), "{}", mount.ready);
    assert!(Command::new("umount").arg(&mount.dir).status().unwrap().success());
    assert_eq!(mount.ended(), (Some(0), String::new()));
}

/// A process with an open file reads it to its end; then the mount ends.
#[test]
fn a_signal_while_a_file_is_open_ends_it_with_the_last_user() {
    if !can_fuse("a_signal_while_a_file_is_open_ends_it_with_the_last_user") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    let mut mount = Mount::new(&image, &[]);
    let file = File::open(mount.dir.join("a/large")).unwrap();
    mount.signal(Signal::INT);
    assert!(mount.line().contains("in use; unmounted as soon as nothing in it is open"));
    assert!(!is_mounted(&mount.dir));
    let mut end = [0; 1000];
    file.read_exact_at(&mut end, 2_999_000).unwrap();
    assert!(end == pattern(3_000_000)[2_999_000..]);
    drop(file);
    assert_eq!(mount.ended(), (Some(0), String::new()));

    let mut mount = Mount::new(&image, &[]);
    let file = File::open(mount.dir.join("a/large")).unwrap();
    mount.signal(Signal::TERM);
    assert!(mount.line().contains("by another signal"));
    mount.signal(Signal::TERM);
    let (code, said) = mount.ended();
    assert_eq!(code, Some(1));
    assert!(said.contains("ended while in use"), "{said}");
    file.read_exact_at(&mut end, 1_000_000).unwrap_err();

    let socket = folder.path().join("socket");
    let mut mount = Mount::new(&image, &["--control", socket.to_str().unwrap()]);
    let file = File::open(mount.dir.join("a/large")).unwrap();
    mount.signal(Signal::INT);
    assert!(mount.line().contains("by another signal"));
    mount.signal(Signal::INT);
    assert_eq!(mount.ended().0, Some(1));
    assert!(!socket.exists());
    drop(file);
}

/// The moment at which it can be seen is the first at which it could stay behind.
#[test]
fn a_signal_as_soon_as_it_is_there_unmounts_it() {
    if !can_fuse("a_signal_as_soon_as_it_is_there_unmounts_it") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    for signal in [Signal::TERM, Signal::INT].repeat(8) {
        let mut child = command(&image, &dir, &[]).stderr(Stdio::null()).spawn().unwrap();
        while !is_mounted(&dir) {
            assert_eq!(child.try_wait().unwrap(), None, "it has ended without a mount");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(!is_mounted(&dir), "{status}");
        assert_eq!(status.code(), Some(0), "{status}");
    }
}

/// The mount is detached, and another one is mounted there.
#[test]
fn what_is_mounted_in_its_place_stays() {
    if !can_fuse("what_is_mounted_in_its_place_stays") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    let run = |program: &str, args: &[&str], dir: &Path| {
        let status = Command::new(program).args(args).arg(dir).stderr(Stdio::null()).status();
        status.unwrap().success()
    };
    for is_told in [false, true] {
        let mut mount = Mount::new(&image, &[]);
        let dir = mount.dir.clone();
        let file = File::open(dir.join("a/large")).unwrap();
        assert!(run("umount", &["-l"], &dir));
        assert!(run("mount", &["-t", "tmpfs", "another"], &dir));
        if is_told {
            mount.signal(Signal::TERM);
            assert!(mount.line().contains("in use"));
            assert!(is_mounted(&dir));
        }
        file.read_exact_at(&mut [0; 1000], 2_999_000).unwrap();
        drop(file);
        assert_eq!(mount.ended(), (Some(0), String::new()));
        assert!(run("umount", &[], &dir), "the other one is there");
    }
    // A forced unmount of one that is in use fails, but cuts its connection.
    let mount = Mount::new(&image, &[]);
    let dir = mount.dir.clone();
    let file = File::open(dir.join("a/large")).unwrap();
    assert!(!run("umount", &["-f"], &dir));
    assert_eq!(mount.ended(), (Some(0), String::new()));
    assert!(!is_mounted(&dir));
    file.read_exact_at(&mut [0; 1000], 2_999_000).unwrap_err();
}

#[test]
fn nothing_can_be_written() {
    if !can_fuse("nothing_can_be_written") {
        return;
    }
    let folder = folder();
    let mount = Mount::new(&planted(folder.path(), &[]), &[]);
    let read_only = |result: io::Result<()>| {
        assert_eq!(Errno::from_io_error(&result.unwrap_err()), Some(Errno::ROFS));
    };
    read_only(fs::write(mount.dir.join("a/other"), "new"));
    read_only(fs::write(mount.dir.join("new"), "new"));
    read_only(fs::remove_file(mount.dir.join("a/other")));
    read_only(fs::create_dir(mount.dir.join("directory")));
    assert_eq!(fs::read(mount.dir.join("a/other")).unwrap(), b"other\n");
    assert_eq!(mount.end(), "");
}

/// Each access to a damaged inode fails, and one line is printed for all of them.
#[test]
fn damage_is_an_error_of_its_file_alone() {
    if !can_fuse("damage_is_an_error_of_its_file_alone") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    flip(&image, place(&image, "/a/large", "inode_at") + 4);
    let mount = Mount::new(&image, &[]);
    let names = |dir: &str| {
        let entries = fs::read_dir(mount.dir.join(dir)).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("a"), ["b", "large", "other"]);
    for _ in 0..3 {
        let error = fs::metadata(mount.dir.join("a/large")).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    }
    assert_eq!(fs::read(mount.dir.join("a/other")).unwrap(), b"other\n");
    assert_eq!(names("a"), ["b", "large", "other"]);
    let said = mount.end();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("damaged: inode ") && said.contains("checksum"), "{said}");
}

/// A program that copies a directory must not take a part of it for all.
#[test]
fn a_list_of_names_with_a_gap_ends_with_an_error() {
    if !can_fuse("a_list_of_names_with_a_gap_ends_with_an_error") {
        return;
    }
    for damaged in [0, 3, 11] {
        let folder = folder();
        let many = folder.path().join("tree/many");
        fs::create_dir_all(&many).unwrap();
        (0..150).for_each(|n| fs::write(many.join(format!("{n:0>80}")), "").unwrap());
        let image = planted(folder.path(), &["-b", "1024"]);
        let node = stat(&image, "/many");
        let (size, run) = (node["size"].as_u64().unwrap(), &node["runs"][0]);
        assert_eq!((size, run["blocks"].as_u64()), (14 << 10, Some(14)), "a block a dozen names");
        flip(&image, (run["at"].as_u64().unwrap() + damaged) * 1024 + 100);

        let mount = Mount::new(&image, &[]);
        // Once more, as the kernel remembers it.
        for _ in 0..2 {
            let mut names = fs::read_dir(mount.dir.join("many")).unwrap();
            let count = names.by_ref().map_while(Result::ok).count();
            assert!((130..145).contains(&count), "{damaged}: {count}");
            let mut listed = fs::read_dir(mount.dir.join("many")).unwrap().skip(count);
            let error = listed.next().expect("more than names").unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
        }
        assert_eq!(fs::read(mount.dir.join("a/other")).unwrap(), b"other\n");
        let said = mount.end();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(&format!("its block {damaged}")), "{said}");
    }
}

/// The map of a large file is a tree: what the other leaves name is still there.
#[test]
fn a_damaged_leaf_of_a_map_is_an_error_where_it_is_read() {
    if !can_fuse("a_damaged_leaf_of_a_map_is_an_error_where_it_is_read") {
        return;
    }
    let folder = folder();
    fs::create_dir(folder.path().join("tree")).unwrap();
    let comb = File::create(folder.path().join("tree/comb")).unwrap();
    for tooth in 0..300 {
        comb.write_all_at(b"tooth", tooth * 8192).unwrap();
    }
    let image = planted(folder.path(), &["-b", "1024"]);
    let text = debugfs(&image, "stat /comb");
    let leaves: Vec<u64> = text
        .split("(ETB0):")
        .skip(1)
        .map(|leaf| leaf.split([',', '\n']).next().unwrap().trim().parse().unwrap())
        .collect();
    assert!(leaves.len() >= 3, "{text}");
    flip(&image, leaves[1] * 1024 + 100);

    let mount = Mount::new(&image, &[]);
    let file = File::open(mount.dir.join("comb")).unwrap();
    let mut tooth = [0; 5];
    for at in [0, 299] {
        file.read_exact_at(&mut tooth, at * 8192).unwrap();
        assert_eq!(&tooth, b"tooth");
    }
    let error = file.read_exact_at(&mut tooth, 100 * 8192).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    drop(file);
    let said = mount.end();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&format!("block map in block {}", leaves[1])), "{said}");
}

/// A directory that names inodes of the file system's own, to the kernel the root among them.
#[test]
fn names_of_the_file_systems_own_inodes_are_damage() {
    if !can_fuse("names_of_the_file_systems_own_inodes_are_damage") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &["-O", "^metadata_csum"]);
    for (name, inode) in [("one", 1), ("root", 2), ("journal", 8)] {
        debugfs_write(&image, &format!("link <{inode}> /a/{name}"));
    }
    let mount = Mount::new(&image, &[]);
    for name in ["one", "root", "journal"] {
        let error = fs::metadata(mount.dir.join("a").join(name)).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{name}");
    }
    assert_eq!(fs::read_dir(mount.dir.join("a")).unwrap().count(), 6);
    assert_eq!(fs::read(mount.dir.join("a/b/small")).unwrap(), b"small\n");
    assert_eq!(mount.end().lines().count(), 3);
}

/// Numbers that nothing else contradicts, and a file whose second half is named by nothing.
#[test]
fn lies_and_holes_in_a_map_harm_only_themselves() {
    if !can_fuse("lies_and_holes_in_a_map_harm_only_themselves") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &["-O", "^metadata_csum,64bit"]);
    debugfs_write(&image, "ssv r_blocks_count 0xFFFFFFFFFFFFFFFF");
    let mount = Mount::new(&image, &[]);
    let room = rustix::fs::statvfs(&mount.dir).unwrap();
    assert!(room.f_bavail == 0 && room.f_bfree > 0);
    mount.end();

    let options = ["-b", "1024", "-O", "^metadata_csum,^extent,^64bit"];
    let image = planted(folder.path(), &options);
    debugfs_write(&image, "sif /a/large block[DIND] 0x7FFFFFFF");
    let mount = Mount::new(&image, &[]);
    // Twelve blocks, and those that one block of numbers names.
    let named = (12 + 256) * 1024;
    let file = File::open(mount.dir.join("a/large")).unwrap();
    let mut bytes = vec![0; named];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == pattern(3_000_000)[..named]);
    let error = file.read_exact_at(&mut bytes, named as u64).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    drop(file);
    let said = mount.end();
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// An image that becomes shorter, or loses its name, while it is mounted.
#[test]
fn an_image_that_shrinks_or_vanishes_harms_only_what_is_gone() {
    if !can_fuse("an_image_that_shrinks_or_vanishes_harms_only_what_is_gone") {
        return;
    }
    let folder = folder();
    let image = planted(folder.path(), &[]);
    let mount = Mount::new(&image, &[]);
    // Its name was all that was lost.
    fs::rename(&image, folder.path().join("elsewhere")).unwrap();
    assert_eq!(fs::read(mount.dir.join("a/b/small")).unwrap(), b"small\n");
    let cut = File::options().write(true).open(folder.path().join("elsewhere")).unwrap();
    // Behind the inodes.
    cut.set_len(1 << 20).unwrap();
    let error = fs::read(mount.dir.join("a/large")).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    assert_eq!(fs::read(mount.dir.join("a/b/small")).unwrap(), b"small\n", "it was read before");
    // A directory whose blocks are gone is not an empty one.
    let names = fs::read_dir(mount.dir.join("lost+found")).unwrap().find_map(Result::err);
    assert_eq!(Errno::from_io_error(&names.expect("an error")), Some(Errno::IO));
    let said = mount.end();
    assert!(said.contains("cannot read at byte "), "{said}");
    assert!(said.contains("is shorter than when it was opened; a file was truncated"), "{said}");
}

/// A number that `foreread stat --json` says of a path.
fn place(image: &Path, path: &str, key: &str) -> u64 {
    stat(image, path)[key].as_u64().unwrap()
}

/// All that `foreread stat --json` says of a path.
fn stat(image: &Path, path: &str) -> serde_json::Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    let output = command.arg("stat").arg(image).args([path, "--json"]).output().unwrap();
    crate::said::data(&output.stdout).remove(0)
}

fn flip(image: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}
