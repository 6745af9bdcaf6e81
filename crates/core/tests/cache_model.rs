//! The page cache against a model of it that is slow and obvious, after every one of many steps.
//!
//! In:    named sequences of steps, and random ones over few frames and pages that meet often.
//! Out:   both have the same pages, flags, lists in the same order, runs, room and counters; and
//!        each frame is in one place.
//! Never: a look inside. What readers and read-ahead can see is compared, and the dump.
//!
//! The model is in cache_model/model.rs, the steps are in cache_model/steps.rs.

#![cfg(not(loom))]

#[path = "cache_model/model.rs"]
mod model;
#[path = "cache_model/steps.rs"]
mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foreread_core::cache::{Filling, PageCache, Use};
use foreread_core::table::{FileSlot, Frame, Generation};
use foreread_core::units::{ByteCount, PageIndex, Pages};
use model::{Model, Name};
use proptest::prelude::*;
use steps::{FILES, LAST, Live, PAGES, Step, step};

use Step::{
    DropWrite, End, Fill, ForgetFile, ForgetRange, Hold, Pin, Reclaim, Release, Report, TakeMarker,
    Touch, Unpin, Write,
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
    // More pins than the budget has: with a quarter of the frames, each list has pages to spare.
    const FRAMES: u64 = 8;
    for free in 0..FRAMES {
        for active in 0..FRAMES {
            let mut cache = PageCache::with_frames(8);
            let fill = |cache: &mut PageCache, page| {
                let filling = cache.start_fill(FileSlot(0), PageIndex(page), Use::Wanted, false);
                cache.filled(filling);
            };
            (0..FRAMES).for_each(|page| fill(&mut cache, page));
            // So many are promoted before the pins are met at all.
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
        // By eviction, and by being forgotten; it comes back both times.
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
    // Found by the random steps: the last page of the largest file, and one more, panicked.
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

fn fill(file: u32, page: u64) -> Step {
    Fill { name: (file, page), use_: Use::Wanted, marker: false }
}

/// The oldest fill ends well.
fn end() -> Step {
    End { fill: 0, well: true }
}

fn run(frames: u32, steps: &[Step]) -> Both {
    let mut both = Both::new(frames);
    for &step in steps {
        both.step(step);
    }
    both
}

/// The cache, the model, and what the caller of both has in hand.
struct Both {
    cache: PageCache,
    model: Model,
    fills: Vec<Filling>,
    holds: Vec<Frame>,
    pins: Vec<(Frame, Generation)>,
    /// Orphans whose last pin has ended, and the cache does not know.
    unpinned: VecDeque<Frame>,
    /// Of the last page in each frame.
    generations: BTreeMap<Frame, Generation>,
}

impl Both {
    fn new(frames: u32) -> Self {
        let cache = PageCache::with_frames(frames);
        let model = Model::new(frames);
        Self {
            cache,
            model,
            fills: vec![],
            holds: vec![],
            pins: vec![],
            unpinned: VecDeque::new(),
            generations: BTreeMap::new(),
        }
    }

    fn keeping(frames: u32) -> Self {
        let mut both = Self::new(frames);
        both.cache.set_keeps_unread(true);
        both.model.keeps_unread = true;
        both
    }

    /// Uses pages as a reader does: what is not resident is filled.
    fn read(&mut self, names: impl IntoIterator<Item = Name>) {
        for name in names {
            if self.model.page(name).is_some() {
                self.step(Touch { name, continues: false });
            } else {
                self.step(fill(name.0, name.1));
                self.step(end());
            }
        }
    }

    /// The pages on the inactive and on the active list, without their files.
    fn lists(&self) -> (Vec<u64>, Vec<u64>) {
        let pages = |list: &VecDeque<Name>| list.iter().map(|name| name.1).collect();
        (pages(&self.model.inactive), pages(&self.model.active))
    }

    fn step(&mut self, step: Step) {
        self.apply(step);
        self.check();
    }

    fn apply(&mut self, step: Step) {
        let Self { cache, model, fills, holds, pins, unpinned, generations } = self;
        match step {
            Fill { name, use_, marker } => {
                if model.page(name).is_some() || model.available() == 0 {
                    return;
                }
                let filling = cache.start_fill(FileSlot(name.0), PageIndex(name.1), use_, marker);
                let before = generations.insert(filling.frame(), filling.generation());
                assert!(
                    before != Some(filling.generation()),
                    "a frame's next page is not its last"
                );
                model.start_fill(name, use_, marker, filling.frame().0);
                fills.push(filling);
            }
            End { fill, well } => {
                let Some(at) = fill.checked_rem(fills.len()) else { return };
                let filling = fills.remove(at);
                model.end_fill(filling.frame().0, well);
                if well {
                    cache.filled(filling);
                } else {
                    cache.fill_failed(filling);
                }
            }
            Hold { page } => {
                let resident: Vec<Name> =
                    names().filter(|&name| model.page(name).is_some()).collect();
                let Some(at) = page.checked_rem(resident.len()) else { return };
                let frame = Frame(model.page(resident[at]).unwrap().frame);
                model.hold(resident[at]);
                cache.hold(frame);
                holds.push(frame);
            }
            Release { hold } => {
                let Some(at) = hold.checked_rem(holds.len()) else { return };
                let frame = holds.remove(at);
                model.release(frame.0);
                cache.release(frame);
            }
            Pin { page } => {
                let resident: Vec<Name> =
                    names().filter(|&name| model.page(name).is_some()).collect();
                let Some(at) = page.checked_rem(resident.len()) else { return };
                let table = cache.table();
                if table.pin_budget().try_take(1) == 0 {
                    return;
                }
                let (file, page) = resident[at];
                let found = table.look_up(FileSlot(file), PageIndex(page)).unwrap();
                let is_pinned = table.pin(&found);
                assert_eq!(is_pinned, model.pin(resident[at]));
                if is_pinned {
                    pins.push((found.entry().frame(), found.entry().generation()));
                } else {
                    table.pin_budget().give_back(1);
                }
            }
            Unpin { pin } => {
                let Some(at) = pin.checked_rem(pins.len()) else { return };
                let (frame, generation) = pins.remove(at);
                let is_last = cache.table().unpin(frame, generation);
                assert_eq!(is_last, model.unpin(frame.0));
                if is_last {
                    unpinned.push_back(frame);
                } else {
                    cache.table().pin_budget().give_back(1);
                }
            }
            Report => {
                let Some(frame) = unpinned.pop_front() else { return };
                model.unpinned(frame.0);
                cache.unpinned(frame);
                cache.table().pin_budget().give_back(1);
            }
            Touch { name, continues } => {
                model.touch(name, continues);
                cache.touch(FileSlot(name.0), PageIndex(name.1), continues);
            }
            TakeMarker { name } => {
                let taken = cache.take_marker(FileSlot(name.0), PageIndex(name.1));
                assert_eq!(taken, model.take_marker(name));
            }
            ForgetRange { file, start, pages } => {
                model.forget_range(file, start, pages);
                cache.forget_range(FileSlot(file), PageIndex(start), Pages(pages));
            }
            ForgetFile { file, pages } => {
                // The caller knows how many pages the file has.
                model.forget_file(file, pages.max(1 << 51));
                cache.forget_file(FileSlot(file), Pages(pages.max(1 << 51)));
            }
            Write { name } => {
                if model.available() == 0 {
                    return;
                }
                let fresh = cache.start_write();
                model.start_write();
                let frame = fresh.frame();
                cache.put_written(FileSlot(name.0), PageIndex(name.1), fresh);
                model.put_written(name, frame.0);
                holds.push(frame);
                let entry = cache.look_up(FileSlot(name.0), PageIndex(name.1)).unwrap();
                generations.insert(frame, entry.generation());
            }
            DropWrite => {
                if model.available() > 0 {
                    let fresh = cache.start_write();
                    cache.drop_fresh(fresh);
                    model.start_write();
                }
            }
            Reclaim { want, live } => {
                let is_live = |(file, page): Name| match live {
                    Live::All => true,
                    Live::OnlyOf(only) => file == only,
                    Live::UpTo(last) => page <= last,
                    Live::None => false,
                };
                let kept = unread_and_live(model, is_live);
                let free = cache.reclaim(Pages(want as u64), |file, page| {
                    let page = (file.0, page.0);
                    assert!(model.page(page).unwrap().unused, "{page:?} is asked for");
                    is_live(page)
                });
                assert_eq!(free, Pages(model.reclaim(want, is_live) as u64));
                if model.keeps_unread {
                    assert_eq!(unread_and_live(model, is_live), kept);
                }
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.cache.stats(), self.model.stats);
        assert_eq!(self.cache.available(), Pages(self.model.available() as u64));
        assert_eq!(self.cache.room_for_ahead(), Pages(self.model.room_for_ahead() as u64));
        for name in names() {
            self.check_page(name);
            self.check_runs(name);
        }
        // A frame that is pinned is not given to another page.
        for (frame, generation) in &self.pins {
            assert_eq!(self.generations[frame], *generation, "{frame:?}");
        }
        self.check_frames();
    }

    fn check_page(&self, name: Name) {
        let entry = self.cache.look_up(FileSlot(name.0), PageIndex(name.1));
        let Some(page) = self.model.page(name) else {
            assert_eq!(entry, None, "{name:?}");
            return;
        };
        let entry = entry.unwrap_or_else(|| panic!("{name:?} is lost"));
        assert_eq!(entry.frame(), Frame(page.frame));
        assert_eq!(entry.is_up_to_date(), page.up_to_date, "{name:?}");
        assert_eq!(entry.has_marker(), page.marker, "{name:?}");
        assert_eq!(entry.is_unused(), page.unused, "{name:?}");
        assert_eq!(entry.is_referenced(), page.referenced, "{name:?}");
        assert_eq!(self.cache.is_held(entry.frame()), page.holds > 0, "{name:?}");
    }

    fn check_runs(&self, (file, page): Name) {
        let residency = self.cache.residency(FileSlot(file));
        for limit in [1, 2, 70] {
            let history = self.model.history((file, page + 1), limit);
            assert_eq!(residency.history(PageIndex(page + 1), Pages(limit)), Pages(history));
            let hole = self.model.next_hole((file, page), limit).map(PageIndex);
            assert_eq!(residency.next_hole(PageIndex(page), Pages(limit)), hole);
        }
    }

    /// Each frame is in one place, the lists are in order, and each listed frame names its page.
    fn check_frames(&self) {
        let dump = self.cache.dump();
        let lists = [&dump.inactive, &dump.active, &dump.ahead];
        let places = [&dump.free, &dump.held, &dump.orphans].into_iter().chain(lists);
        let all: Vec<Frame> = places.flatten().copied().collect();
        let distinct: BTreeSet<Frame> = all.iter().copied().collect();
        assert_eq!(all.len(), self.cache.frames() as usize, "{dump:?}");
        assert_eq!(distinct.len(), all.len(), "{dump:?}");

        let pages = |frames: &[Frame]| -> Vec<Name> {
            let pages = frames.iter().map(|&frame| self.cache.page_of(frame));
            pages.map(|page| page.map(|(file, page)| (file.0, page.0)).unwrap()).collect()
        };
        assert_eq!(pages(&dump.inactive), Vec::from(self.model.inactive.clone()));
        assert_eq!(pages(&dump.active), Vec::from(self.model.active.clone()));
        assert_eq!(pages(&dump.ahead), Vec::from(self.model.ahead.clone()));
        assert!(pages(&dump.held).iter().all(|&name| self.model.page(name).unwrap().holds > 0));
        assert_eq!(dump.free.len(), self.model.free());
        let orphans: BTreeSet<u32> = dump.orphans.iter().map(|frame| frame.0).collect();
        assert_eq!(orphans, self.model.orphans.keys().copied().collect());
        assert!(orphans.iter().all(|&frame| self.cache.page_of(Frame(frame)).is_none()));
    }
}

/// The pages on the ahead list that are unused, but will be used.
fn unread_and_live(model: &Model, is_live: impl Fn(Name) -> bool) -> Vec<Name> {
    let is_unread = |name: &Name| model.page(*name).is_some_and(|page| page.unused);
    model.ahead.iter().copied().filter(is_unread).filter(|&name| is_live(name)).collect()
}

fn names() -> impl Iterator<Item = Name> {
    FILES.into_iter().flat_map(|file| PAGES.map(|page| (file, page)))
}
