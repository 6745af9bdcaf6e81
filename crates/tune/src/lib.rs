//! The kernel's own read settings: measured, explained, remembered, undone.
//!
//! In:    a block device, or a file on one; a root folder under which `/sys`, `/proc`, `/etc` lie.
//! Out:   what the device delivers with each window, what to set, why, and how sure that is.
//! Never: a write to a block device; a setting that stays behind without being asked for; a page
//!        of somebody else's taken out of the cache.
//!
//! ```text
//!   sysfs ---> what is set, and what the device says of itself
//!     |
//!   probe ---> reads: sequentially with a window, or anywhere       (real, simulated, a curve)
//!     |
//!   sweep ---> which window next, when it is enough  --->  plateau  --->  advice
//!                                                                           |
//!   doctor <--- sysfs, what is remembered            remember <--- settings-+
//! ```

mod clock;
pub mod hold;
pub mod kernel_default;
pub mod pages;
pub mod probe;
pub mod report;
pub mod setting;
pub mod sysfs;
pub mod target;
mod words;
