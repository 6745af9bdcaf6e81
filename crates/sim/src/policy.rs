//! Read-ahead policies by name: the core's, and plain ones and those of old kernels, which no
//! engine offers.
//!
//! One file per policy; golden traces and models are in the tests; pictures, tables and sources in
//! docs/design/readahead.md. Policies of the literature are in [`rival_policy`].
//!
//! [`rival_policy`]: crate::rival_policy

mod distance;
mod fixed;
mod linux_2_6_28;
mod linux_2_6_31;
mod thrash_2009;
mod thrash_2010;

use foreread_core::prefetch::{Ask, Policy};
use foreread_core::units::PageIndex;

/// Windows of the largest size, each requested when the reader enters the previous one.
pub const FIXED: Policy = Policy::Custom(&fixed::Fixed);

/// Linux 2.6.28: windows by state alone, one stream per open file.
pub const LINUX_2_6_28: Policy = Policy::Custom(&linux_2_6_28::Linux2_6_28);

/// Linux 2.6.31: the same, plus streams found by their history in the page cache.
pub const LINUX_2_6_31: Policy = Policy::Custom(&linux_2_6_31::Linux2_6_31);

/// A window no larger than the history that survived eviction; linux-2.6.31 where there is no
/// history.
pub const THRASH_2009: Policy = Policy::Custom(&thrash_2009::Thrash2009);

/// A window as large as the surviving history, and smaller windows after a page was lost before
/// use.
pub const THRASH_2010: Policy = Policy::Custom(&thrash_2010::Thrash2010);

/// The prefetch distance doubles on a stall, holds, and decays slowly.
pub const DISTANCE: Policy = Policy::Custom(&distance::Distance);

/// All of these and of the core's, oldest first.
pub const ALL: [Policy; 9] = [
    Policy::None,
    FIXED,
    LINUX_2_6_28,
    LINUX_2_6_31,
    THRASH_2009,
    THRASH_2010,
    Policy::Linux6,
    DISTANCE,
    Policy::Adaptive,
];

/// Returns true if a read continues the handle's last read, or is its first and at page 0.
pub(crate) fn continues(ask: Ask) -> bool {
    match ask.prev_pos {
        None => ask.page == PageIndex(0),
        Some(end) => ask.page.0.wrapping_sub(end.page().0) <= 1,
    }
}
