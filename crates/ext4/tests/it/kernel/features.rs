//! Fields that mean nothing because their feature is off, or that another system uses otherwise.
//!
//! In:    one image for each such field, with a value in it that would mean something.
//! Out:   the same tree as without that value, here and in the kernel's own mount.
//! Never: a field that is compared with itself: each image is read before and after.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use foreread_ext4::{Ext4, Journal, Superblock};

use crate::images::tree::{Tree, of_image, of_mount};
use crate::images::{Mounted, can_make, can_mount, debugfs_write, folder, make};

/// Where a value is put.
enum Place {
    Superblock(u64),
    /// The first group's descriptor.
    Group(u64),
    /// The inode of a path.
    Inode(&'static str, u64),
}

use Place::{Group, Inode, Superblock as Super};

/// A field whose feature is off: its name, what else mkfs.ext4 gets, where it is, what is put there
/// (over what is there, bit by bit), and whether Linux mounts such a file system.
struct Field(&'static str, &'static [&'static str], Place, &'static [u8], bool);

const FIELDS: &[Field] = &[
    Field("upper half of the attribute block", NO_64BIT, Inode("file", 0x76), &[1, 0], true),
    Field("the same of a file without one", NO_64BIT, Inode("dir/a", 0x76), &[1, 0], true),
    Field("upper bits of a mode of the Hurd", HURD, Inode("file", 0x76), &[1, 0], false),
    Field("fragment of the Hurd", HURD, Inode("file", 0x74), &[1, 1], false),
    Field("upper half of the sectors", NO_HUGE, Inode("file", 0x74), &[1, 0], true),
    Field("sectors as blocks", NO_HUGE, Inode("file", 0x20), &[0, 0, 4, 0], true),
    Field("upper half of a directory's size", &[], Inode("dir", 0x6C), &[1, 0], true),
    Field("upper half of a link's size", &[], Inode("link", 0x6C), &[1, 0], true),
    Field("checksum of an inode", &[], Inode("file", 0x7C), &[9, 9], true),
    Field("checksum of a large inode", &[], Inode("file", 0x82), &[9, 9], true),
    Field("project", &["-O", "^project"], Inode("file", 0x9C), &[7, 0, 0, 0], true),
    Field("index", &["-O", "^dir_index"], Inode("dir", 0x20), &[0, 0x10, 0, 0], true),
    Field("length of a descriptor", NO_64BIT, Super(0xFE), &[64, 0], true),
    Field("upper half of the blocks", NO_64BIT, Super(0x150), &[1, 0, 0, 0], true),
    Field("upper half of the free blocks", NO_64BIT, Super(0x158), &[1, 0, 0, 0], true),
    Field("first meta group", &[], Super(0x104), &[5, 0, 0, 0], true),
    Field("groups with a copy", &[], Super(0x24C), &[1, 0, 0, 0, 2, 0, 0, 0], true),
    Field("seed of checksums", &[], Super(0x270), &[1, 2, 3, 4], true),
    Field("kind of checksums", &[], Super(0x175), &[7], true),
    Field("checksum of the superblock", &[], Super(0x3FC), &[1, 2, 3, 4], true),
    Field("inode of the journal", &[], Super(0xE0), &[0xFF, 0xFF, 0, 0], true),
    Field("changes in a journal", &[], Super(0x60), &[4, 0, 0, 0], true),
    Field("unused inodes of a group", &[], Group(0x1C), &[0xFF, 0xFF], true),
    Field("checksum of a group", &[], Group(0x1E), &[0xFF, 0xFF], true),
];

const NO_64BIT: &[&str] = &["-O", "^64bit", "-I", "128"];
const NO_HUGE: &[&str] = &["-O", "^huge_file"];
const HURD: &[&str] = &["-t", "ext2", "-o", "hurd", "-I", "128", "-O", "^64bit"];

/// What all images have in common: nothing that has checksums, and no journal.
const BASE: &[&str] = &["-b", "4096", "-O", "^metadata_csum,^has_journal"];

fn image(folder: &Path, options: &[&str]) -> std::path::PathBuf {
    let tree = folder.join("tree");
    if !tree.exists() {
        std::fs::create_dir_all(tree.join("dir")).unwrap();
        for name in ["file", "dir/a", "dir/b"] {
            std::fs::write(tree.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("dir/a", tree.join("link")).unwrap();
    }
    let options = [BASE, options, &["-d", tree.to_str().unwrap()]].concat();
    let image = make(folder, 16, &options);
    debugfs_write(&image, "ea_set /file user.key value");
    image
}

fn put(image: &Path, place: &Place, bytes: &[u8]) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let at = match place {
        Super(at) => 1024 + at,
        Group(at) => 4096 + at,
        Inode(path, at) => inode_offset(image, path) + at,
    };
    let mut old = vec![0; bytes.len()];
    file.read_exact_at(&mut old, at).unwrap();
    let new: Vec<u8> = old.iter().zip(bytes).map(|(old, new)| old | new).collect();
    assert_ne!(old, new, "there is nothing to change");
    file.write_all_at(&new, at).unwrap();
}

fn inode_offset(image: &Path, path: &str) -> u64 {
    let fs = Ext4::open(File::open(image).unwrap(), Journal::Refuse).unwrap();
    fs.inode_place(fs.resolve_link(path.as_bytes()).unwrap().number).unwrap().0
}

/// The tree, and the numbers of which a program can learn by `df`.
fn ours(image: &Path) -> (Tree, [u64; 4]) {
    let fs = Ext4::open(File::open(image).unwrap(), Journal::Refuse).expect("an image");
    let Superblock { blocks, free_blocks, reserved_blocks, .. } = *fs.superblock();
    let tree = of_image(&fs);
    (tree, [blocks, free_blocks, reserved_blocks, fs.overhead_blocks()])
}

/// The upper half of the number of an attribute block counted without the feature 64bit, too:
/// reading the attributes of such a file failed.
#[test]
fn a_field_of_a_feature_that_is_off_changes_nothing() {
    if !can_make("a_field_of_a_feature_that_is_off_changes_nothing") {
        return;
    }
    let folder = folder();
    for Field(name, options, place, bytes, _) in FIELDS {
        let image = image(folder.path(), options);
        let before = ours(&image);
        put(&image, place, bytes);
        assert_eq!(ours(&image), before, "{name}");
    }
}

#[test]
fn a_field_of_a_feature_that_is_off_is_nothing_to_the_kernel() {
    if !can_mount("a_field_of_a_feature_that_is_off_is_nothing_to_the_kernel") {
        return;
    }
    let folder = folder();
    for Field(name, options, place, bytes, is_mounted) in FIELDS {
        if !is_mounted {
            continue;
        }
        let image = image(folder.path(), options);
        put(&image, place, bytes);
        let mounted = Mounted::new(&image, "ro,noload");
        assert_eq!(of_mount(&mounted.0), ours(&image).0, "{name}");
    }
}

/// Inodes that another system made have the author's number where Linux has a checksum: all of them
/// looked damaged.
#[test]
fn checksums_of_inodes_are_of_linux_only() {
    if !can_make("checksums_of_inodes_are_of_linux_only") {
        return;
    }
    let folder = folder();
    let image = image(folder.path(), &["-O", "metadata_csum"]);
    let before = ours(&image);
    debugfs_write(&image, "ssv creator_os 1");
    put(&image, &Inode("file", 0x7C), &[0xFF, 0xFF]);
    assert_eq!(ours(&image), before);
    debugfs_write(&image, "ssv creator_os 0");
    let fs = Ext4::open(File::open(&image).unwrap(), Journal::Refuse).unwrap();
    let error = fs.resolve(b"file").unwrap_err().to_string();
    assert!(error.ends_with("its checksum does not match"), "{error}");
}

/// The features of a file system of the first revision were taken for none: copies of its
/// superblock were assumed in each group. Linux counts features there, too.
#[test]
fn features_count_in_the_first_revision_too() {
    if !can_make("features_count_in_the_first_revision_too") {
        return;
    }
    let folder = folder();
    let options = ["-I", "128", "-g", "256", "-O", "^64bit,^resize_inode"];
    let image = image(folder.path(), &options);
    let file = File::options().write(true).open(&image).unwrap();
    let before = ours(&image);
    file.write_all_at(&[0; 4], 1024 + 0x4C).unwrap();
    // Neither the first inode nor the length of one is a field then.
    file.write_all_at(&[0xFF; 6], 1024 + 0x54).unwrap();
    assert_eq!(ours(&image), before);
}
