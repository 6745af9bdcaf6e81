//! Time series and seeds of replays.

use std::fmt::Write as _;

use foreread_core::prefetch::Policy;
use foreread_core::units::Nanos;
use foreread_sim::device::DeviceParams;
use foreread_sim::replay::{Replay, ReplayFigures, ReplayPace};
use foreread_sim::time_series::{SeriesSpec, TimeSeries};

use super::playing::{HEADING, OPEN, how, play, scan};

const SPEC: SeriesSpec = SeriesSpec { interval: Nanos(10_000_000), limit: 4096 };

/// Reads, bytes, waits, ns waited, requests and bytes of the device.
type Sums = [u64; 6];

fn of_series(series: &TimeSeries) -> Sums {
    let mut sums = [0; 6];
    for figures in &series.intervals {
        let done = figures.done;
        let of = [done.ops, done.bytes, done.waits, done.waited_ns];
        let of = of.into_iter().chain([figures.requests, figures.device_bytes]);
        sums.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
    }
    sums
}

fn of_figures(figures: &ReplayFigures) -> Sums {
    let ReplayFigures { reads, bytes, waits, waited_ns, requests, device_bytes, .. } = *figures;
    [reads, bytes, waits, waited_ns, requests, device_bytes]
}

/// Two thousand reads that are due at once: those beyond 1024 begin late.
fn burst() -> String {
    let mut text = HEADING.to_owned();
    for n in 0..2000 {
        let _ = writeln!(text, "0,1,r,/data,{},4096", n % 500 * 65536);
    }
    text
}

#[test]
fn the_intervals_of_a_replay_sum_up_to_its_figures() {
    for (text, pace) in [
        (scan(), OPEN),
        (scan(), ReplayPace::Closed { think: 1.0 }),
        (scan(), ReplayPace::Closed { think: 0.0 }),
        (burst(), OPEN),
    ] {
        for policy in [Policy::None, Policy::Linux6, Policy::Adaptive] {
            let plain = how(policy, pace);
            let figures = play(&text, &Replay { series: Some(SPEC), ..plain.clone() });
            let series = figures.series.as_ref().expect("it was asked for");
            let case = format!("{} {pace:?}", policy.name());
            assert_eq!(of_series(series), of_figures(&figures), "{case}");
            assert_eq!(series.length_ns, figures.elapsed_ns, "{case}");
            let without = play(&text, &plain);
            assert_eq!(of_figures(&without), of_figures(&figures), "{case}: it changes nothing");
            assert!(without.series.is_none());
        }
    }
    assert!(play(&burst(), &how(Policy::None, OPEN)).late > 900, "reads began late");
}

#[test]
fn the_series_of_a_warm_replay_begins_when_it_counts() {
    let how = how(Policy::Linux6, ReplayPace::Closed { think: 1.0 });
    let figures = play(&scan(), &Replay { series: Some(SPEC), is_warmed: true, ..how });
    let series = figures.series.expect("it was asked for");
    // 511 pauses of a millisecond.
    assert_eq!((series.length_ns, series.intervals.len()), (511_000_000, 52));
    assert!(series.intervals.iter().all(|figures| figures.requests == 0), "{series:?}");
    let cached: Vec<u64> =
        series.intervals.iter().map(|figures| figures.levels.cached_bytes).collect();
    assert!(cached.iter().all(|bytes| *bytes == 8 << 20), "all of it is cached: {cached:?}");
}

#[test]
fn what_is_in_flight_is_seen_at_the_end_of_an_interval() {
    // One read of 16 KiB takes 1.2 ms.
    let spec = SeriesSpec { interval: Nanos(500_000), limit: 4096 };
    let text = format!("{HEADING}0,1,r,/data,0,16384\n");
    let figures = play(&text, &Replay { series: Some(spec), ..how(Policy::None, OPEN) });
    let series = figures.series.expect("it was asked for");
    let levels: Vec<u64> =
        series.intervals.iter().map(|figures| figures.levels.in_flight_bytes).collect();
    assert_eq!(levels, [16384, 16384, 0]);
    let done: Vec<u64> = series.intervals.iter().map(|figures| figures.done.ops).collect();
    assert_eq!(done, [0, 0, 1]);
}

#[test]
fn a_seed_changes_the_times_of_a_device_that_varies_and_of_no_other() {
    let with = |jitter: f64, seed: u64| {
        let mut how = how(Policy::Linux6, ReplayPace::Closed { think: 1.0 });
        let DeviceParams::Flash(chips) = &mut how.device else { panic!("it is flash") };
        chips.jitter = jitter;
        how.seed = seed;
        of_figures(&play(&scan(), &how))
    };
    assert_eq!(with(0.0, 1), with(0.0, 2));
    assert_eq!(with(0.5, 2), with(0.5, 2));
    let waited: Vec<u64> = (1..=3).map(|seed| with(0.5, seed)[3]).collect();
    assert!(waited[0] != waited[1] && waited[1] != waited[2], "{waited:?}");
    assert_eq!(with(0.5, 1)[..2], with(0.5, 2)[..2], "the reads are those of the trace");
}
