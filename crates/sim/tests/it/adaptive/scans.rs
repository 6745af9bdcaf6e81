//! Scans that end: nothing is read beyond their end, and long ones lose nothing by that.

use foreread_core::prefetch::{AdaptivePart, Policy, Without};
use foreread_core::units::ByteCount;
use foreread_sim::rivals::MeasuredRun;
use foreread_sim::scenario::Scenario;

use super::{how, measure, ours, parsed, scenario};

/// Readers on devices of other costs than the lab's.
const DEVICES: [&str; 4] = [
    "{ capacity = '64G', mb_per_s = 200, overhead_us = 2000 }",
    "{ capacity = '64G', mb_per_s = 1200, overhead_us = 150, channels = 4 }",
    "{ capacity = '64G', mb_per_s = 90, overhead_us = 9000 }",
    "{ capacity = '64G', mb_per_s = 900, overhead_us = 30000, channels = 48, depth = 48 }",
];

fn text(device: &str, run: &str) -> String {
    format!(
        "name = 'scans'\n[cache]\nmemory = '64M'\nmax_window = 'auto'\n\
         [device.disk]\nmodel.flash = {device}\n\
         [file.data]\ndevice = 'disk'\nsize = '32G'\n[[process]]\nname = 'reader'\n{run}\n"
    )
}

/// Seconds and bytes a byte wanted.
fn figures(measured: &MeasuredRun) -> (f64, f64) {
    (measured.elapsed_s(), measured.amplification())
}

fn fixed(scenario: &Scenario) -> f64 {
    let windows = [128, 256, 512, 1024];
    let seconds = windows.map(|kib| {
        let mut scenario = scenario.clone();
        how(Policy::Linux6, Some(kib)).set(&mut scenario);
        measure(&scenario).elapsed_s()
    });
    seconds.into_iter().fold(f64::MAX, f64::min)
}

fn without_runs(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.cache.without = Without::from_iter([AdaptivePart::Runs]);
    scenario
}

#[test]
fn scans_of_one_length_are_read_in_one_request_each() {
    let row = ours("scans-short");
    assert!(row.amplification <= 1.05, "{} bytes a byte wanted", row.amplification);
    assert!(row.requests <= 2200, "{} requests for 2000 scans", row.requests);
    assert_eq!(row.evicted_unread, 0);
}

#[test]
fn short_scans_waste_little_and_take_no_longer_than_the_best_window_on_any_device() {
    for device in DEVICES {
        for length in ["'56K'", "'160K'", "{ from = '200K', to = '328K' }"] {
            for read in ["4K", "16K", "64K"] {
                let run = format!(
                    "run.scans = {{ file = 'data', read = '{read}', length = {length}, scans = 600 }}"
                );
                let scenario = parsed(&text(device, &run));
                let (seconds, wasted) = figures(&measure(&scenario));
                let best = fixed(&scenario);
                println!("{device} {length} {read}: {seconds:.2} s, {best:.2} s, {wasted:.3}");
                // Where requests are dear and lengths differ, the least time needs more bytes.
                let most = if length.contains("from") { 1.5 } else { 1.3 };
                assert!(wasted <= most, "{device} {length} {read}: {wasted} bytes a byte wanted");
                assert!(seconds <= 1.05 * best, "{device} {length} {read}: {seconds} s, {best}");
            }
        }
    }
}

#[test]
fn scans_that_go_backwards_are_known_too() {
    let run = "run.scans = { file = 'data', read = '16K', length = '320K', scans = 600, \
               backwards = true }";
    let scenario = parsed(&text(DEVICES[0], run));
    let (seconds, wasted) = figures(&measure(&scenario));
    let (before, _) = figures(&measure(&without_runs(&scenario)));
    println!("{seconds:.2} s, {before:.2} without, {wasted:.3}");
    assert!(wasted <= 1.3, "{wasted} bytes a byte wanted");
    // One request each, once that is known.
    assert!(seconds <= 0.5 * before, "{seconds} s, {before} without");
}

#[test]
fn scans_that_turn_round_and_scans_both_ways_waste_little() {
    let scans = |name, start_ms, backwards| {
        format!(
            "[[process]]\nname = '{name}'\nstart_ms = {start_ms}\n\
             run.scans = {{ file = 'data', read = '16K', length = '320K', scans = 800, \
             backwards = {backwards} }}\n"
        )
    };
    let first = "run.random = { file = 'data', read = '4K', reads = 1 }";
    for (before, after, start_ms) in
        [(true, false, 60_000), (false, true, 60_000), (true, false, 0)]
    {
        let run = format!("{first}\n{}{}", scans("a", 0, before), scans("b", start_ms, after));
        let mut scenario = parsed(&text(DEVICES[0], &run));
        scenario.count_from_s = start_ms as f64 / 1000.0;
        let (seconds, wasted) = figures(&measure(&scenario));
        let (without, wasted_without) = figures(&measure(&without_runs(&scenario)));
        println!(
            "{before} {after}: {seconds:.2} s, {wasted:.2}; {without:.2} s, {wasted_without:.2}"
        );
        assert!(wasted <= 1.3, "{before}, {after}: {wasted}, {wasted_without} without");
        assert!(seconds <= 1.02 * without, "{before}, {after}: {seconds} s, {without} without");
    }
}

#[test]
fn a_long_scan_after_short_ones_loses_nothing() {
    let full = ours("scans-then-full");
    for (device, amount) in DEVICES.into_iter().zip(["512M", "2G", "256M", "2G"]) {
        let run = format!(
            "run.scans = {{ file = 'data', read = '16K', length = '160K', scans = 2000 }}\n\
             [[process]]\nname = 'full'\nstart_ms = 200000\n\
             run.sequential = {{ file = 'data', read = '64K', from = '1G', amount = '{amount}' }}"
        );
        let mut scenario = parsed(&text(device, &run));
        scenario.count_from_s = 200.0;
        let (seconds, wasted) = figures(&measure(&scenario));
        let (before, _) = figures(&measure(&without_runs(&scenario)));
        assert!(seconds <= 1.03 * before, "{device}: {seconds} s, {before} without");
        // What the short scans left resident is read again where that saves a request.
        assert!(wasted <= 1.05, "{device}: {wasted}");
    }
    assert!(full.amplification <= 1.01 && full.elapsed_s <= 7.7, "{full:?}");
}

#[test]
fn reads_at_random_after_scans_are_learnt_soon() {
    let run = "run.scans = { file = 'data', read = '16K', length = '160K', scans = 2000 }\n\
               [[process]]\nname = 'look-up'\nstart_ms = 60000\n\
               run.random = { file = 'data', read = '16K', reads = 4000 }";
    let mut scenario = parsed(&text(DEVICES[0], run));
    scenario.count_from_s = 60.0;
    let measured = measure(&scenario);
    let wanted = ByteCount(4000 * (16 << 10)).0 as f64;
    let asked = (measured.to.device_bytes - measured.from.device_bytes) as f64;
    // Some 200 of them read a scan each.
    assert!(asked <= 1.6 * wanted, "{} bytes a byte wanted", asked / wanted);
}

#[test]
fn one_handle_that_reads_scans_in_turns_has_the_length_of_each() {
    // Sixteen streams at a time, 16 KiB each in turns, 256 KiB long, in 64 places of the file.
    let pages: Vec<String> = (0..64_u64)
        .flat_map(|group| {
            let turns = (0..16_u64).flat_map(move |turn| (0..16_u64).map(move |at| (turn, at)));
            turns.map(move |(turn, at)| {
                format!("\"{}+4\"", (group * 16 + at) * 7919 % 1024 * 4096 + turn * 4)
            })
        })
        .collect();
    let run = format!("run.interleaved = {{ file = 'data', pages = [{}] }}", pages.join(", "));
    let scenario = parsed(&text(DEVICES[0], &run));
    let (seconds, wasted) = figures(&measure(&scenario));
    let (before, wasted_before) = figures(&measure(&without_runs(&scenario)));
    println!("{seconds:.2} s, {wasted:.3}; without {before:.2} s, {wasted_before:.3}");
    assert!(wasted <= wasted_before && wasted <= 1.3, "{wasted}, {wasted_before} without");
    assert!(seconds <= 1.05 * before, "{seconds} s, {before} without");
}

#[test]
fn reads_as_large_as_the_largest_window_are_still_read_ahead_of() {
    // All that is known of a stream of 16 MiB is that it goes on: while one read is used, the next
    // window has to come, although a read fills one.
    for device in DEVICES {
        let run = "run.scans = { file = 'data', read = '1M', length = '16M', scans = 100, \
                   cpu_ns_per_byte = 1 }";
        let mut scenario = parsed(&text(device, run));
        how(Policy::Adaptive, Some(512)).set(&mut scenario);
        let (seconds, wasted) = figures(&measure(&scenario));
        let (before, _) = figures(&measure(&without_runs(&scenario)));
        println!("{device}: {seconds:.2} s, {before:.2} without, {wasted:.3}");
        assert!(seconds <= 1.02 * before, "{device}: {seconds} s, {before} without");
        // At the end of each, a window at most.
        assert!(wasted <= 1.07, "{device}: {wasted} bytes a byte wanted");
    }
}

#[test]
fn many_streams_that_begin_together_are_not_taken_for_reads_at_random() {
    let mut scenario = scenario("turns-200-in-128m");
    (scenario.count_from_s, scenario.until_s) = (0.0, Some(6.0));
    let (ours, wasted) = rate(&scenario);
    let (before, _) = rate(&without_runs(&scenario));
    println!("{ours:.0} MB/s, {before:.0} without, {wasted:.3}");
    assert!(ours >= 0.98 * before, "{ours} MB/s, {before} without");
    assert!(wasted <= 1.03, "{wasted} bytes a byte wanted");
}

/// MB/s and bytes a byte wanted.
fn rate(scenario: &Scenario) -> (f64, f64) {
    let measured = measure(scenario);
    (measured.mb_per_s(), measured.amplification())
}
