//! What no device can be is refused, with what would be possible.

use foreread_sim::device::DeviceParams;

use crate::devices::bench::model;

fn assert_refused(good: &DeviceParams, changes: &[(&str, &str)], text: impl Fn(&str) -> String) {
    assert!(good.build().is_ok(), "without the change it is possible");
    for (change, want) in changes {
        let why = model(&text(change)).build().map(drop).expect_err(change);
        assert_eq!(why, *want, "{change}");
    }
}

/// TOML with `change` in the place of the line of the same key.
fn with(base: &str, change: &str) -> String {
    let key = |line: &str| line.split(" = ").next().unwrap_or_default().to_owned();
    let others = base.lines().filter(|line| key(line) != key(change));
    others.map(|line| format!("{line}\n")).collect::<String>() + change
}

#[test]
fn of_all_devices() {
    let base = "[flash]\ncapacity = '1G'\nmb_per_s = 40.0";
    let changes = [
        ("capacity = 0", "capacity: must be a positive multiple of 512 bytes"),
        ("capacity = 511", "capacity: must be a positive multiple of 512 bytes"),
        ("capacity = 1000", "capacity: must be a positive multiple of 512 bytes"),
        ("max_command = 0", "max_command: must be a positive multiple of 4K"),
        ("max_command = '1s'", "max_command: must be a positive multiple of 4K"),
        ("max_command = '6K'", "max_command: must be a positive multiple of 4K"),
        ("max_command = '2G'", "max_command: must be at most 1G"),
        ("depth = 0", "depth: must be 1 to 4096"),
        ("depth = 5000", "depth: must be 1 to 4096"),
    ];
    assert_refused(&model(base), &changes, |change| with(base, change));
}

#[test]
fn of_a_store() {
    let base = "[store]\ncapacity = '1G'\nlatency_ms = 1\nconnection_mb_per_s = 10\n\
                link_mb_per_s = 20\nconnections = 2";
    let changes = [
        ("max_request = '6K'", "max_request: must be a positive multiple of 4K"),
        ("connections = 0", "connections: must be 1 to 4096"),
        ("latency_ms = -1", "latency_ms: must be 0 to 10^9"),
        ("connection_mb_per_s = 0", "connection_mb_per_s: must be 0.001 to 1000000"),
        (
            "link_mb_per_s = 9",
            "link_mb_per_s: must be at least connection_mb_per_s, at most 1000000",
        ),
        ("piece = '1K'", "piece: must be a positive multiple of 4K"),
    ];
    assert_refused(&model(base), &changes, |change| with(base, change));
}

#[test]
fn of_flash() {
    let base = "[flash]\ncapacity = '1G'\nmb_per_s = 40.0";
    let changes = [
        ("mb_per_s = 0.0", "mb_per_s: must be 0.001 to 1000000"),
        ("mb_per_s = -1.0", "mb_per_s: must be 0.001 to 1000000"),
        ("mb_per_s = inf", "mb_per_s: must be 0.001 to 1000000"),
        ("mb_per_s = nan", "mb_per_s: must be 0.001 to 1000000"),
        ("overhead_us = -0.1", "overhead_us: must be 0 to 10^9"),
        ("overhead_us = nan", "overhead_us: must be 0 to 10^9"),
        ("stall_us = -1.0", "stall_us: must be 0 to 10^9"),
        ("channels = 0", "channels: must be 1 to 1024"),
        ("channels = 1025", "channels: must be 1 to 1024"),
    ];
    assert_refused(&model(base), &changes, |change| with(base, change));
}

#[test]
fn of_hdd() {
    let base = "[hdd]\ncapacity = '1G'\nrpm = 7200\nouter_mb_per_s = 50.0\ninner_mb_per_s = 25.0\n\
                seek_min_ms = 1.0\nseek_max_ms = 15.0";
    let changes = [
        ("rpm = 0", "rpm: must be 60 to 100000"),
        ("rpm = inf", "rpm: must be 60 to 100000"),
        ("outer_mb_per_s = 0.0", "outer_mb_per_s: must be 0.001 to 1000000"),
        ("inner_mb_per_s = -3.0", "inner_mb_per_s: must be 0.001 to 1000000"),
        ("seek_min_ms = -1.0", "seek_min_ms: must be 0 to 10^9"),
        ("seek_min_ms = 16.0", "seek_max_ms: must be at least seek_min_ms, at most 10^9"),
        ("seek_max_ms = nan", "seek_max_ms: must be at least seek_min_ms, at most 10^9"),
        ("seek_root_share = 1.5", "seek_root_share: must be 0 to 1"),
        ("overhead_us = -1.0", "overhead_us: must be 0 to 10^9"),
        ("age_weight = -1.0", "age_weight: must be 0 to 10^9"),
    ];
    assert_refused(&model(base), &changes, |change| with(base, change));
}

#[test]
fn of_mapped() {
    let base = "[mapped]\non = 'usb-stick-2g'\ncapacity = '1G'\nreader = 'per-block'\nbio_us = 3.0";
    let changes = [
        ("on.flash = { capacity = 1, mb_per_s = 1.0 }", CAPACITY_BELOW),
        (
            "on.mapped = { on = 'sd-card', capacity = '8s', reader = 'per-block', bio_us = 1 }",
            TWICE,
        ),
        ("capacity = 0", "capacity: must be a positive multiple of 512 bytes"),
        ("capacity = 513", "capacity: must be a positive multiple of 512 bytes"),
        ("capacity = '2G'", "capacity: must be at most the size of the device below, less at"),
        ("at = '1900M'", "capacity: must be at most the size of the device below, less at"),
        ("at = 100", "at: must be a multiple of 512 bytes"),
        ("bio_us = -1.0", "bio_us: must be 0 to 10^9"),
    ];
    assert_refused(&model(base), &changes, |change| {
        let base = if change.starts_with("on.") {
            base.replace("on = 'usb-stick-2g'\n", "")
        } else {
            base.into()
        };
        with(&base, change)
    });
}

const CAPACITY_BELOW: &str = "on: capacity: must be a positive multiple of 512 bytes";
const TWICE: &str = "on: must be a device that is not mapped; bio_us may be the sum of two";
