//! One test on file systems that are nearly full.
//!
//! In:    how a file system is made, how large it is, how much room it has.
//! Out:   a run of the test for each kind of ring, each on a file system of its own.
//! Never: a run without a right that it needs: it says that it was skipped.
//!
//! Include it beside `mod common;`, `mod mounted;` and `mod support;`.

use std::path::Path;

use foreread::IoBackend;

use crate::common::{Need, needs};
use crate::mounted::FileSystem;
use crate::support::with_each_io;

/// Runs a test for each kind of ring on a new file system with so much room left: with the path of
/// a file to make there, and the file that takes the other space. Without `make` it is a tmpfs.
pub(crate) fn with_little_room(
    test: &str,
    make: Option<&'static [&'static str]>,
    (bytes, room): (u64, u64),
    run: impl Fn(&Path, &Path, IoBackend),
) {
    let can_make = match make {
        Some(make) => needs(Need::Loop, test) && needs(Need::Tool(make[0]), test),
        None => needs(Need::Root, test),
    };
    if !can_make {
        return;
    }
    with_each_io(test, |io| {
        let disk = match make {
            Some(make) => FileSystem::new(make, bytes),
            None => FileSystem::tmpfs(bytes),
        };
        let spare = disk.fill_but(room);
        run(&disk.at.join("file"), &spare, io);
    });
}
