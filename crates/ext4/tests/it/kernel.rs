//! Whole trees, held next to the kernel's own mount of the same image: one image a feature.
//!
//! In:    options of mkfs.ext4.
//! Out:   names, stat, contents, attributes, holes: all the same.
//! Never: a feature that mkfs did not make: each test looks for it.

use crate::common;
use crate::common::Command;
mod features;
use crate::images;

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use foreread_ext4::{Ext4, Journal};
use images::tree::{assert_same, of_image, of_mount};
use images::{ABLE, Able, Mounted, can_mount, fill, folder, make};

/// Makes an image, lets the kernel fill it, changes it, and compares.
fn same_as_kernel(test: &str, mib: u64, options: &[&str], able: Able, change: impl Fn(&Path)) {
    if !can_mount(test) {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), mib, options);
    change(&image);
    let mounted = Mounted::new(&image, "rw");
    fill(&mounted.0, able);

    let mounted = mounted.into_read_only();
    let kernel = of_mount(&mounted.0);
    let fs = Ext4::open(File::open(&image).unwrap(), Journal::Refuse).expect("an image");
    assert_same(&kernel, &of_image(&fs));
}

fn nothing(_: &Path) {}

#[test]
fn as_mkfs_makes_it() {
    same_as_kernel("as_mkfs_makes_it", 64, &[], ABLE, nothing);
}

#[test]
fn blocks_of_1_kib() {
    same_as_kernel("blocks_of_1_kib", 64, &["-b", "1024"], ABLE, nothing);
}

#[test]
fn blocks_of_2_kib() {
    same_as_kernel("blocks_of_2_kib", 64, &["-b", "2048"], ABLE, nothing);
}

/// Block maps, no journal, 128 bytes an inode: whole seconds.
const OLD: Able = Able { unwritten: false, fine_times: false, ..ABLE };

#[test]
fn ext2() {
    same_as_kernel("ext2", 64, &["-t", "ext2", "-I", "128"], OLD, nothing);
}

#[test]
fn ext2_with_blocks_of_1_kib() {
    let options = ["-t", "ext2", "-I", "128", "-b", "1024"];
    same_as_kernel("ext2_with_blocks_of_1_kib", 64, &options, OLD, nothing);
}

#[test]
fn ext2_before_it_had_features() {
    let options = ["-t", "ext2", "-r", "0"];
    same_as_kernel("ext2_before_it_had_features", 64, &options, OLD, nothing);
}

#[test]
fn ext3() {
    let able = Able { unwritten: false, ..ABLE };
    same_as_kernel("ext3", 64, &["-t", "ext3", "-b", "1024"], able, nothing);
}

#[test]
fn inodes_of_512_bytes() {
    same_as_kernel("inodes_of_512_bytes", 64, &["-I", "512"], ABLE, nothing);
}

#[test]
fn inodes_of_1024_bytes() {
    same_as_kernel("inodes_of_1024_bytes", 64, &["-I", "1024"], ABLE, nothing);
}

#[test]
fn checksums_of_groups_alone() {
    let options = ["-O", "^metadata_csum,uninit_bg"];
    same_as_kernel("checksums_of_groups_alone", 64, &options, ABLE, nothing);
}

#[test]
fn no_checksums() {
    same_as_kernel("no_checksums", 64, &["-O", "^metadata_csum,^uninit_bg"], ABLE, nothing);
}

#[test]
fn a_seed_of_checksums_and_another_uuid() {
    let change = |image: &Path| {
        let tune2fs = Command::new("tune2fs").args(["-U", "random"]).arg(image).output().unwrap();
        assert!(tune2fs.status.success(), "{tune2fs:?}");
    };
    let options = ["-O", "metadata_csum_seed"];
    same_as_kernel("a_seed_of_checksums_and_another_uuid", 64, &options, ABLE, change);
}

#[test]
fn numbers_of_32_bits() {
    same_as_kernel("numbers_of_32_bits", 64, &["-O", "^64bit"], ABLE, nothing);
}

#[test]
fn descriptors_in_their_groups() {
    let options = ["-O", "meta_bg,^resize_inode", "-b", "1024", "-g", "1024"];
    same_as_kernel("descriptors_in_their_groups", 128, &options, ABLE, nothing);
}

#[test]
fn groups_on_their_own() {
    let options = ["-O", "^flex_bg,^sparse_super,^resize_inode", "-g", "2048"];
    same_as_kernel("groups_on_their_own", 128, &options, ABLE, nothing);
}

#[test]
fn two_copies_of_the_superblock() {
    let options = ["-O", "sparse_super2,meta_bg,^resize_inode", "-b", "1024", "-g", "1024"];
    same_as_kernel("two_copies_of_the_superblock", 128, &options, ABLE, nothing);
}

#[test]
fn inline_data() {
    same_as_kernel("inline_data", 64, &["-O", "inline_data"], ABLE, nothing);
}

#[test]
fn inline_data_in_large_inodes() {
    let options = ["-O", "inline_data", "-I", "1024"];
    same_as_kernel("inline_data_in_large_inodes", 64, &options, ABLE, nothing);
}

/// The kernel counts, whatever the superblock says; `df` shows what it has counted.
#[test]
fn what_the_file_system_takes_for_itself() {
    if !can_mount("what_the_file_system_takes_for_itself") {
        return;
    }
    for options in [
        &[][..],
        &["-b", "1024"],
        &["-b", "1024", "-O", "^64bit,^resize_inode,^has_journal"],
        &["-b", "1024", "-g", "1024", "-O", "meta_bg,^resize_inode"],
        &["-b", "1024", "-g", "1024", "-O", "sparse_super2"],
        &["-t", "ext2", "-b", "2048", "-g", "2048", "-O", "^sparse_super,^resize_inode"],
        &["-O", "bigalloc", "-C", "16384"],
    ] {
        let folder = folder();
        let image = make(folder.path(), 128, options);
        if !options.contains(&"bigalloc") {
            images::debugfs_write(&image, "ssv overhead_clusters 0");
        }
        let mounted = Mounted::new(&image, "ro,noload");
        let blocks = rustix::fs::statvfs(&mounted.0).unwrap().f_blocks;
        let fs = Ext4::open(File::open(&image).unwrap(), Journal::Refuse).expect("an image");
        assert_eq!(fs.superblock().blocks - fs.overhead_blocks(), blocks, "{options:?}");
    }
}

/// mkfs.ext4 -d leaves a file inline that has nothing but holes, however long it is.
#[test]
fn what_inline_files_have_no_room_for_is_zeros() {
    if !can_mount("what_inline_files_have_no_room_for_is_zeros") {
        return;
    }
    let folder = folder();
    let tree = folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for (name, len) in [("empty", 0), ("short", 10), ("long", 100)] {
        std::fs::write(tree.join(name), images::pattern(len)).unwrap();
    }
    let options = ["-O", "inline_data", "-d", tree.to_str().unwrap()];
    let image = make(folder.path(), 64, &options);
    for (name, size) in [("empty", 150), ("short", 61), ("long", 5_000_000)] {
        images::debugfs_write(&image, &format!("sif /{name} size {size}"));
    }
    let mounted = Mounted::new(&image, "ro,noload");
    let fs = Ext4::open(File::open(&image).unwrap(), Journal::Refuse).expect("an image");
    for name in ["empty", "short", "long"] {
        let theirs = std::fs::read(mounted.0.join(name)).unwrap();
        let inode = fs.resolve(name.as_bytes()).unwrap();
        assert!(inode.is_inline() && inode.size == theirs.len() as u64, "{name}");
        let sectors = mounted.0.join(name).metadata().unwrap().blocks();
        assert_eq!(inode.sectors, sectors, "{name}");
        for offset in [0, 5, 59, 60, 99, 100, 130, 4096] {
            let mut ours = vec![1; theirs.len() + 1];
            let len = fs.read_at(&inode, offset, &mut ours).unwrap();
            let want = theirs.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            assert!(ours[..len] == *want, "{name} from {offset}");
        }
    }
}

#[test]
fn attributes_in_inodes() {
    let able = Able { attribute: 60_000, ..ABLE };
    same_as_kernel("attributes_in_inodes", 64, &["-O", "ea_inode"], able, nothing);
}

#[test]
fn large_directories() {
    let options = ["-O", "large_dir", "-b", "1024"];
    same_as_kernel("large_directories", 64, &options, ABLE, nothing);
}

#[test]
fn no_index_and_no_kinds() {
    same_as_kernel("no_index_and_no_kinds", 64, &["-O", "^dir_index,^filetype"], ABLE, nothing);
}

#[test]
fn clusters() {
    same_as_kernel("clusters", 256, &["-O", "bigalloc"], ABLE, nothing);
}

#[test]
fn what_only_writers_must_know() {
    let options = ["-O", "mmp,orphan_file,stable_inodes"];
    same_as_kernel("what_only_writers_must_know", 64, &options, ABLE, nothing);
}

#[test]
fn other_hashes() {
    for (algorithm, flags) in
        [("tea", 1), ("legacy", 1), ("half_md4", 2), ("tea", 2), ("legacy", 2), ("half_md4", 0)]
    {
        let change = |image: &Path| {
            let tune2fs = &mut Command::new("tune2fs");
            tune2fs.args(["-E", &format!("hash_alg={algorithm}")]).arg(image);
            common::output(tune2fs).expect("tune2fs");
            images::debugfs_write(image, &format!("ssv flags {flags}"));
        };
        same_as_kernel("other_hashes", 32, &["-b", "1024"], ABLE, change);
    }
}
