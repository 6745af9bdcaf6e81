//! Damaged images, mounted, and every program's questions to them.
//!
//! In:    a small image, a seed.
//! Out:   answers or errors; then the mount ends as others do.
//! Never: a server that ends before it is told to, or a question without an answer.
//!
//! `EXT4_FUZZ_MOUNTS=2000` is how many damaged images are mounted instead of the few of a usual
//! run. That the reader itself stays inside of the image is its own tests' affair.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::images::{folder, make, pattern};
use crate::mount::mounted::{Mount, can_fuse};

/// How many damaged images a usual run mounts.
const USUAL: u64 = 40;

#[test]
fn damaged_images_end_in_answers_and_errors() {
    if !can_fuse("damaged_images_end_in_answers_and_errors") {
        return;
    }
    let folder = folder();
    let image = image(folder.path());
    let whole = fs::read(&image).unwrap();
    let wanted = std::env::var("EXT4_FUZZ_MOUNTS").ok().and_then(|text| text.parse().ok());
    let mut mounted = 0;
    for seed in 0..wanted.unwrap_or(USUAL) {
        fs::write(&image, damaged(&whole, seed)).unwrap();
        match Mount::or_line(&image, &["--memory", "2M", "--ignore-journal"]) {
            Ok(mount) => {
                ask_everything(&mount.dir);
                mount.end();
                mounted += 1;
            }
            Err(line) => assert_eq!(line.lines().count(), 1, "SEED={seed}: {line}"),
        }
    }
    assert!(mounted > 0, "none could be mounted: nothing was tried");
}

/// Blocks of 1 KiB without checksums: what is damaged is believed.
fn image(folder: &Path) -> PathBuf {
    let tree = folder.join("tree");
    for directory in ["a/b/c", "d", "e/f"] {
        fs::create_dir_all(tree.join(directory)).unwrap();
    }
    for n in 0..60 {
        fs::write(tree.join(format!("d/file-{n}")), pattern(n * 40)).unwrap();
    }
    fs::write(tree.join("a/b/large"), pattern(300_000)).unwrap();
    File::create(tree.join("e/sparse")).unwrap().write_all_at(b"end", 700_000).unwrap();
    symlink("../a/b", tree.join("e/link")).unwrap();
    symlink("t".repeat(200), tree.join("e/long")).unwrap();
    let options = ["-b", "1024", "-N", "200", "-O", "^metadata_csum,^uninit_bg,^has_journal"];
    make(folder, 2, &[&options[..], &["-d", tree.to_str().unwrap()]].concat())
}

/// Some bytes are others: most of them in what is not zero.
fn damaged(whole: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let used: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0).collect();
    let mut bytes = whole.to_vec();
    for _ in 0..=random(60) {
        // The superblock itself is left alone: an image without one is refused.
        let at = if random(4) == 0 { random(whole.len()) } else { used[random(used.len())] };
        if !(1024..2048).contains(&at) {
            bytes[at] = random(256).to_le_bytes()[0];
        }
    }
    bytes
}

/// Whatever comes back is right, as long as it comes.
fn ask_everything(root: &Path) {
    let mut ahead = vec![root.to_owned()];
    let mut met = 0;
    let (mut names, mut part) = (vec![0_u8; 1 << 16], vec![0; 1 << 16]);
    while let Some(path) = ahead.pop() {
        met += 1;
        let _ = rustix::fs::llistxattr(&path, &mut names);
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() && met < 2000 {
            let entries = fs::read_dir(&path).into_iter().flatten().take(1000);
            ahead.extend(entries.map_while(Result::ok).map(|entry| entry.path()));
        } else if metadata.is_file() {
            let Ok(file) = File::open(&path) else { continue };
            let _ = file.read_at(&mut part, 0);
            let _ = file.read_at(&mut part, metadata.len().saturating_sub(1 << 15));
            let _ = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0));
        } else if metadata.is_symlink() {
            let _ = fs::read_link(&path);
        }
    }
}
