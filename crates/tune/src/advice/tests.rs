//! Advice against published tables.

use super::*;
use crate::kernel_default::Reason;

fn row(window_kib: u64, mb_per_s: f64) -> Row {
    Row { window_kib, mb_per_s, low: mb_per_s, high: mb_per_s, samples: 3 }
}

fn outcome(points: &[(u64, f64)], random: &[(u64, f64)], plateau_kib: u64) -> Outcome {
    let window = Bytes(plateau_kib << 10);
    let latency = |(size_kib, median_us): &(u64, f64)| Latency {
        size_kib: *size_kib,
        median_us: *median_us,
        p90_us: *median_us,
        reads: 9,
    };
    Outcome {
        rows: points.iter().map(|(kib, speed)| row(*kib, *speed)).collect(),
        random: random.iter().map(latency).collect(),
        plateau: Some(Plateau { window, low: window, high: window, best: window }),
        ..Outcome::default()
    }
}

fn facts() -> Facts {
    Facts {
        name: "sda".into(),
        size: Bytes(64 << 30),
        method: Method::Kernel,
        now_kib: Some(128),
        kernel: Some(KernelDefault { window_kib: 8192, reason: Reason::Constant }),
        has_ext4: true,
        cached_below: None,
    }
}

/// Completion times of random reads, from the reads per second of 2008.
fn seek() -> Vec<(u64, f64)> {
    let table = include_str!("../../../sim/data/seed-tables/002_ted_tradeoff.csv");
    let line = |line: &str| {
        let mut fields = line.split(',');
        let kib = fields.next().expect("a size").parse().expect("a size");
        let ms: f64 = fields.nth(1).expect("a time").parse().expect("a time");
        (kib, ms * 1e3)
    };
    table.lines().skip(1).map(line).collect()
}

/// `find` by the size of its windows: seconds, as a throughput of 1000 / s.
fn find() -> Vec<(u64, f64)> {
    let table = include_str!("../../../sim/data/seed-tables/002_ted_find_size0.csv");
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let seconds: f64 = fields[3].parse().expect("a time");
        (fields[2].parse().expect("a size"), 1e3 / seconds)
    };
    table.lines().skip(1).map(line).collect()
}

#[test]
fn a_database_stops_where_the_published_increments_cross() {
    // 32K to 64K gains 5.9 % and costs 4.29 %; 64K to 128K gains 4.5 % and costs 7.67 %.
    let advice = recommended(&facts(), &outcome(&find(), &seek(), 2048), Profile::Database);
    let advice = advice.expect("advice");
    assert_eq!(advice.read_ahead_kb, 64);
    assert!(advice.why.contains("64 to 128 KiB"), "{}", advice.why);
    assert!(advice.why.contains("gains 4.5 %"), "{}", advice.why);
}

#[test]
fn the_published_increments_are_those_of_the_table() {
    let table = include_str!("../../../sim/data/seed-tables/002_dilger_increments.csv");
    let latency = tradeoff::Line::through(&outcome(&[], &seek(), 4).random).expect("a line");
    let found: Vec<(u64, f64)> = find();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let mut steps = fields[0].split('-').map(|size| size.trim_end_matches('k').parse::<u64>());
        let (from, to) = (steps.next().unwrap().unwrap(), steps.next().unwrap().unwrap());
        let at = |kib| found.iter().find(|(size, _)| *size == kib).expect("a row").1;
        let gain = 100.0 * at(4) * (1.0 / at(from) - 1.0 / at(to));
        let printed: f64 = fields[4].parse().expect("a number");
        assert!((gain - printed).abs() < 0.11, "{from}-{to}: {gain}, printed {printed}");
        // Printed from rates without fractions; the line is through all of them.
        let loss = latency.percent_between(from, to);
        let printed: f64 = fields[3].parse().expect("a number");
        assert!((loss - printed).abs() < 1.0, "{from}-{to}: {loss}, printed {printed}");
    }
}

#[test]
fn inode_tables_by_the_latencies_of_a_disk_of_2008() {
    // Those who measured it took 128K.
    let (blocks, why) = inode_blocks(&outcome(&[], &seek(), 4).random).expect("latencies");
    assert_eq!(blocks, 32, "{why}");
    // A device whose latency does not depend on the size: windows cost nothing.
    let flat: Vec<(u64, f64)> = [4, 64, 256, 1024].map(|kib| (kib, 4200.0)).to_vec();
    let (blocks, _) = inode_blocks(&outcome(&[], &flat, 4).random).expect("latencies");
    assert_eq!(blocks, 256);
}

#[test]
fn mixed_stays_below_two_mebibytes_unless_the_plateau_gains_a_fifth() {
    let advice = |at_plateau: f64, plateau_kib| {
        let points = [(1024, 70.0), (2048, 100.0), (4096, at_plateau), (8192, at_plateau)];
        let outcome = outcome(&points, &[], plateau_kib);
        recommended(&facts(), &outcome, Profile::Mixed).expect("advice").read_ahead_kb
    };
    assert_eq!(advice(119.0, 4096), 2048);
    assert_eq!(advice(121.0, 4096), 4096);
    assert_eq!(advice(100.0, 1024), 1024);
    let points = [(1024, 70.0), (2048, 100.0), (4096, 110.0)];
    let streaming = recommended(&facts(), &outcome(&points, &[], 4096), Profile::Streaming);
    assert_eq!(streaming.expect("advice").read_ahead_kb, 4096);
}

#[test]
fn others_would_set() {
    let found = outcome(&[(4, 1.0), (8, 1.0)], &[], 4);
    let compared = |size| report(&Facts { size, ..facts() }, &found, Profile::Mixed).compared;
    let all = compared(Bytes(64 << 30));
    assert_eq!(
        (all.now_kib, all.kernel_kib, all.size_rule_kib),
        (Some(128), Some(8192), Some(2048))
    );
    assert_eq!(compared(Bytes(1 << 40)).size_rule_kib, Some(8192));
    assert_eq!(compared(Bytes(0)).size_rule_kib, None);
}

#[test]
fn an_interrupted_sweep_is_a_report_without_advice() {
    let found = Outcome {
        rows: vec![row(4, 1.0)],
        stopped: Some(Stopped::Interrupted),
        ..Outcome::default()
    };
    let report = report(&facts(), &found, Profile::Mixed);
    assert_eq!(report.recommended, None);
    assert_eq!(report.plateau_kib, None);
    assert!(report.notes.iter().any(|note| note.starts_with("interrupted")));
    let text = serde_json::to_string(&report).expect("it is printed");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("it is read"), report);
}

#[test]
fn a_row_says_who_pays() {
    let found = outcome(&[(128, 50.0), (256, 75.0)], &[(128, 900.0)], 256);
    let rows = tradeoffs(&found.rows, &found.random);
    assert_eq!(rows[0].next_gains_percent, Some(50.0));
    assert_eq!(rows[0].read_us, Some(900.0));
    assert_eq!((rows[1].next_gains_percent, rows[1].read_us), (None, None));
    assert_eq!(rows[1].hundred_streams_kib, 50 << 10);
}
