//! Placement of the inodes and directories of a tree on ext4.
//!
//! In:    random numbers ([`SyntheticTree`]), or a layout recorded from an image
//!        ([`RecordedLayout`]).
//! Out:   the blocks and entries of each directory, and the block of each inode.
//!
//! ```text
//!   group   |bitmaps|== inode table ==|------------ data: directories, files ------------|
//! ```

mod layout;
mod layout_source;
mod recorded;
mod synthetic;

pub use layout::{BLOCK_SIZE, Directory, DirectoryEntry, DirectoryId, InodeNumber, TreeLayout};
pub use layout_source::LayoutSource;
pub use recorded::{RecordedDirectory, RecordedEntry, RecordedLayout};
pub use synthetic::SyntheticTree;
