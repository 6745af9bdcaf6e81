//! Devices as they are: windows that are learnt from a reader's own reads.

use foreread_core::prefetch::Policy;
use foreread_sim::device::known;
use foreread_sim::record::RecordMode;
use foreread_sim::scenario::Scenario;

use super::{how, measure, ours, parsed, row};

/// The best of the kernel's policy over all windows, in MB/s.
fn plateau(name: &str) -> f64 {
    let windows = [128, 256, 512, 1024, 2048, 4096, 8192];
    windows.map(|kib| row(name, Policy::Linux6, Some(kib)).mb_per_s).into_iter().fold(0.0, f64::max)
}

#[test]
fn one_head_at_the_plateau_of_the_sweep() {
    let (speed, best) = (ours("sequential-one-head").mb_per_s, plateau("sequential-one-head"));
    assert!(speed >= 0.95 * best, "{speed} MB/s of {best}");
}

/// Only the first request of a window is waited for: the others tell how many are served at once.
#[test]
fn far_away_at_the_plateau_of_the_sweep() {
    let (speed, best) = (ours("sequential-far").mb_per_s, plateau("sequential-far"));
    assert!(speed >= 0.95 * best, "{speed} MB/s of {best}");
}

/// Eight readers past the cache, 256 KiB at a time: what fio does with a queue of eight.
#[test]
fn eight_ways_nearly_as_fast_as_eight_readers_past_the_cache() {
    let text = foreread_sim::rivals::find("sequential-parallel").unwrap().text;
    let text = text.replace(
        "run.sequential = { file = \"data\", cpu_us = 1 }",
        "count = 8\nrun.random = { file = \"data\", read = \"256K\", reads = 500, direct = true }",
    );
    let best = measure(&parsed(&text)).mb_per_s();
    let speed = ours("sequential-parallel").mb_per_s;
    assert!(speed >= 0.85 * best, "{speed} MB/s, past the cache {best}");
}

/// A reader of a known device.
fn sweep(device: &str) -> Scenario {
    let capacity = known::find(device).expect(device).model.geometry().capacity;
    parsed(&format!(
        "name = 'a reader'\ncache.memory = '256M'\n[device.disk]\nmodel = '{device}'\n\
         [file.data]\ndevice = 'disk'\nsize = '{}'\n[[process]]\nname = 'reader'\n\
         run.sequential = {{ file = 'data', read = '64K' }}\n",
        (capacity.0 / 4096 * 4096).min(4 << 30)
    ))
}

/// How fast it is from its 200th request to its 260th, or to the end of a device that is smaller.
fn after_200_requests(scenario: &Scenario) -> Option<f64> {
    let run = &mut scenario.build(RecordMode::Hash).expect("it was checked").run;
    let mut until = |requests: u64| {
        while run.requests() < requests && run.go_some(10, scenario.until()) {}
        run.totals()
    };
    let (from, to) = (until(200), until(260));
    let bytes = to.processes[0].bytes - from.processes[0].bytes;
    (from.requests >= 200 && bytes > 0).then(|| bytes as f64 / (to.at.0 - from.at.0) as f64 * 1e3)
}

#[test]
fn every_device_within_3_percent_of_its_best_window_after_200_requests() {
    let devices = [
        "intel-x25m-80g",
        "marvell-22g",
        "sandisk-sata5000-30g",
        "teclast-32g-usb",
        "sandisk-cruzer-4g-usb",
        "usb-stick-2g",
        "msystems-64m-usb1",
        "sd-card",
    ];
    let mut short = Vec::new();
    for device in devices {
        let mut scenario = sweep(device);
        let speed = after_200_requests(&scenario);
        let best = (0..12).filter_map(|power| {
            how(Policy::Linux6, Some(4 << power)).set(&mut scenario);
            after_200_requests(&scenario)
        });
        let best = best.fold(0.0, f64::max);
        println!("{device}: {speed:?} MB/s of {best}");
        if speed.is_none_or(|speed| speed < 0.97 * best) {
            short.push((device, speed, best));
        }
    }
    assert!(short.is_empty(), "{short:?}");
}

/// A device that becomes slow for each request: windows grow, and come back.
#[test]
fn a_device_that_changes_is_learnt_again() {
    let speed = ours("device-changes").mb_per_s;
    let told = row("device-changes", Policy::Linux6, Some(16384)).mb_per_s;
    assert!(speed >= 0.9 * told, "{speed} MB/s, with windows of 16M {told}");
}

/// Requests never find the device idle. Nothing was learnt then, and windows stayed at 128 KiB.
#[test]
fn several_readers_that_leave_a_device_no_pause_get_the_windows_that_pay() {
    let several = |window: &str| {
        let text = foreread_sim::rivals::find("sequential-one-head").unwrap().text;
        let text = text.replace("\"1G\"", "\"4G\"").replace("run.sequential", "#");
        let readers = (0..4).map(|number| {
            format!(
                "[[process]]\nname = \"reader-{number}\"\n\
                 run.sequential = {{ file = \"data\", from = \"{number}G\", amount = \"400M\" }}\n"
            )
        });
        let text = text.replace("[[process]]\nname = \"reader\"", "");
        let mut scenario = parsed(&(text + &readers.collect::<String>()));
        if window != "auto" {
            let kib = window.parse().unwrap();
            how(Policy::Adaptive, Some(kib)).set(&mut scenario);
        }
        measure(&scenario).mb_per_s()
    };
    let (speed, small, best) = (several("auto"), several("128"), several("1024"));
    assert!(best > 4.0 * small, "{best} MB/s, with 128 KiB {small}");
    assert!(speed > 0.8 * best, "{speed} MB/s of {best}");
}
