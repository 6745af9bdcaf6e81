//! Readers that pin, readers that copy, and a driver that evicts or forgets their pages, in every
//! interleaving: a pinned page must not change, and a frame is freed exactly once. A reader with a
//! pin uses plain memory, so each frame has a cell that loom checks for races, in addition to the
//! words that a copy takes.

use foreread_core::cache::{PageCache, Use};
use foreread_core::table::{Frame, Generation, PageEntry, PageTable};
use foreread_core::units::{PageIndex, Pages};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{FILE, KEPT_PAGE, OTHER_PAGE, PAGE};

/// Contents of the frames.
pub(super) struct Memory(Vec<(UnsafeCell<()>, [AtomicU64; 2])>);

impl Memory {
    pub(super) fn new(frames: u32) -> Arc<Self> {
        let frame = |_| (UnsafeCell::new(()), [AtomicU64::new(0), AtomicU64::new(0)]);
        Arc::new(Self((0..frames).map(frame).collect()))
    }

    pub(super) fn write(&self, frame: Frame, byte: u64) {
        let (cell, words) = &self.0[frame.0 as usize];
        cell.with_mut(|_| ());
        for word in words {
            word.store(byte, Ordering::Relaxed);
        }
    }

    /// Reads memory that must not change.
    fn read(&self, frame: Frame) -> [u64; 2] {
        self.0[frame.0 as usize].0.with(|_| ());
        self.copy(frame)
    }

    /// Copies memory that may be refilled in the meantime.
    pub(super) fn copy(&self, frame: Frame) -> [u64; 2] {
        let words = &self.0[frame.0 as usize].1;
        [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)]
    }
}

pub(super) fn fill(cache: &mut PageCache, page: PageIndex, memory: &Memory, byte: u64) {
    let filling = cache.start_fill(FILE, page, Use::Ahead, false);
    memory.write(filling.frame(), byte);
    cache.filled(filling);
}

/// Result of a reader that pinned the page.
pub(super) struct Pinned {
    pub(super) frame: Frame,
    pub(super) bytes: [u64; 2],
    is_first_generation: bool,
    /// True if it was the last pin of an orphan.
    pub(super) was_last: bool,
}

fn pin(table: &PageTable) -> Option<PageEntry> {
    let found = table.look_up(FILE, PAGE)?;
    table.pin(&found).then(|| found.entry())
}

pub(super) fn pin_and_read(table: &PageTable, memory: &Memory) -> Option<Pinned> {
    Some(read_and_unpin(table, memory, pin(table)?))
}

fn read_and_unpin(table: &PageTable, memory: &Memory, entry: PageEntry) -> Pinned {
    let (frame, generation) = (entry.frame(), entry.generation());
    let bytes = memory.read(frame);
    let is_first_generation = generation == Generation::default();
    Pinned { frame, bytes, is_first_generation, was_last: table.unpin(frame, generation) }
}

/// Runs two parties at a time, first with one of them starting and then with the other.
///
/// loom begins with one order and permutes dependent steps from there. It considers only the last
/// access to a word, by either party: an interleaving it misses from one start, it finds from the
/// other.
pub(super) fn in_parallel<D: 'static, R: 'static>(
    driver_leads: bool,
    driver: impl FnOnce() -> D + 'static,
    reader: impl FnOnce() -> R + 'static,
) -> (D, R) {
    if driver_leads {
        let reader = thread::spawn(reader);
        let driven = driver();
        (driven, reader.join().unwrap())
    } else {
        let driver = thread::spawn(driver);
        let result = reader();
        (driver.join().unwrap(), result)
    }
}

pub(super) fn bounded(preemptions: usize, run: impl Fn(bool) + Copy + Send + Sync + 'static) {
    for driver_leads in [true, false] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || run(driver_leads));
    }
}

/// Guards Release in `unpin` and Acquire in `close`, without which the refill may precede the end
/// of the read. Also guards that `close` checks the pins and changes the generation in one step.
/// The reader that only copies shows that pins do not disturb it.
#[test]
fn a_pinned_page_stays_while_another_is_evicted_in_its_place() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(2), Memory::new(2));
        fill(&mut cache, PAGE, &memory, 1);
        fill(&mut cache, OTHER_PAGE, &memory, 2);
        let table = cache.table();
        let copier = thread::spawn({
            let (table, memory) = (table.clone(), Arc::clone(&memory));
            move || {
                let Some(found) = table.look_up(FILE, PAGE) else { return };
                let copy = memory.copy(found.entry().frame());
                assert!(!found.still_holds() || copy == [1; 2], "{copy:?}");
            }
        });
        let drivers = Arc::clone(&memory);
        let (cache, pinned) = in_parallel(
            driver_leads,
            move || {
                fill(&mut cache, KEPT_PAGE, &drivers, 3);
                cache
            },
            move || pin_and_read(&table, &memory),
        );
        if let Some(pinned) = pinned {
            assert_eq!(pinned.bytes, [1; 2]);
            assert!(!pinned.was_last, "a page that stays is no orphan");
        }
        copier.join().unwrap();
        let stayed = [PAGE, OTHER_PAGE].map(|page| cache.look_up(FILE, page).is_some());
        assert!(stayed[0] != stayed[1], "one of the two left");
        assert_eq!(cache.idle(), Pages(2));
    });
}

/// Guards that `orphan` and `unpin` each check and change in one step: otherwise both free the
/// frame, or neither. Guards Acquire in `reopen` against a pin that ended before; and in `pin` the
/// checks of the generation and the orphan bit, without which a page found before could be pinned
/// afterwards.
#[test]
fn a_page_that_is_forgotten_while_it_is_pinned_is_freed_by_exactly_one_party() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(1), Memory::new(1));
        fill(&mut cache, PAGE, &memory, 1);
        let table = cache.table();
        let drivers = Arc::clone(&memory);
        let readers = Arc::clone(&memory);
        let (mut cache, pinned) = in_parallel(
            driver_leads,
            move || {
                cache.forget_range(FILE, PAGE, Pages(1));
                if cache.idle() == Pages(1) {
                    fill(&mut cache, PAGE, &drivers, 2);
                }
                cache
            },
            move || pin_and_read(&table, &readers),
        );
        let is_free = cache.idle() == Pages(1);
        let mut was_last = false;
        if let Some(pinned) = pinned {
            assert_eq!(pinned.bytes, if pinned.is_first_generation { [1; 2] } else { [2; 2] });
            was_last = pinned.was_last;
        }
        assert!(was_last != is_free, "exactly one of them");
        if was_last {
            cache.unpinned(Frame(0));
            fill(&mut cache, PAGE, &memory, 2);
        }
    });
}

/// Guards the compare-exchange in `pin`, and Acquire in `reopen` once more: the last unpinner knows
/// that it is the last, but only the other one's own Release orders its reads. One pin exists from
/// the start, to leave loom fewer orders to try.
#[test]
fn of_two_that_have_an_orphan_pinned_exactly_one_is_the_last() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(1), Memory::new(1));
        fill(&mut cache, PAGE, &memory, 1);
        let (table, reports) = (cache.table(), Arc::new(AtomicU64::new(0)));
        let early = pin(&table).expect("it is there");
        let reader = |entry: Option<PageEntry>| {
            let (table, memory) = (table.clone(), Arc::clone(&memory));
            let reports = Arc::clone(&reports);
            move || {
                let Some(entry) = entry.or_else(|| pin(&table)) else { return };
                let pinned = read_and_unpin(&table, &memory, entry);
                assert_eq!(pinned.bytes, [1; 2]);
                if pinned.was_last {
                    reports.fetch_add(1, Ordering::Release);
                }
            }
        };
        let another = thread::spawn(reader(Some(early)));
        let (one, heard) = (reader(None), Arc::clone(&reports));
        let drivers = Arc::clone(&memory);
        let (is_free, ()) = in_parallel(
            driver_leads,
            move || {
                cache.forget_range(FILE, PAGE, Pages(1));
                let is_free = cache.idle() == Pages(1);
                // As the driver does: it does not wait for readers, and is notified when it polls.
                if heard.load(Ordering::Acquire) == 1 {
                    cache.unpinned(Frame(0));
                }
                if cache.idle() == Pages(1) {
                    fill(&mut cache, OTHER_PAGE, &drivers, 2);
                }
                is_free
            },
            one,
        );
        another.join().unwrap();
        assert_eq!(reports.load(Ordering::Relaxed), u64::from(!is_free), "exactly one of them");
    });
}
