//! Whole trees, held next to the kernel's own mount of the same image.
//!
//! In:    options of mkfs.ext4.
//! Out:   names, stat, contents, attributes, links, holes: all the same.
//! Never: the reader's own view of the image: only what programs see of the two mounts.

use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{getxattr, statvfs};
use rustix::io::Errno;

use crate::images::tree::{assert_same, of_mount};
use crate::images::{ABLE, Able, Mounted, fill, folder, make};
use crate::mount::mounted::{Mount, can_compare};

/// Makes an image, lets the kernel fill it, mounts it both ways, and compares.
fn same_as_kernel(test: &str, options: &[&str], able: Able, flags: &[&str]) {
    if !can_compare(test) {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 64, options);
    let mounted = Mounted::new(&image, "rw");
    fill(&mounted.0, able);

    let kernel = mounted.into_read_only();
    let mount = Mount::new(&image, flags);
    let (theirs, ours) = (of_mount(&kernel.0), of_mount(&mount.dir));
    assert_same(&theirs, &ours);
    // What the kernel remembers of the first time is as right as what it asked.
    assert_same(&theirs, &of_mount(&mount.dir));
    same_space(&kernel.0, &mount.dir);
    same_refusals(&kernel.0, &mount.dir);
    assert_eq!(mount.end(), "");
}

/// What `df` says.
fn same_space(theirs: &Path, ours: &Path) {
    let (theirs, ours) = (statvfs(theirs).unwrap(), statvfs(ours).unwrap());
    assert_eq!(theirs.f_bsize, ours.f_bsize);
    assert_eq!(theirs.f_frsize, ours.f_frsize);
    assert_eq!(theirs.f_blocks, ours.f_blocks);
    assert_eq!(theirs.f_bfree, ours.f_bfree);
    assert_eq!(theirs.f_bavail, ours.f_bavail);
    assert_eq!(theirs.f_files, ours.f_files);
    assert_eq!(theirs.f_ffree, ours.f_ffree);
    assert_eq!(theirs.f_namemax, ours.f_namemax);
}

/// What is said of what is not there, and cannot be.
fn same_refusals(theirs: &Path, ours: &Path) {
    for len in [1, 255, 256, 1024, 1025, 4000] {
        let name = "n".repeat(len);
        let no_name = |root: &Path| Errno::from_io_error(&root.join(&name).metadata().unwrap_err());
        assert_eq!(no_name(theirs), no_name(ours), "a name of {len} bytes");
    }
    for name in [
        "user.not there",
        "user.",
        "trusted.",
        "security.",
        "gnu.",
        "system.posix_acl_access",
        "system.posix_acl_default",
        "system.data",
        "system.nfs4_acl",
        "other.name",
        "name",
    ] {
        let no_value = |root: &Path| getxattr(root.join("few"), name, &mut [0; 100]).unwrap_err();
        assert_eq!(no_value(theirs), no_value(ours), "{name}");
    }
}

#[test]
fn as_mkfs_makes_it() {
    same_as_kernel("as_mkfs_makes_it", &[], ABLE, &[]);
}

#[test]
fn blocks_of_1_kib_and_little_memory() {
    let flags = ["--memory", "1M", "--max-window", "4K"];
    same_as_kernel("blocks_of_1_kib_and_little_memory", &["-b", "1024"], ABLE, &flags);
}

#[test]
fn blocks_of_2_kib_and_inline_data() {
    let options = ["-b", "2048", "-O", "inline_data"];
    same_as_kernel("blocks_of_2_kib_and_inline_data", &options, ABLE, &[]);
}

#[test]
fn ext2_with_old_inodes() {
    let able = Able { unwritten: false, fine_times: false, ..ABLE };
    same_as_kernel("ext2_with_old_inodes", &["-t", "ext2", "-I", "128"], able, &[]);
}

#[test]
fn ext3_with_blocks_of_1_kib() {
    let able = Able { unwritten: false, ..ABLE };
    same_as_kernel("ext3_with_blocks_of_1_kib", &["-t", "ext3", "-b", "1024"], able, &[]);
}

#[test]
fn large_inodes_and_attributes_of_their_own() {
    let able = Able { attribute: 60_000, ..ABLE };
    let options = ["-I", "1024", "-O", "ea_inode"];
    same_as_kernel("large_inodes_and_attributes_of_their_own", &options, able, &[]);
}

#[test]
fn clusters() {
    same_as_kernel("clusters", &["-O", "bigalloc", "-C", "16384"], ABLE, &[]);
}

#[test]
fn no_index_and_no_kinds() {
    same_as_kernel("no_index_and_no_kinds", &["-O", "^dir_index,^filetype"], ABLE, &[]);
}

/// Many that read one file at once.
#[test]
fn readers_beside_each_other() {
    if !can_compare("readers_beside_each_other") {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 64, &[]);
    let mounted = Mounted::new(&image, "rw");
    fill(&mounted.0, ABLE);
    drop(mounted.into_read_only());
    let mount = Mount::new(&image, &["--memory", "4M"]);
    let want = crate::images::pattern(3 << 20);
    let path = mount.dir.join("contents/large");
    std::thread::scope(|scope| {
        for reader in 0..8_usize {
            let (path, want) = (&path, &want);
            scope.spawn(move || {
                let file = std::fs::File::open(path).unwrap();
                let mut part = vec![0; 10_000];
                for turn in 0..200 {
                    let at = (turn * 7919 + reader * 104_729) % (want.len() - part.len());
                    file.read_exact_at(&mut part, at as u64).unwrap();
                    assert!(part == want[at..at + part.len()], "{at}");
                }
            });
        }
    });
    assert_eq!(std::fs::metadata(&path).unwrap().size(), want.len() as u64);
    assert_eq!(mount.end(), "");
}
