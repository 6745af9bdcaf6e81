//! The bytes of TARGET that clients see: all, those behind `--offset`, or one partition.
//!
//! In:    the opened target, with its overlay.
//! Out:   a range, and words for it.
//! Never: a partition table of the base that clients have written over.

use std::io;
use std::ops::Range;

use foreread_core::units::ByteCount;
use foreread_ext4::BlockSource;
use foreread_serve::Overlay;

use super::plan::ServePlan;
use foreread_cli::image::Image;
use foreread_cli::image::byte_range::RangeChoice;
use foreread_cli::output::Failure;

/// Returns the bytes of TARGET that clients see.
pub(super) fn export_range(
    plan: &ServePlan,
    file: &foreread::File,
    overlay: Option<&Overlay>,
) -> Result<Range<u64>, Failure> {
    let ServePlan { target, range, .. } = plan;
    match overlay {
        Some(overlay) => range.choose(target, &OverlaidDisk(overlay)),
        None => range.choose(target, &Image::whole(file)),
    }
}

/// Describes TARGET and the served part of it.
pub(super) fn described(plan: &ServePlan) -> String {
    let target = plan.target.display();
    match plan.range {
        RangeChoice::Whole => target.to_string(),
        RangeChoice::From(ByteCount(start)) => format!("{target} from byte {start} on"),
        RangeChoice::Partition(number) => format!("partition {number} of {target}"),
    }
}

/// A disk as clients of an overlay see it.
struct OverlaidDisk<'o>(&'o Overlay);

impl BlockSource for OverlaidDisk<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.base().len())
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.0.read_at(to, offset)
    }
}
