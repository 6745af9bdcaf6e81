//! Five readers, then a dd: the rates printed by vmstat, and the simulated ones.

use foreread_core::sched::Op;
use foreread_core::units::Nanos;

use super::targets::Targets;
use crate::record::RecordMode;
use crate::run::SimRun;
use crate::scenario::Scenario;
use crate::seeds::csv::Csv;
use crate::seeds::table::{SeedCell, SeedProgress, SeedTable};

/// Rates in KiB/s.
#[derive(Clone, Copy, Debug)]
struct VmstatRates {
    reads_before: f64,
    reads_after: f64,
    writes_after: f64,
}

pub(super) fn table(progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../../data/seed-tables/003_vmstat.csv"));
    let base = Scenario::built_in(include_str!("../../../scenarios/003-vmstat.toml"));
    let mut cells = Vec::new();
    let mut targets = Targets::new();
    for batch in ["64", "16"] {
        progress(&format!("003 five readers, fifo_batch {batch}"));
        let (seed, ours) = (published(&csv, batch), measured(&base, batch));
        let row = format!("fifo_batch {batch}");
        let (kept, seed_kept) = (ours.kept_percent(), seed.kept_percent());
        cells.push(SeedCell::new(&row, "bi before", seed.reads_before, ours.reads_before));
        cells.push(SeedCell::new(&row, "bi after", seed.reads_after, ours.reads_after));
        cells.push(SeedCell::new(&row, "bo after", seed.writes_after, ours.writes_after));
        cells.push(SeedCell::new(&row, "bi kept (%)", seed_kept, kept));
        let what = format!("{row}: reads keep {kept:.0} % (seed {seed_kept:.0} %)");
        targets.add(kept >= 40.0, what);
        let share = ours.writes_after / seed.writes_after;
        targets.add(
            share >= 1.0 / 3.0,
            format!("writes stream at {share:.2} of the seed's rate (a third is asked)"),
        );
    }
    let notes = vec![
        "KiB/s, means of the seed's lines before the dd and from its second line on. Two \
         parameters are fitted to 8 cells: the spread of the trees and the mean file size. The \
         disk is that of 003_cat_seconds."
            .into(),
        "A cycle at 64 is two batches of four reads and one of 49 writes, at 16 two reads and one \
         write: so 16 reverses the ratio of reads and writes. Our writes at 16 reach half of the \
         seed's rate, because each pays a rotation after a read, while the seed's disk caches some \
         of them."
            .into(),
    ];
    let title = "vmstat of five readers before and after a dd begins".into();
    let verdict = targets.verdict();
    SeedTable { seed: "003", table: "003_vmstat", title, cells, notes, verdict }
}

impl VmstatRates {
    fn kept_percent(self) -> f64 {
        self.reads_after / self.reads_before * 100.0
    }
}

/// Returns the published rates. The dd begins in the middle of the first line that shows writes.
fn published(csv: &Csv, batch: &str) -> VmstatRates {
    let rows: Vec<_> = csv.rows().filter(|row| row.text("fifo_batch") == batch).collect();
    let number = |index: usize, column| {
        rows[index].number(column).expect("this cell of the published table is a number")
    };
    let first = (0..rows.len())
        .find(|index| number(*index, "bo") > 0.0)
        .expect("the published lines include a dd");
    let mean = |of: std::ops::Range<usize>, column| {
        let count = f64::from(u32::try_from(of.len()).expect("the published table is short"));
        of.map(|index| number(index, column)).sum::<f64>() / count
    };
    VmstatRates {
        reads_before: mean(0..first, "bi"),
        reads_after: mean(first + 1..rows.len(), "bi"),
        writes_after: mean(first + 1..rows.len(), "bo"),
    }
}

fn measured(base: &Scenario, batch: &str) -> VmstatRates {
    let mut scenario = base.clone();
    let disk = scenario.device.get_mut("disk").expect("the built-in scenario has this entry");
    disk.scheduler.choice.set("fifo_batch", batch).expect("the setting exists");
    let mut run = scenario
        .build(RecordMode::Hash)
        .expect("the scenario is part of the program and was checked")
        .run;
    let [from, dd, streaming, end] = [5.0, 20.0, 22.0, 50.0].map(|at| moved(&mut run, at));
    VmstatRates {
        reads_before: rate(from.0, dd.0, 15.0),
        reads_after: rate(streaming.0, end.0, 28.0),
        writes_after: rate(streaming.1, end.1, 28.0),
    }
}

/// Returns the KiB read and written in that second.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a minute of a disk"
)]
fn moved(run: &mut SimRun, at_s: f64) -> (f64, f64) {
    run.go(Nanos((at_s * 1e9) as u64));
    let disk = &run.devices()[0];
    let kib = |op| disk.bytes(op).0 as f64 / 1024.0;
    (kib(Op::Read), kib(Op::Write))
}

fn rate(from: f64, to: f64, seconds: f64) -> f64 {
    (to - from) / seconds
}
