//! Read-ahead policies from the literature and from other systems, as baselines for `adaptive`.
//!
//! In:    the questions that the core asks its own policies.
//! Out:   windows, as close to the source as its text allows.
//! Never: source code of the original system: each policy is written from a description, which its
//!        file cites. The library does not offer these policies.
//!
//! To add one: a file here, and a line in the list below; docs/lab/simulator.md has the steps and
//! an example. The simulator then accepts its name as a policy.

#[cfg(test)]
mod twice;

use foreread_core::prefetch::{Ask, Decision, Pattern, Policy, Trigger, Window};
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::device::DeviceParams;
use crate::policy::{self, continues};

/// Declares the module of each policy, and lists the policies. (`cargo fmt` does not format modules
/// that a macro declares; `./dev lint` checks their format.)
macro_rules! rival_policies {
    ($($module:ident::$policy:ident,)*) => {
        $(mod $module;)*

        /// All policies of this list.
        pub const ALL: &[Policy] = &[$(Policy::Custom(&$module::$policy)),*];
    };
}

rival_policies! {
    amp::Amp,
    tap::Tap,
    leap::Leap,
    rocksdb::RocksDb,
    pg_stream::PgStream,
    mountpoint_s3::MountpointS3,
    zfetch::Zfetch,
    sarc::Sarc,
    competitive::Competitive,
    linux_6_folios::Linux6Folios,
    fsspec_adaptive::FsspecAdaptive,
}

/// Iterates over [`policy::ALL`] and these.
pub fn all() -> impl Iterator<Item = Policy> {
    policy::ALL.into_iter().chain(ALL.iter().copied())
}

/// Returns the policy with this name: one of these, or of [`policy::ALL`].
#[must_use]
pub fn find(name: &str) -> Option<Policy> {
    all().find(|policy| policy.name() == name)
}

/// Returns the largest window of a policy that derives it from the device; None for other policies.
#[must_use]
pub fn window_of_device(policy: Policy, device: &DeviceParams) -> Option<ByteCount> {
    (policy.name() == competitive::NAME).then(|| device.switch_bytes())
}

/// Returns true if a page is in the last window, or directly after it.
fn is_of(last: Window, page: PageIndex) -> bool {
    last.size > Pages::ZERO && last.start <= page && page <= last.end()
}

/// Reads the requested pages and nothing ahead.
fn only_the_read(ask: Ask) -> Option<Decision> {
    // At a marker the page itself is resident, and the marker concerns pages ahead only.
    if ask.trigger == Trigger::Marker {
        return None;
    }
    let window = Window { start: ask.page, size: ask.count, async_size: Pages::ZERO };
    Some(Decision { pattern: Pattern::Random, window })
}

/// Creates a window of 1 to `max` pages, with its marker `ahead` pages before its end.
fn window(start: PageIndex, size: u64, ahead: u64, max: Pages) -> Window {
    let size = size.clamp(1, max.0.max(1));
    Window { start, size: Pages(size), async_size: Pages(ahead.min(size)) }
}

/// Creates the next window of a stream: it starts at the end of the last one, or at the missing
/// page.
fn subsequent(ask: Ask, last: Window, size: u64, ahead: u64, max: Pages) -> Option<Decision> {
    let start = match ask.trigger {
        Trigger::Miss => ask.page,
        Trigger::Marker => last.end(),
    };
    Some(Decision { pattern: Pattern::Subsequent, window: window(start, size, ahead, max) })
}

/// Creates the first window of a stream.
fn first(ask: Ask, size: u64, ahead: u64, max: Pages) -> Option<Decision> {
    Some(Decision { pattern: Pattern::Initial, window: window(ask.page, size, ahead, max) })
}

#[cfg(test)]
mod tests {
    use foreread_core::prefetch::{Residency, StreamState, Streams, WindowLimits};

    use super::*;

    struct EmptyCache;

    impl Residency for EmptyCache {
        fn history(&self, _page: PageIndex, _limit: Pages) -> Pages {
            Pages::ZERO
        }

        fn next_hole(&self, page: PageIndex, _limit: Pages) -> Option<PageIndex> {
            Some(page)
        }
    }

    #[test]
    fn the_policy_that_the_page_shows_is_the_one_that_is_compiled_here() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/simulator.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let example = format!("```rust\n{}```\n", include_str!("rival_policy/twice.rs"));
        assert!(page.contains(&example), "docs/lab/simulator.md does not show twice.rs as it is");
    }

    #[test]
    fn the_policy_that_the_page_shows_reads_twice_as_much_as_is_asked_for() {
        let policy = Policy::Custom(&twice::Twice);
        let (mut state, mut streams) = (StreamState::default(), Streams::default());
        let mut ask = |page, count, trigger, prev_pos: Option<u64>| {
            let prev_pos = prev_pos.map(|page| ByteCount(page * 4096));
            let has_waited = trigger == Trigger::Miss;
            let ask =
                Ask { page: PageIndex(page), count: Pages(count), trigger, prev_pos, has_waited };
            let limits = WindowLimits { max: Pages(32), io_pages: Pages(32) };
            let decided = policy.decide(&mut state, &mut streams, ask, limits, &EmptyCache);
            let decided = decided.expect("each of these questions has an answer");
            if decided.is_remembered() {
                state.window = decided.window;
            }
            decided.window
        };
        let window = |start, size, ahead| Window {
            start: PageIndex(start),
            size: Pages(size),
            async_size: Pages(ahead),
        };
        assert_eq!(ask(0, 4, Trigger::Miss, None), window(0, 8, 4));
        assert_eq!(ask(4, 4, Trigger::Marker, Some(4)), window(8, 8, 4));
        assert_eq!(ask(900, 4, Trigger::Miss, Some(8)), window(900, 4, 0), "no stream");
        assert_eq!(ask(16, 30, Trigger::Miss, Some(8)), window(16, 32, 30), "the limit");
    }
}
