//! The options that say where an ext4 file system is, and whether its journal may be skipped.

use std::path::PathBuf;

use clap::Args;
use foreread_core::sizes;
use foreread_core::units::ByteCount;
use foreread_ext4::Journal;

use foreread_cli::image::ImageTarget;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::store::StoreAccess;

/// Options of verbs that read the layout of an image.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImageRangeArgs {
    /// Read an image that needs journal recovery, without replaying the journal
    #[arg(long)]
    ignore_journal: bool,

    /// Offset of the file system in TARGET, in bytes (or with K, M, G)
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, conflicts_with = "partition")]
    offset: Option<ByteCount>,

    /// Read partition N of TARGET, a whole disk with an MBR or GPT
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    partition: Option<u32>,
}

impl ImageRangeArgs {
    /// Returns the image in `target`.
    pub(crate) fn resolve(&self, target: PathBuf) -> ImageTarget {
        ImageTarget {
            target,
            journal: if self.ignore_journal { Journal::Ignore } else { Journal::Refuse },
            range: RangeChoice::new(self.offset, self.partition),
            store: StoreAccess::default(),
        }
    }
}
