//! Small images of all kinds, and the damage that is done to them.
//!
//! In:    mkfs, a seed.
//! Out:   images; the same with fields, blocks or bytes that lie.
//! Never: damage to bytes that no reader looks at.

use std::fs;
use std::sync::OnceLock;

use foreread_ext4::{Ext4, Journal};

use super::every::{Watched, every_question};
use super::images::{self, debugfs_write, folder, pattern};

/// The kinds of images: their names, how large, the options.
const KINDS: [(&str, u64, &[&str]); 6] = [
    ("plain", 2, &["-b", "1024", "-N", "200", "-O", "^metadata_csum,^uninit_bg,^has_journal"]),
    ("maps", 2, &["-b", "1024", "-N", "200", "-O", "^metadata_csum,^extent,^64bit,^has_journal"]),
    ("inline", 1, &["-b", "1024", "-N", "200", "-O", "^metadata_csum,inline_data,^has_journal"]),
    ("checked", 2, &["-b", "1024", "-N", "200", "-O", "ea_inode,^has_journal"]),
    ("wide", 2, &["-N", "200", "-O", "^metadata_csum,ea_inode,^has_journal"]),
    ("groups", 2, &["-b", "1024", "-g", "256", "-N", "256", "-O", GROUPS]),
];
const GROUPS: &str = "^metadata_csum,uninit_bg,meta_bg,^resize_inode,^has_journal";

/// The images, and which bytes of them are metadata.
pub(crate) struct Image {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// Where a whole walk has read.
    read: Vec<(u64, u64)>,
}

pub(crate) fn images() -> &'static [Image] {
    static IMAGES: OnceLock<Vec<Image>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        KINDS
            .iter()
            .map(|(name, mib, options)| {
                let bytes = image_of_tree(*mib, options);
                let source = Watched::new(bytes);
                let fs = Ext4::open(source, Journal::Refuse).expect("an image");
                let errors = every_question(&fs);
                assert!(errors.is_empty(), "{name}: {errors:?}");
                let bytes = fs.source().bytes.clone();
                Image { name, read: worth_damage(&bytes, fs.source().places()), bytes }
            })
            .collect()
    })
}

/// What decides something: no inode that is not in use, and a block as often as an inode.
fn worth_damage(bytes: &[u8], places: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let is_used =
        |&(start, _): &(u64, u64)| bytes[usize::try_from(start).unwrap()..][..2] != [0; 2];
    let (inodes, blocks): (Vec<_>, Vec<_>) = places.into_iter().partition(|&(_, len)| len < 1024);
    let inodes: Vec<_> = inodes.into_iter().filter(is_used).collect();
    let again = inodes.len() / blocks.len() + 1;
    inodes.into_iter().chain(blocks.repeat(again)).collect()
}

/// An image that mkfs fills itself, so that it needs no mount.
pub(crate) fn image_of_tree(mib: u64, options: &[&str]) -> Vec<u8> {
    let folder = folder();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("many")).unwrap();
    for n in 0..70 {
        fs::write(tree.join(format!("many/name {n} {}", "n".repeat(n))), vec![b'x'; n]).unwrap();
    }
    fs::create_dir_all(tree.join("a/b/c/d")).unwrap();
    fs::write(tree.join("a/b/file"), pattern(90_000)).unwrap();
    for (name, len) in [("short", 20), ("long", 200)] {
        std::os::unix::fs::symlink("l".repeat(len), tree.join("a").join(name)).unwrap();
    }
    // With gaps, so that its tree has another level.
    let comb = fs::File::create(tree.join("a/comb")).unwrap();
    for tooth in 0..12 {
        std::os::unix::fs::FileExt::write_all_at(&comb, b"tooth", tooth * 20_480).unwrap();
    }
    let image = images::make(
        folder.path(),
        mib,
        &[options, &["-d", tree.to_str().unwrap(), "-m", "0"]].concat(),
    );
    // User attributes are lost on a tmpfs; debugfs sets them in the image without privileges.
    let value = folder.path().join("value");
    fs::write(&value, pattern(500)).unwrap();
    debugfs_write(&image, "ea_set /a/b/file user.short value");
    debugfs_write(&image, &format!("ea_set -f {} /a/b/file user.long", value.display()));
    fs::read(image).unwrap()
}

/// Numbers that differ from seed to seed: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

/// Damages an image in up to six places, or up to sixty, most of them ones that a walk reads.
pub(crate) fn damage(image: &Image, random: &mut Random) -> Vec<u8> {
    let mut bytes = image.bytes.clone();
    let block_size = 1024 << image.bytes[1024 + 0x18];
    let count = if random.below(3) == 0 { 60 } else { 6 };
    for _ in 0..=random.below(count) {
        let at = match random.below(8) {
            0 => random.below(bytes.len()),
            1..4 => field(image, random),
            _ => anywhere_read(image, random),
        };
        let other = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            2 => {
                // Most of them a block with a structure in it.
                let (start, _) = image.read[random.below(image.read.len())];
                let block = match random.below(4) {
                    0 => random.below(bytes.len()) / block_size,
                    _ => usize::try_from(start).unwrap() / block_size,
                };
                let block = u32::try_from(block).unwrap();
                let value =
                    [0_u32, 1, 2, 11, 12, !0, !0 >> 1, 1 << 20, 0x8_0000, block, block, block]
                        [random.below(12)];
                put(&mut bytes, at & !3, &value.to_le_bytes());
            }
            // A number that is one somewhere else: of a block, of an inode, of a length.
            3 => {
                let (start, len) = image.read[random.below(image.read.len())];
                let from = usize::try_from(start).unwrap()
                    + random.below(usize::try_from(len.max(4) - 3).unwrap());
                let value: [u8; 4] = bytes[from & !3..][..4].try_into().unwrap();
                put(&mut bytes, at & !3, &value);
            }
            4 => {
                let block = u32::try_from(at / block_size).unwrap();
                put(&mut bytes, other & !3, &block.to_le_bytes());
                put(&mut bytes, at & !3, &block.to_le_bytes());
            }
            _ => {
                let len = random.below(64);
                let from: Vec<u8> = bytes[other..].iter().take(len).copied().collect();
                put(&mut bytes, at, &from);
            }
        }
    }
    if random.below(30) == 0 {
        let len = random.below(bytes.len());
        bytes.truncate(len);
    }
    bytes
}

/// A byte of what a walk reads. Structures begin with what matters.
fn anywhere_read(image: &Image, random: &mut Random) -> usize {
    let (start, len) = image.read[random.below(image.read.len())];
    let within = random.below(usize::try_from(len).unwrap());
    let within = if random.below(2) == 0 { within.min(random.below(128)) } else { within };
    usize::try_from(start).unwrap() + within
}

/// Where a number is that decides what is read: of an inode, or of a block of a directory or map.
fn field(image: &Image, random: &mut Random) -> usize {
    let (start, len) = image.read[random.below(image.read.len())];
    let within = match len {
        // Mode, size, links, flags, the attribute block, how large it is; or its map.
        128 | 256 if random.below(2) == 0 => {
            [0x0, 0x4, 0x6, 0x1A, 0x20, 0x22, 0x68, 0x6C, 0x80][random.below(9)]
        }
        128 | 256 => 0x28 + random.below(60),
        // The first entries, and their lengths.
        _ => random.below(24) * 4 + random.below(4),
    };
    let last = usize::try_from(len).unwrap() - 1;
    usize::try_from(start).unwrap() + within.min(last)
}

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (to, from) in bytes.iter_mut().skip(at).zip(value) {
        *to = *from;
    }
}
