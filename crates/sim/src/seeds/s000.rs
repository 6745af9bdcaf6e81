//! Seed 000: read-ahead limited by the size of the device.

use foreread_core::units::{Bytes, Instant};

use super::csv::Csv;
use super::{Cell, Progress, Table, Verdict, errors};
use crate::device::known;
use crate::record::Keep;
use crate::scenario::Scenario;
use crate::size::Size;

pub(super) fn tables(progress: Progress<'_>) -> Vec<Table> {
    vec![throughput(progress)]
}

/// The published name of each device, and the name of its model.
const DEVICES: [(&str, &str); 8] = [
    ("Intel X25-M 80G SSD", "intel-x25m-80g"),
    ("Marvell SD88SA02 22G SSD", "marvell-22g"),
    ("SanDisk SATA 5000 30G SSD", "sandisk-sata5000-30g"),
    ("Teclast CoolFlash 32G USB", "teclast-32g-usb"),
    ("SanDisk Cruzer 4G USB", "sandisk-cruzer-4g-usb"),
    ("Unbranded 0204:6025 2G USB", "usb-stick-2g"),
    ("M-Systems DiskOnKey 64MB USB1.1", "msystems-64m-usb1"),
    ("SD card (unnamed, Yakui)", "sd-card"),
];

fn throughput(progress: Progress<'_>) -> Table {
    let csv = Csv::parse(include_str!("../../data/seed-tables/000_readahead_throughput.csv"));
    let base = Scenario::built_in(include_str!("../../scenarios/000-sweep.toml"));
    let mut cells: Vec<Cell> = Vec::new();
    for (title, model) in DEVICES {
        progress(&format!("000 {title}"));
        let rows: Vec<_> = csv.rows().filter(|row| row.text("device") == title).collect();
        let mut windows: Vec<_> = rows.iter().map(|row| row.text("rasize_kib")).collect();
        windows.dedup();
        for window in windows {
            let runs = rows.iter().filter(|row| row.text("rasize_kib") == window);
            let of_runs: Vec<f64> = runs.clone().filter_map(|row| row.number("mb_per_s")).collect();
            let is_marked = runs.clone().any(|row| row.number("is_plateau") == Some(1.0));
            let seed = of_runs.iter().sum::<f64>() / of_runs.len() as f64;
            let ours = sweep(&base, model, window.parse().expect("a number"));
            let cell = Cell::new(title, format!("{window}K"), seed, ours);
            cells.push(Cell { is_marked, ..cell });
        }
    }
    let of_all = errors(&cells);
    let why = format!("median error {:.1} %, largest {:.1} %", of_all.median, of_all.max);
    let verdict = Verdict { holds: of_all.max <= 6.0 && of_all.median <= 2.0, why };
    let title = "MB/s by the largest window, mean of the runs".into();
    let notes = Vec::new();
    Table { seed: "000", table: "000_readahead_throughput", title, cells, notes, verdict }
}

fn sweep(base: &Scenario, model: &str, window_kib: u64) -> f64 {
    let mut scenario = base.clone();
    let disk = scenario.device.get_mut("disk").expect("the scenario has it");
    *disk.model.get_mut() = known::find(model).expect("a known device");
    scenario.cache.max_window = Size(Bytes(window_kib << 10));
    let capacity = disk.model.get_ref().model.geometry().capacity;
    let file = scenario.file.get_mut("data").expect("the scenario has it");
    file.size = Size(file.size.0.min(Bytes(capacity.0 / 4096 * 4096)));
    let mut building = scenario.build(Keep::Hash).expect("a scenario of ours");
    building.run.go(Instant(u64::MAX));
    let ran = building.run.end();
    ran.processes[0].mb_per_s(ran.end)
}
