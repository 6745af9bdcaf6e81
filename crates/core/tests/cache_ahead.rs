//! What becomes of pages that were read ahead, where the cache keeps them until they are used.
//!
//! In:    a cache of a few frames, pages of streams that are alive or gone.
//! Out:   which pages leave for read-ahead, in which order, and which only for a page wanted.
//! Never: a look inside. The random steps are in cache_model.rs.

#![cfg(not(loom))]

use foreread_core::cache::{PageCache, Use};
use foreread_core::table::FileSlot;
use foreread_core::units::{PageIndex, Pages};

const FILE: FileSlot = FileSlot(0);
/// Its streams are gone.
const DEAD: FileSlot = FileSlot(1);

#[test]
fn no_unread_page_of_a_live_stream_leaves_for_another_that_is_read_ahead() {
    let mut cache = keeping(16);
    fill(&mut cache, FILE, 0..16, Use::Ahead);
    assert_eq!(reclaim(&mut cache, 8), 0);
    (3..8).for_each(|page| cache.touch(FILE, PageIndex(page), false));
    assert_eq!(reclaim(&mut cache, 3), 3, "no more than was wanted");
    assert_eq!(missing(&cache, FILE, 0..16), [3, 4, 5]);
    assert_eq!(reclaim(&mut cache, 8), 5, "all that was used");
    assert_eq!(missing(&cache, FILE, 0..16), [3, 4, 5, 6, 7]);
    assert_eq!(cache.stats().evicted_before_use, 0);
}

#[test]
fn used_pages_leave_first_then_those_of_dead_streams_then_the_inactive_tail() {
    let mut cache = keeping(16);
    fill(&mut cache, DEAD, 0..4, Use::Ahead);
    fill(&mut cache, FILE, 0..4, Use::Wanted);
    fill(&mut cache, FILE, 10..18, Use::Ahead);
    cache.touch(FILE, PageIndex(17), false);
    assert_eq!(reclaim(&mut cache, 1), 1);
    assert_eq!(missing(&cache, FILE, 10..18), [17]);
    assert_eq!(reclaim(&mut cache, 4), 4);
    assert_eq!(missing(&cache, DEAD, 0..4), [0, 1, 2]);
    assert_eq!(reclaim(&mut cache, 7), 7);
    assert_eq!(missing(&cache, DEAD, 0..4), [0, 1, 2, 3]);
    assert_eq!(missing(&cache, FILE, 0..4), [0, 1]);
    assert_eq!(reclaim(&mut cache, 16), 9, "all but seven unread pages of a live stream");
    assert_eq!(cache.stats().evicted_before_use, 4);
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

fn reclaim(cache: &mut PageCache, want: u64) -> u64 {
    cache.reclaim(Pages(want), |file, _| file != DEAD).0
}

fn missing(cache: &PageCache, file: FileSlot, pages: std::ops::Range<u64>) -> Vec<u64> {
    pages.filter(|&page| cache.look_up(file, PageIndex(page)).is_none()).collect()
}
