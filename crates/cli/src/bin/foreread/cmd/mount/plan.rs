//! A mount with every option resolved. `args` makes it; the other modules see no options of the
//! command line.

use std::path::PathBuf;
#[cfg(feature = "objects")]
use std::time::Duration;

use foreread::lab::Delay;
use foreread_core::units::ByteCount;
use foreread_mount::ItableReadahead;

use crate::read_recording::RecordingTarget;
use foreread_cli::args::max_window::MaxWindow;
use foreread_cli::device_memory::DeviceMemory;
use foreread_cli::image::ImageTarget;
#[cfg(feature = "objects")]
use foreread_cli::store::StoreAccess;

/// One run of `foreread mount`.
#[derive(Debug)]
pub(super) struct MountPlan {
    pub(super) source: MountSource,
    /// Directory to mount on.
    pub(super) dir: PathBuf,
    pub(super) allow_other: bool,
    /// Memory limit of the cache.
    pub(super) memory: ByteCount,
    pub(super) prefault: bool,
    pub(super) window: MaxWindow,
    pub(super) remember: DeviceMemory,
    pub(super) recording: RecordingTarget,
}

/// Source of the files.
#[derive(Debug)]
pub(super) enum MountSource {
    /// An ext4 image.
    Image(ImageMount),
    /// The objects below a prefix.
    #[cfg(feature = "objects")]
    Prefix(PrefixMount),
}

/// Mount of an ext4 image.
#[derive(Debug)]
pub(super) struct ImageMount {
    pub(super) target: ImageTarget,
    /// Read-ahead of inode tables.
    pub(super) itable: ItableReadahead,
    /// Unix socket for `stats` and `set`.
    pub(super) control: Option<PathBuf>,
    pub(super) delay: Option<Delay>,
}

/// Mount of the objects below a prefix.
#[cfg(feature = "objects")]
#[derive(Debug)]
pub(super) struct PrefixMount {
    pub(super) url: String,
    pub(super) store: StoreAccess,
    /// Time for which a directory listing is cached.
    pub(super) list_lifetime: Duration,
}
