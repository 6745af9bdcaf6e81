//! What can be changed while an image is mounted.
//!
//! In:    a mount with a control socket.
//! Out:   settings as they were set, and an image that is read as before.
//! Never: a socket that stays behind.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Output;

use foreread_serve::client::Client;
use rustix::fs::{major, minor};

use crate::common::Command;
use crate::images::{folder, make};
use crate::mount::mounted::{Mount, can_fuse, is_refused};

fn foreread(verb: &str, socket: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_foreread")).arg(verb).arg(socket).args(args).output().unwrap()
}

#[test]
fn inode_table_windows_change_while_it_is_mounted() {
    if !can_fuse("inode_table_windows_change_while_it_is_mounted") {
        return;
    }
    let folder = folder();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a")).unwrap();
    (0..200).for_each(|n| fs::write(tree.join(format!("a/{n}")), "here").unwrap());
    let image = make(folder.path(), 16, &["-d", tree.to_str().unwrap()]);
    let socket = folder.path().join("socket");
    let flags = ["--control", socket.to_str().unwrap(), "--inode-readahead-blks", "8"];
    let mount = Mount::new(&image, &flags);
    assert!(mount.ready.contains("inode_readahead_blks 8,"), "{}", mount.ready);
    for value in ["adaptive", "0", "1", "64"] {
        let set = foreread("set", &socket, &[&format!("inode_readahead_blks={value}")]);
        let said = String::from_utf8(set.stdout).unwrap();
        assert!(set.status.success(), "{value}: {said}");
        assert!(said.starts_with("inode_readahead_blks") && said.contains(value), "{said}");
        let at = value.len();
        assert_eq!(fs::read(mount.dir.join("a").join(at.to_string())).unwrap(), b"here");
    }
    let refused = foreread("set", &socket, &["inode_readahead_blks=3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("a power of two"));
    assert!(foreread("stats", &socket, &[]).status.success());
    let all = foreread("set", &socket, &[]);
    let all = String::from_utf8(all.stdout).unwrap();
    assert!(all.contains("max_window") && all.contains("inode_readahead_blks"), "{all}");
    assert_eq!(fs::read_dir(mount.dir.join("a")).unwrap().count(), 200);
    assert_eq!(mount.end(), "");
    assert!(!socket.exists());
    is_refused(
        &image,
        &folder.path().join("ours"),
        &["--inode-readahead-blks", "3"],
        "adaptive, 0",
    );
}

/// Clients of the socket used to take all descriptors of the mount, and `stats` waited for one.
#[test]
fn clients_of_the_socket_leave_descriptors_for_control_requests() {
    if !can_fuse("clients_of_the_socket_leave_descriptors_for_control_requests") {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 16, &[]);
    let socket = folder.path().join("socket");
    let mount = Mount::new(&image, &["--control", socket.to_str().unwrap()]);
    let connect = || Client::connect(socket.to_str().unwrap())?.go(true);
    let clients: Vec<_> = (0..64).map(|_| connect().expect("it is served")).collect();
    connect().expect_err("there are 64");
    assert!(foreread("stats", &socket, &[]).status.success());
    drop(clients);
    let said = mount.end();
    assert!(said.ends_with("refused: 64 connections are open\n"), "{said}");
}

/// The kernel's own bound for FUSE would cut windows of files into eight.
#[test]
fn the_kernel_reads_as_far_ahead_as_windows_are_large() {
    if !can_fuse("the_kernel_reads_as_far_ahead_as_windows_are_large") {
        return;
    }
    let folder = folder();
    // A name as the kernel's list of mounts has to escape it.
    let below = folder.path().join("a name\twith spaces");
    fs::create_dir(&below).unwrap();
    let image = make(&below, 16, &[]);
    for (window, kib) in [("1M", "1024"), ("512K", "512"), ("64K", "128")] {
        let mount = Mount::new(&image, &["--max-window", window]);
        let device = fs::metadata(&mount.dir).unwrap().dev();
        let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device));
        assert_eq!(fs::read_to_string(setting).unwrap().trim(), kib);
        assert_eq!(mount.end(), "");
    }
}
