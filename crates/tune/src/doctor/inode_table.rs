//! Checks the number of inode-table blocks that a mounted ext4 reads at once.
//!
//! Reading one by one is a finding, and so is fewer than the default on a rotating device. 8 on
//! flash, as phones have it, and more than 32 are deliberate.
//!
//! Design and the tables of others: docs/design/itable.md.

use super::snapshot::{SystemSnapshot, quoted, set};
use super::{Confidence, Finding};
use crate::setting::DeviceSetting;
use crate::sysfs::BlockDevice;

pub(super) fn check(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> Option<Finding> {
    let mount = snapshot.mounts_of(device).find(|mount| mount.kind == "ext4")?;
    let usual = DeviceSetting {
        device: snapshot.whole(device).name.clone(),
        attribute: format!("/sys/fs/ext4/{}/inode_readahead_blks", device.name),
        value: USUAL_BLOCKS.to_string(),
    };
    let blocks = snapshot.sys.number(usual.file())?;
    let rotates = snapshot.whole(device).queue.is_rotational == Some(true);
    let is_fine = blocks.is_power_of_two() && (blocks >= USUAL_BLOCKS || !rotates && blocks > 1);
    if is_fine {
        return None;
    }
    let what = if blocks <= 1 {
        format!("inode_readahead_blks is {blocks}: inodes are read block by block.")
    } else if blocks.is_power_of_two() {
        format!("inode_readahead_blks is {blocks}; ext4's default is {USUAL_BLOCKS}.")
    } else {
        format!("inode_readahead_blks is {blocks}, which is not a power of two, as ext4 requires.")
    };
    let point = quoted(&mount.point);
    Some(Finding {
        device: device.name.clone(),
        check: "inode-table-read-ahead",
        what,
        why: "A program that walks a tree of files (find, git status, a backup) waits for the \
              device once for each of these reads."
            .to_owned(),
        evidence: vec![
            format!("{}: {blocks}", usual.file().display()),
            format!("mounted on {}", mount.point),
            "find over 100000 files, cold, device of 1 ms a request: 9.48 s with 1, 4.27 s with 8, \
             2.40 s with 32, 1.98 s with 256"
                .to_owned(),
        ],
        mend: vec![
            set(&usual),
            format!("mount -o remount,inode_readahead_blks={USUAL_BLOCKS} {point}"),
        ],
        confidence: Confidence::Cited,
    })
}

/// ext4's default since 2008.
const USUAL_BLOCKS: u64 = 32;
