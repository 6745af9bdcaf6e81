//! The kernel's own read settings: measured, explained, remembered, undone.
//!
//! In:    a block device, or a file on one; a root folder that holds `/sys`, `/proc`, `/etc`.
//! Out:   throughput by window, the window to set, the reason, and the confidence in it.
//! Never: writes to a block device; leaves a setting behind unrequested; evicts another process's
//!        pages from the cache.
//!
//! ```text
//!   sysfs ---> settings in force, and limits that the device reports
//!     |
//!   probe ---> reads: sequential with a window, or random           (real, simulated, a curve)
//!     |
//!   sweep ---> next window, until the result is clear  -->  plateau  --->  advice
//!     |                                                                     |
//!   device_fit ---> a model of the device, for the simulator                 |
//!   doctor <--- sysfs, remembered settings           remember <--- settings-+
//! ```

pub mod advice;
pub mod capture;
mod clock;
pub mod confidence;
pub mod device_fit;
pub mod doctor;
mod errno_text;
pub mod fleet;
pub mod flood;
pub mod identity;
pub mod kernel_default;
pub mod machine;
pub mod mounts;
pub mod pages;
pub mod parallel_reads;
pub mod plateau;
pub mod probe;
pub mod remember;
pub mod report;
mod rng;
pub mod setting;
pub mod store_sweep;
pub mod sweep;
pub mod sysfs;
pub mod target;
pub mod temporary_settings;
pub mod udev;
