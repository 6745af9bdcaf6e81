//! The closed-form minimum of requests, against a numerical optimiser.

use foreread_core::units::Nanos;
use foreread_sim::optimum::{self, RatedStream, best_windows};
use foreread_sim::rivals;
use foreread_sim::rng::Rng;
use foreread_sim::scenario::Scenario;

/// Gives the memory out, a small piece at a time, to the stream for which it saves most requests.
/// What each piece saves gets less with each, so nothing does better.
fn by_pieces(streams: &[RatedStream], pages: f64, latency_s: f64) -> Vec<f64> {
    let all: f64 = streams.iter().map(|stream| stream.pages_per_s).sum();
    let to_share = 2.0 * (pages - all * latency_s);
    let piece = to_share / 40_000.0;
    let mut windows = vec![piece; streams.len()];
    let saved = |stream: &RatedStream, window: f64| {
        stream.pages_per_s / window - stream.pages_per_s / (window + piece)
    };
    for _ in streams.len()..40_000 {
        let open = (0..streams.len()).filter(|at| windows[*at] + piece <= streams[*at].most_pages);
        let of = |at: &usize| saved(&streams[*at], windows[*at]);
        let Some(best) = open.max_by(|a, b| of(a).total_cmp(&of(b))) else { break };
        windows[best] += piece;
    }
    windows
}

fn requests(streams: &[RatedStream], windows: &[f64]) -> f64 {
    streams.iter().zip(windows).map(|(stream, window)| stream.pages_per_s / window).sum()
}

#[test]
fn no_windows_come_to_fewer_requests() {
    let mut rng = Rng::new(5);
    let mut capped = 0;
    for case in 0..20 {
        let count = 2 + rng.below(30);
        let most_pages = if case % 2 == 0 { 1e9 } else { 300.0 + 500.0 * rng.unit() };
        let mut stream = || RatedStream { pages_per_s: 10.0 * libm_exp(rng.normal()), most_pages };
        let streams: Vec<_> = (0..count).map(|_| stream()).collect();
        let (pages, latency_s) = (4000.0, 0.01);
        let law = best_windows(&streams, pages, latency_s);
        let found = by_pieces(&streams, pages, latency_s);
        let ratio = requests(&streams, &law) / requests(&streams, &found);
        assert!((0.99..1.001).contains(&ratio), "case {case}: {ratio}");
        assert!(law.iter().all(|window| *window <= most_pages), "case {case}: {law:?}");
        capped += law.iter().filter(|window| **window == most_pages).count();
        let all: f64 = streams.iter().map(|stream| stream.pages_per_s).sum();
        let held = law.iter().sum::<f64>() / 2.0 + all * latency_s;
        assert!(held <= pages * 1.000_001, "case {case}: {held} pages");
    }
    assert!(capped > 20, "{capped} windows were as large as they could be");
}

fn libm_exp(power: f64) -> f64 {
    power.exp()
}

#[test]
fn streams_that_are_alike_have_twice_their_part_of_the_memory() {
    let streams = vec![RatedStream { pages_per_s: 1.0, most_pages: 1e9 }; 800];
    let windows = best_windows(&streams, 16_000.0, 0.0);
    assert!(windows.iter().all(|window| (window - 40.0).abs() < 1e-9), "{:?}", windows[0]);
}

fn of(text: &str) -> Option<f64> {
    let scenario = Scenario::parse(text).expect("a scenario");
    let (from, until) = (Nanos(0), Nanos(100_000_000_000));
    optimum::of_scenario(&scenario, 9000, from, until)
}

/// Ten clients of 400 KB/s, in so much memory that each has the largest window of use.
fn clients(more: &str) -> String {
    format!(
        "name = 'clients'\n{}\n[[process]]\nname = 'client'\n[process.run.streaming]\n\
         device = 'disk'\nfile_size = '1G'\nkib_per_s = {{ clients = 10, median = 400 }}\n{more}\n",
        "[device.disk]\nmodel.flash = { capacity = '64G', mb_per_s = 409.6, overhead_us = 100 }"
    )
}

#[test]
fn with_memory_to_spare_windows_are_what_the_device_can_use() {
    // 100 us are 10 pages: twice a window of 256 pages brings 1.9 %. 100 s of 1000 pages a second.
    let fewest = of(&clients("")).expect("there is one");
    assert!((fewest - 100_000.0 / 256.0).abs() < 1e-6, "{fewest}");
}

#[test]
fn where_more_is_wanted_than_the_device_gives_all_get_the_same_part() {
    let plain = of(&clients("")).expect("there is one");
    let fewest = of(&clients("changes = [{ at_s = 50, times = 2 }]")).expect("there is one");
    assert!((fewest / plain - 1.5).abs() < 1e-9, "twice as much in half of the time: {fewest}");
    // A thousand times as much is more than 409.6 MB/s: 2.66 ms a window then, for whomever.
    let most = of(&clients("changes = [{ at_s = 50, times = 1000 }]")).expect("there is one");
    let window_s = 100e-6 + 256.0 * 4096.0 / 409.6e6;
    assert!((most - (plain / 2.0 + 50.0 / window_s)).abs() < 1e-6, "{most}");
}

#[test]
fn only_clients_with_rates_on_a_flash_device_have_an_optimum() {
    let other = "[file.data]\ndevice = 'disk'\nsize = '1M'\n[[process]]\nname = 'dd'\n\
                 run.sequential = { file = 'data' }\n";
    assert_eq!(of(&format!("{}{other}", clients(""))), None);
    for rival in rivals::all().iter().filter(|rival| rival.is_streaming()) {
        let fewest = optimum::of_scenario(&rival.scenario(), 9000, Nanos(0), Nanos(1 << 40));
        assert!(fewest.is_some_and(|fewest| fewest > 0.0), "{}", rival.name);
    }
}
