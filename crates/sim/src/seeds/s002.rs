//! Seed 002: read-ahead distance in inode tables.

mod runs;

use foreread_core::units::ByteCount;

use super::csv::{Csv, CsvRow};
use super::table::{Errors, SeedCell, SeedProgress, SeedTable, SeedVerdict, errors};
use crate::scenario::Scenario;
use crate::size::Size;
use crate::workload::Workload;
use crate::workload::mount::{EntryOrder, InodeReadahead};
use runs::{FindFigures, FioFigures, find, go, run_find, run_fio};

pub(super) fn tables(progress: SeedProgress<'_>) -> Vec<SeedTable> {
    let fio = run_fio(progress);
    let find = run_find(progress);
    let tradeoff = tradeoff(&fio, &find);
    let increments = increments(&fio, &find);
    vec![fio_table(&fio), find_table(&find, progress), git_status(progress), tradeoff, increments]
}

fn fio_table(fio: &[FioFigures]) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/002_mason_fio_randread.csv"));
    let mut cells = Vec::new();
    for (row, run) in csv.rows().zip(fio) {
        assert_eq!(row.number("io_kib"), Some(run.kib as f64), "the table's order");
        let latency = run.meter.latency();
        let kb_per_s = run.iops * (run.kib << 10) as f64 / 1e3;
        let issued = row.number("issued").zip(row.number("runtime_s"));
        let columns = [
            ("iops", row.number("iops_printed"), run.iops),
            ("issued/s", issued.map(|(issued, seconds)| issued / seconds), run.iops),
            ("mean ms", row.number("clat_avg_ms"), run.meter.mean_ms()),
            ("stdev ms", row.number("clat_stdev_ms"), latency.stdev() / 1e6),
            ("min ms", row.number("clat_min_ms"), latency.min() as f64 / 1e6),
            ("max ms", row.number("clat_max_ms"), latency.max() as f64 / 1e6),
            ("kB/s", row.number("bw_printed"), kb_per_s),
        ];
        let name = format!("{}K", run.kib);
        cells.extend(columns.map(|(column, seed, ours)| cell(&name, column, seed, ours)));
    }
    let of_rates = errors(in_columns(&cells, &["iops", "issued/s", "mean ms"]));
    let of_stdev = errors(in_columns(&cells, &["stdev ms"]));
    let Errors { median, max } = of_rates;
    let why = format!(
        "rates and mean times: median error {median:.2} %, largest {max:.2} %; \
         deviations, not fitted: largest {:.1} %",
        of_stdev.max
    );
    let notes = [
        "Two parameters (shortest seek and transfer rate) are fitted to 7 rates and 6 mean times. \
         Runs last 10 minutes instead of 30 seconds, which leaves 0.1 % of random variation.",
        "The seed truncates iops (131 is 3954 / 30.004 = 131.78), so they are up to 0.8 % below \
         issued/s, which follows from its output.",
        "The seed's KiB/s are decimal kB/s. 15816 KiB in 30.004 s are 527 KiB/s, or 540 kB/s; it \
         prints 539.",
        "min and max have no target. The seed's minima, 0.56 to 1 ms, are hits in the drive's \
         buffer or reads without a seek; the model has neither for random reads, so its minimum is \
         the shortest seek without rotation. The seed's maxima, 15 to 72 ms, include retries and \
         other rare events of a real disk; the model's maximum is the longest seek and a full \
         rotation.",
    ];
    let title = "random reads past the cache in 16 GiB, by their size".into();
    table("002_mason_fio_randread", title, cells, &notes, of_rates.max <= 1.0, why)
}

fn find_table(find_runs: &[FindFigures], progress: SeedProgress<'_>) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/002_ted_find_size0.csv"));
    let first = find_runs[0].seconds;
    let mut cells = Vec::new();
    for (row, run) in csv.rows().zip(find_runs) {
        assert_eq!(row.number("ra_blocks"), Some(run.blocks as f64), "the table's order");
        let name = blocks_name(run.blocks);
        cells.push(cell(&name, "seconds", row.number("seconds"), run.seconds));
        if run.blocks > 1 {
            let printed = row.number("printed_improvement_pct");
            cells.push(cell(&name, "% less", printed, less(run.seconds, first)));
        }
        cells.push(SeedCell::ours_only(&name, "windows", run.windows));
        cells.push(SeedCell::ours_only(&name, "device reads", run.reads as f64));
    }
    let of_seconds = errors(in_columns(&cells, &["seconds"]));
    let another = another_tree(progress);
    let of_another = errors(&another);
    cells.extend(another);
    cells.extend(sorted(progress));
    cells.extend(large_directories(progress));
    let why = format!(
        "seconds: median error {:.1} %, largest {:.1} %; of another tree {:.1} %; \
         windows fall from {} to {}",
        of_seconds.median,
        of_seconds.max,
        of_another.max,
        find_runs[0].windows,
        find_runs.last().map_or(0.0, |run| run.windows),
    );
    let notes = [
        "One tree and one disk cover the 10 cells. Fitted, by hand and by search: eight of the \
         tree (directories, top, files, files_sigma, late, gaps, gap, gap_sigma) and seek_min_ms. \
         \"another tree\" uses the same parameters with another random seed: the fit holds for a \
         kind of tree, not for a single one.",
        "The time falls slowly, about as blocks^-0.4, because the tree's inodes form clusters of \
         all sizes between other inodes: a window twice as large seldom holds twice as many wanted \
         inodes. Above 256 blocks the time does not rise, because a window ends with the used part \
         of its table.",
        "\"% less\" is relative to the first row, so the error of that row is part of each.",
        "sorted: entries by name and not by hash. large: two directories of 16384 files \
         (scenarios/002-htree.toml), of which the cache holds all of the inode tables, or less \
         than a quarter. \"At large scale htree breaks down to random inode lookup\": with a large \
         cache windows help even more; with a small one the prefetched blocks are evicted before \
         use, and windows only cost time. The loss is bounded because hints may fill at most half \
         of the cache.",
        "Linux reads one block more than its window (docs/design/itable.md), and so do the \
         published times; ours read exactly the window.",
    ];
    let title = "find -size 0 over a cold cache, by the blocks of a window".into();
    table("002_ted_find_size0", title, cells, &notes, of_seconds.max <= 5.0, why)
}

/// Runs a tree generated with the same parameters from another seed.
fn another_tree(progress: SeedProgress<'_>) -> Vec<SeedCell> {
    let csv = Csv::parse(include_str!("../../data/seed-tables/002_ted_find_size0.csv"));
    let mut base = Scenario::built_in(include_str!("../../scenarios/002-find.toml"));
    base.seed += 1;
    let run = |row: CsvRow<'_>| {
        let blocks =
            row.text("ra_blocks").parse().expect("this cell of the published table is a number");
        progress(&format!("002 find, another tree, {blocks} blocks"));
        let run = find(&base, blocks, EntryOrder::Htree);
        cell(&blocks_name(blocks), "seconds, another tree", row.number("seconds"), run.seconds)
    };
    csv.rows().map(run).collect()
}

/// Runs the same tree in name order.
fn sorted(progress: SeedProgress<'_>) -> Vec<SeedCell> {
    let base = Scenario::built_in(include_str!("../../scenarios/002-find.toml"));
    let run = |blocks| {
        progress(&format!("002 find sorted {blocks} blocks"));
        let run = find(&base, blocks, EntryOrder::Sorted);
        SeedCell::ours_only(blocks_name(blocks), "seconds, sorted", run.seconds)
    };
    [1, 32, 512].map(run).into()
}

/// Runs directories whose inodes exceed a small cache.
fn large_directories(progress: SeedProgress<'_>) -> Vec<SeedCell> {
    let base = Scenario::built_in(include_str!("../../scenarios/002-htree.toml"));
    let mut cells = Vec::new();
    for (memory, column) in [(64, "seconds, large, 64M"), (2, "seconds, large, 2M")] {
        let mut scenario = base.clone();
        scenario.cache.memory = Size(ByteCount(memory << 20));
        for blocks in [1, 8, 32, 128] {
            progress(&format!("002 large directories {memory}M {blocks} blocks"));
            let run = find(&scenario, blocks, EntryOrder::Htree);
            cells.push(SeedCell::ours_only(blocks_name(blocks), column, run.seconds));
        }
    }
    cells
}

fn git_status(progress: SeedProgress<'_>) -> SeedTable {
    let base = Scenario::built_in(include_str!("../../scenarios/002-git-status.toml"));
    let seconds = |blocks| {
        progress(&format!("002 git status {blocks} blocks"));
        let mut scenario = base.clone();
        if let Workload::GitStatus(git) = scenario.process[0].run.get_mut() {
            git.mount.inode_readahead_blks = InodeReadahead::Fixed(blocks);
        }
        let ran = go(&scenario);
        ran.processes[0].seconds(ran.end)
    };
    let [alone, by_16, by_64] = [1, 16, 64].map(seconds);
    let (first, more) = (less(by_16, alone), less(by_64, alone) - less(by_16, alone));
    let cells = vec![
        SeedCell::ours_only("1 block", "seconds", alone),
        SeedCell::ours_only("16 blocks", "seconds", by_16),
        SeedCell::ours_only("64 blocks", "seconds", by_64),
        SeedCell::new("16 blocks", "% less", 21.0, first),
        SeedCell::ours_only("64 blocks", "% less, beside", more),
    ];
    let holds = (first - 21.0).abs() <= 5.0 && more < 3.0;
    let why = format!("64 KiB bring {first:.1} %, 256 KiB another {more:.1} points");
    let notes = [
        "The thread reports the 21 %, and that more than 64 KiB did not help \"because the number \
         of inodes we need to touch wasn't big enough\". The disk is that of the find; the tree \
         has the size of a kernel source of 2008.",
        "One parameter is fitted: four pages of the packs are read per directory, which determines \
         the share of the inodes in the total. The result for 256 KiB is not fitted: the tree's \
         inodes are close together, and 64 KiB already need few windows.",
    ];
    table("002_git_status", "git status over a cold cache".into(), cells, &notes, holds, why)
}

fn tradeoff(fio: &[FioFigures], find: &[FindFigures]) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/002_ted_tradeoff.csv"));
    let published = Csv::parse(include_str!("../../data/seed-tables/002_ted_find_size0.csv"));
    let published: Vec<_> = published.rows().filter_map(|row| row.number("seconds")).collect();
    let first_iops = csv
        .rows()
        .next()
        .and_then(|row| row.number("iops"))
        .expect("the published table has a row with a number");
    let mut cells = Vec::new();
    for (index, row) in csv.rows().enumerate() {
        let (name, ours) = (format!("{}K", row.text("io_kib")), &fio[index]);
        let iops = row.number("iops").expect("each row of the published table has this cell");
        cells.push(SeedCell::new(&name, "iops", iops, ours.iops));
        let printed = row.number("ms_latency_printed");
        cells.push(cell(&name, "latency, recomputed", printed, rounded(1e3 / iops, 3)));
        cells.push(cell(&name, "latency", printed, ours.meter.mean_ms()));
        if index == 0 {
            continue;
        }
        let printed = row.number("degradation_pct_printed");
        let again = rounded((first_iops / iops - 1.0) * 100.0, 2);
        cells.push(cell(&name, "degradation, recomputed", printed, again));
        cells.push(cell(&name, "degradation", printed, degradation(fio, index)));
        let printed = row.number("improvement_pct_printed");
        let again = rounded(less(published[index], published[0]), 1);
        cells.push(cell(&name, "improvement, recomputed", printed, again));
        cells.push(cell(&name, "improvement", printed, improvement(find, index)));
    }
    let again = errors(cells.iter().filter(|cell| cell.column.ends_with("recomputed")));
    let latency = errors(in_columns(&cells, &["latency"]));
    let why = format!(
        "recomputed from the seed's own numbers, all agree to {:.2} %; ours: latency within {:.2} %",
        again.max, latency.max
    );
    let notes = [
        "latency = 1000 / iops; degradation = its growth over 4K; improvement = time saved by the \
         find compared with one block. \"recomputed\" uses the seed's iops and seconds, the other \
         columns use ours.",
        "The seed mixes two disks, as it says: the find ran on a laptop disk, the random reads on \
         a fast disk of 500 GB. We use two models as well.",
        "iops have no decimals, so a degradation of 0.77 may be anything from 0 to 1.5: no model \
         can match the small values, and ours are smooth.",
    ];
    let title = "a lone inode against a walk, by the bytes of a window".into();
    table("002_ted_tradeoff", title, cells, &notes, again.max == 0.0 && latency.max <= 1.0, why)
}

fn increments(fio: &[FioFigures], find: &[FindFigures]) -> SeedTable {
    let csv = Csv::parse(include_str!("../../data/seed-tables/002_dilger_increments.csv"));
    let percents = Csv::parse(include_str!("../../data/seed-tables/002_ted_tradeoff.csv"));
    let of =
        |column| -> Vec<f64> { percents.rows().filter_map(|row| row.number(column)).collect() };
    let sides = [
        ("degradation", of("degradation_pct_printed"), degradation_of as OfStep, 2),
        ("improvement", of("improvement_pct_printed"), improvement_of as OfStep, 1),
    ];
    let (mut cells, mut are_right, mut misprints) = (Vec::new(), true, Vec::new());
    for (index, row) in csv.rows().enumerate() {
        let step = row.text("step");
        for (name, percents, ours, digits) in &sides {
            let printed = row
                .number(&format!("{name}_step_printed"))
                .expect("the published table has this cell");
            let correct = row
                .number(&format!("{name}_step_correct"))
                .expect("the published table has this cell");
            let again = rounded(percents[index + 1] - percents[index], *digits);
            are_right &= again == correct;
            if printed != correct {
                misprints.push(format!("{step} {name} {printed} for {correct}"));
            }
            cells.push(SeedCell::new(step, format!("{name}, recomputed"), printed, again));
            let ours = ours(fio, find, index + 2) - ours(fio, find, index + 1);
            cells.push(SeedCell::new(step, *name, correct, ours));
        }
    }
    let why =
        format!("arithmetic of the published figures: all right but {}", misprints.join(", "));
    let notes = [
        "Differences of the trade-off's percentages, in points. \"recomputed\" shows the correct \
         differences: 31.00 - 15.93 = 15.07, where the seed prints 16.07. The other columns \
         compare ours with the correct value.",
        "The points are relative to the 4K row, not to the previous size: from 64K to 128K a lone \
         inode takes 7.1 % longer and the find 7.0 % less. The two balance, although 7.67 against \
         4.5 looks like a loss.",
        "Ours differ because the seed's iops are rounded, and because each value is a difference \
         of two cells of the find, with their errors.",
    ];
    let title = "what each doubling of the window adds, in points".into();
    let holds = are_right && misprints.len() == 1;
    table("002_dilger_increments", title, cells, &notes, holds, why)
}

/// Computes a percentage for a simulated size.
type OfStep = fn(&[FioFigures], &[FindFigures], usize) -> f64;

fn degradation_of(fio: &[FioFigures], _find: &[FindFigures], index: usize) -> f64 {
    degradation(fio, index)
}

fn improvement_of(_fio: &[FioFigures], find: &[FindFigures], index: usize) -> f64 {
    improvement(find, index)
}

fn degradation(fio: &[FioFigures], index: usize) -> f64 {
    (fio[0].iops / fio[index].iops - 1.0) * 100.0
}

fn improvement(find: &[FindFigures], index: usize) -> f64 {
    less(find[index].seconds, find[0].seconds)
}

/// Returns the reduction from `first` to `seconds`, in percent.
fn less(seconds: f64, first: f64) -> f64 {
    (1.0 - seconds / first) * 100.0
}

/// Rounds like the printed table, to this many decimals; halves round up.
fn rounded(number: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    // A difference of decimals may be slightly too small.
    (number * unit + 1e-6).round() / unit
}

fn cell(row: &str, column: &str, seed: Option<f64>, ours: f64) -> SeedCell {
    match seed {
        Some(seed) => SeedCell::new(row, column, seed, ours),
        None => SeedCell::ours_only(row, column, ours),
    }
}

fn in_columns<'c>(cells: &'c [SeedCell], columns: &[&str]) -> Vec<&'c SeedCell> {
    cells.iter().filter(|cell| columns.contains(&cell.column.as_str())).collect()
}

fn blocks_name(blocks: u64) -> String {
    if blocks == 1 { "1 block".into() } else { format!("{blocks} blocks") }
}

fn table(
    name: &'static str,
    title: String,
    cells: Vec<SeedCell>,
    notes: &[&str],
    holds: bool,
    why: String,
) -> SeedTable {
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    SeedTable { seed: "002", table: name, title, cells, notes, verdict: SeedVerdict { holds, why } }
}
