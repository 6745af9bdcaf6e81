//! Traces that are played through the whole path.

use std::fmt::Write as _;

use foreread_core::prefetch::Policy;
use foreread_core::units::ByteCount;
use foreread_sim::device::{DeviceParams, known};
use foreread_sim::policy;
use foreread_sim::replay::{MAX_QUEUED, Replay, ReplayFigures, ReplayGroup, ReplayPace, replay};
use foreread_sim::rng::DEFAULT_SEED;
use foreread_sim::scenario::{CacheSpec, PolicyName};
use foreread_sim::size::Size;
use foreread_trace::{TraceReader, TraceSummary};

/// A millisecond for a command, one at a time, 100 MB/s.
fn slow_device() -> DeviceParams {
    let mut model = known::find("cloud-gp3").unwrap().model;
    let DeviceParams::Flash(chips) = &mut model else { panic!("it is flash") };
    (chips.channels, chips.depth, chips.mb_per_s) = (1, 1, 100.0);
    model
}

pub(crate) fn how(policy: Policy, pace: ReplayPace) -> Replay {
    let cache = CacheSpec {
        memory: Size(ByteCount(16 << 20)),
        policy: PolicyName(policy),
        ..CacheSpec::default()
    };
    Replay {
        cache,
        device: slow_device(),
        pace,
        is_warmed: false,
        group: ReplayGroup::Whole,
        has_picture: false,
        series: None,
        seed: DEFAULT_SEED,
    }
}

pub(crate) fn play(text: &str, how: &Replay) -> ReplayFigures {
    try_play(text, how).unwrap_or_else(|error| panic!("{error}"))
}

fn try_play(text: &str, how: &Replay) -> Result<ReplayFigures, foreread_sim::replay::ReplayError> {
    let open = || TraceReader::new(std::io::Cursor::new(text.to_owned().into_bytes()), "t");
    let summary = TraceSummary::of(open()?)?;
    replay(how, &summary, &open)
}

pub(crate) const HEADING: &str = "time_us,thread,op,file,offset,length\n";

/// A file of 8 MiB in order, 16 KiB each millisecond.
pub(crate) fn scan() -> String {
    let mut text = HEADING.to_owned();
    for n in 0..512 {
        let _ = writeln!(text, "{},1,r,/data,{},16384", n * 1000, n * 16384);
    }
    text
}

pub(crate) const OPEN: ReplayPace = ReplayPace::Open { scale: 1.0 };

#[test]
fn read_ahead_saves_the_waiting_of_a_scan() {
    for pace in [OPEN, ReplayPace::Closed { think: 1.0 }, ReplayPace::Closed { think: 0.0 }] {
        let none = play(&scan(), &how(Policy::None, pace));
        let ahead = play(&scan(), &how(Policy::Linux6, pace));
        assert_eq!((none.reads, none.bytes, none.waits), (512, 8 << 20, 512), "{pace:?}");
        assert_eq!((ahead.reads, ahead.bytes), (512, 8 << 20));
        // Where reads are due before those before them have ended, requests in the queue merge.
        assert!((400..=512).contains(&none.requests), "{}", none.requests);
        assert!(ahead.requests < 100, "{}", ahead.requests);
        assert!(ahead.waited_ns * 2 < none.waited_ns, "{pace:?}: {} ns", ahead.waited_ns);
    }
}

#[test]
fn open_loops_keep_the_times_of_the_trace_and_closed_ones_the_order() {
    // One read takes 1 ms and 41 us; ten are due at once.
    let mut text = HEADING.to_owned();
    for n in 0..10 {
        let _ = writeln!(text, "0,1,r,/data,{},4096", n * 1_000_000 / 4096 * 4096);
    }
    let one_ns = 1_040_960;
    let open = play(&text, &how(Policy::None, OPEN));
    let sum: u64 = (1..=10).map(|n| n * one_ns).sum();
    assert_eq!(open.waited_ns, sum, "each waits for those before it");
    let closed = play(&text, &how(Policy::None, ReplayPace::Closed { think: 1.0 }));
    assert_eq!(closed.waited_ns, 10 * one_ns, "each begins when the one before has ended");
    assert_eq!(open.elapsed_ns, closed.elapsed_ns);
}

#[test]
fn times_and_think_times_are_scaled() {
    let elapsed = |pace| play(&scan(), &how(Policy::Linux6, pace)).elapsed_ns / 1_000_000;
    let (whole, half) = (elapsed(OPEN), elapsed(ReplayPace::Open { scale: 0.5 }));
    assert!((511..515).contains(&whole), "{whole} ms");
    assert!((255..262).contains(&half), "{half} ms");
    let twice = elapsed(ReplayPace::Closed { think: 2.0 });
    assert!((1022..1040).contains(&twice), "{twice} ms");
}

#[test]
fn threads_have_streams_of_their_own_and_wait_for_themselves_alone() {
    // Two threads in turns through one file, far from each other.
    let mut text = HEADING.to_owned();
    for n in 0..256 {
        let _ = writeln!(text, "{},1,r,/data,{},16384", n * 2000, n * 16384);
        let _ = writeln!(text, "{},2,r,/data,{},16384", n * 2000 + 1, (n + 1000) * 16384);
    }
    let mut setup = how(policy::LINUX_2_6_28, ReplayPace::Closed { think: 1.0 });
    setup.group = ReplayGroup::Thread;
    let apart = play(&text, &setup);
    assert!(apart.requests < 80, "each handle has a window: {} requests", apart.requests);
    let threads: Vec<_> =
        apart.groups.iter().map(|(thread, group)| (*thread, group.reads)).collect();
    assert_eq!(threads, [(1, 256), (2, 256)]);
    let sum: u64 = apart.groups.values().map(|group| group.waited_ns).sum();
    assert_eq!(sum, apart.waited_ns);
    let together = play(&text.replace(",2,r,", ",1,r,"), &setup);
    assert!(together.requests > 2 * apart.requests, "one window: {}", together.requests);
}

#[test]
fn a_warm_cache_waits_for_nothing_that_it_holds() {
    let mut setup = how(Policy::Linux6, ReplayPace::Closed { think: 0.0 });
    setup.is_warmed = true;
    let warm = play(&scan(), &setup);
    assert_eq!((warm.reads, warm.waits, warm.requests), (512, 0, 0));
}

#[test]
fn writes_are_left_out_and_reads_behind_the_end_return_what_is_there() {
    let text = format!("{HEADING}0,1,w,/data,0,8192\n5,1,r,/data,4096,4096\n");
    let figures = play(&text, &how(Policy::None, OPEN));
    assert_eq!((figures.writes, figures.reads, figures.bytes), (1, 1, 4096));
}

#[test]
fn the_same_trace_is_the_same_run() {
    let figures = |_| {
        let figures = play(&scan(), &how(Policy::Adaptive, OPEN));
        (figures.waited_ns, figures.requests, figures.device_bytes, figures.elapsed_ns)
    };
    assert_eq!(figures(1), figures(2));
}

#[test]
fn a_trace_that_is_wrong_or_does_not_fit_is_an_error() {
    let how = how(Policy::None, OPEN);
    let wrong = format!("{HEADING}0,1,r,/a,0,4096\n1,1,r,/a,x,4096\n");
    let error = try_play(&wrong, &how).expect_err("a bad line").to_string();
    assert!(error.starts_with("t: line 3: offset"), "{error}");
    let long = format!("{HEADING}0,1,r,/a,0,4096\n999999999999999999,1,r,/a,0,4096\n");
    let error = try_play(&long, &how).expect_err("a bad time").to_string();
    assert!(error.contains("thirty years") || error.contains("not a time"), "{error}");
    let far = format!("{HEADING}0,1,r,/a,{},4096\n", 1_u64 << 60);
    let error = try_play(&far, &how).expect_err("too large").to_string();
    assert!(error.contains("larger than any device"), "{error}");
}

/// A thread that is far behind must not fill the memory with records of the others.
#[test]
fn threads_that_drift_apart_all_come_to_their_end() {
    let mut text = HEADING.to_owned();
    let _ = writeln!(text, "0,1,r,/a,0,4096");
    for n in 0..2000 {
        let _ = writeln!(text, "{},2,r,/b,{},4096", n * 1000, (n % 7) * 4096);
    }
    let _ = writeln!(text, "2000001,1,r,/a,4096,4096");
    let figures = play(&text, &how(Policy::None, ReplayPace::Closed { think: 1.0 }));
    assert_eq!(figures.reads, 2002);
}

/// What a picture says of a scan: read-ahead hides most waits, and wastes what is not read.
#[test]
fn a_picture_counts_what_the_figures_count() {
    let of = |policy| {
        let how = Replay { has_picture: true, ..how(policy, ReplayPace::Closed { think: 1.0 }) };
        let figures = play(&scan(), &how);
        let without = Replay { has_picture: false, ..how };
        assert_eq!(play(&scan(), &without).waited_ns, figures.waited_ns, "it changes nothing");
        (figures.picture.clone().expect("it was requested"), figures)
    };
    let (none, figures) = of(Policy::None);
    let [hit, prefetched, wasted, waited] = none.counts;
    assert_eq!((hit, prefetched, wasted, waited), (0, 0, 0, figures.waits));
    let (ahead, figures) = of(Policy::Linux6);
    let [hit, prefetched, wasted, waited] = ahead.counts;
    assert_eq!(hit + prefetched + waited, figures.reads);
    assert_eq!((wasted, waited), (figures.evicted_unread, figures.waits));
    assert!(prefetched > waited, "{prefetched} {waited}");
    let [stream] = &ahead.streams[..] else { panic!("one reader: {:?}", ahead.streams) };
    assert_eq!((stream.thread, stream.pages), (1, 2048));
    assert!(stream.points.iter().any(|point| point.window == ByteCount(128 << 10)));
    assert!(ahead.cells.iter().all(|cell| cell.column < 240 && cell.row < 120));
}

/// A reader that takes 4 KiB of each 256 KiB: most of its windows are evicted unread.
#[test]
fn what_is_read_ahead_in_vain_is_in_the_picture() {
    let mut text = HEADING.to_owned();
    for n in 0..200 {
        let at = n * (256 << 10);
        let _ = writeln!(text, "{},1,r,/data,{at},4096", n * 10_000);
        let _ = writeln!(text, "{},1,r,/data,{},4096", n * 10_000 + 5000, at + 4096);
    }
    let how = Replay {
        has_picture: true,
        cache: CacheSpec { memory: Size(ByteCount(4 << 20)), ..how(Policy::Linux6, OPEN).cache },
        ..how(Policy::Linux6, OPEN)
    };
    let figures = play(&text, &how);
    let picture = figures.picture.expect("it was requested");
    assert!(figures.evicted_unread > 50, "{}", figures.evicted_unread);
    assert_eq!(picture.counts[2], figures.evicted_unread);
}

/// A thread that reads at the start and at the end thinks as long as in the trace, also where more
/// reads of another lie between than are kept in memory.
#[test]
fn a_think_time_is_not_counted_twice_where_many_reads_of_others_lie_between() {
    let mut text = HEADING.to_owned();
    let others = MAX_QUEUED + 1000;
    text += "0,1,r,/data,0,4096\n";
    for n in 0..others {
        let _ = writeln!(text, "{},2,r,/data,0,4096", n * 100);
    }
    let last_us = others * 100;
    let _ = writeln!(text, "{last_us},1,r,/data,0,4096");
    let figures = play(&text, &how(Policy::None, ReplayPace::Closed { think: 1.0 }));
    assert_eq!(figures.reads, others as u64 + 2);
    let (elapsed_us, last_us) = (figures.elapsed_ns / 1000, last_us as u64);
    // All but the first read are hits.
    assert!((last_us..last_us + 10_000).contains(&elapsed_us), "{elapsed_us}, {last_us}");
}
