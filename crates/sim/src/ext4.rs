//! Where ext4 puts the inodes and directories of a tree.
//!
//! In:    a tree that is drawn from random numbers ([`SyntheticTree`]), or one that was taken from
//!        an image ([`RecordedLayout`]).
//! Out:   for each directory its blocks and its entries; for each inode its block.
//! Never: a read, a cache, a file's content.
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
