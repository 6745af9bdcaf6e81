//! Read-ahead policies of the literature and of the field, to compare `adaptive` with.
//!
//! In:    the questions that the core asks its own policies.
//! Out:   windows, as close to the source as its text allows.
//! Never: a policy that the library offers, or source code of the system that it stands for: each
//!        is written from a description, which its file names.
//!
//! To add one: a file here, and a line in [`ALL`]. It can then be named wherever the simulator
//! takes a policy.

mod amp;
mod competitive;
mod fsspec_adaptive;
mod leap;
mod linux_6_folios;
mod mountpoint_s3;
mod pg_stream;
mod rocksdb;
mod sarc;
mod tap;
mod zfetch;

use foreread_core::prefetch::{Ask, Decision, Pattern, Policy, Trigger, Window};
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::device::DeviceParams;

/// All of them.
pub const ALL: [Policy; 11] = [
    Policy::Custom(&amp::Amp),
    Policy::Custom(&tap::Tap),
    Policy::Custom(&leap::Leap),
    Policy::Custom(&rocksdb::RocksDb),
    Policy::Custom(&pg_stream::PgStream),
    Policy::Custom(&mountpoint_s3::MountpointS3),
    Policy::Custom(&zfetch::Zfetch),
    Policy::Custom(&sarc::Sarc),
    Policy::Custom(&competitive::Competitive),
    Policy::Custom(&linux_6_folios::Linux6Folios),
    Policy::Custom(&fsspec_adaptive::FsspecAdaptive),
];

/// The core's policies and these.
pub fn all() -> impl Iterator<Item = Policy> {
    Policy::ALL.into_iter().chain(ALL)
}

/// The policy of this name: one of these, or one of the core's.
#[must_use]
pub fn find(name: &str) -> Option<Policy> {
    all().find(|policy| policy.name() == name)
}

/// The largest window of a policy that follows from its device; None: it follows from nothing.
#[must_use]
pub fn window_of_device(policy: Policy, device: &DeviceParams) -> Option<ByteCount> {
    (policy.name() == competitive::NAME).then(|| device.switch_bytes())
}

/// Whether a read continues where the handle's last read ended, or is its first at page 0.
fn continues(ask: Ask) -> bool {
    match ask.prev_pos {
        None => ask.page == PageIndex(0),
        Some(end) => ask.page.0.wrapping_sub(end.page().0) <= 1,
    }
}

/// Whether a page lies in the last window, or directly behind it.
fn is_of(last: Window, page: PageIndex) -> bool {
    last.size > Pages::ZERO && last.start <= page && page <= last.end()
}

/// The pages of the read, and no more.
fn only_the_read(ask: Ask) -> Option<Decision> {
    // A marker asks for what lies ahead; the page itself is resident.
    if ask.trigger == Trigger::Marker {
        return None;
    }
    let window = Window { start: ask.page, size: ask.count, async_size: Pages::ZERO };
    Some(Decision { pattern: Pattern::Random, window })
}

/// A window of at least a page and at most `max`, whose marker lies `ahead` pages before its end.
fn window(start: PageIndex, size: u64, ahead: u64, max: Pages) -> Window {
    let size = size.clamp(1, max.0.max(1));
    Window { start, size: Pages(size), async_size: Pages(ahead.min(size)) }
}

/// The next window of a stream: it begins where the last one ends, or at the page that was missing.
fn subsequent(ask: Ask, last: Window, size: u64, ahead: u64, max: Pages) -> Option<Decision> {
    let start = match ask.trigger {
        Trigger::Miss => ask.page,
        Trigger::Marker => last.end(),
    };
    Some(Decision { pattern: Pattern::Subsequent, window: window(start, size, ahead, max) })
}

/// The first window of a stream.
fn first(ask: Ask, size: u64, ahead: u64, max: Pages) -> Option<Decision> {
    Some(Decision { pattern: Pattern::Initial, window: window(ask.page, size, ahead, max) })
}
