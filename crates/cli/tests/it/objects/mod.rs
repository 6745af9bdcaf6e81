//! Commands on objects of a real S3 server, and on a server that answers wrong.
//!
//! In:    the real binary; SeaweedFS, rclone, nbdcopy, qemu-img, mkfs.ext4, where there are.
//! Out:   what users of the commands see.
//! Never: a claim about speed; a request that leaves this machine.

mod doctor;
#[cfg(feature = "objects")]
mod fault_proxy;
#[cfg(feature = "objects")]
mod fault_runs;
mod images_in_buckets;
mod nbd;
mod other_clouds;
mod prefix_mounts;
mod printed;
mod rclone;
mod refusals;
mod tree_nodes;
#[cfg(feature = "objects")]
mod tune;
mod two_servers;
mod weed;
mod wrong_use;
