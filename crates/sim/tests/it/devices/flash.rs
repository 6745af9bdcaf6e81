//! `flash`: commands, channels, the bus; and the known devices against their tables.

use std::collections::BTreeMap;

use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Sector};
use foreread_sim::device::{DeviceParams, known};

use crate::devices::bench::{assert_us, ends, finish, in_turn, model, read, run};

/// 4 KiB in 100 us, and 100 us for each command.
fn chips(more: &str) -> DeviceParams {
    model(&format!(
        "[flash]\ncapacity = '1G'\nmb_per_s = 40.96\noverhead_us = 100\ndepth = 8\n{more}"
    ))
}

fn times(model: &DeviceParams, count: u64) -> Vec<f64> {
    let processes: Vec<_> = (0..count).map(|index| vec![read(index * 1000, 8)]).collect();
    ends(model, &processes).into_iter().map(|(_, end)| end).collect()
}

#[test]
fn a_command_takes_its_overhead_and_its_transfer() {
    assert_us(&in_turn(&chips(""), &[read(0, 8), read(1000, 16)]), &[200.0, 500.0]);
}

#[test]
fn one_channel_works_on_one_command_at_a_time() {
    assert_us(&times(&chips(""), 3), &[200.0, 400.0, 600.0]);
}

#[test]
fn channels_share_the_bus() {
    // Overheads go on side by side; transfers one after the other.
    assert_us(&times(&chips("channels = 2"), 4), &[200.0, 300.0, 400.0, 500.0]);
    assert_us(&times(&chips("channels = 8"), 4), &[200.0, 300.0, 400.0, 500.0]);
}

#[test]
fn half_of_the_stall_is_lost_at_its_half_size() {
    let stalls = chips("stall_us = 100\nstall_size = '4K'");
    assert_us(&in_turn(&stalls, &[read(0, 8)]), &[250.0]);
    // Three quarters of it at three times that size.
    assert_us(&in_turn(&stalls, &[read(0, 24)]), &[475.0]);
    // Nearly all of it at 4 MiB, a thousand times that size.
    let large = in_turn(&stalls, &[read(0, 8192)]);
    assert_us(&large, &[100.0 + 100.0 * 1024.0 / 1025.0 + 102_400.0]);
}

#[test]
fn a_request_larger_than_a_command_becomes_several() {
    let (mut run, device) = run(&chips("max_command = '16K'"));
    let file = run.file(device, Sector(0), ByteCount(1 << 20));
    run.spawn("reader", async move |process| {
        let reader = process.open(file);
        let got = reader.read(ByteCount(0), ByteCount(64 << 10)).await;
        assert_eq!(got, Ok(ByteCount(64 << 10)));
    });
    let ran = finish(run);
    let largest = ran.devices[0].bytes(Op::Read).0 / ran.devices[0].requests(Op::Read);
    assert_eq!(largest, 16 << 10, "each as large as may be");
}

/// The published name of each known device.
const PUBLISHED: [(&str, &str); 8] = [
    ("Intel X25-M 80G SSD", "intel-x25m-80g"),
    ("Marvell SD88SA02 22G SSD", "marvell-22g"),
    ("SanDisk SATA 5000 30G SSD", "sandisk-sata5000-30g"),
    ("Teclast CoolFlash 32G USB", "teclast-32g-usb"),
    ("SanDisk Cruzer 4G USB", "sandisk-cruzer-4g-usb"),
    ("Unbranded 0204:6025 2G USB", "usb-stick-2g"),
    ("M-Systems DiskOnKey 64MB USB1.1", "msystems-64m-usb1"),
    ("SD card (unnamed, Yakui)", "sd-card"),
];

/// MB/s in windows of this size, each in commands as large as the device takes them.
fn mb_per_s(model: &DeviceParams, window: u64) -> f64 {
    let largest = model.geometry().max_io.bytes().0.min(window);
    let starts = (0..window).step_by(usize::try_from(largest).expect("64 bits"));
    let commands = starts.map(|start| read(start / 512, largest.min(window - start) / 512));
    let ends = in_turn(model, &commands.collect::<Vec<_>>());
    f64::from(u32::try_from(window).expect("at most 8M")) / ends.last().expect("one at least")
}

#[test]
fn known_devices_keep_to_their_tables() {
    let table = include_str!("../../../data/seed-tables/000_readahead_throughput.csv");
    let mut rows = 0;
    for (published, name) in PUBLISHED {
        let model = known::find(name).expect("a known device").model;
        let mut runs = BTreeMap::<u64, Vec<f64>>::new();
        let lines = table.lines().map(|line| line.trim_start_matches('"'));
        for line in lines.filter_map(|line| line.strip_prefix(published)) {
            let fields: Vec<_> = line.split(',').collect();
            let kib = fields[1].parse().expect("a window");
            runs.entry(kib).or_default().push(fields[3].parse().expect("a rate"));
        }
        for (kib, runs) in runs {
            let count = f64::from(u32::try_from(runs.len()).expect("a few"));
            let mean = runs.iter().sum::<f64>() / count;
            let error = mb_per_s(&model, kib << 10) / mean - 1.0;
            assert!(error.abs() < 0.06, "{name}, {kib}K: {error:.3}");
            rows += runs.len();
        }
    }
    assert_eq!(rows, table.lines().count() - 1, "every row is some device's");
}
