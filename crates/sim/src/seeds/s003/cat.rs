//! `time cat kernel/*.c` while a dd writes: each setting of the scheduler, each depth of the drive.

use foreread_core::sched::SchedulerKind;
use foreread_core::units::Nanos;

use super::targets::Targets;
use crate::device::DeviceParams;
use crate::record::RecordMode;
use crate::scenario::Scenario;
use crate::seeds::csv::{Csv, CsvRow};
use crate::seeds::table::{SeedCell, SeedProgress, SeedTable};

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
struct CatCase<'s> {
    scenario: &'s Scenario,
    /// Queue depth of the drive, and number of commands queued at its controller.
    depth: (u32, u32),
    settings: &'s [(&'s str, &'s str)],
}

pub(super) fn tables(progress: SeedProgress<'_>) -> [SeedTable; 2] {
    let ide = Scenario::built_in(include_str!("../../../scenarios/003-cat-ide.toml"));
    let scsi = Scenario::built_in(include_str!("../../../scenarios/003-cat-scsi.toml"));
    [seconds(&ide, &scsi, progress), baselines(&ide, progress)]
}

fn seconds(ide: &Scenario, scsi: &Scenario, progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../../data/seed-tables/003_cat_seconds.csv"));
    let mut cells = Vec::new();
    for row in csv.rows() {
        let (name, tunable, value) = (name(row), tunable(row.text("tunable")), row.text("value"));
        progress(&format!("003 {name}"));
        let setting = CatCase {
            scenario: if row.text("bus") == "ide" { ide } else { scsi },
            depth: depth(row.text("tcq_tags")),
            settings: &[(tunable, value)],
        };
        let seed = row.number("seconds").expect("this cell of the published table is a time");
        cells.push(SeedCell::new(&name, "seconds", seed, setting.cat()));
        if row.text("tcq_tags") == "0" {
            cells.extend(one_at_a_time(scsi, &name, value));
        }
    }
    cells.extend(one_at_a_time(scsi, "scsi, tags 0, fifo_batch 1", "1"));
    cells.extend(remedies(scsi, progress));
    let verdict = judge(&cells).verdict();
    let title = "seconds for cat kernel/*.c beside a dd that writes".into();
    let notes = NOTES.map(String::from).to_vec();
    SeedTable { seed: "003", table: "003_cat_seconds", title, cells, notes, verdict }
}

/// Runs without tags and with an empty controller queue, under both rules.
fn one_at_a_time(scsi: &Scenario, name: &str, value: &str) -> Vec<SeedCell> {
    let cell = |rule, column| {
        let settings = [("rule", rule), ("fifo_batch", value)];
        let setting = CatCase { scenario: scsi, depth: (1, 0), settings: &settings };
        SeedCell::ours_only(name, column, setting.cat())
    };
    vec![cell("2002", ALONE_2002), cell("4.x", ALONE_4)]
}

/// Runs the remedies: with all tags, and limits set by the scheduler.
fn remedies(scsi: &Scenario, progress: SeedProgress<'_>) -> Vec<SeedCell> {
    let settings = ["1", "2", "3", "4"].map(|limit| ("writes_in_flight", limit));
    let drains = ["20", "100"].map(|ms| ("read_drain", ms));
    let mut cells = Vec::new();
    for (setting, value) in settings.into_iter().chain(drains) {
        let name = format!("scsi, tags 253, fifo_batch 16, {setting} {value}");
        progress(&format!("003 {name}"));
        let settings = [("fifo_batch", "16"), (setting, value)];
        let run = CatCase { scenario: scsi, depth: depth("253"), settings: &settings };
        cells.push(SeedCell::ours_only(name, "seconds", run.cat()));
    }
    cells
}

/// Runs the nearest equivalents of the earlier kernels' schedulers, which are not modelled.
fn baselines(ide: &Scenario, progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../../data/seed-tables/003_baselines.csv"));
    let mut noop = ide.clone();
    noop.device.get_mut("disk").expect("the built-in scenario has this entry").scheduler.choice =
        SchedulerKind::Noop;
    let nearest: [(&Scenario, &[(&str, &str)]); 4] = [
        (&noop, &[]),
        (ide, &[("rule", "4.x"), ("fifo_batch", "8")]),
        (ide, &[("rule", "2002"), ("fifo_batch", "16")]),
        (ide, &[("rule", "2002"), ("fifo_batch", "64")]),
    ];
    let mut cells = Vec::new();
    for (row, (scenario, settings)) in csv.rows().zip(nearest) {
        progress(&format!("003 {}", row.text("kernel")));
        let seed = row.text("seconds").trim_end_matches(" (approx)");
        let seed = seed.parse().expect("this cell of the published table is a time");
        let ours = CatCase { scenario, depth: (1, 0), settings }.cat();
        cells.push(SeedCell::new(row.text("kernel"), "seconds", seed, ours));
    }
    let [elevator, patch, rework, deadline] = &cells[..] else { panic!("four baselines") };
    let mut targets = Targets::new();
    let factor = factor_off(deadline);
    targets.add(factor <= 1.5, format!("the deadline default is off by a factor {factor:.2}"));
    let is_ordered =
        elevator.ours > deadline.ours && deadline.ours > patch.ours && patch.ours > rework.ours;
    if !is_ordered {
        targets.add(false, "the stand-ins come in the order of the seed".into());
    }
    let title = "seconds for cat kernel/*.c, by kernel".into();
    let notes = vec![
        "Only the last row models the measured kernel. The elevator of 2.5.38, the read-latency \
         patch and the rework are not modelled, because the thread gives their times but not their \
         rules. Their rows use noop (prefers no request), rule 4.x with fifo_batch 8 (a read waits \
         for a few writes) and rule 2002 with fifo_batch 16 (a read waits for one). A read passes \
         a queue of noop in the time of 128 requests; 2.5.38 also let new writes pass a waiting \
         read."
            .into(),
    ];
    let verdict = targets.verdict();
    SeedTable { seed: "003", table: "003_baselines", title, cells, notes, verdict }
}

impl CatCase<'_> {
    /// Returns the duration of the cat in seconds: the mean of runs that start at different phases
    /// of the flood. With tags one run suffices, because each read waits longer than any batch
    /// takes.
    fn cat(&self) -> f64 {
        let runs = if self.depth.0 > 1 { 1 } else { RUNS };
        let starts = (0..runs).map(|run| FIRST_MS + STEP_MS * f64::from(run));
        starts.map(|start_ms| self.run(start_ms)).sum::<f64>() / f64::from(runs)
    }

    fn run(&self, start_ms: f64) -> f64 {
        let mut scenario = self.scenario.clone();
        let cat = scenario.process.last_mut().expect("cat is the last process of the scenario");
        cat.start_ms = start_ms;
        let disk = scenario.device.get_mut("disk").expect("the built-in scenario has this entry");
        if let DeviceParams::Hdd(hdd) = &mut disk.model.get_mut().model {
            (hdd.depth, hdd.in_controller) = self.depth;
        }
        for (name, value) in self.settings {
            disk.scheduler.choice.set(name, value).expect("the setting exists");
        }
        let mut building = scenario
            .build(RecordMode::Hash)
            .expect("the scenario is part of the program and was checked");
        let run = &mut building.run;
        // The end of the dd does not matter: the run stops once the cat is done.
        run.go(Nanos(0));
        while run.left() > 1 && run.now() < scenario.until() {
            run.go(Nanos(run.now().0 + 500_000_000));
        }
        let ran = building.run.end();
        let cat = ran.processes.last().expect("cat is the last process of the scenario");
        *cat.other.get("chain_s").expect("the cat ends before the scenario does")
    }
}

fn judge(cells: &[SeedCell]) -> Targets {
    let of = |start: &str, column: &str| -> Vec<&SeedCell> {
        let is_of = |cell: &&SeedCell| cell.row.starts_with(start) && cell.column == column;
        cells.iter().filter(is_of).collect()
    };
    let ours = |cells: &[&SeedCell]| cells.iter().map(|cell| cell.ours).collect::<Vec<f64>>();
    let mut targets = Targets::new();
    for tunable in ["read_expire", "writes_starved"] {
        let spread = spread(&ours(&of(&format!("ide, {tunable}"), "seconds")));
        targets.add(spread <= 1.3, format!("ide {tunable}: largest / smallest {spread:.2}"));
    }
    let batches = of("ide, fifo_batch", "seconds");
    let worst = batches.iter().map(|cell| factor_off(cell)).fold(1.0, f64::max);
    let falls = ours(&batches).is_sorted_by(|one, next| one > next);
    targets.add(worst <= 1.5 && falls, format!("ide fifo_batch: in order, within {worst:.2}"));

    let common = |tags: &str| -> Vec<&SeedCell> {
        let rows = of(&format!("scsi, tags {tags}, fifo_batch "), "seconds");
        let is_common =
            |cell: &&&SeedCell| cell.seed.is_some() && !cell.row.ends_with("fifo_batch 1");
        rows.iter().filter(is_common).copied().collect()
    };
    let means = ["253", "4", "0"].map(|tags| {
        let cells = common(tags);
        let seeds: Vec<f64> = cells.iter().filter_map(|cell| cell.seed).collect();
        (geometric_mean(&seeds), geometric_mean(&ours(&cells)))
    });
    let none = means[2];
    for (tags, mean) in ["253", "4"].into_iter().zip(means) {
        let (seed, ours) = (mean.0 / none.0, mean.1 / none.1);
        let is_near = (seed / 2.0..=seed * 2.0).contains(&ours);
        targets.add(
            is_near,
            format!("tags {tags}: {ours:.1} times no tags, seed {seed:.1} (geometric means)"),
        );
    }
    targets.add(means[0].1 > means[1].1, "253 tags are worse than 4".into());

    let rule_2002 = ours(&of("scsi, tags 0", ALONE_2002));
    let (falling, flat) = (&rule_2002[..3], &rule_2002[2..]);
    let falls = falling.is_sorted_by(|one, next| one > next) && spread(flat) <= 1.3;
    let what = format!("one at a time, rule 2002: {}, then flat", seconds_of(falling));
    targets.add(falls, what);
    let rule_4 = ours(&of("scsi, tags 0", ALONE_4));
    let falls = rule_4.is_sorted_by(|one, next| one > next);
    targets.add(falls, format!("rule 4.x falls all the way: {}", seconds_of(&rule_4)));
    targets
}

fn seconds_of(times: &[f64]) -> String {
    times.iter().map(|time| format!("{time:.2}")).collect::<Vec<_>>().join(" ")
}

fn spread(times: &[f64]) -> f64 {
    let largest = times.iter().copied().fold(0.0, f64::max);
    largest / times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn geometric_mean(times: &[f64]) -> f64 {
    let sum: f64 = times.iter().map(|time| libm::log(*time)).sum();
    libm::exp(sum / f64::from(u32::try_from(times.len()).expect("a number below a small bound")))
}

/// Returns the factor between a cell and the seed, in either direction.
fn factor_off(cell: &SeedCell) -> f64 {
    let seed = cell.seed.expect("the cell was made from a published figure");
    (cell.ours / seed).max(seed / cell.ours)
}

fn name(row: CsvRow<'_>) -> String {
    let tags = match row.text("tcq_tags") {
        "" => String::new(),
        tags => format!(", tags {tags}"),
    };
    let tunable = row.text("tunable").trim_end_matches("_ms");
    format!("{}{tags}, {tunable} {}", row.text("bus"), row.text("value"))
}

fn tunable(column: &str) -> &str {
    column.trim_end_matches("_ms")
}

/// Returns the queue depths of the drive and its controller. Without tags, the driver of the time
/// accepted two commands, and sent them one after the other.
fn depth(tags: &str) -> (u32, u32) {
    match tags {
        "" => (1, 0),
        "0" => (1, 1),
        tags => (tags.parse().expect("this cell of the published table is a number of tags"), 0),
    }
}

const ALONE_2002: &str = "one at a time, rule 2002";
const ALONE_4: &str = "one at a time, rule 4.x";

/// A read meets the flood at a random phase of a batch; the seed's times are single runs.
const RUNS: u32 = 4;
const FIRST_MS: f64 = 1000.0;
/// Offset between the starts of two runs. No multiple of the duration of a request or a batch.
const STEP_MS: f64 = 17.3;

const NOTES: [&str; 5] = [
    "6 parameters are fitted to 34 cells: the rates of both disks, the drive read-ahead of the IDE \
     disk, the weight of age on the SCSI disk, the length of contiguous writes of the dd, and the \
     number of files. The seed's times are single runs; ours without tags are means of four runs \
     that start 17 ms apart.",
    "IDE: fifo_batch 64 moves 1 + 48 writes, 32 moves 1 + 16, and 16 or less just one, for the \
     first write after a read is a seek and costs 16. Each of some 40 dependent reads waits for \
     such a batch, which explains the whole table. read_expire and writes_starved have no effect, \
     because there is one reader: a read never waits for 50 ms while others pass it, it waits for \
     a batch that is already dispatched. Between 16 and 8 only the wait of the first read differs.",
    "SCSI without tags: the seed falls below 16 as well, and its 32 and 16 are equal. The driver \
     of that disk (aic7xxx) lets the kernel queue two commands to a disk without tags. So one \
     write is sent while the read is in service, and the next one, dispatched when the read ends, \
     follows without a seek: its batch has fifo_batch requests, not one. 49, 17, 17, 9, 5, 3 \
     requests: the seed's shape. With one command at a time rule 2002 is flat below 16, since all \
     of 1 to 16 mean one seek, and rule 4.x, which counts requests, falls all the way.",
    "SCSI with tags: all 128 requests of the dd are in the drive (253), or always three (4). It \
     serves the nearest request, a write that continues the last one, until the age of the read \
     outweighs its seek: with 253 tags the scheduler has nothing left to choose from, so no \
     setting of it matters, and our six cells are one. That the seed's are not (20 at 16, 75 at 4) \
     no model without luck shows: at 16 tags make it 7.8 times as long here and 1.9 times there; \
     all other cells are within a factor 2 of the seed's. Wholly blind to age (age_weight = 0) it \
     lets writes pass a read for ever.",
    "Remedies for 253 tags: writes_in_flight = 1 leaves the drive no choice; with 2, it has \
     another write queued when one ends. read_drain dispatches nothing while a read waits, but the \
     128 writes that are in the drive are served first.",
];
