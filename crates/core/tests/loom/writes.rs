//! Readers that copy or pin, and a driver that swaps a page's entry to a frame with newer bytes.
//! There are two or three frames, so that the old one is refilled at once. A reader must only get
//! bytes that were the page's, and a frame is freed exactly once. Memory is modelled as in pins.rs.

use foreread_core::cache::{PageCache, Use};
use foreread_core::units::Pages;
use loom::sync::Arc;
use loom::thread;

use super::pins::{Memory, bounded, fill, in_parallel, pin_and_read};
use super::{FILE, KEPT_PAGE, OTHER_PAGE, PAGE};

/// Writes the page as the driver does, and releases its new frame as when it is on the device.
fn write(cache: &mut PageCache, memory: &Memory, byte: u64) {
    let fresh = cache.start_write();
    let frame = fresh.frame();
    memory.write(frame, byte);
    cache.put_written(FILE, PAGE, fresh);
    cache.release(frame);
}

/// Guards Release of the exchange in `TableWriter::swap`, without which the new entry may be seen
/// before its bytes; and the fence behind it, without which the copy may have bytes of the refill
/// and still see the old entry.
#[test]
fn a_copy_beside_a_write_is_all_old_or_all_new() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(2), Memory::new(2));
        fill(&mut cache, PAGE, &memory, 1);
        let table = cache.table();
        let (drivers, readers) = (Arc::clone(&memory), Arc::clone(&memory));
        in_parallel(
            driver_leads,
            move || {
                write(&mut cache, &drivers, 2);
                // The old frame is the most recently used free one.
                fill(&mut cache, OTHER_PAGE, &drivers, 3);
            },
            move || {
                let Some(found) = table.look_up(FILE, PAGE) else { return };
                let copy = readers.copy(found.entry().frame());
                if found.still_holds() {
                    assert!(copy == [1; 2] || copy == [2; 2], "{copy:?}");
                }
            },
        );
    });
}

/// Guards that the old frame becomes an orphan after the swap, and that `orphan` and `unpin` agree
/// which of them frees it: a page pinned during a write keeps its old bytes.
#[test]
fn a_page_that_is_pinned_while_it_is_written_keeps_its_old_bytes() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(2), Memory::new(2));
        fill(&mut cache, PAGE, &memory, 1);
        let table = cache.table();
        let (drivers, readers) = (Arc::clone(&memory), Arc::clone(&memory));
        let (mut cache, pinned) = in_parallel(
            driver_leads,
            move || {
                write(&mut cache, &drivers, 2);
                if cache.idle() == Pages(2) {
                    fill(&mut cache, OTHER_PAGE, &drivers, 3);
                }
                cache
            },
            move || pin_and_read(&table, &readers),
        );
        let is_free = cache.idle() == Pages(2);
        let mut was_last = false;
        if let Some(pinned) = pinned {
            assert!(pinned.bytes == [1; 2] || pinned.bytes == [2; 2], "{:?}", pinned.bytes);
            was_last = pinned.was_last;
            if was_last {
                cache.unpinned(pinned.frame);
            }
        }
        assert!(was_last != is_free, "exactly one of them frees it");
        fill(&mut cache, KEPT_PAGE, &memory, 4);
    });
}

/// Guards that the swap is one exchange of the whole word. A reader that takes the marker at the
/// same time either takes it before the driver, which then finds it gone, or loses, and the marker
/// stays.
#[test]
fn a_marker_is_taken_at_most_once_while_its_page_is_written() {
    loom::model(|| {
        let (mut cache, memory) = (PageCache::with_frames(2), Memory::new(2));
        let filling = cache.start_fill(FILE, PAGE, Use::Ahead, true);
        cache.filled(filling);
        let table = cache.table();
        let reader = thread::spawn(move || {
            table.look_up(FILE, PAGE).is_some_and(|found| found.take_marker())
        });
        write(&mut cache, &memory, 2);
        let taken = reader.join().unwrap();
        assert!(cache.take_marker(FILE, PAGE) != taken, "once, and not never");
        let entry = cache.look_up(FILE, PAGE).unwrap();
        assert!(!entry.is_unused(), "a write of a page is a use");
    });
}

/// Guards Acquire in `close` for a frame that eviction takes for a write: reads of the pinned page
/// precede the driver's bytes.
#[test]
fn a_frame_is_taken_for_a_write_only_when_its_page_is_not_pinned() {
    bounded(3, |driver_leads| {
        let (mut cache, memory) = (PageCache::with_frames(2), Memory::new(2));
        fill(&mut cache, OTHER_PAGE, &memory, 5);
        fill(&mut cache, PAGE, &memory, 1);
        let table = cache.table();
        let (drivers, readers) = (Arc::clone(&memory), Arc::clone(&memory));
        let (cache, pinned) = in_parallel(
            driver_leads,
            move || {
                let fresh = cache.start_write();
                drivers.write(fresh.frame(), 2);
                cache.put_written(FILE, KEPT_PAGE, fresh);
                cache
            },
            move || pin_and_read(&table, &readers),
        );
        if let Some(pinned) = pinned {
            assert_eq!(pinned.bytes, [1; 2]);
            assert!(!pinned.was_last, "a page that stays is no orphan");
        }
        assert!(cache.look_up(FILE, KEPT_PAGE).is_some());
    });
}
