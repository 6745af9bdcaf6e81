//! What the kernel here cannot mount, beside other readers: debugfs, and the crate ext4-view.
//!
//! In:    images with blocks of 1 to 64 KiB, filled by mkfs.ext4, so no right to mount is needed.
//! Out:   the same names, contents, links, numbers and runs.
//! Never: a comparison with nothing: each image has files of several sizes.

use crate::images;
mod partly_readable;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use foreread_ext4::{Ext4, FileKind, Inode, Journal};
use images::{can_make, debugfs, folder, make, pattern};

/// Path, and what is there: contents, a link's target, nothing for a directory.
type Contents = BTreeMap<Vec<u8>, (FileKind, Vec<u8>)>;

/// A tree on this disk for mkfs to copy.
fn plant(root: &Path) {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    for size in [0, 1, 60, 61, 5000, 65_535, 65_536, 65_537, 300_000] {
        fs::write(root.join(format!("a/b/of-{size}")), pattern(size)).unwrap();
    }
    fs::create_dir(root.join("many")).unwrap();
    for n in 0..900_u16 {
        let name =
            format!("a name that takes some room in its block, so that many are needed {n:04}");
        fs::write(root.join("many").join(name), n.to_le_bytes()).unwrap();
    }
    for len in [1, 59, 60, 400] {
        symlink(&"tt/".repeat(200)[..len], root.join(format!("a/link-{len}"))).unwrap();
    }
    let comb = File::create(root.join("a/comb")).unwrap();
    for tooth in 0..20 {
        std::os::unix::fs::FileExt::write_all_at(&comb, b"tooth", tooth * 200_000).unwrap();
    }
}

fn of_disk(root: &Path) -> Contents {
    let mut contents = Contents::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let what = if kind.is_dir() {
                ahead.push(path.clone());
                (FileKind::Directory, Vec::new())
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
                (FileKind::Symlink, target)
            } else {
                (FileKind::Regular, fs::read(&path).unwrap())
            };
            let below = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            contents.insert(below, what);
        }
    }
    contents
}

fn of_image(fs: &Ext4<File>) -> Contents {
    let walk = fs.walk(&fs.root().unwrap()).unwrap();
    let mut contents = Contents::new();
    for met in walk {
        let inode = met.inode.unwrap();
        let found = fs.resolve_link(&met.path).unwrap();
        assert_eq!(found.number, inode.number, "{}", met.path.escape_ascii());
        contents.insert(met.path, (inode.kind, bytes(fs, &inode)));
    }
    // What mkfs adds.
    let found = contents.remove(&b"lost+found"[..]);
    assert!(matches!(found, Some((FileKind::Directory, _))));
    contents
}

fn bytes(fs: &Ext4<File>, inode: &Inode) -> Vec<u8> {
    match inode.kind {
        FileKind::Symlink => fs.read_link(inode).unwrap(),
        FileKind::Regular => {
            let mut bytes = vec![0; usize::try_from(inode.size).unwrap()];
            assert_eq!(fs.read_at(inode, 0, &mut bytes).unwrap(), bytes.len());
            bytes
        }
        FileKind::Directory => Vec::new(),
        FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => {
            panic!("unexpected kind {:?}", inode.kind)
        }
    }
}

/// Makes an image of the tree, and compares it with the tree and with the other readers.
fn same_as_others(test: &str, options: &[&str], view: bool) {
    if !can_make(test) {
        return;
    }
    let folder = folder();
    let tree = folder.path().join("tree");
    plant(&tree);
    let image = make(folder.path(), 160, &[options, &["-d", tree.to_str().unwrap()]].concat());
    let fs = Ext4::open(File::open(&image).unwrap(), Journal::Refuse).expect("an image");
    let ours = of_image(&fs);
    let disk = of_disk(&tree);
    assert!(ours == disk, "{test}: {} names, {} on the disk", ours.len(), disk.len());
    assert!(ours.len() > 900);
    for path in ["/a/comb", "/a/b/of-300000", "/a/b/of-0", "/many"] {
        same_stat(&fs, &image, path);
    }
    if view {
        same_view(&image, &ours);
    }
}

/// What debugfs prints of an inode, held next to ours.
fn same_stat(fs: &Ext4<File>, image: &Path, path: &str) {
    let inode = fs.resolve(path.as_bytes()).unwrap();
    let text = debugfs(image, &format!("stat {path}"));
    let field = |name: &str| {
        let rest = text.split(name).nth(1).unwrap_or_else(|| panic!("{name} in {text}"));
        rest.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(field("Inode: "), inode.number.to_string());
    assert_eq!(field(" Size: "), inode.size.to_string());
    assert_eq!(field("Links: "), inode.links.to_string());
    assert_eq!(field("Blockcount: "), inode.sectors.to_string());
    assert_eq!(field("Generation: "), inode.generation.to_string());
    assert_eq!(field("Flags: "), format!("0x{:x}", inode.flags));

    // Blocks of the device, in order.
    let theirs = debugfs(image, &format!("blocks {path}"));
    let mut theirs: Vec<u64> = theirs.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let mut ours: Vec<u64> = Vec::new();
    for run in fs.layout(&inode) {
        let run = run.unwrap();
        ours.extend(run.at.into_iter().flat_map(|at| at..at + run.blocks));
    }
    // Theirs has blocks of the map too.
    theirs.retain(|block| ours.contains(block));
    assert_eq!(ours, theirs, "{path}");
    assert!(inode.size == 0 || inode.is_inline() || !ours.is_empty());
}

fn same_view(image: &Path, ours: &Contents) {
    let view = ext4_view::Ext4::load_from_path(image).expect("ext4-view reads it");
    for (path, (kind, bytes)) in ours {
        let path = [b"/", path.as_slice()].concat();
        let path = ext4_view::Path::try_from(path.as_slice()).unwrap();
        if *kind == FileKind::Regular {
            assert!(view.read(path).unwrap() == *bytes, "{path:?}");
        } else if *kind == FileKind::Symlink {
            assert_eq!(view.read_link(path).unwrap().as_ref() as &[u8], bytes.as_slice());
        } else {
            assert!(view.metadata(path).unwrap().is_dir(), "{path:?}");
        }
    }
}

#[test]
fn blocks_of_1_kib() {
    same_as_others("blocks_of_1_kib", &["-b", "1024"], true);
}

#[test]
fn blocks_of_4_kib() {
    same_as_others("blocks_of_4_kib", &["-b", "4096"], true);
}

#[test]
fn blocks_of_8_kib() {
    same_as_others("blocks_of_8_kib", &["-b", "8192"], true);
}

#[test]
fn blocks_of_16_kib() {
    same_as_others("blocks_of_16_kib", &["-b", "16384", "-I", "512"], true);
}

#[test]
fn blocks_of_32_kib_with_block_maps() {
    let options = ["-b", "32768", "-O", "^extent,^64bit"];
    same_as_others("blocks_of_32_kib_with_block_maps", &options, true);
}

#[test]
fn blocks_of_64_kib() {
    same_as_others("blocks_of_64_kib", &["-b", "65536", "-I", "1024"], true);
}

#[test]
fn blocks_of_64_kib_with_inline_data() {
    // Not read by ext4-view.
    let options = ["-b", "65536", "-I", "512", "-O", "inline_data,^metadata_csum"];
    same_as_others("blocks_of_64_kib_with_inline_data", &options, false);
}
