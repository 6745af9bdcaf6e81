//! Combinations of policies, windows and memory sizes, each with the same seeds.

use foreread_core::prefetch::Policy;
use foreread_core::units::{ByteCount, Nanos};
use foreread_sim::comparison::{Combination, ComparedFigure, ComparedRun, ComparisonRow, run_all};
use foreread_sim::record::RecordMode;
use foreread_sim::rival_policy;
use foreread_sim::rivals::RunKeeps;
use foreread_sim::scenario::{MaxWindowSpec, Scenario};
use foreread_sim::time_series::SeriesSpec;

/// A scan beside look-ups at random, on a device whose commands take a time that differs. `top` are
/// lines above the tables.
fn scenario(top: &str, cache: &str) -> Scenario {
    let text = format!(
        "name = 'both'\n{top}\n[cache]\nmemory = '4M'\n{cache}\n[device.disk]\n\
         model.flash = {{ capacity = '1G', mb_per_s = 100, overhead_us = 200, jitter = 0.5 }}\n\
         [file.data]\ndevice = 'disk'\nsize = '16M'\n[[process]]\nname = 'scan'\n\
         run.sequential = {{ file = 'data', read = '16K' }}\n[[process]]\nname = 'look-up'\n\
         run.random = {{ file = 'data', read = '4K', reads = 200 }}\n"
    );
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const FOUR_MIB: ByteCount = ByteCount(4 << 20);
const SMALL: Option<ByteCount> = Some(ByteCount(64 << 10));

fn rows(scenario: &Scenario, combinations: &[Combination], threads: usize) -> Vec<ComparisonRow> {
    keeping(scenario, combinations, threads, RunKeeps::default())
}

fn keeping(
    scenario: &Scenario,
    combinations: &[Combination],
    threads: usize,
    keeps: RunKeeps,
) -> Vec<ComparisonRow> {
    run_all(scenario, combinations, &[3, 4, 5], keeps, threads, &|_, _, _| {})
}

#[test]
fn rows_are_the_same_on_any_number_of_threads() {
    let policies = [
        (Policy::Linux6, SMALL),
        (Policy::Linux6, Some(ByteCount(1 << 20))),
        (Policy::Adaptive, None),
    ];
    let combinations = Combination::all(&policies, &[ByteCount(2 << 20), ByteCount(8 << 20)]);
    let scenario = scenario("", "");
    let one = rows(&scenario, &combinations, 1);
    assert_eq!(one.len(), 6);
    for threads in [2, 5, 100] {
        assert_eq!(rows(&scenario, &combinations, threads), one, "{threads} threads");
    }
    let order: Vec<_> = one.iter().map(|row| (row.memory >> 20, row.max_window)).collect();
    let windows = [Some(64 << 10), Some(1 << 20), None];
    let both = [2, 8].map(|memory| windows.map(|window| (memory, window)));
    assert_eq!(order, both.concat());
    assert!(one.iter().all(|row| row.runs.iter().map(|run| run.seed).eq([3, 4, 5])));
    assert!(one.iter().all(|row| !row.is_same_with_each_seed()));
}

#[test]
fn each_ratio_is_to_the_first_policy_with_the_same_seeds() {
    let policies = [(Policy::None, SMALL), (Policy::Linux6, SMALL)];
    let combinations = Combination::all(&policies, &[FOUR_MIB]);
    let rows = rows(&scenario("", ""), &combinations, 2);
    assert_eq!(rows[0].mb_per_s.over_first, None);
    let ratio = rows[1].mb_per_s.over_first.expect("both read something");
    let pairs = rows[1].runs.iter().zip(&rows[0].runs);
    let product: f64 = pairs.map(|(run, base)| run.mb_per_s / base.mb_per_s).product();
    assert!((ratio.ratio - product.powf(1.0 / 3.0)).abs() < 1e-9, "{ratio:?}");
    let (low, high) = (ratio.low.expect("three seeds"), ratio.high.expect("three seeds"));
    assert!(1.0 < low && low < ratio.ratio && ratio.ratio < high, "{ratio:?}");
    // Without read-ahead nothing is evicted unread: there is no ratio to nothing.
    assert_eq!(rows[1].evicted_unread.over_first, None);
}

/// The percentiles cover operations that took time; a run of the same seed confirms them.
#[test]
fn hits_are_no_part_of_the_percentiles() {
    let mut scenario = scenario("", "policy = 'linux-6'");
    let combinations = Combination::all(&[(Policy::Linux6, SMALL)], &[FOUR_MIB]);
    let row = &rows(&scenario, &combinations, 1)[0];
    for run in &row.runs {
        combinations[0].set(&mut scenario);
        scenario.seed = run.seed;
        let mut whole = scenario.build(RecordMode::Hash).expect("it was checked").run;
        whole.go(scenario.until());
        let latency = whole.latency();
        assert_eq!(whole.end().hash_text(), run.hash);
        let mut all = Vec::new();
        for step in latency.iter_recorded() {
            all.extend((0..step.count_at_value()).map(|_| step.value_iterated_to()));
        }
        let waits: Vec<u64> = all.iter().copied().filter(|ns| *ns > 0).collect();
        assert!(waits.len() as u64 == run.waits && waits.len() < all.len(), "{run:?}");
        let rank = |percent: usize| (waits.len() * percent).div_ceil(100) - 1;
        let ms = |percent: usize| Some(waits[rank(percent)] as f64 / 1e6);
        assert_eq!((run.wait_p50_ms, run.wait_p99_ms), (ms(50), ms(99)));
    }
}

#[test]
fn what_comes_before_the_time_that_counts_is_left_out() {
    let combinations = Combination::all(&[(Policy::Linux6, SMALL)], &[FOUR_MIB]);
    let row = |top: &str| rows(&scenario(top, ""), &combinations, 2).remove(0);
    let (all, late) = (row("until_s = 0.2"), row("until_s = 0.2\ncount_from_s = 0.15"));
    for (all, late) in all.runs.iter().zip(&late.runs) {
        assert_eq!(all.hash, late.hash, "the run is the same");
        assert!((all.elapsed_s - 0.2).abs() < 1e-9 && (late.elapsed_s - 0.05).abs() < 1e-9);
        assert!(late.requests > 0 && late.requests * 2 < all.requests, "{late:?}");
        assert!(late.waits > 0 && late.waits * 2 < all.waits, "{late:?}");
        assert!(late.waited_s < all.waited_s, "{late:?}");
    }
}

#[test]
fn where_no_operation_took_time_there_are_no_percentiles() {
    let combinations = Combination::all(&[(Policy::Linux6, SMALL)], &[FOUR_MIB]);
    let late = scenario("count_from_s = 1", "");
    let row = &rows(&late, &combinations, 1)[0];
    assert_eq!((row.wait_p50_ms, row.wait_p999_ms), (None, None));
    assert!(row.runs.iter().all(|run| run.waits == 0));
}

/// What is kept of a run changes nothing else, and is that of the run alone.
#[test]
fn each_run_is_held_against_its_bounds_and_has_its_series() {
    let policies = [(Policy::None, SMALL), (Policy::Linux6, SMALL), (Policy::Adaptive, None)];
    let combinations = Combination::all(&policies, &[FOUR_MIB]);
    let mut scenario = scenario("", "");
    let spec = SeriesSpec { interval: Nanos(1_000_000), limit: 64 };
    let keeps = RunKeeps { reads: true, series: Some(spec) };
    let kept = keeping(&scenario, &combinations, 2, keeps);
    let plain = rows(&scenario, &combinations, 2);
    for ((row, plain), combination) in kept.iter().zip(&plain).zip(&combinations) {
        assert_eq!((row.mb_per_s, row.waited_s), (plain.mb_per_s, plain.waited_s));
        assert_eq!((plain.requests_over_fewest, plain.bytes_over_fewest), (None, None));
        assert_eq!(row.requests_over_optimum, None, "no formula knows random reads");
        for (run, plain) in row.runs.iter().zip(&plain.runs) {
            assert_eq!((&run.hash, &plain.series), (&plain.hash, &None));
            // Each page of the scan once, in requests of at most the whole memory.
            let fewest = run.fewest_bytes.expect("the reads were kept");
            assert!((16 << 20..=run.device_bytes).contains(&fewest), "{run:?}");
            let series = run.series.as_ref().expect("it was asked for");
            assert!((32..=64).contains(&series.intervals.len()), "{}", series.intervals.len());
            combination.set(&mut scenario);
            scenario.seed = run.seed;
            let mut alone = scenario.build(RecordMode::Hash).expect("it was checked").run;
            alone.keep_series(spec);
            alone.go(scenario.until());
            assert_eq!(alone.take_series().as_ref(), Some(series));
        }
        let over = row.bytes_over_fewest.expect("each run has its bound");
        assert!(over.over_seeds.mean >= 1.0, "{over:?}");
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "counts of short runs")]
fn streaming_clients_are_held_against_the_best_windows() {
    let text = "name = 'clients'\nuntil_s = 20\ncount_from_s = 10\n[cache]\nmemory = '8M'\n\
        [device.disk]\nmodel.flash = { capacity = '4G', mb_per_s = 200, overhead_us = 200, \
        max_command = '1M' }\n[[process]]\nname = 'server'\n\
        run.streaming = { device = 'disk', file_size = '64M', \
        kib_per_s = [200, 400, 800, 1600] }\n";
    let scenario = Scenario::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let combinations = Combination::all(
        &[(Policy::Linux6, SMALL), (Policy::Adaptive, None)],
        &[ByteCount(8 << 20)],
    );
    let keeps = RunKeeps { reads: true, series: None };
    let rows = keeping(&scenario, &combinations, 2, keeps);
    let times = |row: usize| {
        let over = rows[row].requests_over_optimum.expect("all are streaming clients");
        over.over_seeds.mean
    };
    assert!(times(1) < times(0), "{} and {}", times(1), times(0));
    for row in &rows {
        let mean = |least: &dyn Fn(&ComparedRun) -> f64| {
            let ratios = row.runs.iter().map(|run| run.requests as f64 / least(run));
            ratios.sum::<f64>() / row.runs.len() as f64
        };
        let optimum = mean(&|run| run.optimum_requests.expect("as above"));
        let fewest = mean(&|run| run.fewest_requests.expect("reads were kept") as f64);
        let shown = |over: Option<ComparedFigure>| over.expect("as each run").over_seeds.mean;
        assert!((shown(row.requests_over_optimum) / optimum - 1.0).abs() < 1e-9, "{optimum}");
        assert!((shown(row.requests_over_fewest) / fewest - 1.0).abs() < 1e-9, "{fewest}");
        assert!(fewest >= 1.0, "{fewest}");
    }
}

#[test]
fn a_scenario_without_a_window_has_that_of_its_policy() {
    let window = |cache: &str| scenario("", cache).max_window();
    assert_eq!(window(""), MaxWindowSpec::Auto, "adaptive, as in the library");
    assert_eq!(window("policy = 'linux-6'").bytes(), Some(ByteCount(128 << 10)));
    let own = scenario("", "policy = 'competitive'");
    let model = &own.device["disk"].model.get_ref().model;
    let of_device = rival_policy::window_of_device(own.cache.policy.0, model);
    assert!(of_device.is_some() && own.max_window().bytes() == of_device);
    for policy in ["adaptive", "linux-6", "competitive"] {
        let said = format!("policy = '{policy}'\nmax_window = '256K'");
        assert_eq!(window(&said).bytes(), Some(ByteCount(256 << 10)));
        assert_eq!(window(&said.replace("256K", "auto")), MaxWindowSpec::Auto);
    }
    // The same run as if it had been said, and another than with 128K.
    let hash = |cache: &str| {
        let mut run = scenario("", cache).build(RecordMode::Hash).expect("it was checked").run;
        run.go(Nanos(u64::MAX));
        run.end().hash
    };
    assert_eq!(hash(""), hash("max_window = 'auto'"));
    assert_ne!(hash(""), hash("max_window = '128K'"));
}
