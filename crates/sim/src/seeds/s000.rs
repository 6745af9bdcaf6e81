//! Seed 000: read-ahead limited by the size of the device.

mod blkid;

use foreread_core::geometry::{LimitRule, readahead_limit};
use foreread_core::units::{ByteCount, Nanos};

use super::csv::Csv;
use super::table::{SeedCell, SeedProgress, SeedTable, SeedVerdict, errors};
use crate::device::{DeviceParams, known};
use crate::record::RecordMode;
use crate::scenario::Scenario;
use crate::size::Size;

pub(super) fn tables(progress: SeedProgress<'_>) -> Vec<SeedTable> {
    vec![throughput(progress), capacity_limit(), blkid::table(progress)]
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

fn throughput(progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/000_readahead_throughput.csv"));
    let base = Scenario::built_in(include_str!("../../scenarios/000-sweep.toml"));
    let mut cells: Vec<SeedCell> = Vec::new();
    let mut notes = vec![ON_THE_ROW_MEANS.into(), ON_THE_RULE.into()];
    let (mut exact, mut near) = (0_usize, 0_usize);
    for (title, model) in DEVICES {
        progress(&format!("000 {title}"));
        let rows: Vec<_> = csv.rows().filter(|row| row.text("device") == title).collect();
        let mut windows: Vec<_> = rows.iter().map(|row| row.text("rasize_kib")).collect();
        windows.dedup();
        let first = cells.len();
        for window in windows {
            let runs = rows.iter().filter(|row| row.text("rasize_kib") == window);
            let of_runs: Vec<f64> = runs.clone().filter_map(|row| row.number("mb_per_s")).collect();
            let is_marked = runs.clone().any(|row| row.number("is_plateau") == Some(1.0));
            let seed = of_runs.iter().sum::<f64>() / of_runs.len() as f64;
            let ours = sweep(
                &base,
                model,
                window.parse().expect("this cell of the published table is a number"),
            );
            let cell = SeedCell::new(title, format!("{window}K"), seed, ours);
            cells.push(SeedCell { is_marked, ..cell });
        }
        let of_device = &cells[first..];
        let plateau = Plateau::of(of_device);
        exact += usize::from(plateau.is_exact());
        near += usize::from(!plateau.is_exact() && plateau.is_near());
        let errors = errors(of_device);
        notes.push(format!(
            "{title}: {}; median error {:.1} %, largest {:.1} %; {plateau}",
            parameters(model),
            errors.median,
            errors.max
        ));
    }
    let of_all = errors(&cells);
    let why = format!(
        "median error {:.1} %, largest {:.1} %; ==> exact on {exact} devices, within 2 % on {near}, \
         off on {}",
        of_all.median,
        of_all.max,
        DEVICES.len() - exact - near
    );
    let holds = of_all.max <= 6.0 && of_all.median <= 2.0 && exact + near == DEVICES.len();
    let verdict = SeedVerdict { holds, why };
    let title = "MB/s by the largest window, mean of the runs".into();
    SeedTable { seed: "000", table: "000_readahead_throughput", title, cells, notes, verdict }
}

const ON_THE_ROW_MEANS: &str = "One model per device covers all of its rows; the lines below give \
                                its 2 to 4 parameters, fitted to 8 to 11 rows.";

const ON_THE_RULE: &str = "Our ==> marks the smallest window with 98 % of the throughput of the \
                           largest one tested. This rule marks the right row in all eight \
                           published columns.";

/// A plateau as marked in the seed, and as the rule finds it in the simulated column.
struct Plateau<'c> {
    marked: &'c SeedCell,
    ours: &'c SeedCell,
}

impl<'c> Plateau<'c> {
    fn of(cells: &'c [SeedCell]) -> Self {
        let largest = cells.last().expect("each device of the published table has rows");
        let reaches = |cell: &&SeedCell| cell.ours >= 0.98 * largest.ours;
        Self {
            marked: cells
                .iter()
                .find(|cell| cell.is_marked)
                .expect("each device of the published table has a marked row"),
            ours: cells.iter().find(reaches).expect("the last one reaches itself"),
        }
    }

    fn is_exact(&self) -> bool {
        self.marked.column == self.ours.column
    }

    /// Returns true if the seed's own measurements at the two are nearly the same.
    fn is_near(&self) -> bool {
        self.apart_percent() <= 2.0
    }

    fn apart_percent(&self) -> f64 {
        let at = |cell: &SeedCell| cell.seed.expect("the cell was made from a published figure");
        (at(self.ours) / at(self.marked) - 1.0).abs() * 100.0
    }
}

impl std::fmt::Display for Plateau<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_exact() {
            return write!(f, "==> {}, ours too", self.marked.column);
        }
        let (marked, ours, apart) = (&self.marked.column, &self.ours.column, self.apart_percent());
        write!(f, "==> {marked}, ours {ours}, which the seed has {apart:.1} % apart")
    }
}

/// Formats the parameters of a model for a note.
fn parameters(model: &str) -> String {
    let DeviceParams::Flash(chips) =
        known::find(model).expect("the device is in devices.toml").model
    else {
        panic!("{model} is flash")
    };
    let mut all = format!("{} MB/s, {} us a command", chips.mb_per_s, chips.overhead_us);
    if chips.stall_us > 0.0 {
        let half = foreread_core::sizes::Exact(chips.stall_size.0);
        all += &format!(", a stall of {} us of which {half} see half", chips.stall_us);
    }
    if chips.max_command < Size::one_gib() {
        all += &format!(", commands of {}", foreread_core::sizes::Exact(chips.max_command.0));
    }
    all
}

fn sweep(base: &Scenario, model: &str, window_kib: u64) -> f64 {
    let mut scenario = base.clone();
    let disk = scenario.device.get_mut("disk").expect("the built-in scenario has this entry");
    *disk.model.get_mut() = known::find(model).expect("the device is in devices.toml");
    scenario.cache.max_window = Some(Size(ByteCount(window_kib << 10)).into());
    let capacity = disk.model.get_ref().model.geometry().capacity;
    let file = scenario.file.get_mut("data").expect("the built-in scenario has this entry");
    file.size = Size(file.size.0.min(ByteCount(capacity.0 / 4096 * 4096)));
    let mut building = scenario
        .build(RecordMode::Hash)
        .expect("the scenario is part of the program and was checked");
    building.run.go(Nanos(u64::MAX));
    let ran = building.run.end();
    ran.processes[0].mb_per_s(ran.end)
}

fn capacity_limit() -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/000_capacity_limit.csv"));
    let cells: Vec<_> = csv.rows().map(limit_of).collect();
    let right = cells.iter().filter(|cell| cell.seed == Some(cell.ours)).count();
    let why = format!("{right} of {} rows exact", cells.len());
    let verdict = SeedVerdict { holds: right == cells.len(), why };
    let title = "the largest window by the size of the device, KiB".into();
    let notes = vec![
        "This is the published rule; a smaller window of the device itself stays in force.".into(),
    ];
    SeedTable { seed: "000", table: "000_capacity_limit", title, cells, notes, verdict }
}

fn limit_of(row: super::csv::CsvRow<'_>) -> SeedCell {
    let size_kib: u64 =
        row.text("size_kib").parse().expect("this cell of the published table is a number");
    let limit = readahead_limit(ByteCount(size_kib << 10), LimitRule::Published);
    let ours = limit.expect("the published sizes are above the smallest one").0 as f64 / 1024.0;
    let name = format!("{}, {}", row.text("device_size"), row.text("patch_version"));
    SeedCell::new(
        name,
        "limit KiB",
        row.number("ra_kib").expect("this cell of the published table is a number"),
        ours,
    )
}
