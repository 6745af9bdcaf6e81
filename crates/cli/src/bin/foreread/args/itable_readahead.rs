//! The value of `--inode-readahead-blks`, also as a setting of a mount that runs.

use foreread_ext4::itable::{FixedWindow, ItableBound};
use foreread_mount::ItableReadahead;

/// Parses a number of blocks, or `adaptive`.
pub(crate) fn itable_readahead(text: &str) -> Result<ItableReadahead, String> {
    if text == ADAPTIVE {
        return Ok(ItableReadahead::Adaptive);
    }
    let blocks = text.parse().ok().filter(|&it| FixedWindow::new(it, ItableBound::Exact).is_some());
    blocks.map(ItableReadahead::Blocks).ok_or_else(|| {
        format!("{ADAPTIVE}, 0, or a power of two up to {}", FixedWindow::MAX_BLOCKS)
    })
}

/// Formats the setting for [`itable_readahead`].
pub(crate) fn itable_readahead_text(setting: ItableReadahead) -> String {
    match setting {
        ItableReadahead::Adaptive => ADAPTIVE.to_owned(),
        ItableReadahead::Blocks(blocks) => blocks.to_string(),
    }
}

/// Value for [`ItableReadahead::Adaptive`].
pub(crate) const ADAPTIVE: &str = "adaptive";
