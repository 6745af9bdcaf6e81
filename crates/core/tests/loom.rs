//! Readers against the driver, in every interleaving that the memory model allows. The cache has
//! one frame, so that each fill evicts the page that a reader may be using.
//!
//! ```text
//!   RUSTFLAGS="--cfg loom" cargo test -p foreread-core --test loom
//! ```
//!
//! Each model names the code that it guards in `table.rs`, `table/writer.rs` and `table/pins.rs`:
//! without it, or with it relaxed, the model was seen to fail. Here a frame's bytes are two relaxed
//! atomics; the engine copies them opaquely to the compiler. The models of pins, whose readers use
//! plain memory, are in loom/pins.rs, and those of writes in loom/writes.rs.

#![cfg(loom)]

#[path = "loom/pins.rs"]
mod pins;
#[path = "loom/writes.rs"]
mod writes;

use foreread_core::cache::{PageCache, Use};
use foreread_core::table::{FileSlot, PageTable};
use foreread_core::units::{PageIndex, Pages};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const FILE: FileSlot = FileSlot(0);
const OTHER_FILE: FileSlot = FileSlot(1);
const PAGE: PageIndex = PageIndex(0);
const OTHER_PAGE: PageIndex = PageIndex(1);
const KEPT_PAGE: PageIndex = PageIndex(2);

/// A way to read a page.
type Read = fn(&PageTable, FileSlot, PageIndex, &Bytes) -> Option<[u64; 2]>;

/// A frame's bytes: two words, so that a torn copy shows.
type Bytes = Arc<[AtomicU64; 2]>;

/// Creates a cache of one frame, or of two with one held: all other pages share one frame.
fn cache(keep: Option<PageIndex>) -> (PageCache, Bytes) {
    let mut cache = PageCache::with_frames(1 + u32::from(keep.is_some()));
    if let Some(page) = keep {
        let _held = cache.start_fill(FILE, page, Use::Wanted, false);
    }
    (cache, Arc::new([AtomicU64::new(0), AtomicU64::new(0)]))
}

/// Fills the page with `byte`, as a device would.
fn fill(cache: &mut PageCache, file: FileSlot, page: PageIndex, bytes: &Bytes, byte: u64) {
    let filling = cache.start_fill(file, page, Use::Ahead, true);
    for word in bytes.iter() {
        word.store(byte, Ordering::Relaxed);
    }
    cache.filled(filling);
}

/// Reads the page as the engine does, but copies even if it cannot be up to date; None is a miss.
fn read(table: &PageTable, file: FileSlot, page: PageIndex, bytes: &Bytes) -> Option<[u64; 2]> {
    let found = table.look_up(file, page)?;
    let copy = [bytes[0].load(Ordering::Relaxed), bytes[1].load(Ordering::Relaxed)];
    found.still_holds().then_some(copy)
}

/// Reads by a look-up of a run, as long reads do.
fn read_run(table: &PageTable, file: FileSlot, page: PageIndex, bytes: &Bytes) -> Option<[u64; 2]> {
    let run = table.look_up_run(file, page, 1);
    let copy = [bytes[0].load(Ordering::Relaxed), bytes[1].load(Ordering::Relaxed)];
    (run.still_held() == 1).then_some(copy)
}

/// Guards the four orderings of a copy: Acquire in `look_up`, the fences of `still_holds` and
/// `remove`, Release in `set_up_to_date`. Also guards the comparison of both entries in
/// `still_holds`, and the generation, without which the entry of the third fill equals that of the
/// first.
#[test]
fn a_reader_never_accepts_bytes_of_another_page_or_of_two() {
    let reads: [Read; 2] = [read, read_run];
    for read in reads {
        never_accepts_two(read);
    }
}

fn never_accepts_two(read: Read) {
    loom::model(move || {
        let (mut cache, bytes) = cache(Some(KEPT_PAGE));
        fill(&mut cache, FILE, PAGE, &bytes, 1);
        let reader = thread::spawn({
            let (table, bytes) = (cache.table(), Arc::clone(&bytes));
            move || {
                if let Some(copy) = read(&table, FILE, PAGE, &bytes) {
                    assert!(copy == [1, 1] || copy == [3, 3], "{copy:?}");
                }
            }
        });
        fill(&mut cache, FILE, OTHER_PAGE, &bytes, 2);
        fill(&mut cache, FILE, PAGE, &bytes, 3);
        reader.join().unwrap();
    });
}

/// Guards the check of the leaf's key after the entry in `look_up`: the one in `find` is too early.
#[test]
fn a_reader_never_accepts_the_page_of_the_file_that_has_the_leaf_now() {
    let reads: [Read; 2] = [read, read_run];
    for (read, (file, byte)) in reads
        .into_iter()
        .flat_map(|read| [(FILE, 1), (OTHER_FILE, 2)].map(|expected| (read, expected)))
    {
        loom::model(move || {
            let (mut cache, bytes) = cache(None);
            fill(&mut cache, FILE, PAGE, &bytes, 1);
            let reader = thread::spawn({
                let (table, bytes) = (cache.table(), Arc::clone(&bytes));
                move || {
                    if let Some(copy) = read(&table, file, PAGE, &bytes) {
                        assert_eq!(copy, [byte; 2]);
                    }
                }
            });
            fill(&mut cache, OTHER_FILE, PAGE, &bytes, 2);
            reader.join().unwrap();
        });
    }
}

/// Guards the same if the leaf returns to the file, with other bytes of the page.
#[test]
fn a_reader_never_accepts_the_page_of_a_file_that_had_the_leaf_in_between() {
    // All interleavings take more than a minute; those with three preemptions, two seconds.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut cache, bytes) = cache(None);
        fill(&mut cache, FILE, PAGE, &bytes, 1);
        let reader = thread::spawn({
            let (table, bytes) = (cache.table(), Arc::clone(&bytes));
            move || {
                if let Some(copy) = read(&table, FILE, PAGE, &bytes) {
                    assert!(copy == [1, 1] || copy == [3, 3], "{copy:?}");
                }
            }
        });
        fill(&mut cache, OTHER_FILE, PAGE, &bytes, 2);
        fill(&mut cache, FILE, PAGE, &bytes, 3);
        reader.join().unwrap();
    });
}

/// Guards the compare-exchange in `Found::change`.
#[test]
fn a_marker_is_taken_by_exactly_one_of_two_readers() {
    loom::model(|| {
        let (mut cache, bytes) = cache(None);
        fill(&mut cache, FILE, PAGE, &bytes, 1);
        let take =
            |table: &PageTable| table.look_up(FILE, PAGE).is_some_and(|found| found.take_marker());
        let reader = thread::spawn({
            let table = cache.table();
            move || take(&table)
        });
        let here = take(&cache.table());
        assert!(here != reader.join().unwrap());
    });
}

/// Guards the check in `Found::change` that the entry names the same page. The page leaves and
/// returns with another marker: a reader takes the one it saw, and not the other.
#[test]
fn a_marker_is_taken_at_most_once_while_its_page_leaves_and_comes_back() {
    loom::model(|| {
        let (mut cache, bytes) = cache(Some(KEPT_PAGE));
        fill(&mut cache, FILE, PAGE, &bytes, 1);
        let reader = thread::spawn({
            let table = cache.table();
            move || {
                let found = table.look_up(FILE, PAGE)?;
                found.take_marker().then(|| found.entry().generation())
            }
        });
        cache.forget_range(FILE, PAGE, Pages(1));
        fill(&mut cache, FILE, PAGE, &bytes, 2);
        let taken = reader.join().unwrap();
        let now = cache.look_up(FILE, PAGE).unwrap();
        assert_eq!(cache.take_marker(FILE, PAGE), taken != Some(now.generation()));
    });
}

/// Guards the same for uses; Release in `insert`, without which the new entry may be seen before
/// its leaf's new key; and the rule that a key changes only while its leaf is empty.
#[test]
fn a_use_neither_brings_an_evicted_page_back_nor_counts_for_the_next_one() {
    loom::model(|| {
        let (mut cache, bytes) = cache(None);
        fill(&mut cache, FILE, PAGE, &bytes, 1);
        let reader = thread::spawn({
            let table = cache.table();
            move || {
                if let Some(found) = table.look_up(FILE, PAGE) {
                    found.touch(false);
                }
            }
        });
        fill(&mut cache, OTHER_FILE, PAGE, &bytes, 2);
        reader.join().unwrap();
        assert_eq!(cache.look_up(FILE, PAGE), None);
        let next = cache.look_up(OTHER_FILE, PAGE).unwrap();
        assert!(next.is_unused());
        assert!(!next.is_referenced());
    });
}

/// Guards the retry of `Found::change` and `TableWriter::update` after a lost race.
#[test]
fn no_use_is_lost_between_two_readers_and_the_end_of_the_fill() {
    loom::model(|| {
        let (mut cache, _) = cache(None);
        let filling = cache.start_fill(FILE, PAGE, Use::Ahead, false);
        let readers = [(); 2].map(|()| {
            let table = cache.table();
            thread::spawn(move || table.look_up(FILE, PAGE).unwrap().touch(false))
        });
        cache.filled(filling);
        for reader in readers {
            reader.join().unwrap();
        }
        let entry = cache.look_up(FILE, PAGE).unwrap();
        assert!(entry.is_up_to_date());
        assert!(!entry.is_unused(), "the first use");
        assert!(entry.is_referenced(), "the second use");
    });
}
