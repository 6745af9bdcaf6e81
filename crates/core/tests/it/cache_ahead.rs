//! Eviction of read-ahead pages while the cache keeps unread ones: which pages leave for
//! read-ahead, in which order, and which only for a demand read. The random steps are in
//! cache_model.rs.

#![cfg(not(loom))]

use foreread_core::cache::{PageCache, Use};
use foreread_core::table::FileSlot;
use foreread_core::units::{PageIndex, Pages};

const FILE: FileSlot = FileSlot(0);
/// A file without live streams.
const DEAD: FileSlot = FileSlot(1);

#[test]
fn no_unread_page_of_a_live_stream_leaves_for_another_that_is_read_ahead() {
    let mut cache = keeping(16);
    fill(&mut cache, FILE, 0..16, Use::Ahead);
    assert_eq!(reclaim(&mut cache, 8), 0);
    touch(&mut cache, 0..6);
    assert_eq!(reclaim(&mut cache, 3), 3, "no more than was wanted");
    assert_eq!(missing(&cache, FILE, 0..16), [0, 1, 2]);
    assert_eq!(reclaim(&mut cache, 8), 5, "all that was used, but for the page of the reader");
    assert_eq!(missing(&cache, FILE, 0..16), [0, 1, 2, 3, 4]);
    assert_eq!(cache.stats().evicted_before_use, 0);
}

#[test]
fn used_pages_leave_first_then_those_of_dead_streams_then_the_inactive_tail() {
    let mut cache = keeping(16);
    fill(&mut cache, DEAD, 0..4, Use::Ahead);
    fill(&mut cache, FILE, 100..104, Use::Wanted);
    fill(&mut cache, FILE, 10..18, Use::Ahead);
    touch(&mut cache, 10..12);
    assert_eq!(reclaim(&mut cache, 1), 1);
    assert_eq!(missing(&cache, FILE, 10..18), [10]);
    assert_eq!(reclaim(&mut cache, 4), 4);
    assert_eq!(missing(&cache, DEAD, 0..4), [0, 1, 2]);
    assert_eq!(reclaim(&mut cache, 7), 7);
    assert_eq!(missing(&cache, DEAD, 0..4), [0, 1, 2, 3]);
    assert_eq!(missing(&cache, FILE, 100..104), [100, 101]);
    assert_eq!(reclaim(&mut cache, 16), 9, "all but a page in use and six unread ones");
    assert_eq!(cache.stats().evicted_before_use, 4);
}

#[test]
fn a_page_stays_until_its_reader_uses_the_next_whichever_way_it_goes() {
    // 63 and 64 are in different leaves.
    for (first, second) in [(62, 63), (63, 64), (63, 62), (64, 63)] {
        let mut cache = keeping(4);
        fill(&mut cache, FILE, 61..65, Use::Ahead);
        touch(&mut cache, 61..62);
        touch(&mut cache, 64..65);
        touch(&mut cache, first..first + 1);
        reclaim(&mut cache, 4);
        let is_there = |cache: &PageCache| missing(cache, FILE, first..first + 1).is_empty();
        let has_unread = (62..64).any(|page| page != first && page.abs_diff(first) == 1);
        assert_eq!(is_there(&cache), has_unread, "{first}");
        touch(&mut cache, second..second + 1);
        touch(&mut cache, 62..64);
        reclaim(&mut cache, 4);
        assert!(!is_there(&cache), "{first} {second}");
    }
}

#[test]
fn a_page_that_was_used_again_becomes_active_and_read_ahead_does_not_take_it() {
    let mut cache = keeping(8);
    fill(&mut cache, FILE, 0..8, Use::Ahead);
    touch(&mut cache, 0..4);
    touch(&mut cache, 1..2);
    assert_eq!(reclaim(&mut cache, 8), 2);
    assert_eq!(missing(&cache, FILE, 0..8), [0, 2]);
    assert_eq!(cache.stats().activations, 1);
    assert_eq!(cache.room_for_ahead(), Pages(7));
}

#[test]
fn a_page_evicted_early_and_read_again_soon_becomes_active() {
    // Otherwise pages that once filled the inactive list would stay, and a file read repeatedly
    // from start to end would be evicted each time.
    let mut cache = keeping(16);
    fill(&mut cache, FILE, 100..108, Use::Wanted);
    for round in 0..3 {
        for page in 0..8 {
            if cache.look_up(FILE, PageIndex(page)).is_none() {
                reclaim(&mut cache, 1);
                fill(&mut cache, FILE, page..page + 1, Use::Ahead);
            }
            touch(&mut cache, page..page + 1);
            // Another stream, which never returns to a page, continues in between.
            reclaim(&mut cache, 1);
            let other = 1000 + round * 8 + page;
            fill(&mut cache, FILE, other..other + 1, Use::Ahead);
            touch(&mut cache, other..other + 1);
        }
    }
    assert!(cache.stats().refaults_activated > 0, "{:?}", cache.stats());
}

#[test]
fn an_unread_page_that_left_and_comes_back_is_not_active_for_that() {
    let mut cache = keeping(16);
    fill(&mut cache, FILE, 100..108, Use::Wanted);
    fill(&mut cache, DEAD, 0..8, Use::Ahead);
    assert_eq!(reclaim(&mut cache, 8), 8);
    fill(&mut cache, DEAD, 0..8, Use::Ahead);
    assert_eq!(cache.stats().refaults, 0);
}

#[test]
fn the_hand_finds_what_was_used_among_many_that_were_not_and_no_call_looks_at_all() {
    const FRAMES: u64 = 40_000;
    let mut cache = keeping(u32::try_from(FRAMES).unwrap());
    fill(&mut cache, FILE, 0..FRAMES, Use::Ahead);
    let asked = |cache: &mut PageCache, want| {
        let mut asked = 0;
        let free = cache.reclaim(Pages(want), |_, _| {
            asked += 1;
            true
        });
        (free.0, asked)
    };
    assert_eq!(asked(&mut cache, 32), (0, 128), "four a page");
    // One in twenty, far from the hand.
    touch(&mut cache, 38_000..40_000);
    let calls = (0..).find(|_| asked(&mut cache, 32).0 == 32).unwrap();
    assert_eq!(calls, 10, "38,000 pages at 96 times 32, and four times 32, a call");
    assert_eq!(missing(&cache, FILE, 0..FRAMES).len(), 32);
}

#[test]
fn looks_that_were_not_needed_are_saved_for_the_long_way_between() {
    const FRAMES: u64 = 14_000;
    let mut cache = keeping(u32::try_from(FRAMES).unwrap());
    fill(&mut cache, FILE, 0..FRAMES, Use::Ahead);
    touch(&mut cache, 0..1000);
    (1..=99).for_each(|tens| assert_eq!(reclaim(&mut cache, tens * 10), tens * 10));
    touch(&mut cache, 13_000..14_000);
    assert_eq!(reclaim(&mut cache, 1010), 1010, "9 are left here, then 12,000 looks at once");
}

#[test]
fn a_wanted_page_looks_at_eight_before_it_takes_an_inactive_one() {
    let mut cache = keeping(32);
    fill(&mut cache, FILE, 0..20, Use::Ahead);
    fill(&mut cache, FILE, 100..112, Use::Wanted);
    touch(&mut cache, 7..20);
    fill(&mut cache, FILE, 200..201, Use::Wanted);
    assert_eq!(missing(&cache, FILE, 0..120), (20..101).chain(112..120).collect::<Vec<_>>());
    fill(&mut cache, FILE, 201..202, Use::Wanted);
    assert_eq!(missing(&cache, FILE, 0..20), [8]);
}

#[test]
fn a_wanted_page_gets_a_frame_though_all_others_are_unread_and_it_is_the_oldest() {
    let mut cache = keeping(8);
    fill(&mut cache, FILE, 0..8, Use::Ahead);
    fill(&mut cache, FILE, 100..101, Use::Wanted);
    assert_eq!(missing(&cache, FILE, 0..8), [0]);
    fill(&mut cache, FILE, 101..102, Use::Wanted);
    assert_eq!(missing(&cache, FILE, 0..8), [0], "and then the one that was wanted, and is not");
}

fn keeping(frames: u32) -> PageCache {
    let mut cache = PageCache::with_frames(frames);
    cache.set_keeps_unread(true);
    cache
}

fn fill(cache: &mut PageCache, file: FileSlot, pages: std::ops::Range<u64>, use_: Use) {
    for page in pages {
        let filling = cache.start_fill(file, PageIndex(page), use_, false);
        cache.filled(filling);
    }
}

fn touch(cache: &mut PageCache, pages: std::ops::Range<u64>) {
    pages.for_each(|page| cache.touch(FILE, PageIndex(page), false));
}

fn reclaim(cache: &mut PageCache, want: u64) -> u64 {
    cache.reclaim(Pages(want), |file, _| file != DEAD).0
}

fn missing(cache: &PageCache, file: FileSlot, pages: std::ops::Range<u64>) -> Vec<u64> {
    pages.filter(|&page| cache.look_up(file, PageIndex(page)).is_none()).collect()
}
