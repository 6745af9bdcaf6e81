//! Recognises other formats by their magic numbers, for images mistaken for ext4.
//!
//! It reads at most 68 KiB, and is called only after the superblock was not found.

use self::FormatKind::{Disk, Packed, Volume};
use crate::source::BlockSource;

/// A known format that is not ext4.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForeignFormat {
    /// Name of the format, as in "is {name}".
    pub name: &'static str,
    /// Instruction for extracting the bytes inside it, as an imperative.
    pub remedy: &'static str,
    /// True if the format wraps other bytes (a disk image, an archive, a compressed file).
    /// Exporting such a file unchanged is rarely intended.
    pub is_container: bool,
}

impl ForeignFormat {
    /// Returns the format of the magic number in `source`. Unreadable bytes match nothing.
    pub fn detect(source: &impl BlockSource) -> Option<Self> {
        let size = source.size().ok()?;
        let read = |at: u64, to: &mut [u8]| {
            let is_inside = at.checked_add(to.len() as u64).is_some_and(|end| end <= size);
            is_inside && source.read(at, to).is_ok()
        };
        let mut head = vec![0; HEAD_LEN.min(usize::try_from(size).unwrap_or(HEAD_LEN))];
        if !read(0, &mut head) {
            return None;
        }
        Self::of_head(&head).or_else(|| {
            let far = MAGICS.iter().filter(|magic| magic.at >= HEAD_LEN);
            far.copied()
                .find(|magic| {
                    let mut bytes = vec![0; magic.bytes.len()];
                    read(magic.at as u64, &mut bytes) && bytes == magic.bytes
                })
                .map(|magic| magic.kind.format())
        })
    }

    /// Returns the format of the magic number in the first bytes of an image. [`HEAD_LEN`] bytes
    /// suffice for all containers.
    #[must_use]
    pub fn of_head(head: &[u8]) -> Option<Self> {
        let magic = MAGICS
            .iter()
            .find(|magic| head.get(magic.at..).is_some_and(|rest| rest.starts_with(magic.bytes)));
        magic.map(|magic| magic.kind.format())
    }
}

/// Number of first bytes that contain the magic numbers of all containers, and of most file
/// systems.
pub const HEAD_LEN: usize = 4096;

/// Kind of format, which determines the remedy.
#[derive(Clone, Copy)]
enum FormatKind {
    /// A disk image that qemu-img converts.
    Disk(&'static str),
    /// A container with its own tool.
    Packed(&'static str, &'static str),
    /// A file system or volume that the kernel mounts or another tool opens.
    Volume(&'static str, &'static str),
}

impl FormatKind {
    fn format(self) -> ForeignFormat {
        match self {
            Self::Disk(name) => ForeignFormat {
                name,
                remedy: "convert it with 'qemu-img convert -O raw IMAGE RAW' and give RAW",
                is_container: true,
            },
            Self::Packed(name, remedy) => ForeignFormat { name, remedy, is_container: true },
            Self::Volume(name, remedy) => ForeignFormat { name, remedy, is_container: false },
        }
    }
}

/// A magic number at an offset.
#[derive(Clone, Copy)]
struct Magic {
    at: usize,
    bytes: &'static [u8],
    kind: FormatKind,
}

const fn magic(at: usize, bytes: &'static [u8], kind: FormatKind) -> Magic {
    Magic { at, bytes, kind }
}

const KERNEL: &str = "only ext2, ext3 and ext4 are read here; use the kernel's mount";

/// Containers first, because the bytes that they wrap may match anything.
const MAGICS: &[Magic] = &[
    magic(0, b"QFI\xFB", Disk("a qcow2 disk image")),
    magic(0, b"QED\0", Disk("a QED disk image")),
    magic(0, b"KDMV", Disk("a VMDK disk image")),
    magic(0, b"COWD", Disk("a VMDK disk image")),
    magic(0, b"# Disk DescriptorFile", Disk("the descriptor of a VMDK disk image")),
    magic(0, b"conectix", Disk("a VHD disk image")),
    magic(0, b"vhdxfile", Disk("a VHDX disk image")),
    magic(64, b"\x7F\x10\xDA\xBE", Disk("a VDI disk image")),
    magic(
        0,
        b"\x3A\xFF\x26\xED",
        Packed("an Android sparse image", "convert it with 'simg2img IMAGE RAW' and give RAW"),
    ),
    magic(0, b"\x1F\x8B\x08", Packed("compressed by gzip", "unpack it with 'gunzip -k' first")),
    magic(0, b"\x28\xB5\x2F\xFD", Packed("compressed by zstd", "unpack it with 'unzstd' first")),
    magic(0, b"\xFD7zXZ\0", Packed("compressed by xz", "unpack it with 'unxz -k' first")),
    magic(0, b"BZh", Packed("compressed by bzip2", "unpack it with 'bunzip2 -k' first")),
    magic(0, b"\x04\x22\x4D\x18", Packed("compressed by lz4", "unpack it with 'unlz4' first")),
    magic(0, b"PK\x03\x04", Packed("a zip archive", "unpack it with 'unzip' first")),
    magic(0, b"7z\xBC\xAF\x27\x1C", Packed("a 7z archive", "unpack it with '7z x' first")),
    magic(257, b"ustar", Packed("a tar archive", "unpack it with 'tar -xf' first")),
    magic(
        0,
        b"LUKS\xBA\xBE",
        Volume(
            "a LUKS encrypted volume",
            "open it with 'cryptsetup open --readonly' and give the device below /dev/mapper",
        ),
    ),
    magic(
        536,
        b"LVM2 001",
        Volume("a physical volume of LVM", "activate it with 'vgchange -ay' and give the volume"),
    ),
    magic(0, b"hsqs", Volume("a squashfs file system", KERNEL)),
    magic(0, b"XFSB", Volume("an XFS file system", KERNEL)),
    magic(1024, b"\xE2\xE1\xF5\xE0", Volume("an EROFS file system", KERNEL)),
    magic(1024, b"\x10\x20\xF5\xF2", Volume("an F2FS file system", KERNEL)),
    magic(3, b"NTFS    ", Volume("an NTFS file system", KERNEL)),
    magic(3, b"EXFAT   ", Volume("an exFAT file system", KERNEL)),
    magic(54, b"FAT12   ", Volume("a FAT file system", KERNEL)),
    magic(54, b"FAT16   ", Volume("a FAT file system", KERNEL)),
    magic(82, b"FAT32   ", Volume("a FAT file system", KERNEL)),
    magic(4086, b"SWAPSPACE2", Volume("swap space", "it has no files")),
    magic(32769, b"CD001", Volume("an ISO 9660 file system", KERNEL)),
    magic(65600, b"_BHRfS_M", Volume("a Btrfs file system", KERNEL)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_magic_number_and_has_a_remedy() {
        for magic in MAGICS {
            let mut image = vec![0; 128 << 10];
            image[magic.at..magic.at + magic.bytes.len()].copy_from_slice(magic.bytes);
            let format = ForeignFormat::detect(&image).expect("its magic number is there");
            assert_eq!(format, magic.kind.format());
            assert!(!format.remedy.is_empty());
            // An image cut inside of the magic number, and one with another byte in it.
            image.truncate(magic.at + magic.bytes.len() - 1);
            assert_eq!(ForeignFormat::detect(&image), None, "{}", format.name);
            image.resize(128 << 10, 0xFF);
            assert_eq!(ForeignFormat::detect(&image), None, "{}", format.name);
        }
    }

    #[test]
    fn containers_are_known_by_their_first_bytes_alone() {
        for magic in MAGICS.iter().filter(|magic| magic.kind.format().is_container) {
            assert!(magic.at + magic.bytes.len() <= HEAD_LEN);
        }
    }
}
