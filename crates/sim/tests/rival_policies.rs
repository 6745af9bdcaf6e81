//! The policies of the literature and of the field, as the simulator has them.

use std::collections::BTreeSet;

use foreread_core::prefetch::{
    Ask, Policy, Residency, StreamState, Streams, Trigger, Window, WindowLimits,
};
use foreread_core::units::{ByteCount, PageIndex, Pages};
use foreread_sim::rival_policy::{self, find};
use foreread_sim::rivals::{self, PolicySetup, RivalRow};

/// A cache with nothing in it.
struct Nothing;

impl Residency for Nothing {
    fn history(&self, _page: PageIndex, _limit: Pages) -> Pages {
        Pages::ZERO
    }

    fn next_hole(&self, page: PageIndex, _limit: Pages) -> Option<PageIndex> {
        Some(page)
    }
}

/// A reader of one handle, and what its policy remembers.
#[derive(Default)]
struct Handle {
    state: StreamState,
    streams: Streams,
    prev_pos: Option<ByteCount>,
}

impl Handle {
    /// Asks because of a page; returns the window, which is remembered if it is a stream's.
    fn ask(&mut self, policy: Policy, page: u64, count: u64, trigger: Trigger) -> Option<Window> {
        self.ask_after_wait(policy, page, count, trigger, trigger == Trigger::Miss)
    }

    fn ask_after_wait(
        &mut self,
        policy: Policy,
        page: u64,
        count: u64,
        trigger: Trigger,
        has_waited: bool,
    ) -> Option<Window> {
        let (page, count) = (PageIndex(page), Pages(count));
        let ask = Ask { page, count, trigger, prev_pos: self.prev_pos, has_waited };
        let limits = WindowLimits { max: Pages(256), io_pages: Pages(256) };
        self.prev_pos = Some(ByteCount((page + count).0 * 4096));
        let decided = policy.decide(&mut self.state, &mut self.streams, ask, limits, &Nothing)?;
        if decided.is_remembered() {
            self.state.window = decided.window;
        }
        Some(decided.window)
    }
}

fn named(name: &str) -> Policy {
    find(name).expect("a rival of this name")
}

#[test]
fn each_has_a_name_of_its_own_and_is_found_by_it() {
    let names: BTreeSet<_> = rival_policy::all().map(Policy::name).collect();
    assert_eq!(names.len(), Policy::ALL.len() + rival_policy::ALL.len());
    for policy in rival_policy::all() {
        assert_eq!(find(policy.name()), Some(policy));
    }
    assert_eq!(find("no such policy"), None);
    assert_eq!(Policy::from_name("amp"), None, "the library does not offer it");
}

#[test]
fn none_asks_for_more_than_its_limit_or_for_nothing_at_a_miss() {
    for policy in rival_policy::ALL {
        let mut handle = Handle::default();
        let mut page = 0;
        for step in 0..200_u64 {
            let count = 1 + step % 5;
            let window = handle.ask(policy, page, count, Trigger::Miss);
            let window = window.unwrap_or_else(|| panic!("{policy:?}: the page is missing"));
            assert!(window.size <= Pages(256), "{policy:?}: {window:?}");
            assert!(window.start <= PageIndex(page) && PageIndex(page) < window.end());
            page = if step % 7 == 6 { page * 3 % 100_003 } else { window.end().0 };
        }
    }
}

#[test]
fn amp_reads_more_each_time_and_less_after_a_loss_and_earlier_after_a_wait() {
    let amp = named("amp");
    let mut handle = Handle::default();
    let first = handle.ask(amp, 0, 4, Trigger::Miss).expect("a stream begins");
    let second = handle.ask(amp, first.end().0, 4, Trigger::Miss).expect("it goes on");
    assert_eq!((first.size, second.size, second.async_size), (Pages(8), Pages(8), Pages(4)));
    let marker = second.marker().expect("it waited").0;
    let third = handle.ask_after_wait(amp, marker, 4, Trigger::Marker, false).expect("a marker");
    assert_eq!((third.start, third.size, third.async_size), (second.end(), Pages(12), Pages(4)));
    // A page in the middle was evicted.
    let lost = handle.ask(amp, third.start.0 + 1, 4, Trigger::Miss).expect("it goes on");
    assert_eq!((lost.size, lost.async_size), (Pages(11), Pages(4)));
}

#[test]
fn tap_finds_interleaved_streams_of_one_handle() {
    let tap = named("tap");
    let mut handle = Handle::default();
    for at in [1000, 5000, 9000] {
        let size = handle.ask(tap, at, 2, Trigger::Miss).expect("a miss").size;
        assert_eq!(size, Pages(2), "the first read of a stream");
    }
    for at in [1002, 5002, 9002] {
        assert_eq!(handle.ask(tap, at, 2, Trigger::Miss).expect("a miss").size, Pages(32));
    }
}

#[test]
fn leap_follows_the_majority_through_noise() {
    let leap = named("leap");
    let mut handle = Handle::default();
    let mut sizes = Vec::new();
    for page in [10, 11, 12, 13, 70_000, 14, 15, 16] {
        sizes.push(handle.ask(leap, page, 1, Trigger::Miss).expect("a miss").size.0);
    }
    assert_eq!(sizes[..2], [1, 1], "no majority yet");
    assert!(sizes[5..].iter().all(|size| *size > 1), "{sizes:?}");
    let mut strided = Handle::default();
    let mut last = None;
    for n in 0..8 {
        last = strided.ask(leap, 100 + n * 16, 1, Trigger::Miss);
    }
    assert!(last.expect("a miss").size.0 > 16, "{last:?}");
}

#[test]
fn rocksdb_begins_with_the_third_read_and_doubles() {
    let rocksdb = named("rocksdb");
    let mut handle = Handle::default();
    let mut page = 100;
    let mut sizes = Vec::new();
    for _ in 0..9 {
        let window = handle.ask(rocksdb, page, 1, Trigger::Miss).expect("a miss");
        sizes.push(window.size.0);
        handle.prev_pos = Some(ByteCount(window.end().0 * 4096));
        page = window.end().0;
    }
    assert_eq!(sizes, [1, 1, 3, 5, 9, 17, 33, 65, 65]);
}

#[test]
fn zfetch_doubles_and_mountpoint_grows_eightfold_to_the_limit() {
    let mut handle = Handle::default();
    let mut sizes = Vec::new();
    let mut page = 0;
    for _ in 0..8 {
        let window = handle.ask(named("zfetch"), page, 4, Trigger::Miss).expect("a miss");
        sizes.push(window.size.0);
        page = window.end().0;
    }
    assert_eq!(sizes, [8, 12, 20, 36, 68, 132, 256, 256]);
    let mut handle = Handle::default();
    let first = handle.ask(named("mountpoint-s3"), 5000, 1, Trigger::Miss).expect("a miss");
    assert_eq!(first.size, Pages(256), "288 pages, cut to the limit");
}

/// Gill and Bathen share memory so that pages of all streams live equally long, which takes windows
/// that are proportional to rates; the fewest requests take windows that grow with their square
/// root. At log-normal rates with sigma 1 the first then needs E[r] / E[sqrt r]^2 = 1.28 times as
/// many requests. docs/rivals-literature.md says what came out.
#[test]
#[ignore = "slow: some minutes in virtual time"]
fn amp_needs_more_requests_than_the_square_root_law() {
    let of = |policy: Policy, max_window: u64| -> RivalRow {
        let rival = rivals::find("streaming-lognormal").expect("a built-in scenario");
        let max_window = Some(ByteCount(max_window));
        rivals::run(rival, &PolicySetup { policy, max_window, without: Vec::new() }, &mut |_| {})
    };
    let amp = of(named("amp"), 16 << 20);
    let optimum = amp.optimum_requests.expect("a streaming scenario");
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let times = amp.requests as f64 / optimum;
    println!(
        "amp: {} requests, {times:.2} x the fewest, {} unread",
        amp.requests, amp.evicted_unread
    );
    assert!(times > 1.28, "{times}");
}
