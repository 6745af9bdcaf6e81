//! Mounts of others at the place of ours, and a mount whose path has changed.
//!
//! In:    several foreread at one directory; mounts over ours and in it; moved and renamed ones.
//! Out:   an end after the first signal, with nothing of ours left at a path.
//! Never: a mount of others unmounted.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::Command;
use crate::images::{folder, make};
use crate::mount::mounted::{Mount, can_fuse, command, is_mounted};

/// A private directory for mounts: mount --move refuses below a shared mount.
struct Private(PathBuf);

impl Private {
    fn new(folder: &Path) -> Self {
        let dir = folder.join("private");
        fs::create_dir(&dir).unwrap();
        assert!(run("mount", &["-t", "tmpfs", "tmpfs"], &[&dir]));
        assert!(run("mount", &["--make-private"], &[&dir]));
        Self(dir)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = run("umount", &["-R", "-l"], &[&self.0]);
    }
}

fn run(program: &str, args: &[&str], paths: &[&Path]) -> bool {
    let mut command = Command::new(program);
    command.args(args).args(paths).stderr(Stdio::null()).stdout(Stdio::null());
    command.status().unwrap().success()
}

fn image(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    fs::write(tree.join("a/small"), "small\n").unwrap();
    make(folder, 16, &["-d", tree.to_str().unwrap()])
}

/// How many mounts are at a path, or below.
fn mounts_at(dir: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().filter(|it| Path::new(it.split(' ').nth(1).unwrap()).starts_with(dir)).count()
}

#[test]
fn of_several_that_mount_together_one_does() {
    if !can_fuse("of_several_that_mount_together_one_does") {
        return;
    }
    let folder = folder();
    let image = image(folder.path());
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).unwrap();
    for round in 0..5 {
        let spawn = || command(&image, &dir, &[]).stderr(Stdio::piped()).spawn().unwrap();
        let mut children: Vec<_> = (0..4).map(|_| spawn()).collect();
        let mut mounted = Vec::new();
        for child in &mut children {
            let mut line = String::new();
            BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
            if line.starts_with("foreread: mounted ") {
                mounted.push(Pid::from_child(child));
            } else {
                assert!(line.contains("already a mount point"), "{line}");
            }
        }
        let (count, at) = (mounted.len(), mounts_at(&dir));
        for pid in &mounted {
            kill_process(*pid, Signal::TERM).unwrap();
        }
        if count > 1 {
            while is_mounted(&dir) && run("umount", &["-l"], &[&dir]) {}
            children.iter_mut().for_each(|child| child.kill().unwrap());
        }
        let codes = children.iter_mut().map(|child| child.wait().unwrap().code());
        let mut codes: Vec<_> = codes.collect();
        codes.sort();
        assert_eq!((count, at), (1, 1), "round {round}: {codes:?}");
        assert_eq!(codes, [Some(0), Some(2), Some(2), Some(2)], "round {round}");
        assert_eq!(mounts_at(&dir), 0);
    }
}

/// The other mount stays, and the command ends with the first signal.
#[test]
fn a_mount_over_it_or_in_it_is_left_alone() {
    if !can_fuse("a_mount_over_it_or_in_it_is_left_alone") {
        return;
    }
    for below in ["", "a"] {
        let folder = folder();
        let mount = Mount::new(&image(folder.path()), &[]);
        let dir = mount.dir.clone();
        let over = dir.join(below);
        assert!(run("mount", &["-t", "tmpfs", "another"], &[&over]));
        mount.signal(Signal::TERM);
        let (code, said) = mount.ended();
        let left = mounts_at(&dir);
        assert!(run("umount", &[], &[&over]) && run("umount", &[], &[&dir]), "{said}");
        assert_eq!((code, left), (Some(1), 2), "{said}");
        assert!(said.contains("covered by another mount (tmpfs on "), "{said}");
        assert_eq!(mounts_at(&dir), 0);
    }
}

#[test]
fn a_moved_mount_is_unmounted_where_it_is() {
    if !can_fuse("a_moved_mount_is_unmounted_where_it_is") {
        return;
    }
    let folder = folder();
    let private = Private::new(folder.path());
    let at = |name: &str| private.0.join(name);
    let image = image(&private.0);
    fs::create_dir(at("elsewhere")).unwrap();
    let mount = Mount::new(&image, &[]);
    assert!(run("mount", &["--move"], &[&mount.dir, &at("elsewhere")]));
    let said = mount.end();
    assert!(said.contains("moved to ") && said.contains("elsewhere"), "{said}");
    assert!(!is_mounted(&at("elsewhere")));

    // A directory above it gets another name.
    fs::create_dir(at("above")).unwrap();
    let other = at("above").join("image");
    fs::copy(&image, &other).unwrap();
    let mount = Mount::new(&other, &[]);
    fs::rename(at("above"), at("renamed")).unwrap();
    let said = mount.end();
    assert!(said.contains("renamed/ours"), "{said}");
    assert_eq!(mounts_at(&private.0), 1);

    // A mount over a directory above it hides its path.
    let mount = Mount::new(&at("renamed").join("image"), &[]);
    assert!(run("mount", &["-t", "tmpfs", "another"], &[&at("renamed")]));
    mount.signal(Signal::TERM);
    assert_eq!(mount.ended(), (Some(0), String::new()));
    assert_eq!(mounts_at(&private.0), 2, "the private one, and the other one");
}

/// A bind mount is another mount of the same file system, which keeps it.
#[test]
fn a_bind_mount_of_it_is_named_and_keeps_it() {
    if !can_fuse("a_bind_mount_of_it_is_named_and_keeps_it") {
        return;
    }
    let folder = folder();
    let private = Private::new(folder.path());
    let bound = private.0.join("bound");
    let image = image(&private.0);
    fs::create_dir(&bound).unwrap();
    let mut mount = Mount::new(&image, &[]);
    assert!(run("mount", &["--bind"], &[&mount.dir, &bound]));
    mount.signal(Signal::TERM);
    let line = mount.line();
    assert!(line.contains("in use: also mounted on ") && line.contains("bound"), "{line}");
    assert_eq!(fs::read(bound.join("a/small")).unwrap(), b"small\n");
    assert!(run("umount", &[], &[&bound]));
    assert_eq!(mount.ended(), (Some(0), String::new()));
}
