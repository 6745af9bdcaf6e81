//! Feature masks of a file system, and the check whether it can be read.
//!
//! A reader may ignore unknown bits in `compat` and, as it never writes, in `ro_compat`. An unknown
//! bit in `incompat` changes the meaning of the structures, so the file system is refused.

use crate::error::Error;

/// The features of a file system, as three masks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Features {
    /// Unknown bits allow reading and writing.
    pub compat: u32,
    /// Unknown bits forbid any access.
    pub incompat: u32,
    /// Unknown bits allow reading, but not writing.
    pub ro_compat: u32,
}

pub(crate) const HAS_JOURNAL: u32 = 0x4;
pub(crate) const DIR_INDEX: u32 = 0x20;
pub(crate) const SPARSE_SUPER2: u32 = 0x200;

pub(crate) const FILETYPE: u32 = 0x2;
pub(crate) const RECOVER: u32 = 0x4;
pub(crate) const META_BG: u32 = 0x10;
pub(crate) const EXTENTS: u32 = 0x40;
pub(crate) const BIT64: u32 = 0x80;
pub(crate) const MMP: u32 = 0x100;
pub(crate) const FLEX_BG: u32 = 0x200;
pub(crate) const EA_INODE: u32 = 0x400;
pub(crate) const CSUM_SEED: u32 = 0x2000;
pub(crate) const LARGEDIR: u32 = 0x4000;
pub(crate) const INLINE_DATA: u32 = 0x8000;
pub(crate) const ENCRYPT: u32 = 0x1_0000;
pub(crate) const CASEFOLD: u32 = 0x2_0000;

pub(crate) const SPARSE_SUPER: u32 = 0x1;
pub(crate) const HUGE_FILE: u32 = 0x8;
pub(crate) const GDT_CSUM: u32 = 0x10;
pub(crate) const BIGALLOC: u32 = 0x200;
pub(crate) const METADATA_CSUM: u32 = 0x400;
pub(crate) const SHARED_BLOCKS: u32 = 0x4000;

/// Supported bits of `incompat`. Multi-mount protection guards against writers; in encrypted file
/// systems everything but names, contents and link targets can be read.
const READ: u32 = FILETYPE
    | RECOVER
    | META_BG
    | EXTENTS
    | BIT64
    | MMP
    | FLEX_BG
    | EA_INODE
    | CSUM_SEED
    | LARGEDIR
    | INLINE_DATA
    | ENCRYPT
    | CASEFOLD;

/// Names of known but unsupported features.
const REFUSED: [(u32, &str); 3] = [(0x1, "compression"), (0x8, "journal_dev"), (0x1000, "dirdata")];

impl Features {
    pub(crate) fn compat(self, bit: u32) -> bool {
        self.compat & bit != 0
    }

    pub(crate) fn incompat(self, bit: u32) -> bool {
        self.incompat & bit != 0
    }

    pub(crate) fn ro_compat(self, bit: u32) -> bool {
        self.ro_compat & bit != 0
    }

    /// Returns an error if the file system has unsupported features.
    pub(crate) fn can_be_read(self) -> Result<(), Error> {
        let refused = self.incompat & !READ;
        let names = (0..32).map(|bit| 1 << bit).filter(|bit| refused & bit != 0).map(name);
        let features = names.collect::<Vec<_>>().join(", ");
        if features.is_empty() { Ok(()) } else { Err(Error::Unsupported { features }) }
    }
}

fn name(bit: u32) -> String {
    let known = REFUSED.iter().find(|(refused, _)| *refused == bit);
    known.map_or_else(
        // The name that e2fsprogs gives to an unknown feature.
        || format!("FEATURE_I{}", bit.trailing_zeros()),
        |(_, name)| (*name).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_refused_by_name() {
        let features = |incompat| Features { incompat, ..Features::default() };
        assert!(features(READ).can_be_read().is_ok());
        let refused = features(READ | 0x1000 | 0x1 | 0x8000_0000).can_be_read().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "has unsupported features: compression, dirdata, FEATURE_I31; use the kernel's mount"
        );
    }

    #[test]
    fn unknown_features_that_only_writers_must_know_do_not_matter() {
        let features = Features { compat: !0, incompat: READ, ro_compat: !0 };
        assert!(features.can_be_read().is_ok());
    }
}
