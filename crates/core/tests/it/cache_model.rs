//! The page cache against a slow and obvious model, compared after each of many steps: pages,
//! flags, the order of lists, runs, room and counters. The steps are named sequences, and random
//! ones over few frames and pages that often coincide.
//!
//! The model is in cache_model/model.rs, the steps are in cache_model/steps.rs.

#![cfg(not(loom))]

mod both;
mod model;
mod steps;

use both::{Both, end, fill, run};
use foreread_core::cache::{PageCache, Use};
use foreread_core::table::{FileSlot, Frame};
use foreread_core::units::{ByteCount, PageIndex, Pages};
use proptest::prelude::*;
use steps::{LAST, step};

use steps::Live;
use steps::Step::{
    End, Fill, ForgetFile, ForgetRange, Hold, Pin, Reclaim, Release, Report, Touch, Unpin,
};

#[test]
fn the_page_that_came_first_leaves_first_unless_it_was_used_again() {
    let mut both = Both::new(3);
    both.read([(0, 1), (0, 2), (0, 3)]);
    assert_eq!(both.lists(), (vec![3, 2, 1], vec![]));
    both.read([(0, 1), (0, 4)]);
    assert_eq!(both.lists(), (vec![4, 3], vec![1]), "1 was referenced, so 2 left");
    both.read([(0, 5), (0, 6)]);
    assert_eq!(both.lists(), (vec![6, 5], vec![1]));
}

#[test]
fn a_scan_does_not_push_out_what_is_used_again() {
    let mut both = Both::new(8);
    both.read([(0, 1), (0, 2), (0, 1), (0, 2)]);
    both.read((100..200).map(|page| (1, page)));
    assert_eq!(both.lists().1, [2, 1]);
}

#[test]
fn the_active_list_gives_back_what_would_make_it_the_longer_one() {
    let mut both = Both::new(4);
    let pages = [(0, 1), (0, 2), (0, 3), (0, 4)];
    both.read(pages);
    both.read(pages);
    both.read([(0, 5)]);
    assert_eq!(both.lists(), (vec![5, 2], vec![4, 3]), "1 and 2 went back, and 1 was at the tail");
}

#[test]
fn a_page_that_comes_back_early_starts_as_active() {
    let mut both = Both::new(4);
    both.read([(0, 1), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    assert_eq!(both.lists(), (vec![5, 4, 3], vec![1]));
    both.read([(0, 2)]);
    assert_eq!(
        both.lists(),
        (vec![5, 4], vec![2, 1]),
        "2 left one place too early, and one is active"
    );
    both.read([(0, 6), (0, 7), (0, 3)]);
    assert_eq!(both.lists().0[0], 3, "3 was away for too long");
}

#[test]
fn an_eviction_makes_room_in_a_leaf_that_it_empties() {
    run(1, &[fill(0, 5), end(), fill(0, 6), end(), fill(1, 6), end(), fill(0, 5), end()]);
}

#[test]
fn the_shadow_of_the_page_that_returns_is_taken_before_it_can_be_overwritten() {
    // One frame, one shadow: the page that makes room for 5 would overwrite the shadow of 5.
    let mut both = run(1, &[fill(0, 5), end(), fill(0, 6), end(), fill(0, 5), end()]);
    assert_eq!(both.cache.stats().refaults, 1);
    both.step(fill(0, 6));
    assert_eq!(both.cache.stats().refaults, 2);
}

#[test]
fn a_file_that_is_forgotten_leaves_its_frames_to_their_fills_and_holds() {
    let mut both = run(4, &[fill(0, 1), fill(0, 2), end(), end(), Hold { page: 0 }, fill(0, 3)]);
    both.step(ForgetFile { file: 0, pages: 4 });
    assert_eq!(both.cache.idle(), Pages(2));
    both.step(fill(0, 3));
    both.step(end());
    assert!(both.cache.look_up(FileSlot(0), PageIndex(3)).is_some_and(|new| !new.is_up_to_date()));
    both.step(Release { hold: 0 });
    both.step(end());
    assert_eq!(both.cache.idle(), Pages(4));
}

#[test]
fn a_pinned_page_is_not_evicted_but_goes_around_as_active() {
    let mut both = Both::new(4);
    both.read([(0, 1), (0, 2), (0, 62), (0, 63)]);
    both.step(Pin { page: 0 });
    both.read([(0, 64)]);
    assert_eq!(both.lists(), (vec![64, 63, 62], vec![1]), "2 left in its place");
    both.read([(0, 65), (0, 127), (0, 128), (1, 1), (1, 2), (1, 62)]);
    assert_eq!(both.lists().1, [1]);
    both.step(Unpin { pin: 0 });
    assert_eq!(both.cache.idle(), Pages(4), "it is no orphan: the cache need not be told");
}

#[test]
fn a_page_that_is_forgotten_while_it_is_pinned_leaves_its_frame_to_its_pins() {
    let mut both = Both::new(8);
    both.read([(0, 1)]);
    both.step(Pin { page: 0 });
    both.step(Pin { page: 0 });
    both.step(ForgetRange { file: 0, start: 1, pages: 1 });
    assert_eq!(both.cache.idle(), Pages(7));
    both.read([(0, 1)]);
    both.step(Unpin { pin: 0 });
    assert_eq!(both.unpinned, [], "another has it pinned");
    both.step(Unpin { pin: 0 });
    assert_eq!(both.unpinned, [Frame(0)]);
    assert_eq!(both.cache.idle(), Pages(7), "the driver has not heard of it");
    both.step(Report);
    assert_eq!(both.cache.idle(), Pages(8));
}

#[test]
fn an_eviction_finds_the_only_page_that_is_not_pinned_wherever_it_is() {
    // More pins than the budget allows: with a quarter of the frames, each list has pages to spare.
    const FRAMES: u64 = 8;
    for free in 0..FRAMES {
        for active in 0..FRAMES {
            let mut cache = PageCache::with_frames(8);
            let fill = |cache: &mut PageCache, page| {
                let filling = cache.start_fill(FileSlot(0), PageIndex(page), Use::Wanted, false);
                cache.filled(filling);
            };
            (0..FRAMES).for_each(|page| fill(&mut cache, page));
            // This many are promoted before the search meets a pin.
            (0..active).for_each(|page| cache.touch(FileSlot(0), PageIndex(page), false));
            let table = cache.table();
            let pins = (0..FRAMES).filter(|&page| page != free).filter(|&page| {
                let found = table.look_up(FileSlot(0), PageIndex(page)).unwrap();
                table.pin(&found)
            });
            assert_eq!(pins.count(), 7);
            fill(&mut cache, 100);
            assert_eq!(cache.look_up(FileSlot(0), PageIndex(free)), None, "{free} {active}");
            assert!(cache.stats().activations <= 7 + active, "{free} {active}");
        }
    }
}

#[test]
fn a_page_that_is_not_there_or_has_left_cannot_be_pinned() {
    let mut cache = PageCache::with_frames(1);
    let table = cache.table();
    let filling = cache.start_fill(FileSlot(0), PageIndex(1), Use::Wanted, false);
    let early = table.look_up(FileSlot(0), PageIndex(1)).unwrap();
    assert!(!table.pin(&early), "its bytes are on their way");
    cache.filled(filling);
    assert!(!table.pin(&early), "as far as its reader knows, they still are");
    let found = table.look_up(FileSlot(0), PageIndex(1)).unwrap();
    for _ in 0..2 {
        // By eviction, and by being forgotten; the page comes back both times.
        let filling = cache.start_fill(FileSlot(0), PageIndex(2), Use::Wanted, false);
        cache.filled(filling);
        assert!(!table.pin(&found));
        cache.forget_file(FileSlot(0), Pages(9));
        let filling = cache.start_fill(FileSlot(0), PageIndex(1), Use::Wanted, false);
        cache.filled(filling);
        assert!(!table.pin(&found), "the same page in the same frame, and another generation");
    }
    let found = table.look_up(FileSlot(0), PageIndex(1)).unwrap();
    assert!(table.pin(&found));
    assert!(!table.unpin(found.entry().frame(), found.entry().generation()));
}

#[test]
#[should_panic(expected = "is not an orphan")]
fn a_frame_whose_page_is_in_the_table_is_no_orphan() {
    let mut cache = PageCache::with_frames(1);
    let filling = cache.start_fill(FileSlot(0), PageIndex(1), Use::Wanted, false);
    cache.unpinned(filling.frame());
}

#[test]
fn a_page_whose_fill_failed_misses_again_while_its_readers_still_hold_the_frame() {
    let mut both = run(2, &[fill(0, 1), Hold { page: 0 }, End { fill: 0, well: false }]);
    assert_eq!(both.cache.look_up(FileSlot(0), PageIndex(1)), None);
    assert_eq!(both.cache.available(), Pages(1));
    both.step(fill(0, 1));
    both.step(Release { hold: 0 });
    assert_eq!(both.cache.available(), Pages(1));
}

#[test]
fn an_eviction_ends_though_every_page_is_referenced() {
    let mut cache = PageCache::with_frames(200);
    for page in (0..200).map(PageIndex) {
        let filling = cache.start_fill(FileSlot(0), page, Use::Wanted, false);
        cache.filled(filling);
        cache.touch(FileSlot(0), page, false);
    }
    let _filling = cache.start_fill(FileSlot(0), PageIndex(200), Use::Wanted, false);
    assert_eq!(cache.stats().activations, 32);
    assert_eq!(cache.look_up(FileSlot(0), PageIndex(32)), None, "the next one left all the same");
}

/// The caches of the random steps have fewer pages than the hand may look at for one frame: they
/// did not detect that the model once had a third of the looks.
#[test]
fn the_hand_looks_at_a_few_pages_for_each_frame_and_saves_what_it_does_not_need() {
    let mut both = Both::keeping(300);
    let fill_ahead = |both: &mut Both, pages: std::ops::Range<u64>| {
        for page in pages {
            both.step(Fill { name: (0, page), use_: Use::Ahead, marker: false });
            both.step(end());
        }
    };
    let read = |both: &mut Both, pages: std::ops::Range<u64>| {
        pages.for_each(|page| both.step(Touch { name: (0, page), continues: false }));
    };
    let has = |both: &Both, page| both.cache.look_up(FileSlot(0), PageIndex(page)).is_some();
    fill_ahead(&mut both, 0..300);
    // The reader of the first may go back to the page before it. The second is at look 82.
    read(&mut both, 80..91);
    both.step(Reclaim { want: 1, live: Live::All });
    assert!(has(&both, 80) && !has(&both, 81) && has(&both, 82), "14 of 96 looks are left");
    both.step(ForgetRange { file: 0, start: 82, pages: 9 });
    fill_ahead(&mut both, 300..310);
    // The hand is at 91: the second of these is at look 105. 96 and 4 looks would not reach it.
    read(&mut both, 194..200);
    both.step(Reclaim { want: 1, live: Live::All });
    assert!(has(&both, 194) && !has(&both, 195) && has(&both, 196));
    // Five are left, so the last look is at 304: 101, and 4 for unread pages of dead streams.
    both.step(ForgetRange { file: 0, start: 196, pages: 4 });
    fill_ahead(&mut both, 310..315);
    read(&mut both, 304..315);
    both.step(Reclaim { want: 1, live: Live::All });
    assert!(has(&both, 304) && has(&both, 305));
}

#[test]
fn a_bound_covers_the_frames_and_what_is_kept_for_them() {
    let cost = 4096 + PageCache::metadata_bytes_per_frame();
    for bound in [PageCache::MIN_BOUND, ByteCount(64 << 20), ByteCount((1 << 30) + 12345)] {
        let frames = u64::from(PageCache::new(bound).frames());
        assert!(frames * cost <= bound.0);
        assert!((frames + 1) * cost > bound.0);
    }
}

#[test]
#[should_panic(expected = "no frame for")]
fn a_fill_needs_a_frame_that_is_available() {
    let mut cache = PageCache::with_frames(1);
    let _filling = cache.start_fill(FileSlot(0), PageIndex(1), Use::Wanted, false);
    let _another = cache.start_fill(FileSlot(0), PageIndex(2), Use::Wanted, false);
}

#[test]
fn a_range_may_end_past_the_largest_file() {
    // Found by the random steps: the last page of the largest file, plus one, panicked.
    run(1, &[fill(0, LAST), end(), ForgetRange { file: 0, start: LAST, pages: 2 }, fill(0, LAST)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_cache_does_what_the_model_does(
        frames in 1..16_u32,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        run(frames, &steps);
    }

    #[test]
    fn the_cache_that_keeps_unread_pages_does_what_the_model_does(
        frames in 1..24_u32,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut both = Both::keeping(frames);
        steps.iter().for_each(|&step| both.step(step));
    }
}
