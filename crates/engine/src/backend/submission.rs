//! Files whose requests io_uring must not try in the thread that submits them.
//!
//! The engine submits under its mutex. For most files a request that would block is passed to a
//! kernel worker. A file of FUSE blocks in the submission itself: the kernel first asks the file
//! system's server whether the file is ready (`poll`), and then waits for the inode's lock, which
//! a flush holds until the server answers. A server that hangs would stop the whole engine.

use std::fs::File;

use rustix::fs::fstatfs;

/// Returns true if requests of a file must go to a worker at once.
pub(super) fn blocks_submitter(file: &File) -> bool {
    fstatfs(file).is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(is_fuse))
}

fn is_fuse(magic: u64) -> bool {
    magic == FUSE
}

/// Magic number of `statfs(2)`.
const FUSE: u64 = 0x6573_5546;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_fuse_skip_the_submitter() {
        assert!(is_fuse(0x6573_5546));
        for (name, magic) in [("ext4", 0xef53), ("tmpfs", 0x0102_1994), ("NFS", 0x6969)] {
            assert!(!is_fuse(magic), "{name}");
        }
        let file = tempfile::tempfile().expect("a file");
        assert!(!blocks_submitter(&file), "tests do not run on FUSE");
    }
}
