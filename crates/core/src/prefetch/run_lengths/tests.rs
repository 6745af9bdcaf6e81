//! The sketch of run lengths against lengths that are known, and its windows against doubling.

use super::*;

/// Windows of a stream of so many pages whose reads have four, as they follow from `known`; what
/// falls back doubles.
fn windows(known: &RunLengths, length: u64, max: u64) -> Vec<u64> {
    let (mut at, mut last, mut all) = (0, 4, Vec::new());
    while at < length {
        let size = known.window(at, 4).unwrap_or_else(|| (2 * last).min(max));
        all.push(size);
        (at, last) = (at + size, size);
    }
    all
}

fn sketch(lengths: impl IntoIterator<Item = u64>, request: f32, max: u64) -> RunLengths {
    let mut known = RunLengths::default();
    for length in lengths {
        known.add(RunEnd::Ended(length));
    }
    known.fresh = REFRESH;
    known.refresh(request, max);
    known
}

/// Numbers in some order, each as often.
fn drawn(count: u64) -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    (0..count).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    })
}

/// Requests and pages of all streams: device time in pages.
fn cost(lengths: &[u64], request: u64, mut windows: impl FnMut(u64) -> Vec<u64>) -> (u64, u64) {
    let all: Vec<u64> = lengths.iter().flat_map(|length| windows(*length)).collect();
    (request * all.len() as u64 + all.iter().sum::<u64>(), all.iter().sum())
}

/// 4, 16, 32, .. to the largest.
fn doubling(length: u64, max: u64) -> Vec<u64> {
    let (mut at, mut size, mut all) = (0, 4, Vec::new());
    while at < length {
        all.push(size);
        at += size;
        size = if size < max / 16 { 4 * size } else { 2 * size }.min(max);
    }
    all
}

#[test]
fn the_bins_are_half_octaves() {
    let lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 25, 32, 33];
    let bins = [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10];
    assert_eq!(lengths.map(bin_of), bins);
    assert_eq!((bin_of(1 << 16), bin_of(u32::MAX)), (31, 31));
}

#[test]
fn scans_of_one_length_are_read_at_once() {
    let known = sketch([40; 20], 100.0, 1024);
    assert_eq!(windows(&known, 40, 1024), [40]);
    assert_eq!(known.part_beyond(4, 40), 0.0);
    assert_eq!(known.distance_before(40), Some(0), "no reader comes to the next window");
    // One that goes on doubles from there, and is requested ahead.
    assert_eq!((known.window(40, 4), known.window(50, 4)), (Some(10), None));
    assert_eq!(known.part_beyond(44, 80), 1.0);
}

#[test]
fn reads_at_random_have_no_window() {
    let known = sketch([4; 100], 100.0, 1024);
    assert_eq!(windows(&known, 4, 1024), [4]);
    // Every tenth is a scan: not worth 36 pages of nine others on a device of cheap requests.
    let mixed = |request| sketch((0..120).map(|n| if n % 10 == 0 { 40 } else { 4 }), request, 1024);
    assert_eq!(windows(&mixed(6.0), 40, 1024), [4, 36]);
    assert_eq!(windows(&mixed(400.0), 40, 1024), [40], "dear requests");
}

#[test]
fn of_two_lengths_the_shorter_comes_first_and_then_the_largest_window() {
    let known = sketch((0..100).map(|n| if n % 5 == 0 { 4000 } else { 40 }), 100.0, 1024);
    let all = windows(&known, 4000, 1024);
    assert_eq!(all[..3], [40, 1024, 1024]);
    assert!(known.part_beyond(39, 40) < LIKELY, "it waits until it is wanted");
    assert!(known.part_beyond(44, 1064) > LIKELY);
}

#[test]
fn lengths_that_are_cut_off_say_nothing_of_an_end() {
    let mut known = RunLengths::default();
    for _ in 0..40 {
        known.add(RunEnd::Censored(10));
    }
    known.refresh(100.0, 256);
    assert_eq!(known.window(0, 4), Some(256));
    // One in five ends there, and of those that go on nothing is known.
    for _ in 0..10 {
        known.add(RunEnd::Ended(10));
    }
    known.fresh = REFRESH;
    known.refresh(100.0, 256);
    assert!((known.part_beyond(1, 10) - 0.8).abs() < 0.01);
}

#[test]
fn few_streams_say_nothing_and_new_ones_are_learnt_in_some_dozens() {
    let mut known = RunLengths::default();
    for _ in 0..7 {
        known.add(RunEnd::Ended(40));
    }
    known.refresh(100.0, 1024);
    assert_eq!(known.window(0, 4), None);
    for _ in 0..100_000 {
        known.add(RunEnd::Ended(40));
    }
    let unlearns = |known: &mut RunLengths, length: u64, is_learnt: &dyn Fn(u64) -> bool| {
        (1..1000_u64).find(|_| {
            known.add(RunEnd::Ended(length));
            known.refresh(100.0, 1024);
            is_learnt(known.window(0, 4).unwrap_or(0))
        })
    };
    let to_short = unlearns(&mut known, 4, &|window| window == 4).expect("it is learnt");
    assert!(to_short <= 250, "{to_short} reads at random");
    let to_long = unlearns(&mut known, 5000, &|window| window == 1024).expect("it is learnt");
    assert!(to_long <= 500, "{to_long} long ones");
}

#[test]
fn a_stream_that_is_taken_back_was_never_counted() {
    let mut known = sketch([40; 20], 100.0, 1024);
    let counted = [known.add(RunEnd::Ended(7)), known.add(RunEnd::Censored(900))];
    assert!(known.knows(900, 1));
    counted.into_iter().for_each(|counted| known.take_back(counted));
    assert!(!known.knows(900, 1) && !known.knows(41, 1) && known.knows(40, 20));
    known.take_back(CountedRun::NOWHERE);
    assert!(known.knows(40, 20));
}

#[test]
fn a_stream_that_was_counted_for_its_file_only_is_taken_back_from_it() {
    let mut known = sketch([40; 20], 100.0, 1024);
    let counted = known.add(RunEnd::Ended(700)).of_file_only();
    assert!(!counted.is_of_device() && known.add(RunEnd::Ended(40)).is_of_device());
    known.take_back(counted);
    assert!(!known.knows(41, 1), "its bin is the same");
}

#[test]
fn what_follows_is_computed_again_for_a_length_that_was_not_seen_before() {
    let mut known = sketch([4; 20], 100.0, 1024);
    for _ in 0..7 {
        known.add(RunEnd::Ended(4));
    }
    known.refresh(100.0, 1024);
    assert_eq!(known.fresh, 7, "seven more of a known length change little");
    let counted = known.add(RunEnd::Ended(900));
    known.refresh(100.0, 1024);
    assert_eq!(known.fresh, 0);
    (0..REFRESH).for_each(|_| known.take_back(counted));
    known.refresh(100.0, 1024);
    assert_eq!(known.fresh, 0, "those that go on change it as well");
}

#[test]
fn reads_that_fill_the_largest_window_are_left_to_the_policy_unless_streams_end_there() {
    let go_on = sketch([4096; 20], 100.0, 256);
    assert_eq!((go_on.window(0, 256), go_on.window(512, 256)), (None, None));
    let end = sketch([256; 20], 100.0, 256);
    assert_eq!(end.window(0, 256), Some(256));
}

#[test]
fn most_streams_say_which_way_one_begins() {
    let mut known = RunLengths::default();
    assert_eq!(known.way(), RunWay::Mixed, "nothing is known");
    known.add_way(RunWay::Forwards);
    assert_eq!(known.way(), RunWay::Forwards);
    let turns = |known: &mut RunLengths, way| {
        (1..100).find(|_| {
            known.add_way(way);
            known.way() == way
        })
    };
    assert_eq!(turns(&mut known, RunWay::Backwards), Some(3));
    let to_forwards = turns(&mut known, RunWay::Forwards).expect("it is learnt");
    (0..1000).for_each(|_| known.add_way(RunWay::Forwards));
    let to_backwards = turns(&mut known, RunWay::Backwards).expect("it is learnt");
    assert!(to_forwards <= to_backwards && to_backwards <= 24, "{to_forwards}, {to_backwards}");
    (0..100).for_each(|_| known.add_way(RunWay::Mixed));
    assert_eq!(known.way(), RunWay::Mixed, "strided streams begin with no window");
}

/// Device time of 400 streams against doubling, as in the table of docs/design/run-lengths.md.
#[test]
fn windows_from_the_sketch_cost_less_than_doubling_for_all_kinds_of_lengths() {
    let kinds: [(&str, Vec<u64>); 6] = [
        ("all 40", vec![40; 400]),
        ("30 to 50", drawn(400).map(|n| 30 + n % 21).collect()),
        ("95 % 4", drawn(400).map(|n| if n % 20 == 0 { 20_000 } else { 4 }).collect()),
        ("80 % 40", drawn(400).map(|n| if n % 5 == 0 { 4000 } else { 40 }).collect()),
        ("scale-free", drawn(400).map(|n| 4 * (1000 / (1 + n % 1000))).collect()),
        ("50000", vec![50_000; 20]),
    ];
    for (name, lengths) in kinds {
        for (request, max) in [(6, 256), (100, 1024)] {
            let known = sketch(lengths.iter().copied(), request as f32, max);
            let (ours, bytes) = cost(&lengths, request, |length| windows(&known, length, max));
            let (theirs, _) = cost(&lengths, request, |length| doubling(length, max));
            let ratio = ours as f64 / theirs as f64;
            let wasted = bytes as f64 / lengths.iter().sum::<u64>() as f64;
            println!("{name}, R {request}: {ratio:.2} x the time of doubling, {wasted:.2} x bytes");
            assert!(ratio <= 1.03, "{name}, R {request}: {ratio}");
        }
    }
}

#[test]
fn a_long_stream_has_windows_of_a_32nd_of_what_it_has_read_whatever_is_known() {
    // Reads of 1 to 1000 pages on a device where requests cost nearly nothing.
    let known = sketch(drawn(2000).map(|n| 1 + n % 100_000), 0.1, 1024);
    let window = known.window(64_000, 4).expect("some were as long");
    assert_eq!(window, 1024);
}
