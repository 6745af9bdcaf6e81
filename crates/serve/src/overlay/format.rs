//! File format of an overlay: a header, which is written once, a bit for each block, the blocks.
//!
//! ```text
//!   0        4096                               data_at (a multiple of 1 MiB)
//!   | header | page 0 | page 0 | page 1 | page 1 | block 0 | block 1 | ..     sparse: blocks not
//!              copy 0   copy 1                                                written take no room
//!
//!   a page of bits   511 words of bits | sum 8     each bit is in two copies
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use foreread::SourceIdentity;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

/// Size of a block: a page of the engine, which writes whole pages.
pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;
pub(super) const BLOCK_BYTES: usize = 4096;

/// Offsets of the parts of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OverlayLayout {
    /// Length of the base in bytes.
    pub(super) size: u64,
    pub(super) data_at: u64,
}

/// Offset of the bits.
const MAP_AT: u64 = HEADER as u64;

impl OverlayLayout {
    pub(super) fn new(size: u64) -> Self {
        let map_bytes = 2 * size.div_ceil(BLOCK).div_ceil(PAGE_BITS) * BLOCK;
        Self { size, data_at: (MAP_AT + map_bytes).next_multiple_of(DATA_ALIGN) }
    }

    /// Returns the number of pages of bits.
    pub(super) fn bits_pages(self) -> u64 {
        self.blocks().div_ceil(PAGE_BITS)
    }

    /// Returns the offset of a copy of a page of bits.
    pub(super) fn bits_at(self, page: u64, copy: u64) -> u64 {
        assert!(copy < 2, "there are two copies");
        assert!(page < self.bits_pages(), "bits are in front of the blocks");
        MAP_AT + (2 * page + copy) * BLOCK
    }

    pub(super) fn blocks(self) -> u64 {
        self.size.div_ceil(BLOCK)
    }

    /// Returns the length of the file.
    pub(super) fn end(self) -> u64 {
        self.data_at + self.size
    }

    /// Returns the header of an overlay of this base.
    ///
    /// ```text
    ///   magic 16 | format 4 | log2 of a block 4 | size 8 | data_at 8 | lengths 2 x 4
    ///   name | version | zeroes | sum 8
    /// ```
    ///
    /// # Errors
    ///
    /// If name and version do not fit.
    pub(super) fn header(self, identity: &SourceIdentity) -> Result<Vec<u8>, String> {
        let texts = [identity.name().as_bytes(), identity.version().as_bytes()];
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(FORMAT.to_le_bytes());
        header.extend(BLOCK.trailing_zeros().to_le_bytes());
        header.extend(self.size.to_le_bytes());
        header.extend(self.data_at.to_le_bytes());
        for text in texts {
            header.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
        header.extend(texts.concat());
        if header.len() > HEADER - SUM {
            return Err("the URL is too long for an overlay; give a shorter one".to_owned());
        }
        header.resize(HEADER - SUM, 0);
        header.extend(sum(&header).to_le_bytes());
        assert_eq!(header.len(), HEADER);
        Ok(header)
    }

    /// Writes the header and empty bits of a new file, and allocates space for them.
    pub(super) fn make(self, file: &File, header: &[u8]) -> io::Result<()> {
        file.set_len(self.end())?;
        match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, self.data_at)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        }
        // Written in full, so that a page that reads as zeros later is known to be damaged.
        for page in 0..self.bits_pages() {
            let empty = BitsPage { layout: self, page }.encode(&[0; PAGE_WORDS]);
            file.write_all_at(&[empty, empty].concat(), self.bits_at(page, 0))?;
        }
        file.write_all_at(header, 0)
    }

    /// Checks that a file has this header. The inner error describes the file found instead.
    pub(super) fn check(self, file: &File, header: &[u8]) -> io::Result<Result<(), String>> {
        let mut found = [0; HEADER];
        if file.metadata()?.len() < HEADER as u64 {
            return Ok(Err(NO_OVERLAY.to_owned()));
        }
        file.read_exact_at(&mut found, 0)?;
        if found[..MAGIC.len()] != MAGIC {
            return Ok(Err(NO_OVERLAY.to_owned()));
        }
        let (start, end) = found.split_at(HEADER - SUM);
        if sum(start).to_le_bytes() != end {
            return Ok(Err("its header is damaged; restore it, or remove it".to_owned()));
        }
        if found[..] == *header {
            let is_whole = file.metadata()?.len() >= self.end();
            return Ok(if is_whole { Ok(()) } else { Err(CUT.to_owned()) });
        }
        if found[MAGIC.len()..AFTER_BLOCK] != header[MAGIC.len()..AFTER_BLOCK] {
            return Ok(Err(OTHER_FORMAT.to_owned()));
        }
        let text = |at: usize, len: usize| {
            let bytes = found.get(at..at + len).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let len = |at: usize| {
            let bytes = found[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (name_len, version_len) = (len(LENGTHS), len(LENGTHS + 4));
        let name_len = name_len.min(HEADER);
        let name = text(TEXTS, name_len);
        let version = text(TEXTS + name_len, version_len.min(HEADER));
        Ok(Err(format!(
            "is the overlay of {name} in version '{version}', but TARGET has changed; give \
             another file, because the overlay does not match the new version"
        )))
    }
}

/// Encoding of a page of bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitsPage {
    pub(super) layout: OverlayLayout,
    pub(super) page: u64,
}

impl BitsPage {
    pub(super) const BYTES: usize = BLOCK_BYTES;

    pub(super) fn encode(self, words: &[u64]) -> [u8; BLOCK_BYTES] {
        assert_eq!(words.len(), PAGE_WORDS, "a whole page");
        let mut bytes = [0; BLOCK_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let sum = self.sum(&bytes[..BLOCK_BYTES - SUM]);
        bytes[BLOCK_BYTES - SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Returns the bits if the checksum matches.
    pub(super) fn decode(self, bytes: &[u8; BLOCK_BYTES]) -> Option<Vec<u64>> {
        let (bits, found) = bytes.split_at(BLOCK_BYTES - SUM);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        (word(found) == self.sum(bits)).then(|| bits.chunks_exact(8).map(word).collect())
    }

    /// Returns the checksum, which differs from page to page, and for overlays of other sizes.
    fn sum(self, bits: &[u8]) -> u64 {
        sum(bits) ^ sum(&[self.page.to_le_bytes(), self.layout.size.to_le_bytes()].concat())
    }
}

/// Returns the error for an overlay with no valid copy of a page of bits.
pub(super) fn damaged_bits(page: u64) -> String {
    let (first, bytes) = (page * PAGE_BITS * BLOCK, PAGE_BITS * BLOCK);
    format!(
        "both copies of the block map are damaged for bytes {first} to {} of the disk; restore \
         the file from a backup, or remove it and lose its writes",
        first.saturating_add(bytes)
    )
}

/// Returns the FNV-1a checksum, which detects damage, not tampering.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Words of bits in a page: the rest is its sum.
pub(super) const PAGE_WORDS: usize = BLOCK_BYTES / 8 - 1;
const PAGE_BITS: u64 = PAGE_WORDS as u64 * 64;

const MAGIC: [u8; 16] = *b"foreread overlay";
const FORMAT: u32 = 2;
const HEADER: usize = 4096;
const SUM: usize = 8;
const AFTER_BLOCK: usize = 24;
const LENGTHS: usize = 40;
const TEXTS: usize = 48;

/// Large pages of file systems, and extents of devices, begin at multiples of it.
const DATA_ALIGN: u64 = 1 << 20;

const NO_OVERLAY: &str = "is not an overlay; give the path of an overlay or of a new file";

const OTHER_FORMAT: &str = "is an overlay in another format; serve it with the foreread version \
                            that created it, and copy the disk into a new overlay";

/// Error for a truncated file.
pub(super) const CUT: &str = "is shorter than when it was created; restore it, or remove it";

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, version: &str) -> SourceIdentity {
        SourceIdentity::new(name, version)
    }

    #[test]
    fn only_the_overlay_of_this_version_of_this_base_is_taken() {
        let layout = OverlayLayout::new(10_000);
        assert_eq!(
            (layout.blocks(), layout.data_at, layout.end()),
            (3, 1 << 20, (1 << 20) + 10_000)
        );
        let header = layout.header(&identity("s3://b/k", "\"1\"")).unwrap();
        let file = tempfile::tempfile().unwrap();
        layout.make(&file, &header).unwrap();
        assert_eq!(layout.check(&file, &header).unwrap(), Ok(()));
        for (name, version, size) in [
            ("s3://b/k", "\"2\"", 10_000),
            ("s3://b/l", "\"1\"", 10_000),
            ("s3://b/k", "\"1\"", 9999),
        ] {
            let other = OverlayLayout::new(size);
            let header = other.header(&identity(name, version)).unwrap();
            let what = other.check(&file, &header).unwrap().unwrap_err();
            assert!(what.contains("overlay of s3://b/k in version '\"1\"'"), "{what}");
        }
        file.set_len(layout.end() - 1).unwrap();
        assert!(layout.check(&file, &header).unwrap().unwrap_err().contains("shorter"));
    }

    #[test]
    fn what_is_no_overlay_or_is_damaged_is_refused() {
        let layout = OverlayLayout::new(10_000);
        let header = layout.header(&identity("n", "v")).unwrap();
        let file = tempfile::tempfile().unwrap();
        let what = |file: &File| layout.check(file, &header).unwrap().unwrap_err();
        assert!(what(&file).contains("is not an overlay"));
        file.set_len(1 << 21).unwrap();
        assert!(what(&file).contains("is not an overlay"));
        for at in [16, 24, 50, 4095] {
            layout.make(&file, &header).unwrap();
            file.write_all_at(&[header[at] ^ 1], at as u64).unwrap();
            assert!(what(&file).contains("damaged"), "byte {at}");
        }
        let long = identity(&"x".repeat(4096), "v");
        assert!(layout.header(&long).unwrap_err().contains("too long"));
    }
}
