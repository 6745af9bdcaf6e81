//! The arguments of `foreread-lab sim layout`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::Args;

use super::LayoutPlan;
use crate::args::image_range::ImageRangeArgs;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::store;

/// Extract the layout of a directory tree from an ext4 image
///
/// Prints the positions of directories and inodes below PATH in the order of a walk: blocks, inode
/// numbers, ranks by hash, but no names and no contents. A scenario uses it with tree = "./FILE"
/// (workloads find and git-status).
#[derive(Debug, Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct LayoutArgs {
    #[command(flatten)]
    range: ImageRangeArgs,

    /// Image of an ext2, ext3 or ext4 file system, a block device with one, or the URL of an object
    /// with one
    #[arg(value_parser = store::target())]
    target: PathBuf,

    /// Directory in the image, from its root
    #[arg(default_value = "/")]
    path: OsString,
}

impl LayoutArgs {
    /// Resolves the options.
    pub(super) fn resolve(&self) -> LayoutPlan {
        let image = self.range.resolve(self.target.clone());
        LayoutPlan { image, path: self.path.as_bytes().to_owned() }
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread-lab sim layout disk.img >disk.layout
  foreread-lab sim layout --ignore-journal /dev/vdb1 /home >home.layout

";
