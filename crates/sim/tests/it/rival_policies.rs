//! The policies of the literature and of the field, as the simulator has them.

use std::collections::BTreeSet;

use foreread_core::prefetch::{
    Ask, Policy, Residency, StreamState, Streams, Trigger, Window, WindowLimits, Without,
};
use foreread_core::units::{ByteCount, PageIndex, Pages};
use foreread_sim::policy;
use foreread_sim::rival_policy::{self, find};
use foreread_sim::rivals::{self, PolicySetup, RivalRow};
use foreread_sim::scenario::Scenario;

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

/// A cache with these pages of the file.
struct Resident(std::ops::Range<u64>);

impl Residency for Resident {
    fn history(&self, page: PageIndex, limit: Pages) -> Pages {
        let before = page.0.min(self.0.end).saturating_sub(self.0.start);
        if self.0.end >= page.0 { Pages(before).min(limit) } else { Pages::ZERO }
    }

    fn next_hole(&self, page: PageIndex, limit: Pages) -> Option<PageIndex> {
        let hole = if self.0.contains(&page.0) { self.0.end } else { page.0 };
        (hole < page.0 + limit.0).then_some(PageIndex(hole))
    }
}

/// A reader of one handle, and what its policy remembers.
#[derive(Default)]
struct Handle {
    state: StreamState,
    streams: Streams,
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
        self.ask_in(&Nothing, policy, (page, count), trigger, has_waited)
    }

    fn ask_in(
        &mut self,
        cache: &impl Residency,
        policy: Policy,
        (page, count): (u64, u64),
        trigger: Trigger,
        has_waited: bool,
    ) -> Option<Window> {
        let (page, count) = (PageIndex(page), Pages(count));
        let ask = Ask { page, count, trigger, prev_pos: self.state.prev_pos, has_waited };
        let limits = WindowLimits { max: Pages(256), io_pages: Pages(256) };
        self.state.prev_pos = Some(ByteCount((page + count).0 * 4096));
        let decided = policy.decide(&mut self.state, &mut self.streams, ask, limits, cache)?;
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
    assert_eq!(names.len(), policy::ALL.len() + rival_policy::ALL.len());
    for policy in rival_policy::all() {
        assert_eq!(find(policy.name()), Some(policy));
    }
    assert_eq!(find("no such policy"), None);
    assert_eq!(Policy::from_name("amp"), None, "the library does not offer it");
}

#[test]
fn none_asks_for_more_than_its_limit_or_for_nothing_at_a_miss() {
    for policy in rival_policy::ALL.iter().copied() {
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
        handle.state.prev_pos = Some(ByteCount(window.end().0 * 4096));
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

/// Tracks of 16 pages: two whole ones before a page make it sequential.
#[test]
fn sarc_reads_a_group_behind_two_cached_tracks_and_the_next_from_its_trigger() {
    let sarc = named("sarc");
    let mut handle = Handle::default();
    let mut miss = |resident, page| {
        let cache = Resident(resident);
        handle.ask_in(&cache, sarc, (page, 4), Trigger::Miss, true).expect("a miss")
    };
    assert_eq!(miss(0..16, 16).size, Pages(4), "one track is no stream yet");
    assert_eq!(miss(1..32, 32).size, Pages(4), "a part of a track is none");
    let group = miss(0..36, 36);
    assert_eq!(
        (group.start, group.size, group.async_size),
        (PageIndex(36), Pages(256), Pages(128))
    );
    // Whichever handle meets the trigger: the next group begins where nothing is cached.
    let mut other = Handle::default();
    let next = other.ask_in(&Resident(0..292), sarc, (164, 4), Trigger::Marker, false);
    let next = next.expect("a trigger");
    assert_eq!((next.start, next.size, next.async_size), (PageIndex(292), Pages(256), Pages(128)));
}

#[test]
fn competitive_doubles_up_to_what_the_device_transfers_while_it_seeks() {
    let competitive = named("competitive");
    let mut handle = Handle::default();
    let mut sizes = Vec::new();
    let mut page = 0;
    for _ in 0..8 {
        let window = handle.ask(competitive, page, 4, Trigger::Miss).expect("a miss");
        sizes.push(window.size.0);
        page = window.end().0;
    }
    assert_eq!(sizes, [8, 16, 32, 64, 128, 256, 256, 256]);
    assert_eq!(handle.ask(competitive, 9999, 4, Trigger::Miss).expect("a miss").size, Pages(4));
    // 5 ms of a seek and 5 ms of half a turn at 100 MB/s: 1 MB in whole pages.
    let disk = "capacity = '1T'\nrpm = 6000\nouter_mb_per_s = 100\ninner_mb_per_s = 100\n\
                seek_min_ms = 5\nseek_max_ms = 5\n";
    let scenario = format!(
        "name = 'disk'\n[device.disk.model.hdd]\n{disk}[file.data]\ndevice = 'disk'\nsize = '1M'\n\
         [[process]]\nname = 'dd'\nrun.sequential = {{ file = 'data' }}\n"
    );
    let scenario = Scenario::parse(&scenario).expect("a scenario");
    let model = &scenario.device["disk"].model.get_ref().model;
    let window = rival_policy::window_of_device(competitive, model);
    assert_eq!(window, Some(ByteCount(244 * 4096)));
    assert_eq!(rival_policy::window_of_device(named("amp"), model), None);
}

/// With large folios a window that a marker asks for ends where a folio of it ends, and folios grow
/// by the factor 4 with each marker.
#[test]
fn linux_6_with_folios_ends_windows_at_larger_and_larger_folios() {
    let ends = |policy: Policy| {
        let mut handle = Handle::default();
        let mut window = handle.ask(policy, 3, 5, Trigger::Miss).expect("a miss");
        window = handle.ask(policy, window.end().0, 5, Trigger::Miss).unwrap_or(window);
        let mut ends = Vec::new();
        for _ in 0..6 {
            let marker = window.marker().expect("each window has one").0;
            window = handle.ask(policy, marker, 5, Trigger::Marker).expect("a marker");
            ends.push(window.end().0);
        }
        ends
    };
    let (plain, folios) = (ends(Policy::Linux6), ends(named("linux-6-folios")));
    let alignment = |ends: &[u64]| ends.iter().map(|end| end.trailing_zeros()).collect::<Vec<_>>();
    println!("{plain:?} {folios:?} {:?}", alignment(&folios));
    assert!(alignment(&folios).is_sorted(), "{folios:?}");
}

#[test]
fn fsspec_adaptive_reads_one_read_more_ahead_for_each_read_in_order() {
    let fsspec = named("fsspec-adaptive");
    let mut handle = Handle::default();
    let mut sizes = Vec::new();
    for page in [0, 4, 8] {
        sizes.push(handle.ask(fsspec, page, 4, Trigger::Miss).expect("a miss").size.0);
    }
    for page in [12, 16, 20, 28] {
        let window = handle.ask(fsspec, page, 4, Trigger::Marker).expect("a marker");
        assert_eq!(window.marker(), Some(window.start));
        sizes.push(window.size.0);
    }
    assert_eq!(sizes, [4, 4, 8, 4, 8, 8, 16]);
    // A seek ends it, and with it what was read ahead.
    assert_eq!(handle.ask(fsspec, 5000, 4, Trigger::Miss).expect("a miss").size, Pages(4));
    assert_eq!(handle.ask(fsspec, 36, 4, Trigger::Marker), None);
}

/// Gill and Bathen share memory so that pages of all streams live equally long, which takes windows
/// that are proportional to rates; the fewest requests take windows that grow with their square
/// root. At log-normal rates with sigma 1 the first then needs E[r] / E[sqrt r]^2 = 1.28 times as
/// many requests. docs/lab/rivals-literature.md says what came out.
#[test]
#[ignore = "slow: some minutes in virtual time"]
fn amp_needs_more_requests_than_the_square_root_law() {
    let of = |policy: Policy, max_window: u64| -> RivalRow {
        let rival = rivals::find("streaming-lognormal").expect("a built-in scenario");
        let max_window = Some(ByteCount(max_window));
        rivals::run(
            rival,
            &PolicySetup { policy, max_window, without: Without::default() },
            &mut |_| {},
        )
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
