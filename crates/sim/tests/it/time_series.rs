//! Time series of runs: they sum up to the figures of the run, and change nothing.

use foreread_core::sched::Op;
use foreread_core::units::Nanos;
use foreread_sim::meter::ProcessProgress;
use foreread_sim::record::RecordMode;
use foreread_sim::run::{RunOutcome, SimRun};
use foreread_sim::scenario::Scenario;
use foreread_sim::time_series::{SeriesSpec, TimeSeries};

/// Readers of all kinds beside a flood of writes past the cache.
const MIXED: &str = "name = 'mixed'\nuntil_s = 0.5\n[cache]\nmemory = '4M'\n\
    [device.disk]\nmodel.flash = { capacity = '1G', mb_per_s = 100, overhead_us = 200 }\n\
    [file.data]\ndevice = 'disk'\nsize = '16M'\n\
    [[process]]\nname = 'scan'\nrun.sequential = { file = 'data', read = '16K' }\n\
    [[process]]\nname = 'look-up'\nrun.random = { file = 'data', read = '4K', reads = 200 }\n\
    [[process]]\nname = 'paced'\nstart_ms = 30\n\
    run.sequential = { file = 'data', read = '64K', kib_per_s = 4000 }\n\
    [[process]]\nname = 'writer'\nstart_ms = 100\n\
    run.flood = { device = 'disk', at = '512M', size = '64M', amount = '2M', in_flight = 4 }\n";

fn parsed(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn built(scenario: &Scenario) -> SimRun {
    scenario.build(RecordMode::Hash).expect("it was checked").run
}

fn ran(scenario: &Scenario, spec: SeriesSpec) -> (TimeSeries, RunOutcome) {
    let mut run = built(scenario);
    run.keep_series(spec);
    run.go(scenario.until());
    let series = run.take_series().expect("it is kept");
    (series, run.end())
}

const FINE: SeriesSpec = SeriesSpec { interval: Nanos(1_000_000), limit: 4096 };

#[test]
fn the_intervals_of_a_run_sum_up_to_its_figures() {
    let scenario = parsed(MIXED);
    let (series, ran) = ran(&scenario, FINE);
    let none = ProcessProgress::default();
    let done = series.intervals.iter().fold(none, |sum, figures| sum.plus(figures.done));
    let of_all = |of: fn(&foreread_sim::meter::ProcessMeter) -> u64| {
        ran.processes.iter().map(of).sum::<u64>()
    };
    assert_eq!(done.ops, of_all(|meter| meter.ops));
    assert_eq!(done.bytes, of_all(|meter| meter.bytes.0));
    assert_eq!(done.waits, of_all(|meter| meter.waits));
    assert_eq!(done.waits, of_all(|meter| meter.latency().len() - meter.latency().count_at(0)));
    assert_eq!(done.waited_ns, of_all(|meter| meter.waited_ns));
    assert!(done.waits > 0 && done.waits < done.ops, "{done:?}");
    let device = &ran.devices[0];
    let requests: u64 = series.intervals.iter().map(|figures| figures.requests).sum();
    assert_eq!(requests, device.requests(Op::Read) + device.requests(Op::Write));
    let bytes: u64 = series.intervals.iter().map(|figures| figures.device_bytes).sum();
    assert_eq!(bytes, device.bytes(Op::Read).0 + device.bytes(Op::Write).0);
    // Each interval begins where the one before ends, and the last one ends with the run.
    let mut end = 0;
    for (start, length, figures) in series.rows() {
        assert_eq!(start, end);
        end = start + length;
        assert!(figures.levels.cached_bytes <= 4 << 20, "{figures:?}");
    }
    assert_eq!(end, ran.end.0);
    assert!(series.intervals.iter().any(|figures| figures.levels.in_flight_bytes > 0));
    let last = series.intervals.last().expect("there is one");
    assert!(last.levels.cached_bytes > 3 << 20, "the cache is full: {last:?}");
}

#[test]
fn a_series_changes_nothing_and_a_coarse_one_is_the_sum_of_a_fine_one() {
    let scenario = parsed(MIXED);
    let mut plain = built(&scenario);
    plain.go(scenario.until());
    assert!(plain.take_series().is_none());
    let hash = plain.end().hash;
    let (fine, of_fine) = ran(&scenario, FINE);
    let (coarse, of_coarse) = ran(&scenario, SeriesSpec { limit: 16, ..FINE });
    assert_eq!((of_fine.hash, of_coarse.hash), (hash, hash));
    assert_eq!((fine.intervals.len(), fine.interval_ns), (500, 1_000_000));
    assert_eq!((coarse.intervals.len(), coarse.interval_ns), (16, 32_000_000));
    for (figures, parts) in coarse.intervals.iter().zip(fine.intervals.chunks(32)) {
        let none = ProcessProgress::default();
        let done = parts.iter().fold(none, |sum, part| sum.plus(part.done));
        assert_eq!((figures.done, Some(figures.levels)), (done, parts.last().map(|it| it.levels)));
    }
}

/// The same whether the run goes in one step or in many.
#[test]
fn a_series_does_not_depend_on_when_a_run_pauses() {
    let scenario = parsed(MIXED);
    let (whole, _) = ran(&scenario, FINE);
    let mut run = built(&scenario);
    run.keep_series(FINE);
    for ms in (0..=500).step_by(7) {
        run.go(Nanos(ms * 1_000_000));
    }
    run.go(scenario.until());
    assert_eq!(run.take_series(), Some(whole));
}
