//! Images for tests: made by mkfs.ext4, filled by the kernel or by mkfs itself.
//!
//! In:    options of mkfs.ext4.
//! Out:   an image; a mount of it that ends with its guard; a tree with everything in it.
//! Never: a mount or a loop device that stays behind.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

pub mod tree;

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, Timespec, Timestamps, XattrFlags, makedev,
    mknodat,
};

use crate::common::{Command, Need, needs, output, scratch, unmount};

/// Whether images can be made here.
pub fn can_make(test: &str) -> bool {
    ["mkfs.ext4", "debugfs", "tune2fs", "e2fsck"]
        .into_iter()
        .all(|tool| needs(Need::Tool(tool), test))
}

/// Whether the kernel can mount what was made.
pub fn can_mount(test: &str) -> bool {
    can_make(test) && needs(Need::Root, test) && needs(Need::Loop, test)
}

/// A folder for an image and its mounts.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(scratch()).expect("a folder")
}

/// Creates an image of this size in MiB.
pub fn make(folder: &Path, mib: u64, options: &[&str]) -> PathBuf {
    let image = folder.join("image");
    File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("a file");
    let mkfs = &mut Command::new("mkfs.ext4");
    output(mkfs.args(["-q", "-F"]).args(options).arg(&image)).expect("mkfs.ext4");
    image
}

/// What debugfs prints.
pub fn debugfs(image: &Path, request: &str) -> String {
    output(Command::new("debugfs").args(["-R", request]).arg(image)).expect("debugfs")
}

/// Changes the image by hand.
pub fn debugfs_write(image: &Path, request: &str) {
    output(Command::new("debugfs").args(["-w", "-R", request]).arg(image)).expect("debugfs -w");
}

/// A mount; gone when it is dropped.
pub struct Mounted(pub PathBuf);

impl Mounted {
    /// Mounts an image; `options` are `rw` or `ro,noload`, and what else there is.
    pub fn new(image: &Path, options: &str) -> Self {
        let at = image.with_file_name("mount");
        fs::create_dir_all(&at).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", &format!("loop,{options}")]).arg(image).arg(&at);
        output(&mut mount).expect("mount");
        Self(at)
    }

    /// Writes everything to the image and forbids writes from now on.
    ///
    /// A second mount of the same image would fail for as long as a copy of the first one is in
    /// another mount namespace, or its loop device is open elsewhere.
    pub fn into_read_only(self) -> Self {
        output(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0)).expect("remount");
        self
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The name stays if this fails, and the next mount says so.
        let _ = unmount(&self.0);
    }
}

/// How much a file system can take of what [`fill`] makes.
#[derive(Clone, Copy)]
pub struct Able {
    /// Space without contents: not with block maps.
    pub unwritten: bool,
    /// Attributes of this length at most.
    pub attribute: usize,
    /// Nanoseconds, and years after 2038.
    pub fine_times: bool,
}

/// Everything at once.
pub const ABLE: Able = Able { unwritten: true, attribute: 600, fine_times: true };

/// Makes one of everything below `root`, on a file system that is mounted.
pub fn fill(root: &Path, able: Able) {
    contents(root);
    holes(root, able);
    names(root);
    kinds(root);
    attributes(root, able);
    times(root, able);
}

/// Files of sizes that lie at the edges of what is inline, a block, a run.
fn contents(root: &Path) {
    let folder = root.join("contents");
    fs::create_dir(&folder).unwrap();
    for size in
        [0, 1, 59, 60, 61, 100, 155, 160, 161, 900, 1023, 1024, 1025, 4095, 4096, 4097, 70_000]
    {
        fs::write(folder.join(format!("of-{size}")), pattern(size)).unwrap();
    }
    fs::write(folder.join("large"), pattern(3 << 20)).unwrap();
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251 + (at >> 12)).to_le_bytes()[0]).collect()
}

/// Files whose extent maps are deep or empty.
fn holes(root: &Path, able: Able) {
    let folder = root.join("holes");
    fs::create_dir(&folder).unwrap();
    let file = |name: &str| File::create(folder.join(name)).unwrap();

    file("only").set_len(1 << 30).unwrap();
    let far = file("far");
    far.write_all_at(b"beginning", 0).unwrap();
    far.write_all_at(b"far away", (4 << 30) - 3).unwrap();
    // Each piece a run of its own: the tree gets a second level, the map its third.
    let comb = file("comb");
    for tooth in 0..700 {
        comb.write_all_at(&pattern(100), tooth * 3 * 4096).unwrap();
    }
    comb.set_len(3 * 4096 * 701 + 17).unwrap();
    if able.unwritten {
        let reserved = file("reserved");
        rustix::fs::fallocate(&reserved, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        reserved.write_all_at(&pattern(5000), 300_000).unwrap();
        let behind = file("reserved-behind-the-end");
        rustix::fs::fallocate(&behind, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
        behind.write_all_at(b"short", 0).unwrap();
    }
}

/// Directories of few names and of many, and names of all kinds.
fn names(root: &Path) {
    let many = root.join("many");
    fs::create_dir(&many).unwrap();
    for n in 0..2500 {
        let name =
            format!("a name that takes some room in its block, so that many are needed {n:05}");
        File::create(many.join(name)).unwrap();
    }
    // Some go again, and leave gaps.
    for n in (0..2500).step_by(7) {
        let name =
            format!("a name that takes some room in its block, so that many are needed {n:05}");
        fs::remove_file(many.join(name)).unwrap();
    }
    let odd = root.join("odd");
    fs::create_dir(&odd).unwrap();
    for name in
        [&b"\xFF\xFE not text"[..], b"\xC3\xA4", b" ", b"...", b"new\nline", b"\\", &[b'x'; 255]]
    {
        fs::write(odd.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }
    fs::create_dir(root.join("empty")).unwrap();
    let few = root.join("few");
    fs::create_dir(&few).unwrap();
    for n in 0..9 {
        fs::write(few.join(format!("{n}")), "few").unwrap();
    }
    let deep = (0..30).fold(root.to_owned(), |path, n| path.join(format!("level-{n}")));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("at the bottom"), "here").unwrap();
}

/// One of each kind, links of all lengths, names that share an inode, owners and modes.
fn kinds(root: &Path) {
    let folder = root.join("kinds");
    fs::create_dir(&folder).unwrap();
    for len in [1, 10, 58, 59, 60, 61, 100, 154, 155, 156, 157, 158, 500, 1000] {
        symlink("t".repeat(len), folder.join(format!("link-{len}"))).unwrap();
    }
    symlink("../contents/of-1024", folder.join("link")).unwrap();
    symlink("/contents", folder.join("absolute")).unwrap();
    symlink("circle", folder.join("circle")).unwrap();
    UnixListener::bind(folder.join("socket")).unwrap();
    let node = |name: &str, kind, major, minor| {
        let mode = Mode::from_raw_mode(0o640);
        mknodat(CWD, folder.join(name), kind, mode, makedev(major, minor)).unwrap();
    };
    node("pipe", FileType::Fifo, 0, 0);
    node("old-device", FileType::CharacterDevice, 1, 3);
    node("new-device", FileType::BlockDevice, 4000, 0xA_BCDE);
    let file = folder.join("owned");
    fs::write(&file, "x").unwrap();
    std::os::unix::fs::chown(&file, Some(70_000), Some(4_000_000_000)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6751)).unwrap();
    for name in ["second", "third"] {
        fs::hard_link(&file, folder.join(name)).unwrap();
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
}

fn attributes(root: &Path, able: Able) {
    let folder = root.join("attributes");
    fs::create_dir(&folder).unwrap();
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).expect(name);
    };
    let small = folder.join("small");
    fs::write(&small, "small").unwrap();
    set(&small, "user.small", b"in the inode");
    set(&small, "user.empty", b"");
    let large = folder.join("large");
    fs::write(&large, "large").unwrap();
    set(&large, "user.first", b"1");
    set(&large, "user.large", &pattern(able.attribute));
    set(&large, "trusted.third", b"for root");
    set(&large, "security.fourth", b"for modules");
    set(&folder, "user.of a directory", b"too");
    // owner rw-, uid 1000 r--, group r--, mask rw-, others ---
    let acl = [
        &[2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0xE8, 3, 0, 0][..],
        &[4, 0, 4, 0, 255, 255, 255, 255, 0x10, 0, 6, 0, 255, 255, 255, 255],
        &[0x20, 0, 0, 0, 255, 255, 255, 255],
    ]
    .concat();
    set(&small, "system.posix_acl_access", &acl);
    set(&folder, "system.posix_acl_default", &acl);
    let link = folder.join("link");
    symlink("nowhere", &link).unwrap();
    set(&link, "trusted.of a link", b"yes");
}

fn times(root: &Path, able: Able) {
    let folder = root.join("times");
    fs::create_dir(&folder).unwrap();
    let far: &[i64] =
        if able.fine_times { &[1 << 31, 1 << 32, (1 << 33) + 5, 15_000_000_000] } else { &[] };
    for &seconds in [-(1_i64 << 31), -1, 0, 1_234_567_890, (1 << 31) - 1].iter().chain(far) {
        let path = folder.join(format!("at{seconds}"));
        File::create(&path).unwrap();
        let nanos = if able.fine_times { 123_456_789 } else { 0 };
        let times = Timestamps {
            last_access: Timespec { tv_sec: seconds, tv_nsec: nanos },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos / 2 },
        };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}
