//! What the shares promise, of streams whose rates are known.
//!
//! In:    readers that take pages at a rate.
//! Out:   windows by the square root of the rates; sums that end where they began.
//! Never: a cache or a device. What comes of it there is the simulator's to show.

mod world;

use alloc::vec::Vec;

use self::world::{AskingReader, SECOND, SharesWorld, asking, far};
use super::*;
use crate::prefetch::question::ReaderState;

#[test]
fn with_room_for_two_windows_each_all_have_their_ceiling_and_ask_as_early_as_can_be() {
    for grant in SharesWorld::new(&[1, 100, 10_000], 200, 32).settle(10) {
        assert_eq!((grant.window, grant.distance), (Pages(32), None));
    }
    let short = SharesWorld::new(&[1, 100, 10_000, 10_000], 200, 32).settle(10);
    assert!(short.iter().all(|grant| grant.distance.is_some()), "four of them are too many");
}

#[test]
fn windows_are_as_the_roots_of_the_rates_and_twice_the_memory_in_all() {
    let windows: Vec<u64> = SharesWorld::new(&[10, 40, 90, 160], 10_000, 1 << 20)
        .settle(20)
        .iter()
        .map(|grant| grant.window.0)
        .collect();
    let all: u64 = windows.iter().sum();
    assert!((19_000..=20_000).contains(&all), "{windows:?}");
    for (window, root) in windows.iter().zip([1, 2, 3, 4]) {
        assert!(window.abs_diff(all * root / 10) <= all / 200, "{windows:?}");
    }
}

/// All windows together are twice the memory. Streams that begin together would want them at once.
#[test]
fn streams_that_begin_together_have_first_windows_that_fit_together_and_whole_ones_then() {
    for streams in [2, 3, 20, 200] {
        let mut world = SharesWorld::new(&vec![100; streams], 10_000, 1 << 20);
        let windows = world.settle(3);
        let mut stagger = || -> Vec<u64> {
            let each = windows.iter().zip(world.ids.clone());
            each.map(|(grant, id)| world.shares.stagger(id, grant.window, grant.window).0).collect()
        };
        let (first, second) = (stagger(), stagger());
        let all: u64 = windows.iter().map(|grant| grant.window.0).sum();
        let together: u64 = first.iter().sum();
        assert!(together.abs_diff(all / 2) <= all / streams as u64, "{first:?} of {all}");
        assert_eq!(second.iter().sum::<u64>(), all, "each waits for its phase once");
        let mut sorted = first;
        sorted.sort_unstable();
        let step = 2 * all / (streams * streams) as u64 + 1;
        assert!(sorted.windows(2).all(|two| two[1] - two[0] <= step), "evenly: {sorted:?}");
    }
    // With a small one it is on its way to its part.
    let mut world = SharesWorld::new(&[100; 20], 10_000, 1 << 20);
    let grants = world.settle(3);
    assert_eq!(world.shares.stagger(world.ids[0], Pages(1), grants[0].window), grants[0].window);
}

#[test]
fn a_stream_at_its_ceiling_leaves_the_rest_to_the_others() {
    let mut world = SharesWorld::new(&[10; 9], 10_000, 1 << 20);
    world.rates[0] = 100_000;
    let before: Vec<u64> = world.settle(20).iter().map(|grant| grant.window.0).collect();
    assert!(before[0] > 15_000, "{before:?}");
    world.ceiling = Pages(3000);
    let mut after = Vec::new();
    for second in 21..60 {
        after = (0..9).map(|stream| world.ask(stream, second).window.0).collect();
    }
    assert_eq!(after[0], 3000);
    assert!(after[1..].iter().all(|window| (1950..=2050).contains(window)), "{after:?}");
}

#[test]
fn memory_is_shared_by_weight_first_and_what_one_cannot_use_is_lent() {
    let of = |ceiling| {
        let mut world = SharesWorld::new(&[10; 4], 4096, 4096);
        assert!(world.shares.set_weight(Submitter(0), 1));
        assert!(world.shares.set_weight(Submitter(1), 3));
        assert!(world.shares.set_weight(Submitter(2), 4));
        assert!(world.shares.set_weight(Submitter(3), 4));
        world.ceiling = Pages(4096);
        let mut grants = world.settle(9);
        for second in 10..20 {
            for (stream, grant) in grants.iter_mut().enumerate() {
                world.ceiling = Pages(if stream == 3 { ceiling } else { 4096 });
                *grant = world.ask(stream, second);
            }
        }
        grants.iter().map(|grant| grant.window.0).collect::<Vec<_>>()
    };
    let even = of(4096);
    assert!(even[1].abs_diff(3 * even[0]) <= 8, "{even:?}");
    assert!(even[2].abs_diff(4 * even[0]) <= 8 && even[2] == even[3], "{even:?}");
    let lent = of(16);
    assert_eq!(lent[3], 16);
    assert!(lent[0] > even[0] * 7 / 5 && lent[1].abs_diff(3 * lent[0]) <= 8, "{lent:?} {even:?}");
}

#[test]
fn a_stalled_stream_counts_less_and_less_and_then_its_pages_may_go() {
    let mut world = SharesWorld::new(&[100; 4], 1000, 1 << 20);
    let before = world.settle(10)[0].window;
    let mut windows = Vec::new();
    for second in 11..400 {
        windows.push(world.ask(0, second).window.0);
        assert!(world.shares.is_live(Nanos(second * SECOND), world.ids[0]));
    }
    assert!(windows[0].abs_diff(before.0) <= before.0 / 50);
    assert!(windows.windows(2).all(|pair| pair[0] <= pair[1] + 8), "{windows:?}");
    assert!(*windows.last().unwrap() > 3 * before.0, "{before:?} {windows:?}");
    assert!(!world.shares.is_live(Nanos(400 * SECOND), world.ids[1]));
    let back = world.ask(1, 400);
    assert!(back.window > Pages(1), "a stream that comes back gets a window: {back:?}");
}

#[test]
fn a_stream_at_the_end_of_its_file_needs_no_more_and_leaves_the_rest_to_the_others_at_once() {
    let mut world = SharesWorld::new(&[100; 4], 1000, 1 << 20);
    let before = world.settle(10)[0].window.0;
    let now = Nanos(10 * SECOND);
    for id in &world.ids[1..] {
        world.shares.set_ahead(now, *id, Pages(50), Some((FileSlot(0), PageIndex(0))));
    }
    let alone = world.ask(0, 11).window.0;
    assert!(alone > 3 * before, "half a second later they have read all: {before} {alone}");
    assert!(world.ids.iter().all(|id| world.shares.is_live(Nanos(13 * SECOND), *id)));
    // One begins again from the start, and has its share again.
    world.ask(1, 12);
    let again = world.ask(0, 12).window.0;
    assert!(again < alone * 2 / 3, "{alone} {again}");
}

/// Files of five pages that were read and stay open, of which no rate is known, and one stream.
#[test]
fn streams_whose_last_page_was_read_need_no_memory_however_many_they_are() {
    let mut world = SharesWorld::new(&[100], 1000, 400);
    let alone = world.settle(10)[0];
    assert_eq!(alone.window, Pages(400));
    let now = Nanos(10 * SECOND);
    let mut begin = |file: u32| {
        let id = AskingReader { now, ..asking() }.begin(&mut world.shares);
        world.shares.set_ahead(now, id, Pages(5), Some((FileSlot(file), PageIndex(4))));
        id
    };
    let small: Vec<_> = (0..1000).map(&mut begin).collect();
    let beside = world.ask(0, 11);
    assert!(beside.window < Pages(10), "unread, they count: {beside:?}");
    // All but one were read; that one is met again and again, and put back.
    let looks = core::cell::Cell::new(0);
    for _ in 0..1000 {
        let is_unread = |file, page| {
            looks.set(looks.get() + 1);
            assert_eq!(page, PageIndex(4));
            file == FileSlot(7)
        };
        world.shares.look_at_ends(now, is_unread);
        world.shares.assert_consistent();
    }
    assert_eq!(looks.get(), 999 + 501, "each once, and then the unread one alone");
    assert_eq!(world.ask(0, 12), alone);
    // One begins again, and its file may name another one by then; a look at its end is over.
    AskingReader { now, ..asking() }.ask(&mut world.shares, small[7], world.memory);
    small.into_iter().for_each(|id| world.shares.end(id));
    world.shares.look_at_ends(now, |file, _| panic!("{file:?} was read again, or is closed"));
    world.shares.assert_consistent();
}

#[test]
fn a_submitter_with_a_weight_whose_files_were_read_to_their_end_begins_as_before() {
    let mut shares = MemoryShares::new();
    assert!(shares.set_weight(Submitter(1), 1));
    let weighted = || {
        let reader = ReaderState { submitter: Submitter(1), ..ReaderState::default() };
        AskingReader { reader, ..asking() }
    };
    let (now, before) = (weighted().now, weighted().ask_new(&mut shares, 1000));
    let id = weighted().begin(&mut shares);
    shares.set_ahead(now, id, Pages(5), Some((FileSlot(1), PageIndex(4))));
    shares.look_at_ends(now, |_, _| false);
    assert_eq!(weighted().ask_new(&mut shares, 1000), before);
    assert!(before.window > Pages(1), "{before:?}");
}

#[test]
fn sixteen_have_weights_of_their_own_and_the_next_is_told_that_it_has_none() {
    let mut world = SharesWorld::new(&[10; 20], 4096, 4096);
    for number in 0..16 {
        assert!(world.shares.set_weight(Submitter(number), 3));
    }
    assert!(!world.shares.set_weight(Submitter(16), 3));
    assert!(world.shares.set_weight(Submitter(15), 1), "one that has its own may change it");
    let grants = world.settle(20);
    let of = |stream: usize| grants[stream].window.0;
    assert!(of(0).abs_diff(of(14)) <= 2, "no submitter has lost its weight: {grants:?}");
    assert!(of(0) > 2 * of(15) && of(0) > 8 * of(19), "{grants:?}");
    // One that gives its weight back is one of the others, and its place is another's.
    assert!(world.shares.set_weight(Submitter(0), 0));
    assert!(world.shares.set_weight(Submitter(16), 3));
    let grants = (21..40)
        .map(|second| (0..20).map(|stream| world.ask(stream, second).window.0).collect::<Vec<_>>());
    let windows = grants.last().unwrap();
    assert!(windows[16].abs_diff(windows[14]) <= 2, "{windows:?}");
    assert!(windows[0].abs_diff(windows[19]) <= 2, "{windows:?}");
}

#[test]
fn a_wait_doubles_the_lead_and_all_leads_have_a_quarter_at_most() {
    let mut world = SharesWorld::new(&[100; 10], 1000, 1 << 20);
    let quiet = world.settle(10)[0].distance.unwrap();
    for second in 11..40 {
        for stream in 0..10 {
            let asking = AskingReader { has_waited: true, ..world.asking(stream, second) };
            let grant = asking.ask(&mut world.shares, world.ids[stream], world.memory);
            assert!(grant.distance.unwrap() <= grant.window);
            if second == 39 {
                assert!(grant.distance.unwrap() > quiet);
                assert!(grant.distance.unwrap() <= Pages(25), "{grant:?}");
                assert!(grant.window >= Pages(140), "{grant:?}");
            }
        }
    }
}

#[test]
fn sums_end_where_they_began() {
    let mut world = SharesWorld::new(&[1, 10, 100, 1000, 10_000], 500, 64);
    assert!(world.shares.set_weight(Submitter(3), 7));
    world.settle(30);
    for id in world.ids.split_off(0) {
        world.shares.end(id);
    }
    let empty = AskingReader { now: Nanos(0), ..asking() }.ask_new(&mut world.shares, 100);
    assert_eq!((empty.window, empty.distance), (Pages(8), None));
    let again = asking().begin(&mut world.shares);
    assert!(world.shares.is_live(Nanos(0), again));
}

#[test]
fn streams_of_a_far_device_share_what_is_in_flight_there() {
    for streams in [1, 2, 8] {
        let mut shares = MemoryShares::new();
        let ids: Vec<_> = (0..streams).map(|_| far(0, 0, 0).begin(&mut shares)).collect();
        let mut windows = Vec::new();
        for turn in 1..20 {
            let ask = |id: &ShareId| {
                far(turn, 4096, SECOND / 10).ask(&mut shares, *id, Pages(1 << 20)).window.0
            };
            windows = ids.iter().map(ask).collect();
            shares.assert_consistent();
        }
        let all: u64 = windows.iter().sum();
        assert!((8000..=8192).contains(&all), "{streams} streams: {windows:?}");
        ids.into_iter().for_each(|id| shares.end(id));
        shares.assert_consistent();
    }
}

#[test]
fn a_stream_of_a_far_device_that_does_not_wait_has_a_window_by_its_rate() {
    // 250 pages a second, 10 in two round trips: the least window. Ten times as many.
    for (pages, want) in [(25, 32), (250, 112)] {
        let mut shares = MemoryShares::new();
        let (id, mut window) = (far(0, 0, 0).begin(&mut shares), Pages::ZERO);
        for turn in 1..10 {
            window = far(turn, pages, 0).ask(&mut shares, id, Pages(1 << 20)).window;
        }
        assert_eq!(window, Pages(want), "{pages} pages in a tenth of a second");
        shares.assert_consistent();
    }
}

#[test]
fn a_stream_of_a_far_device_that_waits_has_twice_as_much_each_time() {
    let mut shares = MemoryShares::new();
    let id = far(0, 0, 0).begin(&mut shares);
    let mut ask = |turn, has_waited| {
        let asking = AskingReader { has_waited, ..far(turn, 20, 0) };
        asking.ask(&mut shares, id, Pages(1 << 20)).window.0
    };
    let windows = [(1, true), (2, true), (3, true), (4, true), (5, false)];
    assert_eq!(windows.map(|(turn, waits)| ask(turn, waits)), [32, 64, 128, 256, 32]);
}

#[test]
fn a_first_window_far_away_is_a_request_or_two_reads_as_far_as_others_leave_it() {
    let mut shares = MemoryShares::new();
    let first = |shares: &mut MemoryShares, reads| {
        AskingReader { count: Pages(reads), ..far(60, 0, 0) }.ask_new(shares, 1 << 20).window.0
    };
    let firsts = [1, 32, 1024, 1 << 20].map(|reads| first(&mut shares, reads));
    assert_eq!(firsts, [256, 256, 2048, 8192]);
    for _ in 0..100 {
        let id = far(0, 0, 0).begin(&mut shares);
        for turn in 1..60 {
            far(turn, 4096, SECOND / 10).ask(&mut shares, id, Pages(1 << 20));
        }
    }
    assert_eq!(first(&mut shares, 16), 256, "a request at least");
    assert_eq!(first(&mut shares, 1024), 1024, "its own read");
}
