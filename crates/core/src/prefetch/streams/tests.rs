//! Tests of the streams of one file.

use super::*;

fn entry(number: u64) -> StreamEntry {
    let start = PageIndex(1000 * number);
    StreamEntry::new(start, start + Pages(32), Some(start), Pages(32))
}

fn finds(streams: &Streams, number: u64) -> bool {
    streams.with_marker(PageIndex(1000 * number)).is_some()
}

#[test]
fn the_stream_that_was_met_least_recently_is_forgotten() {
    let mut streams = Streams::default();
    let most = Streams::CONFIRMED_MAX as u64;
    (0..most).for_each(|number| streams.add_confirmed(entry(number + 1)));
    let first = streams.with_marker(PageIndex(1000)).unwrap();
    streams.update(first, entry(1));
    streams.add_confirmed(entry(100));
    assert_eq!(streams.count(), (Streams::CONFIRMED_MAX, 0));
    assert!(!finds(&streams, 2));
    assert!([1, 3, most, 100].iter().all(|number| finds(&streams, *number)));
}

#[test]
fn the_place_of_a_stream_that_is_forgotten_is_used_again() {
    let mut streams = Streams::default();
    (1..=9).for_each(|number| streams.add_confirmed(entry(number)));
    let fifth = streams.with_marker(PageIndex(5000)).unwrap();
    streams.remove(fifth);
    assert_eq!((streams.count(), finds(&streams, 5)), ((8, 0), false));
    streams.add_confirmed(entry(50));
    assert_eq!(streams.with_marker(PageIndex(50_000)), Some(fifth));
    assert!(finds(&streams, 9), "the others stay");
}

#[test]
fn candidates_push_out_candidates_in_the_order_of_their_arrival() {
    let mut streams = Streams::default();
    streams.add_confirmed(entry(1000));
    let most = Streams::TENTATIVE_MAX as u64;
    (1..=most + 3).for_each(|number| streams.add_tentative(entry(number)));
    assert_eq!(streams.count(), (1, Streams::TENTATIVE_MAX));
    for number in 1..=most + 3 {
        assert_eq!(finds(&streams, number), number > 3, "{number}");
    }
    assert!(finds(&streams, 1000));
}

#[test]
fn a_random_read_is_trusted_until_eight_others_came_or_when_it_was_the_second_in_a_row() {
    let mut streams = Streams::default();
    streams.add_tentative(StreamEntry::random(PageIndex(5), PageIndex(7), 1));
    let first = |streams: &Streams| *streams.get(streams.around(PageIndex(7)).unwrap());
    for number in 0..8 {
        assert!(streams.is_trusted(&first(&streams)), "{number}");
        streams.add_tentative(StreamEntry::random(PageIndex(999), PageIndex(1000 + number), 1));
    }
    assert!(!streams.is_trusted(&first(&streams)));
    assert!(streams.is_trusted(&StreamEntry { reads: 2, ..first(&streams) }));
}

#[test]
fn a_file_costs_a_few_kilobytes_at_most() {
    const { assert!(Streams::BYTES_MAX <= 22 << 10) };
    const { assert!(size_of::<Streams>() <= 144, "a file without readers") };
}

#[test]
fn a_stream_that_goes_backwards_counts_each_page_once() {
    let (read, way) = (Pages(4), StreamDirection::BACKWARDS);
    let at = |number: u64| PageIndex(1000 - 4 * number);
    let first = StreamEntry::random(at(0), at(0) + read, 1);
    let both = StreamEntry::random(at(1), at(0) + read, 2).going(way, 2).gone_on_from(&first);
    assert_eq!((both.run_before(at(2), read), both.run()), (8, 0));
    let third = StreamEntry::new(at(8), at(2), None, Pages(32)).going(way, 0).gone_on_from(&both);
    assert_eq!((third.run(), third.run_before(at(3), read)), (12, 12));
    assert_eq!(third.run_at_end(PageIndex(5000)), 36);
    // And one whose first read had a window already.
    let begun = StreamEntry::new(at(8), at(0), None, Pages(32)).going(way, 0).after(read);
    assert_eq!((begun.run(), begun.run_before(at(1), read)), (4, 4));
}

/// A footer that was read at first looked like the end of a file that was read whole.
#[test]
fn the_last_page_of_a_file_is_an_unread_one_if_there_is_any() {
    let at = PageIndex;
    let forwards = StreamEntry::new(at(10), at(20), None, Pages(10));
    let backwards = StreamEntry::new(at(0), at(10), None, Pages(10));
    let backwards = backwards.going(StreamDirection::BACKWARDS, 0);
    for (entry, unread, last) in [
        (forwards, 10..20, 19),
        (forwards, 10..18, 16),
        (forwards, 10..13, 12),
        (forwards, 10..11, 19),
        (forwards, 0..0, 19),
        (backwards, 0..10, 0),
        (backwards, 2..10, 3),
    ] {
        let is_unread = |page: PageIndex| unread.contains(&page.0);
        assert_eq!(entry.last_page(at(20), is_unread), Some(at(last)), "{entry:?} {unread:?}");
    }
    assert_eq!(forwards.last_page(at(21), |_| true), None, "more of the file is behind");
}
