//! Tests of the driver's side of the page table.

use super::*;
use crate::table::Slot;

const FILE: FileSlot = FileSlot(3);

fn add(table: &mut TableWriter, page: PageIndex) -> EntryPlace {
    table.insert(FILE, page, PageEntry::new(Frame(0), Generation(1), false, false))
}

#[test]
fn runs_are_counted_across_the_borders_of_leaves() {
    // Every subset of the pages on both sides of two leaf boundaries, in a file that is resident
    // elsewhere and in one that is not, compared with a count of single pages.
    const PAGES: u64 = 192;
    let borders: Vec<u64> = (62..66).chain(126..130).collect();
    let probes = [0, 1, 61, 62, 63, 64, 65, 66, 67, 125, 126, 127, 128, 129, 130, 131, 191, 192];
    for subset in 0..1 << borders.len() {
        for elsewhere in [false, true] {
            let is_resident = |page: u64| match borders.iter().position(|&b| b == page) {
                Some(bit) => subset >> bit & 1 == 1,
                None => elsewhere && page < PAGES,
            };
            let mut table = TableWriter::new(3);
            for page in (0..PAGES).filter(|&page| is_resident(page)) {
                add(&mut table, PageIndex(page));
            }
            for (page, limit) in probes.iter().flat_map(|&p| [0, 1, 2, 64, 66, 200].map(|l| (p, l)))
            {
                let run = (0..page).rev().take_while(|&page| is_resident(page)).count() as u64;
                let got = table.history(FILE, PageIndex(page), Pages(limit));
                assert_eq!(got, Pages(run.min(limit)), "before {page}, {limit}, {subset:b}");

                let hole = (page..page + limit).find(|&page| !is_resident(page));
                let got = table.next_hole(FILE, PageIndex(page), Pages(limit));
                assert_eq!(got, hole.map(PageIndex), "from {page}, {limit}, {subset:b}");
            }
        }
    }
}

#[test]
fn past_the_end_of_the_largest_file_nothing_is_resident() {
    let mut table = TableWriter::new(2);
    let last = PageIndex(MAX_FILE_PAGES.0 - 1);
    add(&mut table, last);
    let end = last + Pages(1);
    assert_eq!(table.history(FILE, end, Pages(9)), Pages(1));
    assert_eq!(table.history(FILE, end + Pages(1), Pages(9)), Pages(0));
    assert_eq!(table.next_hole(FILE, last, Pages(1)), None);
    assert_eq!(table.next_hole(FILE, last, Pages(9)), Some(end));
    assert_eq!(table.next_hole(FILE, PageIndex(u64::MAX), Pages(9)), Some(PageIndex(u64::MAX)));
}

#[test]
fn leaves_that_collide_are_found_whichever_of_them_is_removed() {
    // Four leaves in eight slots: every choice of home slots, including the wrap at the end, and
    // every order of removal.
    let mut orders = Vec::new();
    for n in 0..4_usize.pow(4) {
        let order = [n % 4, n / 4 % 4, n / 16 % 4, n / 64];
        if (0..4).all(|leaf| order.contains(&leaf)) {
            orders.push(order);
        }
    }
    let table = TableWriter::new(4);
    let mut pages: [Vec<PageIndex>; 8] = Default::default();
    for page in (0..1000).map(|n| PageIndex(n * LEAF_PAGES)) {
        pages[table.table.home(LeafKey::of(FILE, page).hash())].push(page);
    }

    let mut table = TableWriter::new(4);
    for homes in 0..8_usize.pow(4) {
        let leaf = |n: usize| pages[homes >> (3 * n) & 7][n];
        for order in &orders {
            let mut places: Vec<_> = (0..4).map(|n| Some(add(&mut table, leaf(n)))).collect();
            for &gone in order {
                table.remove(places[gone].take().expect("each goes once"));
                for (n, place) in places.iter().enumerate() {
                    let found = table.table.find(LeafKey::of(FILE, leaf(n)));
                    assert_eq!(found, place.map(|place| place.leaf), "{homes:o} {order:?} {n}");
                }
            }
        }
    }
    assert!((0..8).all(|at| table.table.slot(at) == Slot::EMPTY), "no slot is left behind");
}

#[test]
fn leaves_at_equal_steps_do_not_make_a_heap() {
    // With one multiplication in the hash, 2048 leaves 4181 apart needed 576 steps on average.
    const LEAVES: u32 = 2048;
    let fibonacci = [987, 1597, 2584, 4181, 6765, 75_025, 121_393, 5_702_887];
    for step in (0..35).map(|bit| 1 << bit).chain(3..40).chain(fibonacci) {
        let mut table = TableWriter::new(LEAVES);
        for n in 0..u64::from(LEAVES) {
            add(&mut table, PageIndex(n * step * LEAF_PAGES));
        }
        let slots = (0..LEAVES as usize * SLOTS_PER_LEAF).map(|at| (at, table.table.slot(at)));
        let steps: usize = slots
            .filter(|&(_, slot)| slot != Slot::EMPTY)
            .map(|(at, slot)| table.table.distance(table.table.home(slot.hash()), at))
            .sum();
        assert!(steps < LEAVES as usize, "{steps} steps past home for leaves {step} apart");
    }
}

#[test]
fn a_leaf_that_is_emptied_is_used_again_before_a_fresh_one() {
    let mut table = TableWriter::new(3);
    let places: Vec<_> = (0..3).map(|n| add(&mut table, PageIndex(n * LEAF_PAGES))).collect();
    table.remove(places[0]);
    table.remove(places[2]);
    assert_eq!(add(&mut table, PageIndex(1000)).leaf, places[2].leaf);
    assert_eq!(add(&mut table, PageIndex(2000)).leaf, places[0].leaf);
}

#[test]
fn a_range_is_removed_by_name_or_by_walk_with_the_same_result() {
    // Seven leaves exist: a range over up to seven is looked up, a longer one walks over all.
    for (start, end) in [(0, 1 << 40), (0, 320), (5, 448), (5, 449), (64, 64), (63, 65)] {
        let mut table = TableWriter::new(7);
        let pages = [0, 1, 63, 64, 65, 127, 128, 199, 200, 319, 320, 1 << 30].map(PageIndex);
        for page in pages {
            add(&mut table, page);
        }
        let mut removed = 0;
        table.remove_range(FILE, PageIndex(start), PageIndex(end), |_| true, |_| removed += 1);
        let all = PageIndex(0)..PageIndex(1 << 40);
        table.remove_range(FileSlot(4), all.start, all.end, |_| true, |_| removed += 100);
        let gone = |page: PageIndex| (start..end).contains(&page.0);
        assert_eq!(removed, pages.iter().filter(|&&page| gone(page)).count());
        for page in pages {
            assert_eq!(table.table.look_up(FILE, page).is_none(), gone(page), "{page:?}");
        }
    }
}

#[test]
#[should_panic(expected = "is resident")]
fn a_page_is_added_once() {
    let mut table = TableWriter::new(1);
    add(&mut table, PageIndex(5));
    add(&mut table, PageIndex(5));
}

#[test]
fn a_run_is_what_single_look_ups_find_up_to_the_first_gap() {
    // Around the boundary of two leaves: each page up to date, in flight, or missing.
    for states in 0..3_u32.pow(8) {
        let state = |n: u64| states / 3_u32.pow(u32::try_from(n).unwrap()) % 3;
        let mut table = TableWriter::new(8);
        for n in 0..8 {
            // Consecutive frames with one gap, so that a run has two pieces.
            let frame = Frame(u32::try_from(n).unwrap() + u32::from(n >= 5));
            let entry = PageEntry::new(frame, Generation(1), false, false);
            let entry = if state(n) == 2 { entry.with(UP_TO_DATE) } else { entry };
            if state(n) > 0 {
                table.insert(FILE, PageIndex(60 + n), entry);
            }
        }
        for (first, count) in (0..8).flat_map(|first| [0, 1, 3, 8].map(|count| (first, count))) {
            let end = if first < 4 { 4 } else { 8 };
            let found = (first..end).take(count).take_while(|&n| state(n) == 2).count();
            let run = table.table.look_up_run(FILE, PageIndex(60 + first), count);
            assert_eq!(run.len(), found, "{count} from {first} of {states}");
            assert_eq!(run.still_held(), found);
            for (index, n) in (0..found).zip(first..) {
                let alone = table.table.look_up(FILE, PageIndex(60 + n)).unwrap();
                assert_eq!(run.page(index).entry(), alone.entry());
                let border = if n < 5 { 5 } else { 8 };
                let in_a_row = (found - index).min(usize::try_from(border - n).unwrap());
                assert_eq!(run.frames_from(index), (alone.entry().frame(), in_a_row));
            }
        }
    }
}

#[test]
fn a_page_that_leaves_ends_what_a_run_still_holds() {
    let mut table = TableWriter::new(4);
    let entry = |n| PageEntry::written(Frame(n), Generation(1));
    let places: Vec<_> =
        (0..4).map(|n| table.insert(FILE, PageIndex(n.into()), entry(n))).collect();
    let shared = Arc::clone(&table.table);
    let run = shared.look_up_run(FILE, PageIndex(0), 4);
    assert_eq!((run.len(), run.still_held()), (4, 4));
    table.remove(places[2]);
    assert_eq!(run.still_held(), 2);
    table.insert(FILE, PageIndex(2), PageEntry::written(Frame(2), Generation(2)));
    assert_eq!(run.still_held(), 2, "the frame has been filled again");
}
